"""Rank aggregation beside corankco (exact Kemeny) and prefsampling (Mallows votes)."""

from __future__ import annotations

import time
from importlib.util import find_spec

import numpy as np
from harness import Line, best_of

from luce.aggregate import Ballots, Mallows, consensus, kendall_matrix


def run() -> list[Line]:
    return [*_kemeny_against_corankco(), *_kemeny_fifty(), _kendall(), _mallows()]


def _votes(n: int, phi: float, m: int = 101, seed: int = 0) -> Ballots:
    return Mallows(tuple(str(i) for i in range(n)), phi).ballots(m, np.random.default_rng(seed))


def _kemeny_against_corankco() -> list[Line]:
    lines = []
    for phi, name in ((0.9, "Mallows phi = .9"), (1.0, "impartial culture")):
        votes = _votes(20, phi)
        consensus(votes, "kemeny")
        ours = best_of(lambda votes=votes: consensus(votes, "kemeny"))
        theirs = _corankco(votes, consensus(votes, "kemeny").objective)
        lines.append(
            Line(
                f"Kemeny exact, 20 items, 101 ballots, {name}",
                ours,
                peer="corankco" if theirs else "corankco is not installed",
                theirs=theirs,
                goal="at least 10 times faster",
                met=None if theirs is None else theirs / ours >= 10,
            )
        )
    return lines


def _corankco(votes: Ballots, objective: float | None) -> float | None:
    if find_spec("corankco") is None:
        return None
    from corankco import Dataset, ScoringScheme
    from corankco.algorithms.exact.exactalgorithmpulp import ExactAlgorithmPulp

    copies = votes.weights.astype(int)
    rankings = [
        [set(tier) for tier in order] for order, k in zip(votes.orders(), copies, strict=True) for _ in range(k)
    ]
    dataset = Dataset.from_raw_list(rankings)
    # A tie that a ballot does not have costs as much as a reversal, so a strict order is optimal: Kemeny's problem.
    scheme = ScoringScheme([[0.0, 1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    solver = ExactAlgorithmPulp()
    best = np.inf
    for _ in range(2):
        start = time.perf_counter()
        answer = solver.compute_consensus_rankings(dataset, scheme, True)
        best = min(best, time.perf_counter() - start)
    if objective is not None and abs(answer.kemeny_score - objective) > 1e-6:
        raise AssertionError(f"corankco found {answer.kemeny_score}, luce {objective}")
    return best


def _kemeny_fifty() -> list[Line]:
    lines = []
    for phi, goal in ((0.9, "proven optimal"), (1.0, "")):
        votes = _votes(50, phi)
        start = time.perf_counter()
        answer = consensus(votes, "kemeny")
        spent = time.perf_counter() - start
        what = "Mallows phi = .9" if phi < 1 else "impartial culture"
        proof = "proven" if answer.optimal else f"bound {answer.bound:g} of {answer.objective:g}"
        met = answer.optimal if goal else None
        lines.append(Line(f"Kemeny, 50 items, 101 ballots, {what} ({proof})", spent, goal=goal, met=met))
    return lines


def _kendall() -> Line:
    rng = np.random.default_rng(1)
    votes = Ballots.from_ranks(np.argsort(rng.random((5000, 10)), axis=1))
    spent = best_of(lambda: kendall_matrix(votes))
    return Line(f"Kendall matrix, {votes.n_ballots} x 10", spent, goal="under 2 s", met=spent < 2)


def _mallows() -> Line:
    model, rng, size = Mallows(tuple("abcdefghij"), 0.8), np.random.default_rng(2), 20_000
    ours = best_of(lambda: model.sample(size, rng))
    theirs = None
    if find_spec("prefsampling") is not None:
        from prefsampling.ordinal import mallows

        theirs = best_of(lambda: mallows(size, 10, 0.8, seed=0), repeats=2)
    return Line(
        "Mallows votes, 20,000 x 10",
        ours,
        peer="prefsampling" if theirs else "prefsampling is not installed",
        theirs=theirs,
        goal="at least 20 times faster",
        met=None if theirs is None else theirs / ours >= 20,
    )
