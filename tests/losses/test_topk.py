"""Top-k losses against their formulas, written out, and against enumeration."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

import luce
from luce.data.comparisons import Comparisons
from luce.data.statements import Statements
from luce.errors import DataError, SettingError
from luce.losses.probabilities import topk_probability
from luce.losses.top_sets import all_sets, log_between
from luce.numerics.compiled import kernel
from luce.numerics.races import chance_of_seats
from tests.conformance.cases import problem, tops

chance_of_seats = kernel(chance_of_seats)  # only kernels call it in the library

NAMES = ("topk_listmle", "hom_gg", "hom_oo", "hom_og")


def composite(name: str, **settings) -> luce.losses.Loss:
    """The loss as the paper trains it, without a normaliser that depends on the scores."""
    return luce.losses.get(name, **({"normalised": False} if name == "hom_oo" else {}), **settings)


def between(name: str, inside: np.ndarray, outside: np.ndarray) -> float:
    """P_TF as the paper prints it, on phi = e^f; not normalised."""
    if name == "hom_gg":
        return inside.sum() / (inside.sum() + outside.sum())
    if name == "hom_oo":
        return math.prod(i / (i + j) for i in inside for j in outside)
    return math.prod(i / (i + outside.sum()) for i in inside)


def probability(name: str, top: np.ndarray, rest: np.ndarray) -> float:
    """The value of a model at scores of T, best first, and of F: e^(-value)."""
    inside, outside = np.exp(top), np.exp(rest)
    if name == "topk_listmle":
        return math.prod(inside[i] / (inside[i:].sum() + outside.sum()) for i in range(len(top)))
    luce_inside = math.prod(inside[i] / inside[i:].sum() for i in range(len(top)))
    return luce_inside * (between(name, inside, outside) if len(rest) else 1.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [1, 3, 6])
def test_value_is_the_formula(name, k):
    scores = np.random.default_rng(k).normal(0, 1.5, 6)
    order = np.array([4, 0, 5, 2, 1, 3])
    labels = np.empty(6)
    labels[order] = np.arange(6, 0, -1)
    value, _ = composite(name, k=k).value_and_grad(scores, labels)
    assert value == pytest.approx(-math.log(probability(name, scores[order[:k]], scores[order[k:]])), rel=1e-12)


@pytest.mark.parametrize("k", [30, None])
def test_all_stages_are_listmle(k):
    scores, labels, offsets = problem(0, untied=True)
    ours = luce.losses.get("topk_listmle", k=k).value_grad_curvature(scores, labels, offsets)
    theirs = luce.losses.get("listmle").value_grad_curvature(scores, labels, offsets)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_hom_gg_enumerated_is_its_closed_form():
    scores = np.random.default_rng(1).normal(0, 1.2, 7)
    loss = luce.losses.get("hom_gg", k=3)
    total = sum(np.exp(-loss.value_and_grad(scores, labels)[0]) for labels in tops(7, 3))
    assert total == pytest.approx(math.comb(6, 2), rel=1e-12)
    assert loss.log_normaliser(scores, 3) == pytest.approx(math.log(total), rel=1e-12)


@pytest.mark.parametrize("name", ["hom_oo", "hom_og"])
def test_composite_probability_is_normalised_by_enumeration(name):
    scores = np.random.default_rng(2).normal(0, 1.2, 6)
    loss = luce.losses.get(name, k=3, normalised=False)
    values = [np.exp(-loss.value_and_grad(scores, labels)[0]) for labels in tops(6, 3)]
    chances = [np.exp(loss.log_prob(scores, labels)) for labels in tops(6, 3)]
    np.testing.assert_allclose(chances, np.array(values) / sum(values), rtol=1e-11)


@pytest.mark.parametrize("name", ["hom_oo", "hom_og"])
def test_normalised_value_is_minus_log_prob_and_its_gradient_that_of_differences(name):
    rng = np.random.default_rng(4)
    scores, offsets = rng.normal(0, 1.5, 13), np.array([0, 6, 11, 13])  # the last query is all T
    labels = np.concatenate([rng.permutation(6), rng.permutation(5), [1, 2]]).astype(float)
    loss = luce.losses.get(name, k=2, normalised=True)
    value, grad = loss.value_and_grad(scores, labels, offsets)
    parts = [luce.losses.get(name, k=2).log_prob(scores[a:b], labels[a:b]) for a, b in itertools.pairwise(offsets)]
    assert value == pytest.approx(-sum(parts), rel=1e-12)
    assert loss.log_prob(scores[:6], labels[:6]) == pytest.approx(parts[0], rel=1e-12)
    step = 1e-6 * np.eye(13)
    slopes = [
        (loss.value_and_grad(scores + h, labels, offsets)[0] - loss.value_and_grad(scores - h, labels, offsets)[0])
        for h in step
    ]
    np.testing.assert_allclose(grad, np.array(slopes) / 2e-6, rtol=1e-6, atol=1e-8)


def test_one_against_the_group_is_normalised_by_enumeration_only():
    with pytest.raises(SettingError, match="sets of 20"):
        luce.losses.get("hom_og", k=20, normalised=True).value_and_grad(np.zeros(60), np.arange(60.0))


@pytest.mark.parametrize("name", ["hom_oo", "hom_og"])
def test_maximum_likelihood_finds_the_model_that_made_the_lists(name):
    """Scores of four documents from many drawn tops: the normalised form is right, the proportional one is not."""
    truth = np.array([0.8, 0.2, -0.3, -0.7])
    drawn = luce.losses.get(name, k=2).sample_many(truth, np.random.default_rng(0), 4_000)
    X, qid = np.tile(np.eye(4), (4_000, 1)), np.repeat(np.arange(4_000), 4)
    tops, counts = np.unique(drawn, axis=0, return_counts=True)
    data = luce.from_arrays(X[: 4 * len(tops)], tops.ravel(), qid=qid[: 4 * len(tops)])
    found = []
    for normalised in (True, False):
        model = luce.Ranker(name, loss__k=2, loss__normalised=normalised, l2=0.0, tol=1e-10)
        scores = model.fit(data, query_weight=counts.astype(float)).predict(np.eye(4))
        found.append(float(np.abs(scores - scores.mean() - truth).max()))
    assert found[0] < 0.1 < found[1]


@pytest.mark.parametrize("name", ["hom_oo", "hom_og"])
def test_sets_of_scores_far_apart(name):
    """Log P_TF of every set, from the value, also where e^f of all that is left out underflows."""
    loss = composite(name, k=2)
    scores = np.array([5000.0, 5001.0, 0.0, -3000.0, 1.0])
    members, logs = all_sets(partial(log_between, loss.kind), scores, 2)
    for chosen, found in zip(members, logs, strict=True):
        labels = np.zeros(5)
        labels[chosen] = [2, 1]
        inside = luce.losses.get("listmle").value_and_grad(scores[chosen], [2, 1])[0]
        assert found == pytest.approx(inside - loss.value_and_grad(scores, labels)[0], rel=1e-9, abs=1e-9)


def test_too_many_sets_are_refused():
    loss = luce.losses.get("hom_og", k=10)
    with pytest.raises(SettingError, match="30 documents have 3e\\+07 sets of 10"):
        loss.log_prob(np.zeros(30), np.arange(30))
    assert np.isfinite(loss.value_and_grad(np.zeros(30), np.arange(30))[0])


def test_curvature_is_the_diagonal_of_the_hessian():
    scores, labels, offsets = problem(8, sizes=(9, 5), untied=True)
    for name in ("topk_listmle", "hom_oo", "hom_og"):
        loss = composite(name, k=3)
        curvature = loss.value_grad_curvature(scores, labels, offsets)[2]
        step = 1e-5 * np.eye(len(scores))
        up, down = (
            [loss.value_and_grad(scores + s * e, labels, offsets)[1][i] for i, e in enumerate(step)] for s in (1, -1)
        )
        np.testing.assert_allclose(curvature, (np.array(up) - down) / 2e-5, atol=1e-8)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_panel_sums_agree_with_every_pair(spread):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(0, spread, 4000), rng.permutation(4000).astype(float)
    fast = composite("hom_oo", k=1500).value_grad_curvature(scores, labels)
    slow = composite("hom_oo", k=1500, exact=True).value_grad_curvature(scores, labels)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * np.abs(b).max())


# Targets


def test_k_per_query():
    scores, labels, offsets = problem(3, sizes=(6, 4, 7), untied=True)
    together = luce.losses.get("hom_og", k=[2, 1, 5]).value_and_grad(scores, labels, offsets)[0]
    apart = [
        luce.losses.get("hom_og", k=k).value_and_grad(scores[a:b], labels[a:b])[0]
        for k, (a, b) in zip([2, 1, 5], itertools.pairwise(offsets), strict=True)
    ]
    assert together == pytest.approx(sum(apart), rel=1e-12)
    with pytest.raises(SettingError, match="2 values of k were given for 3 queries"):
        luce.losses.get("hom_og", k=[2, 1]).value_and_grad(scores, labels, offsets)


def with_ties(name: str, scores: np.ndarray, labels: np.ndarray, size: int) -> float:
    """The sum of the model's values over all orders of the first `size` documents that agree with the labels."""
    total = 0.0
    for top in itertools.permutations(range(len(labels)), size):
        rest = [i for i in range(len(labels)) if i not in top]
        falls = (np.diff(labels[list(top)]) <= 0).all()
        if falls and (not rest or labels[list(top)].min() >= labels[rest].max()):
            total += probability(name, scores[list(top)], scores[rest])
    return total


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ties", "size"), [("extend", 4), ("shrink", 1)])
def test_ties_are_summed_over(name, ties, size):
    labels = np.array([1.0, 2, 1, 1, 0])  # at k = 2 three documents of label 1 compete for one place
    scores = np.array([0.3, 0.1, -0.5, 0.8, 0.2])
    value, _ = composite(name, k=2, ties=ties).value_and_grad(scores, labels)
    assert value == pytest.approx(-math.log(with_ties(name, scores, labels, size)), rel=1e-11)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_a_tie_at_the_cut_of_luce_is_integrated_out(k):
    """So many of the tied documents as there are places left come first, whichever they are."""
    labels = np.array([1.0, 2, 1, 2, 0, 1, 0])
    scores = np.random.default_rng(k).normal(0, 1.5, 7)
    loss = luce.losses.get("topk_listmle", k=k)
    assert loss.log_prob(scores, labels) == pytest.approx(
        math.log(with_ties("topk_listmle", scores, labels, k)), rel=1e-11
    )
    _, grad, curvature = loss.value_grad_curvature(scores, labels)
    step = 1e-4 * np.eye(7)
    numeric = [
        (loss.value_and_grad(scores + e, labels)[0] - loss.value_and_grad(scores - e, labels)[0]) / 2e-4 for e in step
    ]
    np.testing.assert_allclose(grad, numeric, atol=1e-7)
    up, down = ([loss.value_and_grad(scores + s * e, labels)[1][i] for i, e in enumerate(step)] for s in (1, -1))
    second = (np.array(up) - down) / 2e-4
    assert (curvature > second - 1e-6).all()  # equal but where a stage by itself is not convex, as at k = 3 and 4


