"""Pairwise losses: values against the obvious double loop, long queries against short ones, options, bad input."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy import special

import luce
from luce.losses.pairwise import LinkedLoss
from tests.losses import reference as ref

THETA, NU, EPSILON = 1.7, 0.8, 0.6
HINGE, BAND = (lambda d: max(0.0, 1 - d)), (lambda d: max(0.0, abs(d) - EPSILON))
LOGISTIC = ref.logistic_win(np.exp(EPSILON)), ref.logistic_tie(np.exp(EPSILON))
FORMULAS = {
    "ranknet": ({}, ref.logistic_win(1.0), None),
    "rao_kupper": ({"theta": THETA}, ref.logistic_win(THETA), ref.logistic_tie(THETA)),
    "bradley_terry": ({"epsilon": EPSILON}, *LOGISTIC),
    "davidson": ({"nu": NU}, ref.davidson_win(NU), ref.davidson_tie(NU)),
    "thurstone_mosteller": ({"epsilon": EPSILON}, ref.normal_win(EPSILON), ref.normal_tie(EPSILON)),
    "ranksvm": ({}, HINGE, None),
    "ranksvm with ties": ({"ties": True, "epsilon": EPSILON}, HINGE, BAND),
    "rank_regress": ({}, lambda d: (1 - d) ** 2, None),
    "paired": ({"link": "logistic", "epsilon": EPSILON}, *LOGISTIC),
    "paired normal": ({"link": "normal", "epsilon": EPSILON}, ref.normal_win(EPSILON), ref.normal_tie(EPSILON)),
}
LINKED = ["ranknet", "rao_kupper", "davidson", "thurstone_mosteller"]


def make(name: str) -> luce.losses.Loss:
    return luce.losses.get(name.split()[0], **FORMULAS[name][0])


@pytest.mark.parametrize("name", FORMULAS)
def test_value_is_the_sum_over_pairs(name):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(0, 2, 25), rng.integers(0, 4, 25)
    _, win, tie = FORMULAS[name]
    expected = ref.total(win, tie, scores, labels)
    assert make(name).value_and_grad(scores, labels)[0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", LINKED[1:])
def test_without_ties_tied_pairs_are_left_out(name):
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(0, 2, 20), rng.integers(0, 3, 20)
    win = (lambda d: -float(special.log_ndtr(d))) if name == "thurstone_mosteller" else ref.logistic_win(1.0)
    loss = luce.losses.get(name, ties=False)
    assert len(loss.parameters) == 0
    assert loss.value_and_grad(scores, labels)[0] == pytest.approx(ref.total(win, None, scores, labels), rel=1e-12)


def score_patterns(n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(2)
    grades = rng.integers(0, 5, n)
    return {
        "spread": (rng.normal(0, 2, n), grades),
        "clustered": (rng.choice([-3.0, 0.0, 5.0, 9.1], n) + rng.normal(0, 1e-4, n), grades),
        "equal": (np.full(n, 2.5), grades),
        "wide": (rng.uniform(-1e4, 1e4, n), grades),
        "one far away": (np.append(rng.normal(0, 1, n - 1), 1e4), grades),
        "in order": (8.0 * grades + rng.normal(0, 1, n), grades),
        "a grade each": (rng.normal(0, 3, n), rng.permutation(n)),
        "all tied": (rng.normal(0, 3, n), np.zeros(n)),
    }


def always_panels(loss: LinkedLoss) -> LinkedLoss:
    loss.costs = (np.inf, 0.0, 0.0)  # type: ignore[misc]
    return loss


@pytest.mark.parametrize("pattern", score_patterns(4))
@pytest.mark.parametrize(("name", "ties"), [("ranknet", None), *itertools.product(LINKED[1:], [True, False])])
@pytest.mark.filterwarnings("ignore:The target has no preference:luce.errors.LuceWarning")
def test_panel_sums_against_pair_by_pair(name, ties, pattern):
    options = {} if ties is None else {"ties": ties}
    scores, labels = score_patterns(700)[pattern]
    exact = luce.losses.get(name, exact=True, **options)
    panels = always_panels(luce.losses.get(name, **options))
    value, grad, curvature = panels.value_grad_curvature(scores, labels)
    expected, expected_grad, expected_curvature = exact.value_grad_curvature(scores, labels)
    per_pair = 1e-15 * len(scores) ** 2
    assert value == pytest.approx(expected, rel=1e-8, abs=per_pair)
    assert np.linalg.norm(grad - expected_grad) <= 1e-8 * np.linalg.norm(expected_grad) + per_pair
    assert np.linalg.norm(curvature - expected_curvature) <= 1e-8 * np.linalg.norm(expected_curvature) + per_pair
    slope, expected_slope = (loss.value_and_grads(scores, labels)[2] for loss in (panels, exact))
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-8, atol=per_pair)


@pytest.mark.parametrize("name", LINKED)
def test_the_switch_itself(name):
    """3,000 documents as they come: within the stated tolerance, and by panels."""
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(0, 1.5, 3000), rng.integers(0, 5, 3000)
    value, grad = luce.losses.get(name).value_and_grad(scores, labels)
    expected, expected_grad = luce.losses.get(name, exact=True).value_and_grad(scores, labels)
    assert value == pytest.approx(expected, rel=1e-8)
    assert 0 < np.linalg.norm(grad - expected_grad) <= 1e-8 * np.linalg.norm(expected_grad)


@pytest.mark.parametrize("pattern", score_patterns(4))
@pytest.mark.parametrize("name", ["ranksvm", "ranksvm with ties", "rank_regress"])
@pytest.mark.filterwarnings("ignore:The target has no preference:luce.errors.LuceWarning")
def test_hinge_and_square_of_long_queries(name, pattern):
    scores, labels = score_patterns(400)[pattern]
    i, j = np.nonzero(labels[:, None] > labels[None, :])
    a, b = np.nonzero(np.triu(labels[:, None] == labels[None, :], 1))
    d, tied = scores[i] - scores[j], scores[a] - scores[b]
    slope = np.zeros(len(scores))
    bend = np.zeros(len(scores))
    if name == "rank_regress":
        expected, first, second = ((1 - d) ** 2).sum(), -2 * (1 - d), np.full(len(d), 2.0)
    else:
        expected, first, second = np.maximum(0, 1 - d).sum(), -1.0 * (d < 1), 1.0 * (d < 1)
    for rows, sign in ((i, 1), (j, -1)):
        np.add.at(slope, rows, sign * first)
        np.add.at(bend, rows, second)
    if name == "ranksvm with ties":
        outside = np.abs(tied) > EPSILON
        expected += np.maximum(0, np.abs(tied) - EPSILON).sum()
        for rows, sign in ((a, 1), (b, -1)):
            np.add.at(slope, rows, sign * np.sign(tied) * outside)
            np.add.at(bend, rows, 1.0 * outside)
    value, grad, curvature = make(name).value_grad_curvature(scores, labels)
    assert value == pytest.approx(expected, rel=1e-11, abs=1e-9)
    np.testing.assert_allclose(grad, slope, rtol=1e-11, atol=1e-9 * max(1.0, np.abs(slope).max()))
    np.testing.assert_allclose(curvature, bend, rtol=1e-12)


def test_a_query_of_any_length_agrees_with_its_pairs_listed():
    """Grades and the same pairs as explicit comparisons are one target."""
    rng = np.random.default_rng(4)
    scores, labels = rng.normal(0, 2, 90), rng.integers(0, 3, 90)
    wins = np.argwhere(labels[:, None] > labels[None, :])
    ties = np.argwhere(np.triu(labels[:, None] == labels[None, :], 1))
    pairs = luce.Comparisons.from_pairs(wins, ties)
    for name in FORMULAS:
        loss = make(name)
        for ours, theirs in zip(
            loss.value_grad_curvature(scores, labels), loss.value_grad_curvature(scores, pairs), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_pairs_of_every_document():
    rng = np.random.default_rng(9)
    labels = np.concatenate([rng.integers(0, 3, 40), rng.integers(0, 3, 5)])
    same_query = np.equal.outer(np.arange(45) < 40, np.arange(45) < 40) & ~np.eye(45, dtype=bool)
    equal = labels[:, None] == labels[None, :]
    assert np.array_equal(luce.losses.get("davidson").pair_counts(labels, [0, 40, 45]), same_query.sum(axis=1))
    without = luce.losses.get("ranksvm").pair_counts(labels, [0, 40, 45])
    assert np.array_equal(without, (same_query & ~equal).sum(axis=1))
    chosen = luce.losses.get("rao_kupper", tie_grades=[2]).pair_counts(labels, [0, 40, 45])
    assert np.array_equal(chosen, (same_query & (~equal | (labels == 2)[:, None])).sum(axis=1))
    weighted = luce.losses.get("rank_regress", position_weight="log2")
    curvature = weighted.value_grad_curvature(np.zeros(45), labels, [0, 40, 45])[2]
    np.testing.assert_allclose(weighted.pair_counts(labels, [0, 40, 45]), curvature / 2, rtol=1e-12)


@pytest.mark.real
@pytest.mark.parametrize("name", LINKED)
def test_real_queries_by_panels(name, real_data):
    """OHSUMED: queries of up to 320 documents, most of their pairs tied."""
    data = luce.read_letor(real_data("OHSUMED") / "Fold1" / "test.txt.gz")
    scores = 4.0 * data.X[:, :5].sum(axis=1).astype(float)
    value, grad = always_panels(luce.losses.get(name)).value_and_grad(scores, data.y, data.offsets)
    expected, expected_grad = luce.losses.get(name, exact=True).value_and_grad(scores, data.y, data.offsets)
    assert value == pytest.approx(expected, rel=1e-8)
    assert np.linalg.norm(grad - expected_grad) <= 1e-8 * np.linalg.norm(expected_grad)


def test_weights_of_comparisons_are_counts():
    scores = np.array([0.3, -0.2, 1.0])
    once = luce.Comparisons.from_pairs([(0, 1), (0, 1), (2, 0)], [(1, 2), (1, 2), (1, 2)])
    counted = luce.Comparisons.from_pairs([(0, 1), (2, 0)], [(1, 2)], win_weight=[2, 1], tie_weight=[3])
    for name in FORMULAS:
        a, b = (make(name).value_and_grad(scores, target) for target in (once, counted))
        assert a[0] == pytest.approx(b[0], rel=1e-12)
        np.testing.assert_allclose(a[1], b[1], rtol=1e-12)


@pytest.mark.parametrize("name", ["rao_kupper", "ranksvm with ties", "rank_regress", "paired"])
def test_weighting_of_queries(name):
    rng = np.random.default_rng(5)
    scores, labels = rng.normal(0, 1, 150), rng.integers(0, 3, 150)
    settings, _, tie = FORMULAS[name]
    whole = make(name).value_and_grad(scores, labels)[0]
    n_pairs = sum(1 for i in range(150) for j in range(i) if tie is not None or labels[i] != labels[j])
    for weighting, divisor in (("pairs", n_pairs), ("size", 150)):
        loss = luce.losses.get(name.split()[0], **settings, weighting=weighting)
        assert loss.value_and_grad(scores, labels)[0] == pytest.approx(whole / divisor, rel=1e-9)


@pytest.mark.parametrize("n", [20, 150])
@pytest.mark.parametrize("weights", ["log2", "reciprocal", [3.0, 2.0, 0.5]])
@pytest.mark.parametrize("name", FORMULAS)
def test_position_weights(name, weights, n):
    rng = np.random.default_rng(6)
    scores, labels = rng.normal(0, 1.5, n), rng.integers(0, 4, n)
    settings, win, tie = FORMULAS[name]

    def of_position(p: int) -> float:
        if weights == "log2":
            return 1 / np.log2(p + 1)
        return 1 / p if weights == "reciprocal" else weights[min(p, len(weights)) - 1]

    ideal = np.sort(labels)[::-1]
    by_grade = {g: np.mean([of_position(p + 1) for p in np.flatnonzero(ideal == g)]) for g in set(labels)}
    expected = ref.total(win, tie, scores, labels, lambda i, j: by_grade[labels[i]])
    loss = luce.losses.get(name.split()[0], **settings, position_weight=weights)
    assert loss.value_and_grad(scores, labels)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["rao_kupper", "davidson", "thurstone_mosteller", "ranksvm with ties", "paired"])
def test_ties_from_chosen_grades(name):
    rng = np.random.default_rng(7)
    scores, labels = rng.normal(0, 1.5, 40), rng.integers(0, 3, 40)
    settings, win, tie = FORMULAS[name]
    kept = luce.losses.get(name.split()[0], **settings, tie_grades=[2, 1]).value_and_grad(scores, labels)[0]
    expected = ref.total(win, tie, scores, labels, lambda i, j: float(labels[i] != labels[j] or labels[i] in (1, 2)))
    assert kept == pytest.approx(expected, rel=1e-9)


def test_learned_tie_parameter_finds_the_true_one():
    """Pairs drawn from the model: the likelihood in the tie parameter alone is greatest near the truth."""
    from scipy.optimize import minimize_scalar

    rng = np.random.default_rng(8)
    n = 40_000
    scores = rng.normal(0, 1, 2 * n)
    d = scores[0::2] - scores[1::2]
    for name, truth in (("rao_kupper", 2.5), ("bradley_terry", 0.9), ("davidson", 1.4), ("thurstone_mosteller", 0.7)):
        loss = luce.losses.get(name)
        given = luce.losses.get(name, **{loss.model.parameter: truth})
        u = rng.random(n)
        wins = u < given.pair_probability(d)
        ties = ~wins & (u < given.pair_probability(d) + given.tie_probability(d))
        losses = ~wins & ~ties
        rows = np.arange(2 * n).reshape(n, 2)
        target = luce.Comparisons.from_pairs(np.concatenate([rows[wins], rows[losses][:, ::-1]]), rows[ties])

        def value(t: float, loss=loss, target=target) -> float:
            return loss.with_parameters(np.array([t])).value_and_grad(scores, target)[0]

        best = minimize_scalar(value, bounds=loss.parameter_bounds[0], method="bounded", options={"xatol": 1e-6})
        assert loss.with_parameters(np.array([best.x])).tie_parameter == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("name", ["rao_kupper", "bradley_terry", "davidson", "thurstone_mosteller", "paired"])
def test_data_without_ties_pull_the_tie_parameter_to_its_lower_bound(name):
    loss = luce.losses.get(name)
    scores, labels = np.array([0.5, -0.2, 0.1]), np.array([2, 1, 0])
    (low, high) = loss.parameter_bounds[0]
    for t in np.linspace(low, high, 7):
        slope = loss.with_parameters(np.array([t])).value_and_grads(scores, labels)[2]
        assert np.isfinite(slope).all()
        assert slope[0] > 0
    for t in np.linspace(low, high, 7):
        value, _, slope = loss.with_parameters(np.array([t])).value_and_grads(scores, np.zeros(3))
        assert np.isfinite(value)
        assert slope[0] <= 0


def test_probabilities_of_a_pair():
    d = np.array([-1.0, 0.0, 2.0])
    for name in ("rao_kupper", "davidson", "thurstone_mosteller"):
        loss = luce.losses.get(name)
        total = loss.pair_probability(d) + loss.pair_probability(-d) + loss.tie_probability(d)
        np.testing.assert_allclose(total, 1, rtol=1e-14)
        assert (luce.losses.get(name, ties=False).tie_probability(d) == 0).all()


def test_settings_make_the_same_loss_again():
    for name in FORMULAS:
        for options in ({}, {"weighting": "pairs", "position_weight": "log2"}):
            loss = luce.losses.get(name.split()[0], **FORMULAS[name][0], **options)
            again = luce.losses.get(loss.name, **loss.settings)
            scores, labels = np.array([0.3, -1.0, 0.2, 0.9]), np.array([1, 0, 0, 2])
            assert again.value_and_grad(scores, labels)[0] == pytest.approx(loss.value_and_grad(scores, labels)[0])
            assert repr(again) == repr(loss)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rao_kupper", {"theta": 1.0}, "theta must be a finite number above 1"),
        ("rao_kupper", {"theta": 0.5}, "theta"),
        ("davidson", {"nu": -0.1}, "nu must be a finite number above 0"),
        ("bradley_terry", {"epsilon": 0.0}, "ties=False"),
        ("thurstone_mosteller", {"epsilon": np.inf}, "finite"),
        ("ranksvm", {"ties": True, "epsilon": -1}, "at least 0"),
        ("ranksvm", {"tie_grades": [1]}, "without ties=True"),
        ("rao_kupper", {"ties": False, "tie_grades": [1]}, "without ties=True"),
        ("rao_kupper", {"ties": False, "theta": 2.0}, "theta=2.0 has no effect"),
        ("paired", {"ties": False, "epsilon": 2.0}, "epsilon=2.0 has no effect"),
        ("ranknet", {"weighting": "none"}, "all, pairs, size"),
        ("ranknet", {"position_weight": "log"}, "log2, reciprocal"),
        ("ranknet", {"position_weight": [1.0, -1.0]}, "at least 0"),
        ("ranknet", {"theta": 2.0}, "does not take"),
        ("paired", {"link": "cauchy"}, "logistic, .*normal"),
        ("paired", {"epsilon": -1.0}, "above 0"),
        ("paired", {"link": 3}, "or a function"),
    ],
)  # fmt: skip
def test_bad_settings(name, options, message):
    with pytest.raises(luce.errors.SettingError, match=message):
        luce.losses.get(name, **options)


def test_nu_of_zero_is_the_model_without_ties():
    scores, labels = np.array([0.3, -1.0, 0.2]), np.array([1, 0, 0])
    davidson, ranknet = luce.losses.get("davidson", nu=0), luce.losses.get("ranknet")
    assert davidson.value_and_grad(scores, labels)[0] == ranknet.value_and_grad(scores, labels)[0]


def test_options_that_go_by_grades_refuse_comparisons():
    pairs = luce.Comparisons.from_pairs([(0, 1)])
    for options in ({"position_weight": "log2"}, {"tie_grades": [1]}):
        with pytest.raises(luce.errors.SettingError, match="grades"):
            luce.losses.get("rao_kupper", **options).value_and_grad([0.0, 1.0], pairs)


def test_an_all_tied_data_set_is_reported():
    with pytest.warns(luce.errors.LuceWarning, match="nothing to learn"):
        luce.losses.get("ranknet").value_and_grad([0.0, 1.0, 2.0], [1, 1, 1])
    with pytest.warns(luce.errors.LuceWarning, match="nothing to learn"):
        luce.losses.get("rao_kupper", tie_grades=[2]).value_and_grad([0.0, 1.0, 2.0], [1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        luce.losses.get("rao_kupper").value_and_grad([0.0, 1.0, 2.0], [1, 1, 1])


def test_ordered_lists_are_wins():
    scores = np.array([0.3, -1.0, 0.2, 1.0])
    top = luce.Comparisons.from_orders([[2, 0]], top=True)
    pairs = luce.Comparisons.from_pairs([(2, 0), (2, 1), (2, 3), (0, 1), (0, 3)])
    for name in FORMULAS:
        assert make(name).value_and_grad(scores, top)[0] == pytest.approx(make(name).value_and_grad(scores, pairs)[0])


@pytest.mark.parametrize("value", [1e-3, 0.7, 12.0])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 60.0, 168.0])
@pytest.mark.parametrize("name", ["bradley_terry", "davidson", "ranknet"])
def test_shared_exponentials_against_pair_by_pair(name, value, spread):
    """Beside a document far away, whose pairs cost nothing, every pair takes exponentials of its own."""
    rng = np.random.default_rng(5)
    grades, scores = rng.integers(0, 3, 150).astype(float), spread * rng.uniform(-1.0, 1.0, 150)
    tie = {} if name == "ranknet" else {luce.losses.get(name).model.parameter: value}
    loss = luce.losses.get(name, exact=True, position_weight="log2", **tie)
    value, grad, curvature = loss.value_grad_curvature(scores, grades)
    far = loss.value_grad_curvature(np.append(scores, -1e4), np.append(grades, -1.0))
    plain = loss.value_grad_curvature(np.append(scores, scores.min()), np.append(grades, -1.0))
    assert value < plain[0]
    assert value == pytest.approx(far[0], rel=1e-12)
    np.testing.assert_allclose(grad, far[1][:-1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(curvature, far[2][:-1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["ranknet", "rao_kupper", "davidson"])
@pytest.mark.parametrize("spread", [0.5, 30.0])
def test_short_queries_of_every_length(name, spread):
    """Pairs of a row are taken several at a time; here rows of every length occur."""
    rng = np.random.default_rng(10)
    offsets = np.concatenate([[0], np.cumsum(np.tile(np.arange(1, 14), 4))])
    scores, labels = spread * rng.uniform(-1, 1, offsets[-1]), rng.integers(0, 3, offsets[-1])
    same_query = np.equal.outer(*[np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))] * 2)
    better, equal = np.greater.outer(labels, labels), np.equal.outer(labels, labels)
    pairs = luce.Comparisons.from_pairs(np.argwhere(better & same_query), np.argwhere(np.triu(equal & same_query, 1)))
    loss = luce.losses.get(name)
    for ours, theirs in zip(
        (*loss.value_grad_curvature(scores, labels, offsets), loss.value_and_grads(scores, labels, offsets)[2]),
        (*loss.value_grad_curvature(scores, pairs, offsets), loss.value_and_grads(scores, pairs, offsets)[2]),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
