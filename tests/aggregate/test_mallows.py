from __future__ import annotations

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from luce.aggregate import Ballots, Mallows, MallowsMixture, fit_mallows, fit_mixture
from luce.aggregate.positional import position_values
from luce.errors import DataError, SettingError

from . import references


def enumerated(centre: str, phi: float) -> dict[str, float]:
    """Mallows' probabilities straight from the definition."""
    mass = {}
    for order in permutations(centre):
        d = references.kendall([order.index(x) for x in centre], list(range(len(centre))))
        mass["".join(order)] = phi**d
    total = sum(mass.values())
    return {order: value / total for order, value in mass.items()}


@pytest.mark.parametrize("phi", [0.2, 0.8, 1.0])
def test_log_prob_is_the_definition(phi):
    expected = enumerated("cabd", phi)
    votes = Ballots.from_orders(list(expected), items="abcd")
    got = np.exp(Mallows("cabd", phi).log_prob(votes))
    np.testing.assert_allclose(got, list(expected.values()))
    assert got.sum() == pytest.approx(1.0)


def test_top_lists_have_the_probability_of_their_completions():
    expected = enumerated("abcd", 0.6)
    model = Mallows("abcd", 0.6)
    for start in ("b", "da", "cba"):
        votes = Ballots.from_orders([list(start)], items="abcd")
        total = sum(p for order, p in expected.items() if order.startswith(start))
        assert np.exp(model.log_prob(votes)[0]) == pytest.approx(total)


def test_generalised_probabilities_sum_to_one():
    model = Mallows("abcd", np.array([0.3, 0.9, 0.5]))
    orders = ["".join(p) for p in permutations("abcd")]
    assert np.exp(model.log_prob(Ballots.from_orders(orders, items="abcd"))).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("phi", [0.5, 1.0, np.array([0.2, 0.7, 0.9])])
def test_samples_follow_the_probabilities(phi):
    model = Mallows("dbac", phi)
    votes = model.ballots(200_000, np.random.default_rng(0))
    orders = ["".join(p) for p in permutations("abcd")]
    full = Ballots.from_orders(orders, items="abcd")
    p = np.exp(model.log_prob(full))
    seen = {tuple(row): w for row, w in zip(votes.tiers.tolist(), votes.weights, strict=True)}
    counts = np.array([seen.get(tuple(row), 0.0) for row in full.tiers.tolist()])
    assert counts.sum() == 200_000
    chi = ((counts - 200_000 * p) ** 2 / (200_000 * p)).sum()
    assert chi < 55  # 23 degrees of freedom: the 0.9998 quantile is 54


@pytest.mark.parametrize("phi", [0.4, 1.0])
def test_position_probabilities_against_enumeration(phi):
    expected = np.zeros((5, 5))
    for order, p in enumerated("abcde", phi).items():
        for place, name in enumerate(order):
            expected["abcde".index(name), place] += p
    np.testing.assert_allclose(Mallows("abcde", phi).position_probabilities(), expected, atol=1e-12)


def test_fit_is_the_maximum_over_all_centres_and_spreads():
    votes = Mallows("bdac", 0.5).ballots(60, np.random.default_rng(1))
    fitted = fit_mallows(votes)
    best = fitted.log_likelihood(votes)
    for centre in permutations("abcd"):
        for phi in np.linspace(0.05, 1.0, 39):
            assert Mallows(centre, phi).log_likelihood(votes) <= best + 1e-9


@pytest.mark.parametrize("top", [None, 3])
def test_fit_recovers_the_truth(top):
    votes = Mallows("gfedcba", 0.7).ballots(4000, np.random.default_rng(2))
    if top is not None:
        votes = Ballots(votes.items, np.where(votes.tiers < top, votes.tiers, -1), votes.weights)
    fitted = fit_mallows(votes)
    assert "".join(fitted.centre) == "gfedcba"
    assert fitted.phi == pytest.approx(0.7, abs=0.01)
    stages = fit_mallows(
        Mallows("abcd", np.array([0.2, 0.5, 0.8])).ballots(8000, np.random.default_rng(3)), generalised=True
    )
    assert "".join(stages.centre) == "abcd"
    np.testing.assert_allclose(stages.phi, [0.2, 0.5, 0.8], atol=0.03)


def test_fit_at_the_ends():
    assert fit_mallows(Ballots.from_orders(["abc"])).phi == pytest.approx(1e-6)
    assert fit_mallows(Ballots.from_orders(["".join(p) for p in permutations("abc")])).phi == 1.0


def test_mixture_likelihood_and_recovery():
    truth = MallowsMixture(np.array([0.65, 0.35]), (Mallows("abcdef", 0.45), Mallows("fedcba", 0.6)))
    rng = np.random.default_rng(4)
    votes = truth.ballots(3000, rng)
    expected = np.log(
        0.65 * np.exp(truth.components[0].log_prob(votes)) + 0.35 * np.exp(truth.components[1].log_prob(votes))
    )
    np.testing.assert_allclose(truth.log_prob(votes), expected)
    fitted = fit_mixture(votes, 2, rng, starts=3)
    assert ["".join(c.centre) for c in fitted.components] == ["abcdef", "fedcba"]
    assert fitted.weights[0] == pytest.approx(0.65, abs=0.03)
    assert fitted.log_likelihood(votes) >= truth.log_likelihood(votes)
    np.testing.assert_allclose(fitted.responsibilities(votes).sum(axis=1), 1.0)


