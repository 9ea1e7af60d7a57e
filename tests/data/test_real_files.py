"""The real sets, read as they are."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

import luce
from luce.errors import ParseError

pytestmark = pytest.mark.real


def test_mq2008_equals_scikit_learn(real_data) -> None:
    path = real_data("MQ2008") / "Fold1" / "train.txt.gz"
    data = luce.read_letor(path)
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    np.testing.assert_array_equal(data.X, X.toarray().astype(np.float32))
    np.testing.assert_array_equal(data.y, y)
    assert data.qid.tolist() == qid.astype(str).tolist()
    assert data.document_ids[:2].tolist() == ["GX008-86-4444840", "GX037-06-11625428"]


def test_mq2008_has_the_size_that_its_authors_state(real_data) -> None:
    parts = [luce.read(real_data("MQ2008") / f"Fold{k}" / "test.txt.gz") for k in range(1, 6)]
    assert sum(part.n_queries for part in parts) == 784
    assert sum(part.n_rows for part in parts) == 15_211
    counts = sum(np.bincount(part.y.astype(int), minlength=3) for part in parts)
    assert counts.tolist() == [12_279, 2_001, 931]


def test_ohsumed_with_carriage_returns(real_data) -> None:
    path = real_data("OHSUMED-2.0") / "Fold1" / "train.txt.gz"
    assert b"\r\n" in gzip.decompress(path.read_bytes())
    data = luce.read_letor(path)
    assert data.n_features == 25
    assert data.document_ids[:2].tolist() == ["40626", "11852"]


def test_lightgbm_example_finds_its_query_file(real_data) -> None:
    folder = real_data("lambdarank-example")
    train, test = luce.read(folder / "rank.train.gz"), luce.read(folder / "rank.test.gz", n_features=300)
    assert (train.n_queries, train.n_features, test.n_queries) == (201, 300, 50)
    sizes = gzip.decompress((folder / "rank.train.query.gz").read_bytes()).split()
    assert train.sizes.tolist() == list(map(int, sizes))


def test_aggregation_set_needs_its_word_for_missing(real_data) -> None:
    path = real_data("MQ2008-agg") / "Fold1" / "train.txt.gz"
    with pytest.raises(ParseError, match=r"line 1: the value in '5:NULL' is not a number"):
        luce.read_letor(path)
    data = luce.read_letor(path, missing=("NULL",))
    assert np.isnan(data.X).sum() == gzip.decompress(path.read_bytes()).count(b"NULL")
