"""What cannot be exported is refused in one sentence that says why; names and offsets are checked."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, MissingExtraError, SettingError, UnknownNameError
from luce.export import export_model, targets
from luce.export.evaluate import compared
from luce.export.request import read_feature_names, renamed
from luce.export.run import auto_offset
from luce.export.run import export_model as _export
from luce.export.tree_nodes import above, at_most, missing_goes_left, missing_is_zero
from luce.form import Column, Form, Layer, Linear, Network, Term, Trees, form_of, merged
from luce.ranker.parts import inner
from luce.scorers.forest import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, Forest
from luce.scorers.stumps import FittedStumps

DATA = simulate(queries=40, features=5, seed=3)


@pytest.fixture(scope="module")
def linear() -> luce.Ranker:
    return luce.Ranker(max_iter=5).fit(DATA)


@pytest.fixture(scope="module")
def trees() -> luce.Ranker:
    return luce.Ranker(scorer="trees", max_iter=4).fit(DATA)


@pytest.fixture(scope="module")
def categories() -> luce.Ranker:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 40, 600), rng.random(600)]).astype(np.float32)
    y = (X[:, 0] % 7 < 3) + (X[:, 1] > 0.5)
    settings = {"categorical": [0], "engine": {"min_data_per_group": 5, "max_cat_to_onehot": 1}}
    model = luce.Ranker(scorer="trees", max_iter=6, **inner("scorer", settings))
    model.fit(X, y, qid=np.repeat(np.arange(60), 10))
    assert np.any(model.scorer_.forest.kind & CATEGORICAL)
    return model


def test_unknown_target_names_the_nearest(linear):
    with pytest.raises(UnknownNameError, match=r"Did you mean 'elasticsearch'\?"):
        export_model(linear, "elasticsearh")


@pytest.mark.parametrize("target", targets())
def test_normalisation_within_queries_is_refused(target):
    model = luce.Ranker(max_iter=3, query_norm="minmax").fit(DATA)
    with pytest.raises(SettingError, match="query_norm"):
        export_model(model, target)


def test_a_scorer_that_looks_at_the_whole_query_is_refused():
    model = luce.model("topk-cps", max_iter=2).fit(DATA)
    with pytest.raises(SettingError, match="others of its query"):
        export_model(model, "python")


def test_base_scores_that_the_model_does_not_hold_are_refused():
    model = luce.Ranker(scorer="trees", max_iter=2).fit(DATA, base_scores=DATA.X[:, 0].astype(float))
    with pytest.raises(SettingError, match="base_scores"):
        export_model(model, "python")


def test_a_base_that_is_a_feature_is_a_linear_part():
    model = luce.Ranker(scorer="trees", max_iter=2, base="column:2").fit(DATA)
    column, forest = form_of(model).parts
    assert form_of(model).terms[0].columns == (Column(1),)
    assert column.weights.tolist() == [1]
    assert isinstance(forest, Trees)
    made = export_model(model, "python", check=DATA)
    assert made.comparison.largest < 1e-12
    with pytest.raises(SettingError, match="Solr reranks by one model"):
        export_model(model, "solr")


@pytest.mark.parametrize("target", targets())
def test_categories_go_where_they_can_be_said(categories, target):
    if not target.startswith("xgboost"):
        values = np.array([[c, 0.5] for c in [*range(-2, 45), 0.5, -0.5, 3.7, 1e9, np.nan]], dtype=np.float32)
        rows = luce.from_arrays(values, allow_nan=True)
        exact = target in ("lightgbm", "python")
        assert export_model(categories, target, check=rows).comparison.largest < (1e-12 if exact else 1e-6)
    else:
        with pytest.raises(SettingError, match="categories"):
            export_model(categories, target)


@pytest.mark.parametrize("target", targets())
def test_zeros_as_missing_values_go_where_they_can_be_said(target):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((600, 3)) < 0.5, 0, rng.normal(size=(600, 3))).astype(np.float32)
    y = (X[:, 0] == 0) * 1.0 + (X[:, 1] > 0.3)
    model = luce.Ranker(scorer="trees", max_iter=5, scorer__engine={"zero_as_missing": True})
    model.fit(X, y, qid=np.repeat(np.arange(60), 10))
    X[::7, 1] = np.nan
    rows = luce.from_arrays(X, allow_nan=True)
    if target in ("lightgbm", "python"):
        assert export_model(model, target, check=rows).comparison.largest < 1e-12
    else:
        with pytest.raises(SettingError, match="zero_as_missing"):
            export_model(model, target)


@pytest.mark.parametrize("target", targets())
def test_trees_that_never_saw_a_gap_take_it_for_zero(trees, target):
    forest = trees.scorer_.forest
    assert forest.threshold.min() < 0 < forest.threshold.max()
    assert missing_is_zero(forest)
    X = DATA.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.5] = np.nan
    made = export_model(trees, target, check=luce.from_arrays(X, group=DATA.sizes, allow_nan=True))
    assert made.comparison.largest < 1e-6


@pytest.mark.parametrize("threshold", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("kind", [0, MISSING_NAN, MISSING_NAN | DEFAULT_LEFT])
def test_a_gap_goes_where_the_tree_itself_sends_it(threshold, kind):
    """One split, below, at and above the zero that a gap is taken for where a node has no way for gaps."""
    stump = FittedStumps.of([0], [threshold], [1.0], [1.0], 1).forest
    stump = replace(stump, kind=np.array([kind], np.uint8))
    goes_left = stump.score(np.array([[np.nan]], np.float32))[0] == 0.0
    assert missing_goes_left(stump).tolist() == [goes_left]


def test_ranklib_takes_missing_for_zero_and_says_so():
    X = np.random.default_rng(2).uniform(-2, 2, (400, 2)).astype(np.float32)
    y = np.where(X[:, 0] > 1, 2.0, 0.0)
    X[y == 2, 0] = np.nan  # what is missing is good, and 0 would be bad
    qid = np.repeat(np.arange(40), 10)
    model = luce.Ranker(scorer="trees", max_iter=3).fit(X, y, qid=qid)
    assert not missing_is_zero(model.scorer_.forest)
    with pytest.raises(SettingError, match="--ignore-missing"):
        export_model(model, "ranklib")
    assert export_model(model, "ranklib", ignore_missing=True).content.startswith("## LambdaMART")
    for target in ("elasticsearch", "solr", "onnx", "xgboost-json", "python", "lightgbm"):
        made = export_model(model, target, check=luce.from_arrays(X, allow_nan=True))
        assert made.comparison.largest < 1e-5, target


def test_a_deep_tree_is_refused_by_nested_formats(linear):
    n = 300
    chain = Forest(
        nodes=np.array([0, n]), leaves=np.array([0, n + 1]), feature=np.zeros(n, np.int32),
        threshold=np.arange(n, 0, -1.0), left=np.array([*range(1, n), -1], np.int32),
        right=-np.arange(2, n + 2, dtype=np.int32), kind=np.zeros(n, np.uint8), gain=np.zeros(n),
        value=np.arange(n + 1.0), sets=np.zeros(1, np.int64), bits=np.zeros(0, np.uint32),
    )  # fmt: skip
    from luce.export.search_engines import tree_list

    with pytest.raises(SettingError, match="299 levels deep"):
        tree_list(Trees(chain), ("1",), "Elasticsearch")


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "ranklib", "lightgbm", "xgboost-json"])
def test_networks_are_refused_where_there_is_no_word_for_them(target):
    from luce.export.request import Request
    from luce.export.run import _TARGETS

    layers = (Layer(np.ones((2, 3)), np.zeros(3), "relu"), Layer(np.ones((3, 1)), np.zeros(1), "identity"))
    with pytest.raises(SettingError, match="neural network"):
        _TARGETS.get(target)(Request(Form.plain(("a", "b"), (Network(layers),))))


@pytest.mark.parametrize(
    ("target", "name"), [("elasticsearch", "a b"), ("solr", "x=1"), ("lightgbm", "a,b"), ("xgboost-json", "a[0]")]
)
def test_forbidden_names_are_refused_and_can_be_mapped(trees, target, name):
    with pytest.raises(SettingError, match="--feature-names"):
        export_model(trees, target, feature_names={"1": name})
    assert export_model(trees, target, feature_names={"1": "title_bm25"}).content


def test_any_name_will_do_in_python(trees):
    made = export_model(trees, "python", feature_names={"1": 'a "b"\n'}, check=DATA)
    assert made.comparison.largest < 1e-12


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nobody": "x"}, "not a feature"),
        ({"1": "2"}, "Two features"),
        (["a"], "has 5 features"),
        ({"1": ""}, "not empty"),
    ],
)
def test_bad_mappings(linear, given, said):
    with pytest.raises(DataError, match=said):
        export_model(linear, "python", feature_names=given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"1": "a"}', {"1": "a"}),
        ('["a", "b"]', ["a", "b"]),
        ("1,a\n2,b\n", {"1": "a", "2": "b"}),
    ],
)
def test_files_of_names(tmp_path, text, expected):
    (tmp_path / "names").write_text(text)
    assert read_feature_names(tmp_path / "names") == expected


@pytest.mark.parametrize("text", ["{", '{"1": 2}', "1;a\n", ""])
def test_bad_files_of_names(tmp_path, text):
    (tmp_path / "names").write_text(text)
    with pytest.raises(DataError):
        read_feature_names(tmp_path / "names")


def test_renaming_keeps_what_is_not_named():
    assert renamed(("1", "2"), {"2": "b"}) == ("1", "b")


@pytest.mark.parametrize("name", ["", "a/b", "a b"])
def test_model_names_are_parts_of_urls(linear, name):
    with pytest.raises(SettingError, match="model name"):
        export_model(linear, "elasticsearch", name=name)


@pytest.mark.parametrize("offset", [np.nan, np.inf, "much", True])
def test_offsets_are_finite_numbers(linear, offset):
    with pytest.raises(SettingError, match="offset"):
        export_model(linear, "python", offset=offset)


def test_auto_offset_of_trees_is_a_bound_for_any_document(trees):
    made = export_model(trees, "elasticsearch", offset="auto")
    forest = trees.scorer_.forest
    least = sum(forest.value[a:b].min() for a, b in zip(forest.leaves[:-1], forest.leaves[1:], strict=True))
    assert 0 <= made.offset + least < 1e-4
    assert json.loads(json.loads(made.content)["model"]["model"]["definition"])["splits"][0]["leaf"] == made.offset
    wild = luce.from_arrays(np.random.default_rng(0).normal(scale=100, size=(2000, 5)).astype(np.float32))
    checked = export_model(trees, "elasticsearch", offset=made.offset, check=wild).comparison
    assert checked.lowest >= 0
    assert checked.reordered == 0


def test_auto_offset_allows_for_the_rounding_of_long_sums():
    """Two thousand trees of one leaf, added in float32 as an engine does: the lowest score is not below 0."""
    forest = Forest.joined([Forest.constant(-0.1)] * 2000)
    total = np.float32(auto_offset(Term((Column(0),), Trees(forest)), None))
    for value in forest.value:
        total += np.float32(value)
    assert 0 <= total < 0.2


def test_auto_offset_of_a_linear_model_counts_features_that_do_not_match():
    term = Term((Column(0), Column(1)), Linear(np.array([1.0, -1.0]), -2.0, np.zeros(2)))
    X = np.array([[5.0, 3.0], [6.0, 1.0]], np.float32)
    # The first feature is 0 where it does not match, the second one at most 3.
    assert auto_offset(term, X) == pytest.approx(5.0, rel=1e-5)


def test_a_base_without_weights_is_a_constant():
    nothing = Linear(np.zeros(1), 0.75, np.zeros(1))
    for part in (Trees(Forest.constant(2.0)), Linear(np.ones(1), 2.0, np.zeros(1))):
        (term,) = merged([Term((Column(0),), nothing), Term((Column(0),), part)])
        assert type(term.part) is type(part)
        value = term.part.forest.value.sum() if isinstance(term.part, Trees) else term.part.intercept
        assert value == 2.75


def test_a_check_counts_the_queries_whose_order_changed(linear):
    content = [export_model(linear, "ranklib").content]
    scores, names = linear.predict(DATA), linear.feature_names_
    same = compared("ranklib", content, DATA.X, names, scores, DATA.offsets)
    assert (same.reordered, same.rows) == (0, DATA.n_rows)
    wrong = scores.copy()
    a, b = DATA.offsets[3:5]
    wrong[a:b] *= -1
    found = compared("ranklib", content, DATA.X, names, wrong, DATA.offsets)
    assert found.reordered == 1
    assert found.largest == pytest.approx(2 * np.abs(scores[a:b]).max(), rel=1e-4)
    assert compared("ranklib", content, DATA.X, names, -scores, DATA.offsets).reordered == DATA.n_queries


def test_auto_offset_of_a_linear_model_needs_ranges(linear):
    with pytest.raises(SettingError, match="--check DATA"):
        export_model(linear, "elasticsearch", offset="auto")
    made = export_model(linear, "elasticsearch", offset="auto", check=DATA)
    corners = np.where(np.random.default_rng(0).random((500, 5)) < 0.5, DATA.X.min(axis=0), DATA.X.max(axis=0))
    rows = luce.from_arrays(np.concatenate([corners, np.zeros((1, 5))]).astype(np.float32))
    assert export_model(linear, "elasticsearch", offset=made.offset, check=rows).comparison.lowest >= 0


def test_auto_offset_of_a_second_order_model_allows_for_features_that_do_not_match():
    model = luce.Ranker(scorer="second_order", max_iter=5, scorer__count=6).fit(DATA)
    made = export_model(model, "elasticsearch", offset="auto", check=DATA)
    X = DATA.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    gaps = export_model(model, "elasticsearch", offset=made.offset, check=luce.from_arrays(X)).comparison
    assert gaps.lowest >= 0
    assert made.offset < 20 * np.ptp(model.predict(DATA))


def test_no_offset_where_no_score_is_negative():
    model = luce.Ranker(trainer="random_forest", trainer__trees=3, random_state=0).fit(DATA)
    assert export_model(model, "elasticsearch", offset="auto").offset == 0


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch"])
def test_negative_scores_are_warned_of(linear, trees, target):
    for model in (linear, trees):
        assert any("--offset auto" in remark for remark in export_model(model, target).remarks)
        assert any("--offset auto" in remark for remark in export_model(model, target, check=DATA).remarks)


@pytest.mark.parametrize("target", ["elasticsearch", "solr"])
def test_folded_weights_keep_the_order(linear, target):
    made = export_model(linear, target, folded=True, check=DATA)
    assert "norm" not in made.content
    assert made.comparison.largest < 1e-5
    with pytest.raises(SettingError, match="folded"):
        export_model(linear, target, folded=True, offset=1.0)


def test_opensearch_is_the_same_plugin(trees):
    assert export_model(trees, "opensearch").content == export_model(trees, "elasticsearch").content


def test_thresholds_ask_the_same_question_in_float32():
    rng = np.random.default_rng(0)
    t = np.concatenate(
        [rng.normal(size=2000) * 10.0 ** rng.integers(-30, 30, 2000), [0.0, 1e-35, -1e-35, 1e300, -1e300]]
    )
    d, u = at_most(t), above(t)
    x = np.stack([d, np.nextafter(d, np.float32(-1)), np.nextafter(d, np.float32(1)), u, np.zeros_like(d)])
    x = np.clip(x, -1e38, 1e38).astype(np.float32)
    wanted = x.astype(np.float64) <= t
    assert np.array_equal(x <= d, wanted)
    assert np.array_equal(x < u, wanted)
    # Below all float32: not even the lowest of them passes to the left.
    assert above(np.array([-1e300])) <= -np.finfo(np.float32).max


def test_solr_thresholds_survive_the_slack():
    from luce.export.search_engines import slackened

    t = np.concatenate([[0.0, 1e-35, 0.5, 100.0, -3.0], np.random.default_rng(0).normal(size=5000)])
    asked, wanted = slackened(t) + np.float32(1e-6), at_most(t)
    assert np.all(asked <= wanted)
    far = np.abs(t) > 1e-3
    assert np.array_equal(asked[far], wanted[far])
    assert np.all(wanted[~far] - asked[~far] < 3e-13)


def test_steps_become_one_balanced_tree_a_feature():
    rng = np.random.default_rng(0)
    n = 200
    stumps = FittedStumps.of(rng.integers(0, 3, n), rng.random(n).round(2), rng.normal(size=n), rng.normal(size=n), 3)
    forest = Forest.from_arrays(stumps.forest.arrays(), 3)
    X = rng.random((500, 3)).round(2).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    np.testing.assert_allclose(forest.score(X), stumps.score(X, np.array([0, 500])), atol=1e-12)
    assert forest.n_trees == 3
    assert FittedStumps.of([], [], [], [], 3).forest.score(X[:2]).tolist() == [0, 0]


def test_a_check_on_rows_that_the_model_does_not_take(linear):
    X = DATA.X.copy()
    X[3, 1] = np.nan
    rows = luce.from_arrays(X, group=DATA.sizes, allow_nan=True)
    with pytest.raises(DataError, match="row 3"):
        export_model(linear, "elasticsearch", check=rows, offset="auto")


def test_gaps_that_only_the_model_fills_are_said(linear):
    frame = pd.DataFrame({"qid": DATA.qid, "label": DATA.y, **{f"x{j}": DATA.X[:, j] for j in range(DATA.n_features)}})
    model = luce.Ranker(max_iter=5).fit(frame)
    with pytest.warns(luce.errors.LuceWarning, match="'x1' has gaps, and had none in training"):
        assert np.isfinite(model.predict(frame.assign(x1=frame.x1.mask(frame.index % 2 == 0)))).all()
    said = "the export does not: give it rows without gaps"
    assert any(said in text for text in export_model(model, "ranklib").remarks)
    assert not any(said in text for text in export_model(model, "python").remarks)  # it fills them
    assert not any("gaps" in text for text in export_model(linear, "python").remarks)


@pytest.mark.parametrize(("target", "package", "check"), [("onnx", "onnx", None), ("onnx", "onnxruntime", DATA),
                                                         ("xgboost-json", "xgboost", DATA)])  # fmt: skip
def test_a_missing_extra_names_its_install_command(linear, monkeypatch, target, package, check):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'luce\["):
        export_model(linear, target, check=check)


@pytest.mark.parametrize(
    ("features", "said"),
    [([1.0], "5 features are needed"), ({"1": 1.0, "nobody": 2.0}, "nobody"), ([1, 2, 3, 4, float("inf")], "infinite"),
     ([1, 2, None, 4, 5], "feature 3 is missing")],
)  # fmt: skip
def test_the_python_file_says_what_is_wrong(linear, features, said):
    namespace: dict = {}
    exec(export_model(linear, "python").content, namespace)
    with pytest.raises(ValueError, match=said):
        namespace["score"](features)


def test_the_intercept_is_spread_evenly():
    from luce.export.engine_terms import weighted

    part = Linear(np.array([2.0, -1.0, 0.0]), 6.0, np.array([1.0, 4.0, 1.0]))
    found = weighted(["a", "b", "c"], part)
    assert list(found.weights) == ["a", "b"]
    assert [mean for mean, _ in found.normalizers.values()] == [-1.0, 4.0]
    moves = zip(found.weights.values(), (0.5, 0.25), found.normalizers.values(), strict=True)
    assert sum(w * (x - mean) / deviation for w, x, (mean, deviation) in moves) == 2 * 0.5 - 0.25 + 6


def test_a_model_without_weights_has_nothing_to_rank_by():
    flat = luce.from_arrays(np.ones((4, 2)), [0, 1, 0, 1], qid=[1, 1, 2, 2])
    model = luce.Ranker(max_iter=2).fit(flat)
    with pytest.raises(SettingError, match="same score"):
        _export(model, "elasticsearch")
