// Scores of (query, document) pairs by Lucene, with the analyzers and similarities that luce.data.text computes.
// Arguments: documents.tsv (two fields), pairs.tsv (query, document), words.txt, scores.tsv and stems.txt to write.
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.analysis.core.LowerCaseFilter;
import org.apache.lucene.analysis.en.PorterStemFilter;
import org.apache.lucene.analysis.miscellaneous.ASCIIFoldingFilter;
import org.apache.lucene.analysis.miscellaneous.PerFieldAnalyzerWrapper;
import org.apache.lucene.analysis.ngram.NGramTokenizer;
import org.apache.lucene.analysis.pattern.PatternTokenizer;
import org.apache.lucene.analysis.shingle.ShingleFilter;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.search.similarities.BooleanSimilarity;
import org.apache.lucene.search.similarities.PerFieldSimilarityWrapper;
import org.apache.lucene.search.similarities.Similarity;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.util.QueryBuilder;

public class LuceneReference {
  static final String[] FIELDS = {"title", "body", "all"};
  static final String[] FEATURES = {"word_bm25", "word_count", "exact_bm25", "pair_count", "gram_bm25", "gram_idf"};

  static Analyzer analyzer(String view, String pattern) {
    return new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        Tokenizer tokens = new PatternTokenizer(Pattern.compile(pattern), 0);
        if (view.equals("gram")) {
          tokens = new NGramTokenizer(3, 3) {
            @Override
            protected boolean isTokenChar(int code) {
              return Character.isLetter(code) || Character.isDigit(code);
            }
          };
        }
        TokenStream stream = new ASCIIFoldingFilter(new LowerCaseFilter(tokens));
        if (view.equals("word") || view.equals("pair")) {
          stream = new PorterStemFilter(stream);
        }
        if (view.equals("pair")) {
          ShingleFilter pairs = new ShingleFilter(stream, 2, 2);
          pairs.setOutputUnigrams(false);
          stream = pairs;
        }
        return new TokenStreamComponents(tokens, stream);
      }
    };
  }

  public static void main(String[] given) throws Exception {
    String pattern = given[5];
    Map<String, Analyzer> analyzers = new HashMap<>();
    for (String field : FIELDS) {
      for (String feature : FEATURES) {
        analyzers.put(field + "." + feature, analyzer(feature.split("_")[0], pattern));
      }
    }
    Analyzer all = new PerFieldAnalyzerWrapper(new KeywordAnalyzer(), analyzers);
    Similarity scores = new PerFieldSimilarityWrapper() {
      final Similarity bm25 = new BM25Similarity(1.2f, 0.75f);
      final Similarity idf = new BM25Similarity(0f, 0f);
      final Similarity count = new BooleanSimilarity();

      @Override
      public Similarity get(String field) {
        return field.endsWith("bm25") ? bm25 : field.endsWith("idf") ? idf : count;
      }
    };
    ByteBuffersDirectory folder = new ByteBuffersDirectory();
    IndexWriter writer = new IndexWriter(folder, new IndexWriterConfig(all).setSimilarity(scores));
    for (String line : Files.readAllLines(Path.of(given[0]))) {
      String[] parts = line.split("\t", -1);
      Document document = new Document();
      for (String feature : FEATURES) {
        for (int i = 0; i < 2; i++) {
          document.add(new TextField(FIELDS[i] + "." + feature, parts[i], Field.Store.NO));
          document.add(new TextField("all." + feature, parts[i], Field.Store.NO));
        }
      }
      writer.addDocument(document);
    }
    writer.forceMerge(1);
    writer.commit();
    IndexSearcher index = new IndexSearcher(DirectoryReader.open(folder));
    index.setSimilarity(scores);
    StringBuilder out = new StringBuilder();
    QueryBuilder builder = new QueryBuilder(all);
    String now = null;
    float[][] found = new float[FIELDS.length * FEATURES.length][index.getIndexReader().maxDoc()];
    for (String line : Files.readAllLines(Path.of(given[1]))) {
      String[] pair = line.split("\t", -1);
      for (int i = 0; i < found.length && !pair[0].equals(now); i++) {
        Arrays.fill(found[i], 0f);
        String name = FIELDS[i / FEATURES.length] + "." + FEATURES[i % FEATURES.length];
        Query query = builder.createBooleanQuery(name, pair[0]);
        for (ScoreDoc hit : query == null ? new ScoreDoc[0] : index.search(query, found[i].length).scoreDocs) {
          found[i][hit.doc] = hit.score;
        }
      }
      now = pair[0];
      for (float[] score : found) {
        out.append(score[Integer.parseInt(pair[1])]).append("\t");
      }
      out.append("\n");
    }
    Files.writeString(Path.of(given[3]), out.toString());
    StringBuilder stems = new StringBuilder();
    TokenStream stream = analyzer("word", pattern).tokenStream("f", new StringReader(Files.readString(Path.of(given[2]))));
    CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
    stream.reset();
    while (stream.incrementToken()) {
      stems.append(term).append("\n");
    }
    Files.writeString(Path.of(given[4]), stems.toString());
  }
}
