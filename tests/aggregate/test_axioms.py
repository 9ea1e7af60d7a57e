from __future__ import annotations

from dataclasses import replace
from math import factorial, log

import numpy as np
import pytest
from scipy.optimize import linprog

from luce.aggregate import Ballots, axiom_margins, check_profile, consensus, majority_bound, margin_bounds, rearranged
from luce.aggregate.axiom_programs import _losses, _rankings
from luce.errors import DataError, SettingError, UnknownNameError

from .axiom_references import (
    condorcet_threshold,
    is_consistent,
    is_monotonic,
    majority_threshold,
    plain_threshold,
)
from .references import random_ballots


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_tables_4_1_and_4_2_corrected(n):
    borda, plurality = axiom_margins("borda", n), axiom_margins("plurality", n)
    assert (borda.Omega, borda.omega, borda.omega1) == (n - 1, 1, 1)
    assert borda.iia == borda.condorcet == pytest.approx(1 / 2 - 1 / n)
    assert borda.majority == pytest.approx(1 / 2 - 1 / n)
    assert plurality.majority == 0
    logs, squares = axiom_margins("log", n), axiom_margins("squared", n)
    assert logs.iia == pytest.approx(0.5 * log(n - 1) / log(n**2 / (n - 1)))
    assert logs.majority == pytest.approx(0.5 * log(n / 2) / log(2 * n))
    assert squares.iia == squares.majority == pytest.approx((n**2 - 4) / (2 * (n**2 + 2)))
    assert all(rule.pareto for rule in (borda, logs, squares))
    if n > 2:
        anti = axiom_margins("anti-plurality", n)
        assert plurality.iia == anti.iia == anti.majority == 0.5
        assert not plurality.pareto
        assert not anti.pareto
        assert plurality.monotonic
        assert anti.monotonic


def test_rules_without_a_guarantee():
    rising = axiom_margins([0, 1, 2], 3)
    assert rising.iia == rising.condorcet == rising.majority == np.inf
    assert not rising.pareto
    assert not rising.monotonic
    dip = axiom_margins([3, 0, 1], 3)
    assert not dip.monotonic
    assert dip.iia == pytest.approx(0.5 * (3 - -1) / (3 + -1))


@pytest.mark.parametrize("n", [3, 4])
def test_borda_has_the_least_threshold_of_all_decreasing_rules(n):
    rng = np.random.default_rng(n)
    best = axiom_margins("borda", n).iia
    for _ in range(50):
        h = np.sort(rng.random(n))[::-1]
        assert axiom_margins(h, n).iia >= best - 1e-12


@pytest.mark.parametrize("rule", ["borda", "plurality", "log", "squared", "1/i", "antiplurality"])
@pytest.mark.parametrize("n", [3, 4])
def test_closed_forms_agree_with_the_programs(rule, n):
    margins = axiom_margins(rule, n)
    assert condorcet_threshold(rule, n) == pytest.approx(min(margins.condorcet, 0.5), abs=1e-9)
    assert majority_threshold(rule, n) == pytest.approx(min(margins.majority, 0.5), abs=1e-9)


@pytest.mark.parametrize("rule", ["kemeny", "footrule", "mode", "borda"])
def test_bounds_hold_for_every_distribution_and_mirror(rule):
    n, gamma = 4, 0.7
    lower, upper = margin_bounds(rule, n, gamma)
    mirrored = margin_bounds(rule, n, 1 - gamma)
    assert (lower, upper) == pytest.approx((-mirrored[1], -mirrored[0]), abs=1e-8)
    losses, before = _losses(rule, n), _rankings(n)[:, 0] < _rankings(n)[:, 1]
    rng = np.random.default_rng(0)
    for _ in range(300):
        p = np.zeros(24)
        for side, share in ((before, gamma), (~before, 1 - gamma)):
            raw = rng.random(12) ** rng.integers(1, 12)
            p[side] = share * raw / raw.sum()
        g = losses @ p
        value = g[before].min() - g[~before].min()
        assert lower - 1e-9 <= value <= upper + 1e-9


@pytest.mark.parametrize("n", [3, 4, 5])
def test_no_rule_beats_the_cycle(n):
    # On the n-cycle each item is before the next in a share 1 - 1/n; Kemeny and Borda do no worse than that forces.
    assert axiom_margins("kemeny", n).condorcet == pytest.approx(1 / 2 - 1 / n)
    assert axiom_margins("kemeny", n).majority == pytest.approx(0.0, abs=1e-9)
    for rule in ("footrule", "mode"):
        assert axiom_margins(rule, n).condorcet >= 1 / 2 - 1 / n - 1e-9


