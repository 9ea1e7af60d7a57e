from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from luce.aggregate import Ballots, check_profile, consensus, kemeny_program, rule_names
from luce.aggregate.kemeny import kemeny_order
from luce.aggregate.kemeny_program import insertion_search, order_cost, solve_program
from luce.aggregate.positional import before_weights
from luce.errors import DataError, SettingError, UnknownNameError

from .references import best_orders, footrule_cost, kendall, mean_places, random_ballots


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["strict", "ties", "truncated"])
def test_kemeny_is_the_best_of_all_orders_and_shows_every_tie(seed, kind):
    rng = np.random.default_rng(seed)
    votes = random_ballots(rng, 5, int(rng.integers(1, 9)), ties=kind != "strict", truncate=kind == "truncated")
    least, orders = best_orders(votes, kendall)
    answer = consensus(votes, "kemeny")
    assert answer.objective == pytest.approx(least)
    assert answer.optimal
    check_optima(answer, orders, votes.items)


def check_optima(answer, orders, items):
    """Winners, what is certain, one optimum, the number of optima and the tiers, from all optimal orders."""
    places = [{x: k for k, x in enumerate(order)} for order in orders]
    n = range(len(items))
    certain = {(items[x], items[y]) for x in n for y in n if all(p[x] < p[y] for p in places)}
    assert set(answer.certain) == certain
    assert set(answer.winners) == {items[order[0]] for order in orders}
    assert tuple(items.index(name) for name in answer.optimum) in orders
    assert answer.optima.count == len(orders)
    assert answer.optima.counted
    assert all(answer.ranks[x] < answer.ranks[y] for x, y in certain)
    # A tier holds no pair that is certain, and everything below has something of the tier certainly above it.
    for above, below in zip([[], *answer.tiers], answer.tiers, strict=False):
        assert not {(x, y) for x in below for y in below} & certain
        assert all(any((x, y) in certain for x in above) for y in below) or not above


def test_two_ballots_with_three_optima():
    """Abc and cab: abc, acb and cab are optimal; a before b is certain, and that is no violation of Pareto."""
    votes = Ballots.from_orders(["abc", "cab"])
    for rule, count in (("kemeny", 3), ("footrule", 3), ("mode", 2)):
        answer = consensus(votes, rule)
        assert answer.certain == [("a", "b")]
        assert answer.winners == ["a", "c"]
        assert answer.optima.count == count
        assert answer.tiers == [["a", "c"], ["b"]]
        assert answer.notes[0].startswith(f"{count} ")
        assert answer.spans == {"a": (1, 2), "b": (2, 3), "c": (1, 3)}
        report = check_profile(votes, rule)
        assert not report.violations