@pytest.mark.parametrize("log_rates", [[-9e3, -8e3, -1e4], [0.0, -5e3, -5e3, -5e3], [9e3, 1e4, 8e3]])
def test_seats_of_rates_far_apart(log_rates):
    """The best s rates, or as many orders as tie; one that is always there is first or not, whichever."""
    slopes = np.empty(len(log_rates))
    far = log_rates[0] <= 0.0
    assert np.isnan(chance_of_seats(np.array(log_rates), 2, None if far else True, slopes, np.empty(0))[0])
    log_p, total, _ = chance_of_seats(np.array(log_rates), 2, True if far else None, slopes, np.empty(0))
    expected = {-9e3: -17e3 + math.log(2), 0.0: -5e3 + math.log(3 * (1 / 2 + 1 / 4)), 9e3: 0.0}[log_rates[0]]
    assert log_p == pytest.approx(expected, rel=1e-13, abs=1e-12)
    assert total == pytest.approx({-9e3: 2, 0.0: 4 / 3, 9e3: 0}[log_rates[0]], abs=1e-11)


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("k", [1, 3, 4])
def test_a_tie_at_the_cut_is_averaged_over_all_choices_where_they_are_few(name, k):
    """The mean of -log P over every set of tied documents that may come first, whatever the order of the rows."""
    labels, scores = np.array([1.0, 2, 1, 2, 0, 1, 0]), np.random.default_rng(k).normal(0, 1.5, 7)
    tie = [i for i in range(7) if labels[i] == (2 if k == 1 else 1)]
    above = [i for i in range(7) if labels[i] > labels[tie[0]]]
    values = []
    for chosen in itertools.combinations(tie, k - len(above)):
        apart = labels + 5.0 * np.isin(np.arange(7), [*above, *chosen])  # the same tiers, and none across the cut
        values.append(luce.losses.get(name, k=k, ties="error").value_and_grad(scores, apart)[0])
    loss = luce.losses.get(name, k=k, ties="average", draws=len(values))
    value, grad = loss.value_and_grad(scores, labels)
    assert value == pytest.approx(np.mean(values), rel=1e-12)
    turned = np.random.default_rng(0).permutation(7)
    again, turned_grad = loss.value_and_grad(scores[turned], labels[turned])
    assert again == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(turned_grad, grad[turned], rtol=1e-10, atol=1e-12)
    step = 1e-5 * np.eye(7)
    numeric = [
        (loss.value_and_grad(scores + e, labels)[0] - loss.value_and_grad(scores - e, labels)[0]) / 2e-5 for e in step
    ]
    np.testing.assert_allclose(grad, numeric, atol=1e-8)


