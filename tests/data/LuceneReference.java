// Scores of (query, document) pairs by Lucene, in fields with the analyzers and similarities of an exported index.
// Arguments: fields.tsv (name, tokenizer, its pattern or size, group, filters, similarity, texts that are copied to it),
// documents.tsv (one text or more), pairs.tsv (query, document), words.txt, scores.tsv and stems.txt to write. The
// similarity is k1,b of BM25, boolean, or tokens, which counts those of the document.
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
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
  static Analyzer analyzer(String kind, String how, int group, String filters) {
    return new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        Tokenizer tokens;
        if (kind.equals("ngram")) {
          tokens = new NGramTokenizer(Integer.parseInt(how), Integer.parseInt(how)) {
            @Override
            protected boolean isTokenChar(int code) {
              return Character.isLetter(code) || Character.isDigit(code);
            }
          };
        } else {
          tokens = new PatternTokenizer(Pattern.compile(how), group);
        }
        TokenStream stream = tokens;
        for (String filter : filters.isEmpty() ? new String[0] : filters.split(",")) {
          switch (filter) {
            case "lowercase": stream = new LowerCaseFilter(stream); break;
            case "asciifolding": stream = new ASCIIFoldingFilter(stream); break;
            case "porter_stem": stream = new PorterStemFilter(stream); break;
            case "shingle":
              ShingleFilter pairs = new ShingleFilter(stream, 2, 2);
              pairs.setOutputUnigrams(false);
              stream = pairs;
              break;
            default: throw new IllegalArgumentException(filter);
          }
        }
        return new TokenStreamComponents(tokens, stream);
      }
    };
  }

  static List<String> tokens(Analyzer analyzer, String field, String text) throws Exception {
    List<String> found = new ArrayList<>();
    try (TokenStream stream = analyzer.tokenStream(field, new StringReader(text))) {
      CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
      stream.reset();
      while (stream.incrementToken()) {
        found.add(term.toString());
      }
      stream.end();
    }
    return found;
  }

  static Similarity similarity(String how) {
    if (how.equals("boolean") || how.equals("tokens")) {
      return new BooleanSimilarity();
    }
    String[] parts = how.split(",");
    return new BM25Similarity(Float.parseFloat(parts[0]), Float.parseFloat(parts[1]));
  }

  public static void main(String[] given) throws Exception {
    List<String[]> fields = new ArrayList<>();
    Map<String, Analyzer> analyzers = new HashMap<>();
    Map<String, Similarity> similarities = new HashMap<>();
    for (String line : Files.readAllLines(Path.of(given[0]))) {
      String[] field = line.split("\t", -1);
      fields.add(field);
      analyzers.put(field[0], analyzer(field[1], field[2], Integer.parseInt(field[3]), field[4]));
      similarities.put(field[0], similarity(field[5]));
    }
    Analyzer all = new PerFieldAnalyzerWrapper(new KeywordAnalyzer(), analyzers);
    Similarity scores = new PerFieldSimilarityWrapper() {
      @Override
      public Similarity get(String field) {
        return similarities.get(field);
      }
    };
    ByteBuffersDirectory folder = new ByteBuffersDirectory();
    IndexWriter writer = new IndexWriter(folder, new IndexWriterConfig(all).setSimilarity(scores));
    List<String[]> documents = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(given[1]))) {
      String[] parts = line.split("\t", -1);
      Document document = new Document();
      for (String[] field : fields) {
        for (String source : field[6].split(",")) {
          document.add(new TextField(field[0], parts[Integer.parseInt(source)], Field.Store.NO));
        }
      }
      documents.add(parts);
      writer.addDocument(document);
    }
    writer.forceMerge(1);
    writer.commit();
    IndexSearcher index = new IndexSearcher(DirectoryReader.open(folder));
    index.setSimilarity(scores);
    StringBuilder out = new StringBuilder();
    QueryBuilder builder = new QueryBuilder(all);
    String now = null;
    float[][] found = new float[fields.size()][documents.size()];
    for (String line : Files.readAllLines(Path.of(given[2]))) {
      String[] pair = line.split("\t", -1);
      int asked = Integer.parseInt(pair[1]);
      for (int i = 0; i < found.length; i++) {
        String[] field = fields.get(i);
        if (field[5].equals("tokens")) {
          found[i][asked] = 0;
          for (String source : field[6].split(",")) {
            found[i][asked] += tokens(all, field[0], documents.get(asked)[Integer.parseInt(source)]).size();
          }
        } else if (!pair[0].equals(now)) {
          Arrays.fill(found[i], 0f);
          Query query = builder.createBooleanQuery(field[0], pair[0]);
          for (ScoreDoc hit : query == null ? new ScoreDoc[0] : index.search(query, documents.size()).scoreDocs) {
            found[i][hit.doc] = hit.score;
          }
        }
        out.append(found[i][asked]).append("\t");
      }
      now = pair[0];
      out.append("\n");
    }
    Files.writeString(Path.of(given[4]), out.toString());
    Analyzer stems = analyzer("pattern", fields.get(0)[2], 0, "lowercase,asciifolding,porter_stem");
    Files.writeString(Path.of(given[5]), String.join("\n", tokens(stems, "f", Files.readString(Path.of(given[3])))));
  }
}
