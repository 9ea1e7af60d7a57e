"""Features of text against a real Lucene: the same numbers, the same stems."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from luce.data.text.tokens import stem, words
from luce.data.text.transformer import Text
from luce.export.texts import index_settings, solr_field, solr_schema
from tests.data import lucene

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


FIELDS = ["title", "body"]


class Texts(NamedTuple):
    """Documents, pairs and words of a random language."""

    documents: list[tuple[str, str]]
    pairs: list[tuple[str, int]]
    words: list[str]

    @property
    def columns(self) -> dict[str, list[str]]:
        """The rows of a table."""
        return {"query": [q for q, _ in self.pairs], **self.of([d for _, d in self.pairs])}

    def of(self, rows: Any) -> dict[str, list[str]]:
        """The texts of documents."""
        return {name: [self.documents[d][place] for d in rows] for place, name in enumerate(FIELDS)}


@pytest.fixture(scope="module")
def made() -> Texts:
    rng = np.random.default_rng(0)
    known = vocabulary(rng, 2000)
    documents = [(sentence(rng, known, 12), sentence(rng, known, 150)) for _ in range(500)]
    queries = [sentence(rng, known, 8) for _ in range(500)]
    queries = [query if query.strip() else "angle" for query in queries]
    pairs = [(query, int(d)) for query in queries for d in rng.choice(len(documents), 10, replace=False)]
    return Texts(documents, pairs, sorted(set(vocabulary(rng, 20_000))))


def text_of(made: Texts, **settings: Any) -> Text:
    everything = range(len(made.documents))
    return Text("query", FIELDS, corpus={**made.of(everything), "id": everything}, doc="id", **settings).fit(None)


def test_scores_and_stems_are_those_of_lucene(made: Texts, tmp_path) -> None:
    text = text_of(made, numbers=True)
    index = lucene.elasticsearch_fields(index_settings(text), FIELDS)
    reference = lucene.run(tmp_path, index, made.documents, made.pairs, made.words)
    found = dict(zip(text.names, text.transform(made.columns).T, strict=True))
    assert set(found) - set(reference.scores) == {"all.length", "q_words", "q_idf"}
    for name, wanted in reference.scores.items():
        assert np.count_nonzero(wanted) > 20, name
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=0, err_msg=name)
    np.testing.assert_array_equal(found["all.length"], found["title.length"] + found["body.length"])
    assert [stem(word) for word in made.words] == reference.stems
    assert words("\n".join(made.words)) == made.words


def test_the_fields_of_solr_have_the_same_scores(made: Texts, tmp_path) -> None:
    text = text_of(made, language="none", k1=0.9, b=0.4)
    some = made._replace(pairs=made.pairs[:1000])
    index = lucene.solr_fields(solr_schema(text), FIELDS)
    reference = lucene.run(tmp_path, index, made.documents, some.pairs)
    found = dict(zip(map(solr_field, text.names), text.transform(some.columns).T, strict=True))
    assert len(reference.scores) == 18
    for name, wanted in reference.scores.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=0, err_msg=name)
