"""Margins of a rule by programs over all rankings: the slow, obvious forms of `luce.aggregate.axioms`."""

from __future__ import annotations

import numpy as np

from luce.aggregate.axiom_programs import _losses, _rankings, _representatives
from luce.aggregate.axioms import least as _solve

_CLEAR = 1e-7  # a lead of an answer that is no rounding


def _largest_share(losses, fixed, against, share):
    """The largest P(share) at which `fixed` is still at least as good as everything in `against`."""
    rows = losses[fixed][None, :] - losses[against]
    count = rows.shape[1]
    return -_solve(-share, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=np.ones((1, count)), b_eq=[1.0], bounds=(0, None))


def condorcet_threshold(rule, n):
    """The least eps of strong Condorcet: the largest share for x over y at which y may still be above x, minus 1/2."""
    losses = _losses(rule, n)
    before = _rankings(n)[:, 0] < _rankings(n)[:, 1]
    share = before.astype(np.float64)
    return max(_largest_share(losses, tau, before, share) for tau in _representatives(~before, n, 2)) - 0.5


def majority_threshold(rule, n):
    """The least eps of the majority rule: the largest share of firsts with which x may still not win, minus 1/2."""
    losses = _losses(rule, n)
    first = _rankings(n)[:, 0] == 0
    share = first.astype(np.float64)
    return max(_largest_share(losses, tau, first, share) for tau in _representatives(~first, n, 1)) - 0.5


def plain_threshold(rule, n):
    """The least eps of the plain Condorcet rule: x is before every other by such a share and may still not win."""
    losses, place = _losses(rule, n), _rankings(n)
    count = len(place)
    above = [np.append(-(place[:, 0] < place[:, y]).astype(np.float64), 1.0) for y in range(1, n)]
    best = 0.0
    for tau in _representatives(place[:, 0] != 0, n, 1):
        optimal = np.column_stack([losses[tau][None, :] - losses, np.zeros(count)])
        found = _solve(
            np.append(np.zeros(count), -1.0),
            A_ub=np.vstack([above, optimal]),
            b_ub=np.zeros(n - 1 + count),
            A_eq=np.append(np.ones(count), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * count + [(None, None)],
        )
        best = max(best, -found)
    return best - 0.5


def is_monotonic(rule, n):
    """Whether raising x in a vote never gives it a worse place in the answer (axiom D7 of the dissertation).

    All pairs of an answer before and one after in which x stands lower, and all votes in which x changes places with
    the item before it, of which every raise is made. A program finds the profile at which each is the only answer by
    the clearest lead. A profile of n items with one more at the end of every vote shows as much for n + 1.
    """
    losses, place = _losses(rule, n), _rankings(n)
    count = len(place)
    index = {tuple(row): number for number, row in enumerate(place.tolist())}
    for vote in np.flatnonzero(place[:, 0] > 0):
        raised = place[vote].copy()
        raised[raised == raised[0] - 1] += 1
        raised[0] -= 1
        moved = np.zeros(count)
        moved[index[tuple(raised.tolist())]], moved[vote] = 1.0, -1.0
        for old in _representatives(np.ones(count, dtype=bool), n, 1):  # the others have no names
            for new in np.flatnonzero(place[:, 0] > place[old, 0]):
                if float((losses[new] - losses[old]) @ moved) >= -_CLEAR:
                    continue  # the raise does not speak for the new answer
                if _lead(losses, [(old, np.zeros(count)), (int(new), moved)], int(vote)) > _CLEAR:
                    return False
    return True


def _lead(losses, answers, vote):
    """The clearest common lead of the answers, each at P plus a share of its own change; the share is P(vote)'s."""
    count = losses.shape[1]
    rows = []
    for answer, change in answers:
        worse = np.delete(losses[answer][None, :] - losses, answer, axis=0)
        rows.append(np.column_stack([worse, worse @ change, np.ones(len(worse))]))
    least = np.zeros(count + 2)
    least[vote], least[count] = -1.0, 1.0
    return -_solve(
        np.append(np.zeros(count + 1), -1.0),
        A_ub=np.vstack([*rows, least]),
        b_ub=np.zeros(sum(map(len, rows)) + 1),
        A_eq=np.append(np.ones(count), [0.0, 0.0])[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * (count + 1) + [(None, None)],
    )


def is_consistent(rule, n):
    """Whether an item that wins in two groups of voters wins in both together (axiom D8 of the dissertation)."""
    losses, place = _losses(rule, n), _rankings(n)
    count = len(place)
    first = np.flatnonzero(place[:, 0] == 0)
    for second in first:
        for joint in np.flatnonzero(place[:, 0] != 0):
            rows = []
            for answer, parts in ((first[0], (1, 0)), (second, (0, 1)), (joint, (0.5, 0.5))):
                worse = np.delete(losses[answer][None, :] - losses, answer, axis=0)
                rows.append(np.column_stack([parts[0] * worse, parts[1] * worse, np.ones(len(worse))]))
            sums = np.zeros((2, 2 * count + 1))
            sums[0, :count], sums[1, count:-1] = 1.0, 1.0
            lead = -_solve(
                np.append(np.zeros(2 * count), -1.0),
                A_ub=np.vstack(rows),
                b_ub=np.zeros(sum(map(len, rows))),
                A_eq=sums,
                b_eq=[1.0, 1.0],
                bounds=[(0, None)] * (2 * count) + [(None, None)],
            )
            if lead > _CLEAR:
                return False
    return True
