"""Features of text against a real Lucene: the same numbers, the same stems."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from luce.data.text.tokens import PATTERN, stem, words
from luce.data.text.transformer import Text

JARS = [
    jar
    for name in ("core", "analyzers-common", "queries")
    for jar in sorted(Path(os.environ.get("LUCENE_JARS", "/usr/share/java")).glob(f"lucene*-{name}-[89]*.jar"))
]
SYLLABLES = (  # noqa: SIM905
    "an gle brac ket moun ting re la tion al pre mi um tex tured hop ping pos si bil ity es s ed ies ness ful"
).split()
ODD = (  # noqa: SIM905
    "Straße Crème brûlée Ærø ΣΟΦΟΣ İstanbul naïve 4x4 3/4-in. 1.5 ¾ x² 日本語の本 مرحبا 😀 <b>bold</b> don't "
    "e\u0301te\u0301 Ǆungla ſhip ﬁsh ＡＢＣ１２"
).split()


def vocabulary(rng: np.random.Generator, size: int) -> list[str]:
    return ["".join(rng.choice(SYLLABLES, rng.integers(1, 5))) for _ in range(size)]


def sentence(rng: np.random.Generator, known: list[str], most: int) -> str:
    """Words by Zipf's law, some in capitals and some odd."""
    count = int(rng.integers(0, most))
    drawn = [known[int(i)] for i in np.minimum(rng.zipf(1.3, count), len(known)) - 1]
    odd = [ODD[int(i)] for i in rng.integers(0, len(ODD), int(rng.integers(0, 3)))]
    found = [word.title() if rng.random() < 0.3 else word for word in [*drawn, *odd]]
    return " ".join(found[int(i)] for i in rng.permutation(len(found)))


@pytest.fixture(scope="module")
def lucene(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Documents, pairs and words of a random language, and what Lucene makes of them."""
    if shutil.which("java") is None or len(JARS) < 2:
        pytest.skip("no Java with Lucene's jars (Debian: liblucene8-java and a JDK; LUCENE_JARS names their folder)")
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("lucene")
    known = vocabulary(rng, 2000)
    documents = [(sentence(rng, known, 12), sentence(rng, known, 150)) for _ in range(500)]
    queries = [sentence(rng, known, 8) for _ in range(500)]
    queries = [query if query.strip() else "angle" for query in queries]
    pairs = [(i, int(d)) for i in range(len(queries)) for d in rng.choice(len(documents), 10, replace=False)]
    everything = sorted(set(vocabulary(rng, 20_000)))
    files = {name: folder / name for name in ("documents", "pairs", "words", "scores", "stems")}
    files["documents"].write_text("".join(f"{a}\t{b}\n" for a, b in documents), encoding="utf-8")
    files["pairs"].write_text("".join(f"{queries[q]}\t{d}\n" for q, d in pairs), encoding="utf-8")
    files["words"].write_text("\n".join(everything), encoding="utf-8")
    source = Path(__file__).with_name("LuceneReference.java")
    quick = ["-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = ["java", *quick, "-cp", ":".join(map(str, JARS)), str(source), *map(str, files.values()), PATTERN]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    scores = np.loadtxt(files["scores"], delimiter="\t", usecols=range(18))
    stems = files["stems"].read_text(encoding="utf-8").split("\n")[:-1]
    return {
        "documents": documents,
        "queries": queries,
        "pairs": pairs,
        "scores": scores,
        "words": everything,
        "stems": stems,
    }


def test_scores_are_those_of_lucene(lucene: dict[str, object]) -> None:
    documents, queries, pairs = lucene["documents"], lucene["queries"], lucene["pairs"]
    corpus = {"title": [a for a, _ in documents], "body": [b for _, b in documents], "id": range(len(documents))}
    text = Text("query", ["title", "body"], corpus=corpus, doc="id").fit(None)
    rows = {"query": [queries[q] for q, _ in pairs]}
    for place, name in enumerate(("title", "body")):
        rows[name] = [documents[d][place] for _, d in pairs]
    found = dict(zip(text.names, text.transform(rows).T, strict=True))
    kinds = ("word_bm25", "word_count", "exact_bm25", "pair_count", "gram_bm25", "gram_idf")
    for column, name in enumerate(f"{field}.{kind}" for field in ("title", "body", "all") for kind in kinds):
        wanted = lucene["scores"][:, column]
        assert np.count_nonzero(wanted) > 20, name
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=0, err_msg=name)


def test_stems_are_those_of_lucene(lucene: dict[str, object]) -> None:
    assert [stem(word) for word in lucene["words"]] == lucene["stems"]
    assert words("\n".join(lucene["words"])) == lucene["words"]
