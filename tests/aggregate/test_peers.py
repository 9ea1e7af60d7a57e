"""Winners beside those of pref_voting, where it is installed; the other tests rest on enumeration alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from luce.aggregate import Ballots, consensus, read_ballots

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("pref_voting", exc_type=ImportError)
    from pref_voting.c1_methods import copeland
    from pref_voting.margin_based_methods import beat_path
    from pref_voting.other_methods import kemeny_young_rankings
    from pref_voting.profiles import Profile
    from pref_voting.scoring_methods import borda, plurality

METHODS = {"borda": borda, "plurality": plurality, "copeland": copeland, "schulze": beat_path}


def as_profile(votes: Ballots) -> Profile:
    orders = [np.argsort(row).tolist() for row in votes.tiers]
    return Profile(orders, rcounts=[int(w) for w in votes.weights])


def numbers(votes: Ballots, names) -> set[int]:
    return {votes.items.index(name) for name in names}


def assert_same_winners(votes: Ballots) -> None:
    profile = as_profile(votes)
    for rule, method in METHODS.items():
        assert numbers(votes, consensus(votes, rule).winners) == {int(x) for x in method(profile)}, rule


@pytest.mark.parametrize("block", range(10))
def test_winners_on_random_profiles(block):
    for seed in range(20 * block, 20 * block + 20):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(2, 6)), int(rng.integers(1, 14))
        votes = Ballots.from_ranks(np.argsort(rng.random((m, n)), axis=1))
        assert_same_winners(votes)
        rankings, distance = kemeny_young_rankings(as_profile(votes))
        answer = consensus(votes, "kemeny")
        assert answer.objective == distance
        # An item is in the first tier where the optimal rankings agree on no smaller set of firsts.
        orders = [list(map(int, ranking)) for ranking in rankings]
        agreed = next(k for k in range(1, n + 1) if len({frozenset(order[:k]) for order in orders}) == 1)
        assert numbers(votes, answer.winners) == set(orders[0][:agreed])


@pytest.mark.real
def test_winners_on_preflib_files(real_data):
    paths = sorted(real_data("preflib").glob("*/*.soc.gz"))
    chosen = [paths[i] for i in np.linspace(0, len(paths) - 1, 25).astype(int)]
    for path in chosen:
        assert_same_winners(read_ballots(path))
