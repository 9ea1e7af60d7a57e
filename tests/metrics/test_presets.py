"""Presets give the figures of the tools they are named after."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import luce
from luce.metrics import evaluate_arrays, get

# Three queries of five documents: one ordinary, one without a relevant document, one with all scores tied.
LABELS = np.array([0, 1, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3.0])
SCORES = np.array([5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 1, 1, 1, 1, 1.0])
OFFSETS = np.array([0, 5, 10, 15])
NAMES = np.array([f"d{i:02d}" for i in range(15)])


def log_discount(i: int) -> float:
    return 1.0 / math.log2(i + 1)


def ndcg_at_3(ranked: list[float], gain: Callable[[float], float]) -> float:
    def dcg(values: list[float]) -> float:
        return sum(gain(r) * log_discount(i) for i, r in enumerate(values[:3], 1))

    return dcg(ranked) / dcg(sorted([*ranked], reverse=True))


def exponential(r: float) -> float:
    return 2.0**r - 1.0


def linear(r: float) -> float:
    return r


ORDINARY, TIED = [0.0, 1, 2, 0, 3], [0.0, 0, 1, 0, 3]
EXPECTED = {
    "lightgbm": (ndcg_at_3(ORDINARY, exponential) + 1 + ndcg_at_3(TIED, exponential)) / 3,
    "xgboost": (ndcg_at_3(ORDINARY, exponential) + 1 + ndcg_at_3(TIED, exponential)) / 3,
    "catboost": (ndcg_at_3(ORDINARY, linear) + 1 + ndcg_at_3(sorted(TIED), linear)) / 3,
    "trec_eval": (ndcg_at_3(ORDINARY, linear) + 0 + ndcg_at_3(TIED[::-1], linear)) / 3,
    "sklearn": (
        ndcg_at_3(ORDINARY, linear)
        + np.mean(TIED) * sum(map(log_discount, (1, 2, 3))) / (3 * log_discount(1) + log_discount(2))
    )
    / 3,
    "ranx": (ndcg_at_3(ORDINARY, linear) + ndcg_at_3(TIED, linear)) / 3,
}
PUBLISHED = {
    "lightgbm": 0.431,
    "xgboost": 0.431,
    "catboost": 0.448,
    "trec_eval": 0.436,
    "sklearn": 0.271,
    "ranx": 0.160,
}


@pytest.mark.parametrize("preset", EXPECTED)
def test_the_tools_disagree_and_the_presets_follow(preset: str) -> None:
    data = luce.from_arrays(np.zeros((15, 1)), LABELS, group=[5, 5, 5], document_ids=NAMES)
    ours = luce.evaluate(SCORES, data, "ndcg@3", preset=preset).means["ndcg@3"]
    assert ours == pytest.approx(EXPECTED[preset], abs=1e-12)
    assert ours == pytest.approx(PUBLISHED[preset], abs=6e-4)


def test_further_figures_of_the_same_case() -> None:
    data = luce.from_arrays(np.zeros((15, 1)), LABELS, group=[5, 5, 5])

    def mean(**settings: Any) -> float:
        return luce.evaluate(SCORES, data, "ndcg@3", **settings).means["ndcg@3"]

    assert mean(preset="xgboost", gain="linear") == pytest.approx(0.493, abs=6e-4)
    assert mean(ties="stable") == pytest.approx(0.098, abs=6e-4)


def random_case(seed: int, *, tied: bool, low: int = 2, high: int = 15) -> tuple[Any, ...]:
    """Queries of 2 to 14 documents (short enough for ranx's quicksort to be stable), some without relevant ones."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(low, high, 40)
    n = int(sizes.sum())
    labels = rng.integers(0, 5, n).astype(float)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for q in range(0, 40, 7):
        labels[offsets[q] : offsets[q + 1]] = 0.0
    scores = rng.integers(0, 4, n) / 4.0 if tied else rng.permutation(n) / n
    return scores, labels, offsets


def ours(case: tuple[Any, ...], preset: str, metrics: list[str], **settings: Any) -> dict[str, np.ndarray]:
    documents = np.array([f"d{i:04d}" for i in range(len(case[0]))])
    return evaluate_arrays(*case, [get(m, preset=preset, **settings) for m in metrics], documents)


def each_query(case: tuple[Any, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    scores, labels, offsets = case
    return [(scores[a:b], labels[a:b]) for a, b in itertools.pairwise(offsets)]


@pytest.mark.parametrize("tied", [False, True])
def test_lightgbm(tied: bool) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    case = random_case(1, tied=tied)
    cutoffs = [1, 3, 5, 20]
    params = {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": cutoffs, "verbose": -1, "num_threads": 1}
    features = np.zeros((len(case[0]), 1))
    train = lightgbm.Dataset(features, case[1], group=np.diff(case[2]), init_score=case[0], params={"verbose": -1})
    figures = {name: value for _, name, value, _ in lightgbm.Booster(params, train).eval_train()}
    values = ours(case, "lightgbm", [f"{m}@{k}" for m in ("ndcg", "map") for k in cutoffs])
    assert len(values) == len(figures) == 8
    for name, value in figures.items():
        assert values[name].mean() == pytest.approx(value, abs=1e-6), name


@pytest.mark.parametrize("tied", [False, True])
def test_sklearn(tied: bool) -> None:
    from sklearn.metrics import average_precision_score, dcg_score, ndcg_score

    case = random_case(2, tied=tied)
    values = ours(case, "sklearn", ["ndcg@3", "ndcg", "dcg@5", "dcg", "map"])
    for q, (s, y) in enumerate(each_query(case)):
        assert values["ndcg@3"][q] == pytest.approx(ndcg_score([y], [s], k=3), abs=1e-6)
        assert values["ndcg"][q] == pytest.approx(ndcg_score([y], [s]), abs=1e-6)
        assert values["dcg@5"][q] == pytest.approx(dcg_score([y], [s], k=5), abs=1e-6)
        assert values["dcg"][q] == pytest.approx(dcg_score([y], [s]), abs=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a query without positives
            assert values["map"][q] == pytest.approx(average_precision_score(y >= 1, s), abs=1e-6)


@pytest.mark.slow  # ranx compiles for a minute when it is first used
@pytest.mark.parametrize("tied", [False, True])
def test_ranx(tied: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranx = pytest.importorskip("ranx")
    case = random_case(3, tied=tied)
    qrels, run = {}, {}
    for q, (s, y) in enumerate(each_query(case)):
        qrels[f"q{q:03d}"] = {f"d{i:02d}": int(r) for i, r in enumerate(y)}
        run[f"q{q:03d}"] = {f"d{i:02d}": float(v) for i, v in enumerate(s)}
    theirs = ["ndcg@3", "ndcg", "dcg@5", "map", "map@3", "precision@5", "precision@20", "recall@3", "mrr", "rbp.80"]
    names = ["ndcg@3", "ndcg", "dcg@5", "map", "map@3", "p@5", "p@20", "recall@3", "mrr", "rbp"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figures = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), theirs)
    values = ours(case, "ranx", names)
    for name, figure in zip(names, theirs, strict=True):
        assert values[name].mean() == pytest.approx(figures[figure], abs=1e-6), name


@pytest.mark.parametrize("tied", [False, True])
def test_trec_eval(tied: bool) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    case = random_case(4, tied=tied)
    case[0][1::3] += 1e-12  # lost in single precision
    names = {
        "ndcg": "ndcg", "ndcg_cut_5": "ndcg@5", "map": "map", "map_cut_5": "map@5", "P_5": "p@5", "P_10": "p@10",
        "recall_5": "recall@5", "recip_rank": "mrr",
    }  # fmt: skip
    values = ours(case, "trec_eval", list(names.values()))
    row = 0
    for q, (s, y) in enumerate(each_query(case)):
        documents = [f"d{row + i:04d}" for i in range(len(y))]
        row += len(y)
        qrels = {"q": {d: int(r) for d, r in zip(documents, y, strict=True)}}
        evaluator = pytrec_eval.RelevanceEvaluator(
            qrels, {"ndcg", "ndcg_cut", "map", "map_cut", "P", "recall", "recip_rank"}
        )
        figures = evaluator.evaluate({"q": dict(zip(documents, s.tolist(), strict=True))})["q"]
        for theirs, name in names.items():
            assert values[name][q] == pytest.approx(figures[theirs], abs=1e-6), name


@pytest.mark.parametrize("tied", [False, True])
def test_catboost(tied: bool) -> None:
    utils = pytest.importorskip("catboost.utils")
    case = random_case(5, tied=tied)
    names = {
        "NDCG": "ndcg", "NDCG:top=3": "ndcg@3", "DCG:top=5": "dcg@5", "MAP:border=0.5": "map",
        "MAP:top=2;border=0.5": "map@2", "MRR:border=0.5": "mrr", "PrecisionAt:top=5;border=0.5": "p@5",
        "RecallAt:top=3;border=0.5": "recall@3",
    }  # fmt: skip
    values = ours(case, "catboost", list(names.values()))
    groups = np.repeat(np.arange(len(case[2]) - 1), np.diff(case[2]))
    for theirs, name in names.items():
        (figure,) = utils.eval_metric(case[1], case[0], theirs, group_id=groups)
        assert values[name].mean() == pytest.approx(figure, abs=1e-6), name
    scaled = (case[0], case[1] / 4.0, case[2])
    (figure,) = utils.eval_metric(scaled[1], scaled[0], "ERR:top=5", group_id=groups)
    assert ours(scaled, "catboost", ["err@5"])["err@5"].mean() == pytest.approx(figure, abs=1e-6)


@pytest.mark.parametrize("tied", [False, True])
def test_xgboost(tied: bool) -> None:
    xgboost = pytest.importorskip("xgboost")
    scores, labels, offsets = random_case(6, tied=tied)

    def figures(y: np.ndarray, metrics: list[str]) -> dict[str, float]:
        matrix = xgboost.DMatrix(np.zeros((len(y), 1)), label=y, base_margin=scores)
        matrix.set_group(np.diff(offsets))
        record: dict[str, Any] = {}
        params = {"objective": "rank:pairwise", "eta": 0.0, "max_depth": 1, "eval_metric": metrics}
        xgboost.train(params, matrix, 1, evals=[(matrix, "x")], evals_result=record, verbose_eval=False)
        return {name: values[-1] for name, values in record["x"].items()}

    values = ours((scores, labels, offsets), "xgboost", ["ndcg@3", "ndcg"])
    for name, figure in figures(labels, ["ndcg@3", "ndcg"]).items():
        assert values[name].mean() == pytest.approx(figure, abs=1e-6), name
    graded = (labels >= 1).astype(float)
    values = ours((scores, graded, offsets), "xgboost", ["map@3", "map", "p@5", "p@20"])
    for name, figure in figures(graded, ["map@3", "map", "pre@5", "pre@20"]).items():
        assert values[name.replace("pre", "p")].mean() == pytest.approx(figure, abs=1e-6), name


def test_letor_rules() -> None:
    """Discount 1, 1, 1/log2(3), ...; NDCG@k is 0 where documents are fewer than k; letor3 treats P@k alike."""
    labels, scores, offsets = np.array([0.0, 2, 1]), np.array([3.0, 2, 1]), np.array([0, 3])
    metrics = ["ndcg@3", "ndcg@4", "mean_ndcg", "p@4", "map"]
    third = 1 / math.log2(3)
    by_k = [0.0, 3 / 4, (3 + third) / (3 + 1 + 0 * third)]
    expected = {"ndcg@3": by_k[2], "ndcg@4": 0.0, "mean_ndcg": np.mean(by_k), "map": (1 / 2 + 2 / 3) / 2}
    for preset, precision in (("letor3", 0.0), ("letor4", 2 / 4)):
        values = evaluate_arrays(scores, labels, offsets, [get(m, preset=preset) for m in metrics])
        for name, value in {**expected, "p@4": precision}.items():
            assert values[name][0] == pytest.approx(value, abs=1e-12), (preset, name)