def test_em_never_lowers_the_likelihood():
    from luce.aggregate.mallows import _start, _step

    rng = np.random.default_rng(5)
    votes = MallowsMixture(np.array([0.5, 0.5]), (Mallows("abcde", 0.6), Mallows("cbaed", 0.6))).ballots(300, rng)
    mixture = _start(votes, 3, rng)
    values = [mixture.log_likelihood(votes)]
    for _ in range(8):
        mixture = _step(votes, mixture, False, {})
        values.append(mixture.log_likelihood(votes))
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()


EXPERIMENTS = {
    "DEABC": {"antiplurality": 0.787, "squared": 0.795, "borda": 0.799, "log": 0.805, "plurality": 0.822},
    "ABCDE": {"plurality": 0.747, "log": 0.786, "borda": 0.801, "squared": 0.813, "antiplurality": 0.852},
}


@pytest.mark.parametrize("first", list(EXPERIMENTS))
def test_exact_weights_of_the_experiment_of_section_4_6(first):
    for rule, expected in EXPERIMENTS[first].items():
        h = position_values(rule, 5)

        def lead(centre, h=h):
            probability = Mallows(centre, 0.8).position_probabilities() @ h
            return probability[centre.index("A")] - probability[centre.index("B")]

        one, two = lead(first), lead("BCDEA")
        assert two / (two - one) == pytest.approx(expected, abs=0.0005)


def test_bad_models():
    with pytest.raises(SettingError, match="above 0 and at most 1"):
        Mallows("abc", 0.0)
    with pytest.raises(SettingError, match="2 for as many stages"):
        Mallows("abc", np.array([0.5, 0.5, 0.5]))
    with pytest.raises(DataError, match="every item once"):
        Mallows("aba", 0.5)
    with pytest.raises(DataError, match="same items"):
        Mallows("abc", 0.5).log_prob(Ballots.from_orders(["abd"]))
    with pytest.raises(DataError, match="without ties"):
        Mallows("abc", np.array([0.5, 0.4])).log_prob(Ballots.from_orders([["a", ["b", "c"]]]))
    with pytest.raises(SettingError, match="sum to 1"):
        MallowsMixture(np.array([0.5, 0.6]), (Mallows("ab", 0.5), Mallows("ba", 0.5)))
    with pytest.raises(SettingError, match="n_components"):
        fit_mixture(Ballots.from_orders(["ab"]), 2, np.random.default_rng(0))
    with pytest.raises(SettingError, match="at least 1"):
        Mallows("abc", 0.5).sample(0, np.random.default_rng(0))


def extensions(tiers):
    """All rankings (item numbers, best first) that agree with a ballot's tiers, what is open last."""
    level = [tier if tier >= 0 else len(tiers) for tier in tiers]
    return [order for order in permutations(range(len(tiers))) if all(level[a] <= level[b] for a, b in pairwise(order))]


TIED = [["a", ["b", "c"]], [["b", "d"], "a", "c"], [["a", "b", "c", "d"]], ["d"], [["c", "d"]]]


@pytest.mark.parametrize("phi", [0.3, 0.8, 1.0])
def test_a_ballot_with_ties_is_the_sum_over_its_rankings(phi):
    model = Mallows("abcd", phi)
    ballots = Ballots.from_orders(TIED, items="abcd")
    found = np.exp(model.log_prob(ballots))
    for row, tiers in enumerate(ballots.tiers):
        orders = extensions(tiers.tolist())
        expected = sum(
            np.exp(model.log_prob(Ballots.from_orders([["abcd"[i] for i in order]], items="abcd"))[0])
            for order in orders
        )
        assert found[row] == pytest.approx(expected, rel=1e-12)


def test_all_weak_orders_of_one_shape_have_probability_one():
    """Every ranking agrees with exactly one ballot whose tiers have two items each."""
    pairs = [[list(first), [x for x in "abcd" if x not in first]] for first in combinations("abcd", 2)]
    found = Mallows("abcd", 0.4).log_prob(Ballots.from_orders(pairs, items="abcd"))
    assert np.exp(found).sum() == pytest.approx(1.0, rel=1e-12)


def test_top_lists_are_tiers_of_what_is_open():
    """A ballot without ties has the same probability by either way."""
    model, plain = Mallows("abcd", 0.6), Ballots.from_orders([["c", "a"], ["d", "b", "a", "c"]], items="abcd")
    both = Ballots.from_orders([["c", "a"], ["d", "b", "a", "c"], [["a", "b"], "c"]], items="abcd")
    np.testing.assert_allclose(model.log_prob(both)[:2], model.log_prob(plain), rtol=1e-12)


def test_ties_are_fitted_by_maximum_likelihood():
    """The centre and the spread that drew rankings are found from their tiers; no phi of a grid is likelier."""
    rng = np.random.default_rng(2)
    drawn = Mallows("abcde", 0.5).ballots(4000, rng, items="abcde")
    tied = Ballots(drawn.items, np.array([0, 0, 1, 1, 2])[drawn.tiers].astype(np.int32), drawn.weights)
    found = fit_mallows(tied)
    assert found.centre == tuple("abcde")
    assert found.phi == pytest.approx(0.5, abs=0.03)
    best = found.log_likelihood(tied)
    assert all(Mallows(found.centre, phi).log_likelihood(tied) <= best + 1e-9 for phi in np.linspace(0.05, 1.0, 40))
    with pytest.raises(DataError, match="without ties"):
        fit_mallows(tied, generalised=True)
