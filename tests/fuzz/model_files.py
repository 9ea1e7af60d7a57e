"""Model files whose settings and arrays are changed and whose checksums are mended: a checksum is no seal."""

from __future__ import annotations

import random
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import luce
from luce.data.groups import Groups
from luce.model_file import Packed, packed
from luce.registry import settings_of
from luce.storage import write_container
from tests.conformance.cases import all_losses
from tests.fuzz.mutations import damaged_arrays, damaged_tree

__all__ = ["MODELS", "attack", "clean", "rows_for", "use", "write"]

FEATURES = 4
MODELS: dict[str, dict[str, Any]] = {
    "linear": {"loss": "pmop"},
    "normalised": {"loss": "ranknet", "query_norm": "zscore"},
    "table": {"loss": "davidson"},
    "column base": {"scorer": "trees", "loss": "ranknet", "base": "column:2"},
    "model base": {"scorer": "trees", "loss": "ranknet"},
    "second_order": {"scorer": "second_order", "loss": "pmop"},
    "mlp": {"scorer": "mlp", "loss": "ranknet", "scorer__hidden": (3,)},
    "nadaraya_watson": {"scorer": "nadaraya_watson", "loss": "ranknet"},
    "single_feature": {"scorer": "single_feature", "loss": "ndcg_cross_entropy"},
    "gradient_trees": {"scorer": "gradient_trees", "loss": "ndcg_cross_entropy"},
    "single_stump": {"scorer": "single_stump", "loss": "ndcg_cross_entropy"},
    "table trees": {"scorer": "trees", "loss": "davidson"},
    "listwise": {"scorer": "listwise", "loss": "ndcg_cross_entropy"},
    "listwise terms": {
        "scorer": "listwise", "loss": "listnet", "scorer__terms": 2, "scorer__kernels": ["cosine", "gaussian"]
    },
    "list_functions": {"scorer": "list_functions", "loss": "ndcg_square"},
    "list_functions trees": {"scorer": "list_functions", "loss": "ndcg_square", "scorer__weak": "gradient_trees"},
    "closed_form": {"loss": "ndcg_square", "trainer": "closed_form"},
    "sizes": {"loss": "pmop_exact"},
    "sgd": {"loss": "ranknet", "trainer": "sgd"},
    "blend": {"trainer": "blend", "trainer__members": ["regression", "luce-linear"], "trainer__budget": 5},
    "projected": {"loss": "ranknet", "scorer": "nadaraya_watson", "trainer": "projected"},
    **{
        name: {"trainer": name}
        for name in (
            "adarank", "ccrf", "coordinate_ascent", "cps", "frank", "greedy", "latent", "linear_regression",
            "random_forest", "rankboost", "retargeting",
        )
    },
}  # fmt: skip
"""A small model of every scorer and every trainer; every loss is put into files of each."""


@cache
def _data() -> Groups:
    rng, sizes = np.random.default_rng(0), [5, 1, 8, 3, 6, 4]
    X, relevant = rng.normal(size=(sum(sizes), FEATURES)), rng.integers(0, 3, sum(sizes))
    X[:, 0] += relevant
    qid = np.repeat(np.arange(len(sizes)), sizes)
    data = luce.from_arrays(X, relevant, qid=qid, document_ids=[f"d{i}" for i in range(len(X))])
    edges = {"query": [str(q) for q in (0, 2)], "document_a": ["d0", "d6"], "document_b": ["d1", "d9"]}
    topics = {
        "query": [str(q) for q in qid],
        "document": list(data.document_ids),
        "subtopic": [i % 3 for i in range(len(X))],
    }
    return luce.with_subtopics(luce.with_relations(data, {"similarity": edges}), topics)


@cache
def _table() -> Groups:
    data, rng = _data(), np.random.default_rng(0)
    price = data.X[:, 0].astype(float)
    price[::5] = np.nan
    columns = {"qid": data.qid, "label": data.y, "price": price, "rank": data.X[:, 1].astype(float)}
    columns["brand"] = rng.choice(["a", "b", "c"], data.n_rows)
    return luce.from_frame(pa.table(columns), allow_nan=True)


@cache
def rows_for(name: str) -> Groups:
    """What a model of that name is asked to score."""
    return _table() if name.startswith("table") else _data()


@cache
def clean(name: str) -> Packed:
    """Settings and arrays of a good model."""
    settings = {"random_state": 0, **MODELS[name]}
    taken = settings_of(luce.Ranker(**settings).parts().trainer)
    settings |= {f"trainer__{key}": 3 for key in ("max_iter", "max_epochs", "trees") if key in taken}
    data = rows_for(name)
    if name == "model base":
        settings["base"] = luce.Ranker(loss="ranknet", max_iter=3).fit(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return packed(luce.Ranker(**settings).fit(data))


@cache
def _losses() -> tuple[tuple[dict[str, Any], np.ndarray], ...]:
    """Every registered loss as a model file has it."""
    return tuple(({"name": loss.name, "settings": dict(settings_of(loss))}, loss.parameters) for loss in all_losses())


def attack(name: str, rng: random.Random) -> Packed:
    """A model of that name, with any loss, changed in one to four places."""
    settings, arrays = clean(name)
    if settings["loss"] is not None and rng.random() < 0.5:
        loss, parameters = rng.choice(_losses())
        settings = {**settings, "loss": loss}
        arrays = {**arrays, "loss.parameters": parameters}
        if rng.random() < 0.5:
            settings["parts"] = {**settings["parts"], "loss": loss}
    if rng.random() < 0.6:
        # Half of the changes hit what a scorer is made of, which the many other settings would hide.
        part = rng.choice(("scorer", "loss", "parts", "sizes", "schema", "filling", "base", ""))
        if part in settings and isinstance(settings[part], dict):
            settings = {**settings, part: damaged_tree(settings[part], rng)}
        else:
            settings = damaged_tree(settings, rng)
    else:
        arrays = damaged_arrays(arrays, rng)
    return settings, arrays


def write(content: Packed, path: Path) -> None:
    """A file of it with right checksums."""
    write_container(path, "ranker", *content, durable=False)


def use(path: Path, data: Groups) -> None:
    """Load and predict: finite numbers, or an error of luce."""
    scores = luce.load(path).predict(data)
    assert scores.shape == (data.n_rows,), "one score a row"
    assert np.isfinite(scores).all(), "finite scores"