def test_drawn_choices_at_the_cut_are_balanced():
    from luce.losses.top_lists import average_cuts, top_lists

    labels, offsets = np.array([1.0] + [0.0] * 12 + [2.0, 1.0]), np.array([0, 13, 15])
    said = Statements.of_grades(labels, offsets)
    lists = average_cuts(top_lists(said, 6, "exact"), 20, seed=3, whole=np.zeros(2, dtype=bool))
    assert lists.queries.tolist() == [0, 20, 21]
    assert lists.tops.tolist() == [6] * 20 + [2]
    np.testing.assert_allclose(np.add.reduceat(lists.weights, lists.queries[:-1]), 1.0)
    hands = lists.rows[: 20 * 13].reshape(20, 13)
    assert (np.sort(hands, axis=1) == np.arange(13)).all()
    assert (hands[:, 0] == 0).all()
    counts = np.bincount(hands[:, 1:6].ravel(), minlength=13)[1:]
    assert counts.sum() == 20 * 5
    assert counts.max() - counts.min() <= 1
    assert len({frozenset(hand) for hand in hands[:, 1:6].tolist()}) > 10


def test_draws_at_the_cut_near_the_mean_over_all_choices():
    labels, scores = np.repeat([2.0, 1.0, 0.0], [2, 10, 8]), np.random.default_rng(2).normal(size=20)
    every = luce.losses.get("hom_og", k=6, ties="average", draws=math.comb(10, 4)).value_and_grad(scores, labels)[0]
    drawn = [
        luce.losses.get("hom_og", k=6, ties="average", seed=s).value_and_grad(scores, labels)[0] for s in range(200)
    ]
    assert abs(np.mean(drawn) - every) < 4 * np.std(drawn) / math.sqrt(200)
    assert np.std(drawn) > 0


