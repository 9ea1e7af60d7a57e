"""A run with every kind of model that a report treats differently, and names that try to break out of a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.experiments import Candidate, compare, find_folds
from luce.experiments.run_folder import write_run
from luce.report import Built, write_report
from tests.report.browser import chromium

HOSTILE = "</script><script>window.broken=1</script>"
QUOTES = "\"'`<img src=x onerror=window.broken=2>${1}"


class Example(NamedTuple):
    """A run folder, the data it was made from, its report and the page's path."""

    folder: Path
    data: Path
    page: Path
    built: Built


CANDIDATES = (
    Candidate("linear pmop", {"l2": [0.1]}, system="pmop-fd"),
    Candidate("trees", {"max_iter": [25]}, {"scorer_params": {"num_leaves": 6}}, system="bt-ties"),
    Candidate("second order", {"l2": [0.1]}, {"scorer": "second_order"}, system="ranknet"),
    Candidate("steps", {"max_iter": [30]}, system="rankboost"),
    Candidate("cosets", {"l2": [0.1]}, {"max_iter": 5}, system="topk-cps"),
    Candidate(HOSTILE, {"l2": [0.1]}, system="listmle"),
    Candidate("broken", {"l2": [-1.0]}, system="ranknet"),
)


def write_data(path: Path, queries: int = 45) -> None:
    """Simulated data with missing values and hostile names of queries, documents and features."""
    data = simulate(queries=queries, features=7, grades=3, seed=5)
    X = data.X.copy()
    query_ids = np.array([f"query {i}" for i in range(data.n_queries)], dtype=object)
    query_ids[3], query_ids[4] = HOSTILE, QUOTES
    documents = np.array([f"doc-{i}" for i in range(data.n_rows)], dtype=object)
    documents[::7] = [f"{QUOTES}{i}" for i in range(0, data.n_rows, 7)]
    names = ("bm25", "pagerank", HOSTILE, QUOTES, "length", "age", "clicks")
    luce.write_parquet(replace(data, X=X, query_ids=query_ids, document_ids=documents, feature_names=names), path)


@pytest.fixture(scope="session")
def example(tmp_path_factory) -> Example:
    root = tmp_path_factory.mktemp("report")
    data, folder, page = root / "data.parquet", root / "run", root / "report.html"
    write_data(data)
    notes = {"data": str(data), "reading": {}}
    result = compare(find_folds(data, folds=3), CANDIDATES, ["ndcg@10", "map", "spearman_footrule"], notes=notes)
    write_run(result, folder)
    return Example(folder, data, page, write_report(folder, page))


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found