def test_axioms_that_need_a_search_are_judged_over_all_optima():
    """Tiers of open pairs may change where no optimum is left behind: that is no reversal and no fall."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        votes = random_ballots(rng, 4, int(rng.integers(1, 4)))
        report = check_profile(votes, "kemeny", trials=30)
        for violation in report.violations:
            if violation.axiom == "independence":
                x, y, gone = (violation.witness.split()[k] for k in (0, 3, 10))
                assert (x, y.strip(",")) in report.consensus.certain
                assert (y.strip(","), x) in consensus(votes.without(gone), "kemeny").certain
        assert "monotonicity" in report.kept  # Kemeny's rule has it up to five items


@pytest.mark.parametrize("rule", ["kemeny", "footrule", "mode"])
def test_300_random_profiles_against_all_rankings(rule):
    """Answers and axioms are those of brute force: an axiom is broken where some optimal ranking breaks it."""
    rng = np.random.default_rng(0)
    several = 0
    for _ in range(300):
        votes = random_ballots(rng, int(rng.integers(3, 5)), int(rng.integers(1, 5)))
        places = np.array(list(permutations(range(votes.n_items))))  # of the items, a ranking a line
        optima = places[best_places(votes, rule, places)]
        report = check_profile(votes, rule, trials=0)
        if report.consensus.optima is not None:
            check_optima(report.consensus, [tuple(np.argsort(row)) for row in optima], votes.items)
        several += len(optima) > 1
        above = (optima[:, :, None] < optima[:, None, :]).all(axis=0)
        share = report.support
        broken = {v.axiom: v.count for v in report.violations if v.axiom in ("pareto", "strong_condorcet")}
        counted = {"pareto": share > 1 - 1e-9, "strong_condorcet": share > 0.5 + 1e-9}
        assert broken == {axiom: n for axiom, pairs in counted.items() if (n := int((pairs & ~above).sum()))}
        winner = report.condorcet_winner
        if winner is not None:
            always = bool((optima[:, votes.items.index(winner)] == 0).all())
            assert ("condorcet" in report.kept) == always
    assert several > 30


def best_places(votes, rule, places):
    """Which of all rankings cost least, by the definition of the rule."""
    costs = {
        "kemeny": lambda a, b: kendall(a, b),
        "footrule": lambda a, b: np.abs(a - b).sum(),
        "mode": lambda a, b: float((a != b).any()),
    }
    value = [
        sum(w * costs[rule](row, vote) for vote, w in zip(votes.tiers, votes.weights, strict=True)) for row in places
    ]
    return np.array(value) <= min(value) + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_footrule_is_the_best_of_all_orders_and_shows_every_tie(seed):
    rng = np.random.default_rng(seed)
    votes = random_ballots(rng, 5, int(rng.integers(1, 8)), ties=seed % 3 == 1, truncate=seed % 3 == 2)
    least, orders = best_orders(votes, footrule_cost)
    answer = consensus(votes, "footrule")
    assert answer.objective == pytest.approx(least)
    check_optima(answer, orders, votes.items)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("m", [10, 11])
def test_the_integer_program_agrees_with_dynamic_programming(seed, m):
    rng = np.random.default_rng(seed)
    weights = before_weights(random_ballots(rng, 9, m))
    cost = np.ascontiguousarray(weights.T)
    exact = kemeny_order(weights)
    program = solve_program(cost, np.arange(9), time_limit=60.0, step=0.0)
    assert program.value == program.bound == exact.value
    assert order_cost(cost, program.order) == exact.value
    assert program.cuts_known
    # Tiers of the two: the same sets of items, whatever optimal order each found.
    assert _sets(program.order, program.cuts) == _sets(exact.order, exact.cuts)


def test_the_integer_program_branches_where_the_relaxed_one_is_not_whole(monkeypatch):
    rng = np.random.default_rng(174)
    ranks = np.argsort(rng.random((int(rng.integers(4, 9)), 12)), axis=1)
    weights = before_weights(Ballots.from_ranks(ranks))
    branched = []
    branch = kemeny_program._Program.branch
    monkeypatch.setattr(kemeny_program._Program, "branch", lambda *a: (branched.append(True), branch(*a)))
    program = solve_program(np.ascontiguousarray(weights.T), np.arange(12), time_limit=60.0, step=0.0)
    exact = kemeny_order(weights)
    assert branched
    assert program.value == program.bound == exact.value
    assert _sets(program.order, program.cuts) == _sets(exact.order, exact.cuts)


def _sets(order, cuts):
    return [frozenset(part.tolist()) for part in np.split(order, np.flatnonzero(cuts) + 1)]


def test_kemeny_of_twenty_and_of_fifty_items_is_proven():
    rng = np.random.default_rng(5)
    for n in (20, 50):
        votes = Ballots.from_ranks(np.argsort(rng.normal(size=(31, n)) + np.arange(n) * 0.15, axis=1).argsort(axis=1))
        answer = consensus(votes, "kemeny")
        assert answer.optimal
        assert answer.bound == answer.objective
        order = [votes.items.index(name) for name in answer.order]
        assert order_cost(before_weights(votes).T.copy(), np.array(order)) == answer.objective


def test_large_weak_components_are_split_and_their_ties_kept():
    # Two blocks of ten in conflict inside, tied with each other: 20 items joined by ties, more than the subset program.
    rng = np.random.default_rng(2)
    blocks = [[f"{side}{i}" for i in rng.permutation(10)] for side in "ab" for _ in range(3)]
    votes = Ballots.from_orders([[*a, *b] for a, b in zip(blocks[:3], blocks[3:], strict=True)])
    mirrored = [[*b, *a] for a, b in zip(blocks[:3], blocks[3:], strict=True)]
    both = Ballots.from_orders(
        [*(o for o in ([*a, *b] for a, b in zip(blocks[:3], blocks[3:], strict=True))), *mirrored]
    )
    answer = consensus(both, "kemeny")
    assert answer.optimal
    # Any item of one block may come before any of the other.
    assert all(x[0] == y[0] for x, y in answer.certain)
    assert {name[0] for name in answer.winners} == {"a", "b"}
    assert not answer.optima.counted
    one_sided = consensus(votes, "kemeny")
    assert {name[0] for name in one_sided.order[:10]} == {"a"}
    assert one_sided.objective == pytest.approx((answer.objective - 3 * 100) / 2)


def test_a_component_beyond_the_limit_is_searched_and_the_bound_is_said():
    rng = np.random.default_rng(3)
    votes = Ballots.from_ranks(np.argsort(rng.random((15, 24)), axis=1))
    exact = consensus(votes, "kemeny")
    searched = consensus(votes, "kemeny", exact_limit=17)
    assert not searched.optimal
    assert searched.bound <= exact.objective <= searched.objective
    assert "Not proven optimal (too many items" in searched.notes[0]
    hurried = consensus(votes, "kemeny", time_limit=1e-9)
    assert not hurried.optimal
    assert hurried.bound <= exact.objective <= hurried.objective
    assert "the time was over" in hurried.notes[0]


def test_insertion_search_ends_in_a_local_optimum():
    rng = np.random.default_rng(0)
    cost = rng.random((12, 12))
    value, order = insertion_search(cost, np.arange(12), rng.integers(0, 12, (5, 4)), 1e-12)
    assert value == pytest.approx(sum(cost[order[a], order[b]] for a in range(12) for b in range(a + 1, 12)))
    for start in range(12):
        rest = np.delete(order, start)
        for place in range(12):
            assert order_cost(cost, np.insert(rest, place, order[start])) >= value - 1e-9


@pytest.mark.parametrize("rule", ["borda", "plurality", "antiplurality", "log", "squared"])
@pytest.mark.parametrize("seed", range(4))
def test_positional_rules_average_over_the_ways_to_break_ties(rule, seed):
    rng = np.random.default_rng(seed)
    votes = random_ballots(rng, 5, 4, ties=True, truncate=True)
    h = {
        "borda": lambda i: 5 - i,
        "plurality": lambda i: float(i == 1),
        "antiplurality": lambda i: float(i != 5),
        "log": lambda i: -np.log(i),
        "squared": lambda i: -(i**2),
    }[rule]
    expected = np.zeros(5)
    for row, weight in zip(votes.filled("last"), votes.weights, strict=True):
        for x in range(5):
            tier = np.flatnonzero(row == row[x])
            start = (row < row[x]).sum()
            expected[x] += weight * np.mean([h(start + 1 + k) for k in range(len(tier))])
    answer = consensus(votes, rule)
    np.testing.assert_allclose(list(answer.scores.values()), expected / votes.total)
    # Eq. 4.5: of all orders, the one that is found has the least sum of position times score.
    least = min(np.dot(order, expected / votes.total) for order in permutations(range(1, 6)))
    assert answer.objective == pytest.approx(least)
    assert sorted(answer.order) == sorted(votes.items)


def test_rules_can_be_vectors_functions_and_expressions():
    votes = Ballots.from_orders(["abc", "bca", "bac"])
    by_name = consensus(votes, "borda").scores
    assert consensus(votes, [2, 1, 0]).scores == by_name
    assert consensus(votes, lambda i, n: n - i).scores == by_name
    assert consensus(votes, "n - i").scores == by_name
    assert consensus(votes, "Anti-Plurality").rule == "antiplurality"
    assert consensus(votes, "log(n) - sqrt(i)/2 + -i**2").tiers[0] == ["b"]


def test_the_treatment_of_open_items_is_explicit():
    votes = Ballots.from_orders([["a", "b"], ["c"]], items="abc")
    # last: ballot 1 puts c third; ballot 2 leaves a and b the second and third place, half each.
    assert consensus(votes, "borda", unranked="last").scores == {"a": 1.25, "b": 0.75, "c": 1.0}
    assert consensus(votes, "borda", unranked="ignore").scores == {"a": 2.0, "b": 1.0, "c": 2.0}
    with pytest.raises(DataError, match="does not rank 'c'"):
        consensus(votes, "borda", unranked="error")
    with pytest.raises(SettingError, match="last, ignore, error"):
        consensus(votes, "borda", unranked="first")
    with pytest.raises(DataError, match="No ballot ranks 'd'"):
        consensus(Ballots.from_orders([["a"]], items="ad"), "borda", unranked="ignore")
    assert consensus(votes, "kemeny", unranked="ignore").objective == 0.0
    with pytest.raises(DataError, match="leaves no mode"):
        consensus(votes, "mode", unranked="ignore")


def test_mode_and_its_ties():
    votes = Ballots.from_orders(["abc", "abc", "acb"])
    assert consensus(votes, "mode").tiers == [["a"], ["b"], ["c"]]
    assert consensus(votes, "mode").objective == 1.0
    assert consensus(Ballots.from_orders(["abc", "acb"]), "mode").tiers == [["a"], ["b", "c"]]
    assert consensus(Ballots.from_orders([["a", ["b", "c"]]]), "mode").tiers == [["a"], ["b", "c"]]
    # Leaving b and c open, and ranking them as equal last, is the same ballot once the open items are last.
    mixed = Ballots.from_orders([["a"], ["a", ["b", "c"]], ["b", "a", "c"]], weights=[1, 1, 1.5], items="abc")
    assert consensus(mixed, "mode").tiers == [["a"], ["b", "c"]]


def test_tennessee():
    votes = Ballots.from_orders(
        [["Memphis", "Nashville", "Chattanooga", "Knoxville"], ["Nashville", "Chattanooga", "Knoxville", "Memphis"],
         ["Chattanooga", "Knoxville", "Nashville", "Memphis"], ["Knoxville", "Chattanooga", "Nashville", "Memphis"]],
        weights=[42, 26, 15, 17],
    )  # fmt: skip
    condorcet = "Nashville > Chattanooga > Knoxville > Memphis"
    for rule in ("kemeny", "copeland", "schulze", "ranked_pairs"):
        assert str(consensus(votes, rule)) == condorcet
    assert str(consensus(votes, "borda")) == "Nashville > Chattanooga > Memphis > Knoxville"  # 1.94, 1.73, 1.26, 1.07
    assert consensus(votes, "plurality").winners == ["Memphis"]
    # Chattanooga falls (15) to Knoxville's gain (32), then Nashville falls (26), and Knoxville beats Memphis 58 to 42.
    assert str(consensus(votes, "instant_runoff")) == "Knoxville > Memphis > Nashville > Chattanooga"


def _schulze_by_paths(weights):
    """Strongest simple path, by depth-first search over all of them."""
    n = len(weights)
    margin = weights - weights.T

    def strongest(x, y, seen):
        best = max(margin[x, y], 0.0)
        for z in range(n):
            if z not in seen and z != y and margin[x, z] > 0:
                best = max(best, min(margin[x, z], strongest(z, y, seen | {z})))
        return best

    return np.array([[0.0 if x == y else strongest(x, y, {x}) for y in range(n)] for x in range(n)])


@pytest.mark.parametrize("seed", range(8))
def test_schulze_against_all_paths(seed):
    votes = random_ballots(np.random.default_rng(seed), 5, 7)
    path = _schulze_by_paths(before_weights(votes))
    ranks = consensus(votes, "schulze").ranks
    for x in range(5):
        for y in range(5):
            if path[x, y] > path[y, x]:
                assert ranks[votes.items[x]] < ranks[votes.items[y]]
    undefeated = [votes.items[x] for x in range(5) if not (path[:, x] > path[x, :]).any()]
    assert consensus(votes, "schulze").winners == undefeated


def test_ranked_pairs_drops_the_weakest_majority_of_a_cycle():
    cycle = Ballots.from_orders(["abc", "bca", "cab"], weights=[4, 3, 2])  # a>b 6:3, b>c 7:2, c>a 5:4
    assert str(consensus(cycle, "ranked_pairs")) == "a > b > c"
    even = Ballots.from_orders(["abc", "bca", "cab"])
    for rule in ("ranked_pairs", "schulze", "copeland", "kemeny", "borda", "instant_runoff"):
        assert consensus(even, rule).tiers == [["a", "b", "c"]]


@pytest.mark.parametrize("seed", range(4))
def test_copeland_counts_wins_and_half_of_the_ties(seed):
    votes = random_ballots(np.random.default_rng(seed), 5, 4, ties=True)
    weights = before_weights(votes)
    beats = [[np.sign(weights[x, y] - weights[y, x]) for y in range(5) if y != x] for x in range(5)]
    expected = [sum(1.0 if b > 0 else 0.5 if b == 0 else 0.0 for b in row) for row in beats]
    assert list(consensus(votes, "copeland").scores.values()) == expected


@pytest.mark.parametrize("rule", ["schulze", "ranked_pairs"])
def test_strength_of_a_majority_by_margin_or_by_winning_votes(rule):
    # a beats b 6:3, b beats c 5:0, c beats a 4:0. The weakest is a over b by margin, and c over a by winning votes.
    votes = Ballots.from_orders([["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]], [6, 3, 5, 4], "abc")
    assert str(consensus(votes, rule, unranked="ignore")) == "b > c > a"
    assert str(consensus(votes, rule, unranked="ignore", strength="margin")) == "b > c > a"
    assert str(consensus(votes, rule, unranked="ignore", strength="winning")) == "a > b > c"


def test_items_of_different_tiers_that_are_not_comparable_are_noted():
    votes = Ballots.from_orders(["xyz", "zxy"])  # x beats y; z is even with both
    for rule in ("schulze", "ranked_pairs"):
        answer = consensus(votes, rule)
        assert answer.tiers == [["x", "z"], ["y"]]
        assert "not comparable" in answer.notes[0]
        assert consensus(Ballots.from_orders(["xyz"]), rule).notes == ()


def _runoff(votes, unranked):
    """Instant runoff in words: count first places of those left, strike out all that have the fewest."""
    filled, left, struck = votes.filled(unranked), set(range(votes.n_items)), []
    while left:
        count = dict.fromkeys(left, 0.0)
        for row, weight in zip(filled, votes.weights, strict=True):
            standing = [x for x in left if row[x] >= 0]
            first = [x for x in standing if row[x] == min(row[y] for y in standing)]
            for x in first:
                count[x] += weight / len(first)
        fewest = {x for x in left if count[x] <= min(count.values()) + 1e-9}
        struck.append({votes.items[x] for x in fewest})
        left -= fewest
    return struck[::-1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("unranked", ["last", "ignore"])
def test_instant_runoff_by_counting(seed, unranked):
    votes = random_ballots(np.random.default_rng(seed), 5, 7, ties=True, truncate=True)
    assert _as_sets(consensus(votes, "instant_runoff", unranked=unranked)) == _runoff(votes, unranked)


def test_instant_runoff_with_spent_ballots():
    votes = Ballots.from_orders([["a"], ["b"], ["c", "b"]], weights=[4, 3, 2])
    assert consensus(votes, "instant_runoff", unranked="ignore").winners == ["b"]
    spent = Ballots.from_orders([["a"], ["b"], ["c"]], weights=[4, 3, 2])
    assert str(consensus(spent, "instant_runoff", unranked="ignore")) == "a > b > c"


@pytest.mark.parametrize("rule", sorted(rule_names()))
def test_every_rule_is_anonymous_neutral_and_unanimous(rule):
    rng = np.random.default_rng(11)
    votes = random_ballots(rng, 5, 6)
    answer = consensus(votes, rule)
    # Voters' order and the split of counts do not matter.
    doubled = Ballots.from_orders(
        [*votes.orders(), *votes.orders()[::-1]], [*votes.weights, *votes.weights[::-1]], "abcde"
    )
    assert _as_sets(consensus(doubled, rule)) == _as_sets(answer)
    # Renaming the items renames the answer.
    swap = dict(zip("abcde", "cdeab", strict=True))
    renamed = Ballots.from_orders(
        [[[swap[x] for x in tier] for tier in o] for o in votes.orders()], votes.weights, "edcba"
    )
    assert [{swap[x] for x in tier} for tier in answer.tiers] == _as_sets(consensus(renamed, rule))
    unanimous = consensus(Ballots.from_orders(["dbace"]), rule)
    # These look at first places, approvals or worst defeats, which agree on who is first alone.
    if rule not in ("plurality", "antiplurality", "instant_runoff", "approval", "minimax", "stv"):
        assert str(unanimous) == "d > b > a > c > e"
    assert answer.optimal
    assert set(answer.scores) == set("abcde")


def _as_sets(answer):
    return [set(tier) for tier in answer.tiers]


def test_bad_rules_say_what_is_allowed():
    votes = Ballots.from_orders(["ab"])
    with pytest.raises(UnknownNameError, match="Did you mean 'kemeny'"):
        consensus(votes, "kemmeny")
    with pytest.raises(SettingError, match="needs 2 values"):
        consensus(votes, [1.0, 2.0, 3.0])
    with pytest.raises(SettingError, match="not finite at position 1"):
        consensus(votes, "1/(i-1)")
    with pytest.raises(UnknownNameError, match="Unknown rule"):
        consensus(votes, "__import__('os').system('true')")
    with pytest.raises(SettingError, match=r"may use i \(the position"):
        consensus(votes, "i if i else n")
    with pytest.raises(SettingError, match="no option 'depth'"):
        consensus(votes, "borda", depth=3)
    for limit in (0, float("nan")):
        with pytest.raises(SettingError, match=f"time_limit is {limit}"):
            consensus(votes, "kemeny", time_limit=limit)
    with pytest.raises(SettingError, match="strength is 'size'; it must be one of margin, winning"):
        consensus(votes, "schulze", strength="size")


def test_mean_places_reference():
    votes = Ballots.from_orders([["a", ["b", "c"]], ["c"]], items="abc")
    np.testing.assert_allclose(votes.positions(), [mean_places(row) for row in votes.filled("last")])