def test_averages_at_the_cut_of_lists_and_of_queries_that_are_all_tied():
    scores = np.random.default_rng(4).normal(size=5)
    loss = luce.losses.get("hom_gg", k=2, ties="average")
    assert repr(loss) == "hom_gg(k=2, ties='average')"
    value, grad = loss.value_and_grad(scores, np.ones(5))
    assert value == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(grad, 0, atol=1e-12)
    tiers = Comparisons.from_orders([[3, [2, 0], 1]], top=True, weights=[2])
    parted = [Comparisons.from_orders([order], top=True) for order in ([3, 2, 0, 1], [3, 0, 2, 1])]
    expected = sum(luce.losses.get("hom_gg", k=2).value_and_grad(scores, order)[0] for order in parted)
    assert loss.value_and_grad(scores, tiers)[0] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(SettingError, match="mean of several tops where labels tie at the cut k = 2"):
        loss.log_prob(scores, tiers)
    untied = [5, 4, 3, 2, 1]
    assert loss.log_prob(scores, untied) == luce.losses.get("hom_gg", k=2).log_prob(scores, untied)
    for settings in ({"draws": 3}, {"ties": "average", "draws": 0}, {"ties": "average", "inside": "random"}):
        with pytest.raises(SettingError):
            luce.losses.get("hom_oo", **settings)