def test_majority_bound_changes_sign_at_the_threshold():
    eps = axiom_margins("borda", 4).majority
    assert majority_bound("borda", 4, 0.5 + eps - 0.01) > 0 > majority_bound("borda", 4, 0.5 + eps + 0.01)


@pytest.mark.parametrize("rule", ["borda", "plurality", "log", "squared", "1/i", "antiplurality"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_plain_condorcet_of_positional_rules_against_all_rankings(rule, n):
    margins = axiom_margins(rule, n)
    assert margins.winner == pytest.approx(plain_threshold(rule, n), abs=1e-9)
    assert margins.winner <= margins.condorcet + 1e-9  # a weaker demand


def test_plain_condorcet_for_many_items():
    # With a share 1/n of the first places each and x second to all others, plurality does not see x.
    assert axiom_margins("plurality", 30).winner == pytest.approx(1 / 2 - 1 / 30)
    assert axiom_margins("borda", 30).winner == pytest.approx(1 / 2 - 1 / 30)


@pytest.mark.parametrize("rule", ["borda", "plurality", "log", "squared", "antiplurality"])
@pytest.mark.parametrize(("n", "k"), [(3, 1), (3, 2), (4, 1), (4, 2), (4, 3)])
def test_the_first_k_against_all_rankings(rule, n, k):
    """The largest share of votes with x among their first k while k others have at least its score."""
    place = _rankings(n)
    h = np.asarray(luce_scores(rule, n))
    inside = (place[:, 0] < k).astype(float)
    behind = np.stack([h[place[:, 0]] - h[place[:, y]] for y in range(1, k + 1)])
    worst = linprog(-inside, A_ub=behind, b_ub=np.zeros(k), A_eq=np.ones((1, len(place))), b_eq=[1.0])
    margins = axiom_margins(rule, n, k=k)
    assert margins.top == pytest.approx(-worst.fun - 0.5, abs=1e-8)
    if k == 1:
        assert margins.top == pytest.approx(margins.majority, abs=1e-12)


def luce_scores(rule, n):
    i = np.arange(1, n + 1)
    formulas = {"borda": n - i, "plurality": i == 1, "log": -np.log(i), "squared": -(i**2), "antiplurality": i < n}
    return formulas[rule].astype(float)


def test_kemeny_is_monotonic_where_footrule_and_mode_are_not():
    assert [is_monotonic(rule, 4) for rule in ("kemeny", "borda", "footrule", "mode")] == [True, True, False, False]
    assert axiom_margins("mode", 5).monotonic is False
    before = Ballots.from_orders(["abc", "acb", "bac"], weights=[40, 35, 25])
    after = Ballots.from_orders(["abc", "acb", "bac"], weights=[30, 35, 35.5])  # ten raise b: acb, then bac, lead
    assert consensus(before, "mode").order == ["a", "b", "c"]
    assert consensus(after, "mode").order == ["b", "a", "c"]
    fewer = Ballots.from_orders(["abc", "acb", "bac"], weights=[34, 35, 31])
    assert consensus(fewer, "mode").order == ["a", "c", "b"]  # six raise b, and it falls


def test_of_these_only_scores_are_consistent():
    assert [is_consistent(rule, 3) for rule in ("borda", "log", "kemeny", "footrule", "mode")] == [True, True] + [
        False
    ] * 3
    one = Ballots.from_orders(["abc", "bca"], weights=[4, 3])
    other = Ballots.from_orders(["acb", "bca"], weights=[4, 3])
    both = Ballots.from_orders(["abc", "acb", "bca"], weights=[4, 4, 6])
    assert [consensus(votes, "mode").winners for votes in (one, other, both)] == [["a"], ["a"], ["b"]]


@pytest.mark.parametrize("rule", ["schulze", "ranked_pairs", "copeland", "minimax", "kemeny", "instant_runoff"])
def test_closed_margins_hold_on_random_profiles(rule):
    rng = np.random.default_rng(3)
    for _ in range(150):
        n = int(rng.integers(3, 5))
        margins = axiom_margins(rule, n)
        orders = ["".join(rng.permutation(list("abcd"[:n]))) for _ in range(rng.integers(2, 6))]
        votes = Ballots.from_orders(orders, weights=rng.integers(1, 50, len(orders)))
        report = check_profile(votes, rule, trials=0)
        items = votes.items
        for i, x in enumerate(items):
            others = [report.support[i, j] for j in range(n) if j != i]
            if min(others) > 0.5 + margins.winner + 1e-12:
                assert report.consensus.winners == [x]
            for j, y in enumerate(items):
                if report.support[i, j] > 0.5 + margins.condorcet + 1e-12:
                    assert report.consensus.ranks[x] < report.consensus.ranks[y]


@pytest.mark.parametrize("rule", ["kemeny", "footrule", "mode"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_margins_of_distances_are_those_of_programs_over_all_rankings(rule, n):
    margins = axiom_margins(rule, n)
    assert margins.condorcet == margins.iia == pytest.approx(condorcet_threshold(rule, n), abs=1e-9)
    assert margins.winner == pytest.approx(max(plain_threshold(rule, n), 0.0), abs=1e-9)
    assert margins.majority == pytest.approx(max(majority_threshold(rule, n), 0.0), abs=1e-9)
    assert margins.pareto == (margins.condorcet < 0.5)
    if n in (2, 3):
        assert margins.monotonic == is_monotonic(rule, n)
        assert margins.consistent == is_consistent(rule, n)


@pytest.mark.parametrize("n", [6, 9])
def test_margins_of_the_footrule_and_the_mode_are_reached_among_more_items(n):
    """Item a is second to each other one in turn: before each in a share 1 - 1/n, and an optimum has another first."""
    items = [chr(97 + k) for k in range(n)]
    behind = [[y, "a", *(z for z in items[1:] if z != y)] for y in items[1:]]
    share = axiom_margins("footrule", n).winner + 0.5
    assert share == pytest.approx(1 - 1 / n)
    votes = Ballots.from_orders([["a", *items[1:]], *behind], weights=[1.0] * n)
    assert min(check_profile(votes, "borda", trials=0).support[0, 1:]) == pytest.approx(share)
    assert consensus(votes, "footrule").winners != ["a"]
    assert axiom_margins("mode", n).majority + 0.5 == pytest.approx(1 - 1 / (factorial(n - 1) + 1))


def test_kemenys_margin_is_reached_and_not_passed_among_seven():
    """On the circle each item is before the next in a share 1 - 1/n, and every optimum is a turn of it."""
    n, items = 7, "abcdefg"
    circle = Ballots.from_orders([items[i:] + items[:i] for i in range(n)])
    found = consensus(circle, "kemeny")
    share = check_profile(circle, "schulze", trials=0).support[0, 1]
    assert share - 0.5 == pytest.approx(axiom_margins("kemeny", n).condorcet)
    assert len(found.winners) == n
    # One more vote for a before b, and no optimum has b before a.
    clear = Ballots.from_orders([*(items[i:] + items[:i] for i in range(n)), items])
    assert ("a", "b") in consensus(clear, "kemeny").certain


def test_hodge_is_bordas_rule_on_full_rankings():
    rng = np.random.default_rng(0)
    for _ in range(20):
        orders = ["".join(rng.permutation(list("abcde"))) for _ in range(7)]
        votes = Ballots.from_orders(orders)
        assert consensus(votes, "hodge").tiers == consensus(votes, "borda").tiers
    assert axiom_margins("hodge", 6) == replace(axiom_margins("borda", 6), rule="hodge")


def test_minimax_ties_what_all_votes_tell_apart():
    votes = Ballots.from_orders(["zxy"])
    assert consensus(votes, "minimax").tiers == [["z"], ["x", "y"]]
    margins = axiom_margins("minimax", 3)
    assert (margins.pareto, margins.condorcet, margins.winner, margins.monotonic) == (False, 0.5, 0.0, True)


@pytest.mark.parametrize("n", [3, 4])
def test_closed_margins_are_reached(n):
    """Just below its margin, each rule can be led astray."""
    items = "abcd"[:n]
    circle = Ballots.from_orders([items[i:] + items[:i] for i in range(n)])
    for rule in ("schulze", "ranked_pairs"):
        assert axiom_margins(rule, n).condorcet == pytest.approx(check_profile(circle, rule).support[0, 1] - 0.5)
        assert len(consensus(circle, rule).winners) == n
    # a is second to each of the others and has a little less than its share of first places.
    behind = [y + "a" + "".join(z for z in items[1:] if z != y) for y in items[1:]]
    votes = Ballots.from_orders([items, *behind], weights=[9.99, *[10.0] * (n - 1)])
    report = check_profile(votes, "instant_runoff", trials=0)
    assert report.condorcet_winner == "a"
    assert report.consensus.winners != ["a"]
    least = min(report.support[0, 1:])
    assert 0.5 + axiom_margins("instant_runoff", n).winner == pytest.approx(least, abs=0.01)
    # A circle of bare majorities and nearly all votes is a tie for Copeland.
    near = Ballots.from_orders(["cab", "abc", "bca"], weights=[49, 48, 3])
    a, b = near.items.index("a"), near.items.index("b")
    assert check_profile(near, "copeland", trials=0).support[a, b] == pytest.approx(0.97)
    assert len(consensus(near, "copeland").tiers) == 1


def test_losses_are_the_distances():
    place = _rankings(3)
    assert _losses("kemeny", 3)[0].tolist() == [0, 1, 1, 2, 2, 3]
    assert _losses("footrule", 3)[0].tolist() == [np.abs(p - place[0]).sum() for p in place]


def test_bad_questions():
    with pytest.raises(SettingError, match="compare items, so n must be a whole number of at least 2"):
        axiom_margins("borda", 1)
    with pytest.raises(SettingError, match="not known"):
        axiom_margins("approval", 4)
    with pytest.raises(SettingError, match="from 1 to 3"):
        axiom_margins("borda", 4, k=4)
    with pytest.raises(SettingError, match="positional rules; 'kemeny' is none"):
        axiom_margins("kemeny", 4, k=2)
    with pytest.raises(UnknownNameError, match="Did you mean 'borda'"):
        axiom_margins("bord", 4)
    with pytest.raises(SettingError, match="up to n = 16"):
        axiom_margins("footrule", 17)
    with pytest.raises(SettingError, match="linear in the votes"):
        margin_bounds("copeland", 3, 0.5)
    with pytest.raises(SettingError, match="between 0 and 1"):
        margin_bounds("borda", 3, 1.5)


def test_profile_with_a_cycle():
    votes = Ballots.from_orders(["abcd", "bcad", "cabd"], weights=[4, 3, 2])
    report = check_profile(votes, "kemeny", trials=20)
    assert report.condorcet_winner is None
    assert report.majority_winner is None
    assert [sorted(cycle) for cycle in report.cycles] == [["a", "b", "c"]]
    cycle = report.cycles[0]
    for x, y in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        assert report.support[votes.items.index(x), votes.items.index(y)] > 0.5
    broken = {v.axiom: v for v in report.violations}
    assert broken["strong_condorcet"].by == pytest.approx(5 / 9 - 1 / 2)  # c before a, 5 of 9, is overruled
    assert "55.6% put c before a" in broken["strong_condorcet"].witness
    assert "independence" in broken
    assert "pareto" in report.kept


def test_borda_may_deny_a_majority_winner():
    report = check_profile(Ballots.from_orders(["abc", "bca"], weights=[3, 2]), "borda")
    broken = {v.axiom: v for v in report.violations}
    assert broken["majority"].by == pytest.approx(0.1)
    assert broken["condorcet"].by == pytest.approx(0.1)
    assert "b wins" in broken["condorcet"].witness
    # Striking out c reverses a and b.
    assert "once c is struck out" in broken["independence"].witness
    assert report.kept["consistency"] == "every positional rule has it"


def test_plurality_breaks_pareto_by_tying_unanimous_losers():
    report = check_profile(Ballots.from_orders(["abc"]), "plurality")
    assert {v.axiom: v.by for v in report.violations}["pareto"] == 0.5


def test_instant_runoff_is_not_monotonic():
    votes = Ballots.from_orders(["abc", "bca", "cab"], weights=[37, 34, 29])
    assert consensus(votes, "instant_runoff").winners == ["a"]  # c falls, and its votes go to a
    # 8 of 34 voters raise a: now b falls, and its votes go to c, 55 to 45.
    raised = Ballots.from_orders(["abc", "bca", "cab"], weights=[37 + 8, 34 - 8, 29])
    assert consensus(raised, "instant_runoff").winners == ["c"]
    report = check_profile(votes, "instant_runoff", trials=50)
    (witness,) = [v.witness for v in report.violations if v.axiom == "monotonicity"]
    assert witness == "if 8 ballots b > c > a raise a to their top, a falls from rank 1 to 2"


def test_condorcet_rules_break_consistency():
    found = 0
    for seed in range(40):
        votes = random_ballots(np.random.default_rng(seed), 4, 9)
        report = check_profile(votes, "copeland", trials=60, random_state=seed)
        found += any(v.axiom == "consistency" for v in report.violations)
        assert all(v.axiom != "monotonicity" for v in report.violations)
    assert found > 0


@pytest.mark.parametrize("rule", ["borda", "log", "squared"])
def test_rearranged_ballots_keep_the_pair_and_meet_the_lower_bound(rule):
    votes = Ballots.from_orders(["abcde", "bcdea"], weights=[13, 7])
    worst = rearranged(votes, rule, "a", "b")
    before = [row.index(["a"]) < row.index(["b"]) for row in worst.orders()]
    assert float(worst.weights[np.array(before)].sum()) == 13
    margins = axiom_margins(rule, 5)
    scores = consensus(worst, rule).scores
    gamma = 13 / 20
    assert scores["a"] - scores["b"] == pytest.approx(gamma * margins.omega - (1 - gamma) * margins.Omega)
    with pytest.raises(DataError, match="complete ballots"):
        rearranged(Ballots.from_orders([["a"], ["b"]]), rule, "a", "b")
