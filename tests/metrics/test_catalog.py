from __future__ import annotations

import pytest

import luce
from luce.errors import SettingError, UnknownNameError
from luce.metrics import PRESETS, Conventions, conventions, get, names


def test_names_accept_any_spelling() -> None:
    assert get("NDCG@10").name == "ndcg@10"
    assert get("Kappa-NDCG@5").name == get("kappa_ndcg@5").name == "kappa_ndcg@5"
    assert get(" map ").cutoff is None
    assert luce.metrics.names() == sorted(luce.metrics.names())


def test_every_name_makes_a_metric() -> None:
    for name in names():
        metric = get(name)
        assert metric.name == name
        assert metric.greater_is_better == (name != "spearman_footrule")


def test_unknown_name_suggests_and_lists() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown metric 'ndgc'\. Did you mean 'ndcg'\?.*kendall_tau.*rbp"):
        get("ndgc@10")


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@", "ndcg@ten", "ndcg@-3", "ndcg@1.5", "ndcg@٣"])
def test_bad_cutoff(name: str) -> None:
    with pytest.raises(SettingError, match="whole number of at least 1"):
        get(name)


def test_metric_without_cutoff() -> None:
    with pytest.raises(SettingError, match="'kendall_tau' takes no cut-off"):
        get("kendall_tau@5")


def test_presets_by_name() -> None:
    assert conventions("LightGBM") == PRESETS["lightgbm"]
    assert conventions("trec-eval", gain="exponential").ties == "docid"
    assert conventions() == Conventions()
    with pytest.raises(UnknownNameError, match=r"Unknown preset 'xgbost'\. Did you mean 'xgboost'\?"):
        conventions("xgbost")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("gain", "square"),
        ("empty", 2),
        ("empty", True),
        ("empty", "zero"),
        ("ties", "random"),
        ("relevance", "high"),
        ("relevance", float("nan")),
        ("rmax", -1),
        ("persistence", 1.0),
        ("persistence", 0.0),
        ("top_k", 0),
        ("top_k", 2.5),
        ("tie_margin", -0.1),
        ("empty_map", "none"),
    ],
)
def test_bad_convention(setting: str, value: object) -> None:
    with pytest.raises(SettingError, match=setting):
        Conventions(**{setting: value})  # type: ignore[arg-type]


def test_unknown_convention() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown convention 'gains'\. Did you mean 'gain'\?"):
        get("ndcg", gains="linear")