def test_hom_gg_integrates_a_tie_that_holds_the_whole_top():
    """-log of the sum over every set of k of the tied documents; with others above the tie, the mean as before."""
    scores, labels = np.random.default_rng(7).normal(0, 1.5, 8), np.array([1.0, 0, 1, 1, 0, 1, 0, 1])
    loss, tied, k = luce.losses.get("hom_gg", k=3, ties="exact"), np.flatnonzero(labels), 3
    shares = [np.exp(scores[list(chosen)]).sum() for chosen in itertools.combinations(tied, k)]
    total = math.comb(7, 2) * np.exp(scores).sum()
    assert loss.log_prob(scores, labels) == pytest.approx(math.log(sum(shares) / total), rel=1e-12)
    value, grad = loss.value_and_grad(scores, labels)
    assert value == pytest.approx(math.log(np.exp(scores).sum() / np.exp(scores[tied]).sum()), rel=1e-12)
    expected = np.exp(scores) / np.exp(scores).sum() - labels * np.exp(scores) / np.exp(scores[tied]).sum()
    np.testing.assert_allclose(grad, expected, atol=1e-12)
    outcomes = [np.isin(np.arange(8), chosen) for chosen in itertools.combinations(range(8), k)]
    kept = luce.losses.get("hom_gg", k=3, ties="exact")
    assert sum(np.exp(kept.log_prob(scores, 1.0 * top)) for top in outcomes) == pytest.approx(1, abs=1e-12)
    labels[0] = 2
    average = luce.losses.get("hom_gg", k=3, ties="average")
    np.testing.assert_array_equal(loss.value_and_grad(scores, labels)[1], average.value_and_grad(scores, labels)[1])
    with pytest.raises(SettingError, match="several tops where labels tie at the cut k = 3"):
        loss.log_prob(scores, labels)
    lists = Comparisons.from_orders([[[1, 4, 5]]], top=True)
    expected = math.log(np.exp(scores).sum() / np.exp(scores[[1, 4, 5]]).sum())
    assert luce.losses.get("hom_gg", k=2, ties="exact").value_and_grad(scores, lists)[0] == pytest.approx(expected)
    assert repr(luce.losses.get("hom_gg", **loss.settings)) == repr(loss) == "hom_gg(k=3, ties='exact')"
    with pytest.raises(SettingError, match="extend, shrink, stable, error, average"):
        luce.losses.get("hom_oo", ties="exact")


def test_shrinking_keeps_the_best_tier_unless_it_is_all():
    loss = luce.losses.get("hom_gg", k=1, ties="shrink")
    scores, labels = np.array([0.3, 0.1, -0.5]), np.array([1.0, 1, 0])
    value, _ = loss.value_and_grad(scores, labels)
    assert value == pytest.approx(-math.log(with_ties("hom_gg", scores, labels, 2)))
    assert loss.value_and_grad(scores, [1, 1, 1])[0] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_broken_ties_are_one_order(name):
    scores, labels = np.array([0.3, 0.1, -0.5, 0.8]), np.array([1.0, 1, 1, 0])
    stable = composite(name, k=2, ties="stable", inside="stable").value_and_grad(scores, labels)[0]
    assert stable == pytest.approx(-math.log(probability(name, scores[[0, 1]], scores[[2, 3]])))
    drawn = {
        round(composite(name, k=3, ties="extend", inside="random", seed=s).value_and_grad(scores, labels)[0], 9)
        for s in range(30)
    }
    orders = itertools.permutations(range(3))
    assert drawn == {round(-math.log(probability(name, scores[list(o)], scores[3:])), 9) for o in orders}


