"""A run with every kind of model that a report treats differently, and names that try to break out of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

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
    Candidate("trees", {"max_iter": [25]}, {"scorer__num_leaves": 6}, system="bt-ties"),
    Candidate("second order", {"l2": [0.1]}, {"scorer": "second_order"}, system="ranknet"),
    Candidate("steps", {"max_iter": [30]}, system="rankboost"),
    Candidate("cosets", {"l2": [0.1]}, {"max_iter": 5}, system="topk-cps"),
    Candidate(HOSTILE, {"l2": [0.1]}, system="listmle"),
    Candidate("broken", {"l2": [-1.0]}, system="ranknet"),
)


GAPPY = (
    Candidate("gappy trees", {"max_iter": [20]}, {"scorer__categorical": "kind"}, system="bt-ties"),
    Candidate("gappy steps", {"max_iter": [30]}, system="rankboost"),
)


def write_data(path: Path) -> None:
    """Simulated data with hostile names of queries, documents and features."""
    data = simulate(queries=45, features=7, grades=3, noise=0.1, seed=3)
    query_ids = np.array([f"query {i}" for i in range(data.n_queries)], dtype=object)
    query_ids[3], query_ids[4] = HOSTILE, QUOTES
    documents = np.array([f"doc-{i}" for i in range(data.n_rows)], dtype=object)
    documents[::7] = [f"{QUOTES}{i}" for i in range(0, data.n_rows, 7)]
    names = ("bm25", "pagerank", HOSTILE, QUOTES, "length", "age", "clicks")
    luce.write_parquet(replace(data, query_ids=query_ids, document_ids=documents, feature_names=names), path)


def write_gappy(path: Path) -> None:
    """A third of the values missing, and one feature of categories that decides a part of the grade."""
    rng = np.random.default_rng(2)
    data = simulate(queries=40, features=4, grades=3, noise=0.1, seed=6)
    kind = rng.integers(0, 40, data.n_rows)
    X = np.where(rng.random(data.X.shape) < 0.3, np.nan, data.X)
    X = np.column_stack([X, kind]).astype(np.float32)
    grades = np.clip(data.y + (kind % 3 == 0), 0, 2)
    luce.write_parquet(
        luce.from_arrays(
            X,
            grades,
            qid=data.qid,
            feature_names=["a", "b", "c", "d", "kind"],
            allow_nan=True,
            document_ids=[f"doc-{i}" for i in range(data.n_rows)],
        ),
        path,
    )


def make(root: Path, write: Callable[[Path], None], candidates: Sequence[Candidate], **reading: Any) -> Example:
    """Write data, compare models on them, and make the report."""
    data, folder, page = root / "data.parquet", root / "run", root / "report.html"
    write(data)
    folds, notes = find_folds(data, folds=3, **reading), {"data": str(data), "reading": reading}
    write_run(compare(folds, candidates, ["ndcg@10", "map", "spearman_footrule"], notes=notes), folder)
    return Example(folder, data, page, write_report(folder, page))


@pytest.fixture(scope="session")
def example(tmp_path_factory) -> Example:
    return make(tmp_path_factory.mktemp("report"), write_data, CANDIDATES)


@pytest.fixture(scope="session")
def gappy(tmp_path_factory) -> Example:
    return make(tmp_path_factory.mktemp("gappy"), write_gappy, GAPPY, allow_nan=True)


@pytest.fixture(scope="session")
def lonely(tmp_path_factory) -> Example:
    """One model, and data that are gone."""
    found = make(tmp_path_factory.mktemp("lonely"), write_data, CANDIDATES[:1])
    found.data.rename(found.data.with_name("moved.parquet"))
    return found._replace(built=write_report(found.folder, found.page))


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found