def test_ties_are_refused_on_demand():
    with pytest.raises(DataError, match=r"Query 1 .*rows 4 and 5 both have label 1 at the cut k = 2"):
        luce.losses.get("hom_og", k=2, ties="error").value_and_grad(np.zeros(6), [3, 2, 1, 2, 1, 1], [0, 3, 6])
    with pytest.raises(DataError, match=r"Query 0 .*rows 0 and 1 of the top 2 both have label 3"):
        luce.losses.get("hom_og", k=2, inside="error").value_and_grad(np.zeros(3), [3, 3, 1])


@pytest.mark.parametrize("name", NAMES)
def test_lists_as_target(name):
    rng = np.random.default_rng(5)
    scores, offsets = rng.normal(size=11), np.array([0, 5, 11])
    lists = Comparisons.from_orders([[7, 5, 9], [3, 0], [6]], top=True)
    value, grad = composite(name, k=None).value_and_grad(scores, lists, offsets)
    expected = [
        probability(name, scores[[7, 5, 9]], scores[[6, 8, 10]]),
        probability(name, scores[[3, 0]], scores[[1, 2, 4]]),
        probability(name, scores[[6]], scores[[5, 7, 8, 9, 10]]),
    ]
    assert value == pytest.approx(-np.log(expected).sum(), rel=1e-12)
    step = 1e-6 * np.eye(11)
    loss = composite(name, k=None)
    numeric = [
        (loss.value_and_grad(scores + e, lists, offsets)[0] - loss.value_and_grad(scores - e, lists, offsets)[0]) / 2e-6
        for e in step
    ]
    np.testing.assert_allclose(grad, numeric, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_lists(name):
    """A list of weight 3 is three lists; its probability is what it was."""
    scores, offsets = np.random.default_rng(8).normal(size=6), np.array([0, 4, 6])
    loss = luce.losses.get(name, k=None)
    weighted = Comparisons.from_orders([[2, 0], [5], [1, 3]], top=True, weights=[3, 1, 0.5])
    value, grad, curvature = loss.value_grad_curvature(scores, weighted, offsets)
    parts = [
        loss.value_grad_curvature(scores, Comparisons.from_orders([order], top=True), offsets)
        for order in ([2, 0], [5], [1, 3])
    ]
    for found, place in ((value, 0), (grad, 1), (curvature, 2)):
        np.testing.assert_allclose(found, 3 * parts[0][place] + parts[1][place] + 0.5 * parts[2][place], rtol=1e-12)
    once = loss.log_prob(scores[:4], Comparisons.from_orders([[2, 0]], top=True))
    assert loss.log_prob(scores[:4], Comparisons.from_orders([[2, 0]], top=True, weights=[7])) == once


@pytest.mark.parametrize(("ties", "top"), [("extend", [3, 2, 0]), ("shrink", [3])])
def test_a_tier_at_the_cut_of_a_list(ties, top):
    from luce.losses.top_lists import top_lists

    said = Statements.of_comparisons(Comparisons.from_orders([[3, [2, 0], 1]]), np.array([0, 5]))
    found = top_lists(said, 2, ties)
    assert found.rows[: found.tops[0]].tolist() == top
    assert found.tied[: found.tops[0]].tolist() == [False, False, True][: len(top)]
    with pytest.raises(DataError, match=r"rows 2 and 0 are in one tier of its list at the cut k = 2"):
        top_lists(said, 2, "error")


def test_open_lists_leave_out_what_they_do_not_name():
    scores = np.random.default_rng(6).normal(size=6)
    order = Comparisons.from_orders([[4, 1, 3]])
    value, grad = luce.losses.get("hom_og", k=1).value_and_grad(scores, order)
    assert value == pytest.approx(-math.log(probability("hom_og", scores[[4]], scores[[1, 3]])))
    assert (grad[[0, 2, 5]] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_k_caps_lists_of_mixed_length(name):
    short, scores = Comparisons.from_orders([[0, 1], [4, 5, 3]], top=True), np.random.default_rng(0).normal(size=7)
    capped = luce.losses.get(name, k=3).value_and_grad(scores, short, [0, 3, 7])
    whole = luce.losses.get(name, k=None).value_and_grad(scores, short, [0, 3, 7])
    assert capped[0] == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(capped[1], whole[1], rtol=1e-10, atol=1e-12)


def test_lists_that_do_not_fit():
    with pytest.raises(SettingError, match="pairs"):
        luce.losses.get("hom_gg").value_and_grad(np.zeros(2), Comparisons.from_pairs(wins=[(0, 1)]))


@pytest.mark.parametrize("k", [0, -1, 2.5, True, [], [3, 0], "ten"])
def test_bad_k(k):
    with pytest.raises(SettingError, match="it must be a whole number of at least 1"):
        luce.losses.get("hom_gg", k=k)


def test_bad_options():
    with pytest.raises(SettingError, match="extend, shrink, stable, error"):
        luce.losses.get("hom_gg", ties="keep")
    with pytest.raises(SettingError, match="one query needs one"):
        luce.losses.get("hom_gg", k=[1, 2]).sample([0.0, 1.0], np.random.default_rng(0))


# The chance to be in the top k


@pytest.mark.parametrize("name", ["listmle", *NAMES])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 2), (6, 3), (6, 5)])
def test_topk_probability_is_that_of_enumeration(name, n, k):
    scores = np.random.default_rng(n).normal(0, 2, n)
    model = luce.losses.get("topk_listmle" if name == "listmle" else name, k=k)
    expected = sum(np.exp(model.log_prob(scores, labels)) * (labels > 0) for labels in tops(n, k))
    loss = luce.losses.get(name) if name == "listmle" else model
    np.testing.assert_allclose(topk_probability(loss, scores, k), expected, atol=4e-15)


@pytest.mark.parametrize("name", NAMES)
def test_topk_probability_is_that_of_draws(name):
    rng, draws = np.random.default_rng(1), 4000
    scores = np.array([1.0, 0.2, -0.3, 0.0, -1.2, 0.7, 0.1])
    loss = luce.losses.get(name, k=3)
    seen = np.mean([loss.sample(scores, rng) > 0 for _ in range(draws)], axis=0)
    p = topk_probability(loss, scores, 3)
    assert np.all(np.abs(seen - p) < 4 * np.sqrt(p * (1 - p) / draws))


@pytest.mark.parametrize(("n", "k"), [(100, 10), (400, 100), (400, 399)])
def test_topk_probability_of_long_queries(n, k):
    """Equal scores have k / n each, and the chances of any scores sum to k."""
    np.testing.assert_allclose(topk_probability(luce.losses.get("listmle"), np.zeros(n), k), k / n, atol=1e-13)
    p = topk_probability(luce.losses.get("listmle"), np.random.default_rng(0).normal(0, 2, n), k)
    assert p.sum() == pytest.approx(k, abs=1e-10)


def test_topk_probability_of_scores_far_apart():
    p = topk_probability(luce.losses.get("topk_listmle"), [1e4, 0.0, 0.0, -1e4], 2)
    np.testing.assert_allclose(p, [1.0, 0.5, 0.5, 0.0], atol=1e-14)
    assert topk_probability(luce.losses.get("hom_oo"), [1.0, 2.0], 2).tolist() == [1.0, 1.0]


def test_topk_probability_is_refused():
    with pytest.raises(SettingError, match="'pmop' has no top-k probabilities"):
        topk_probability(luce.losses.get("pmop"), [0.0, 1.0], 1)
    with pytest.raises(SettingError, match="k is 0"):
        topk_probability(luce.losses.get("listmle"), [0.0, 1.0], 0)
