"""Rules that people ask for by name: minimax, approval, HodgeRank, and the single transferable vote."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.aggregate.ballots import Ballots
from luce.aggregate.pairwise import before_weights, margins, ordered_components
from luce.aggregate.result import Consensus, check_options, tiers_by_score
from luce.errors import SettingError
from luce.types import FloatArray


def _named(ballots: Ballots, scores: FloatArray) -> dict[str, float]:
    return dict(zip(ballots.items, scores.tolist(), strict=True))


def minimax(ballots: Ballots, unranked: str, **options: Any) -> Consensus:
    """Sort by the worst majority against an item, by margins (Simpson and Kramer): the smaller, the better."""
    check_options("minimax", options)
    margin = margins(before_weights(ballots, unranked))
    against = np.where(np.eye(len(margin), dtype=bool), -np.inf, -margin)
    scores = -against.max(axis=1, initial=-np.inf) if len(margin) > 1 else np.zeros(1)
    return Consensus("minimax", tiers_by_score(ballots.items, scores), _named(ballots, scores))


def approval(ballots: Ballots, unranked: str, **options: Any) -> Consensus:
    """Sort by the weight of ballots that list an item at all; a ballot that ranks everything approves of everything."""
    check_options("approval", options)
    ballots.filled(unranked)  # refuses open items where that was asked for
    scores = ballots.weights @ (ballots.tiers >= 0)
    notes: tuple[str, ...] = ()
    if np.ptp(scores) == 0 and ballots.n_items > 1:
        notes = ("Every ballot lists every item, so that approval tells nothing; leave out what is not approved.",)
    return Consensus("approval", tiers_by_score(ballots.items, scores), _named(ballots, scores), notes=notes)


def hodge(ballots: Ballots, unranked: str, **options: Any) -> Consensus:
    r"""Least squares on the margins of pairs (Jiang, Lim, Yao and Ye, 2011), each by the ballots that compare it.

    The strengths s minimise $\sum_{x<y} c_{xy} (s_x - s_y - m_{xy})^2$ with the mean margin $m_{xy}$ of the $c_{xy}$
    votes that rank both. What is left is a flow in circles; its share of the squares is said. Where every ballot ranks
    everything, the order is Borda's.
    """
    check_options("hodge", options)
    weights = before_weights(ballots, unranked)
    ranked = ballots.filled(unranked) >= 0
    compared = (ranked * ballots.weights[:, None]).T @ ranked
    np.fill_diagonal(compared, 0.0)
    flow = weights - weights.T
    laplacian = np.diag(compared.sum(axis=1)) - compared
    scores: FloatArray = np.linalg.lstsq(laplacian, flow.sum(axis=1), rcond=1e-12)[0]
    scores = np.round(scores - scores.mean(), 12)
    with np.errstate(invalid="ignore"):
        margin = np.where(compared > 0, flow / compared, 0.0)
    residual = np.where(compared > 0, margin - (scores[:, None] - scores[None, :]), 0.0)
    whole = float(np.sum(compared * margin**2))
    notes = []
    if whole > 0:
        cyclic = float(np.sum(compared * residual**2)) / whole
        notes.append(f"{100 * cyclic:.1f}% of the squared margins run in circles, which no ranking explains.")
    parts = len(ordered_components(compared > 0))
    if parts > 1:
        notes.append(f"No ballot compares items of {parts} groups with each other; their order means nothing.")
    return Consensus("hodge", tiers_by_score(ballots.items, scores), _named(ballots, scores), notes=tuple(notes))


def stv(ballots: Ballots, unranked: str, **options: Any) -> Consensus:
    r"""Single transferable vote, the weighted inclusive Gregory method with Droop's quota.

    Quota $\lfloor V / (s + 1) \rfloor + 1$ of V votes for s seats. Who reaches it is elected, the surplus passes on
    with every ballot of it at the same fraction; where nobody does, whoever has the fewest votes is struck out. Votes
    tied on a ballot are split evenly. Items with equally few votes are struck out together unless too few would be
    left, and are then tied. Elected items come first, in the order of their election; the others by how late they left.
    """
    check_options("stv", options, ("seats",))
    seats = options.get("seats", 1)
    if not (isinstance(seats, int | np.integer) and 1 <= seats < max(ballots.n_items, 2)):
        raise SettingError(f"seats is {seats!r}; it must be a whole number from 1 to one less than the items.")
    value = ballots.weights.astype(np.float64).copy()
    tiers = ballots.filled(unranked)
    quota = float(np.floor(value.sum() / (seats + 1)) + 1)
    left = np.ones(ballots.n_items, dtype=bool)
    elected: list[list[int]] = []
    struck: list[list[int]] = []
    while left.any():
        open_seats = seats - sum(map(len, elected))
        if open_seats <= 0:
            struck.append(np.flatnonzero(left).tolist())
            break
        share = _shares(tiers, left)
        votes = value @ share
        if left.sum() <= open_seats:
            elected.append(np.flatnonzero(left).tolist())
            break
        over = left & (votes >= quota - 1e-9)
        if over.any():
            winner = left & (votes >= votes[left].max() - 1e-9)
            elected.append(np.flatnonzero(winner).tolist())
            for i in np.flatnonzero(winner):
                keep = max(votes[i] - quota, 0.0) / votes[i]
                value = value * (1.0 - share[:, i] * (1.0 - keep))
            left &= ~winner
            continue
        out = left & (votes <= votes[left].min() + 1e-9)
        if left.sum() - out.sum() < open_seats:
            struck.append(np.flatnonzero(left).tolist())
            break
        struck.append(np.flatnonzero(out).tolist())
        left &= ~out
    groups = [*elected, *struck[::-1]]
    names = [[ballots.items[i] for i in group] for group in groups]
    scores = {name: float(len(groups) - k) for k, group in enumerate(names) for name in group}
    seated = sum(map(len, elected))
    notes = [f"{seats} seats, quota {quota:g}: elected {', '.join(n for g in names[: len(elected)] for n in g)}."]
    if seated != seats:
        notes.append(f"{seated} of {seats} seats could be filled without breaking a tie.")
    return Consensus("stv", names, scores, notes=tuple(notes))


def _shares(tiers: Any, left: Any) -> FloatArray:
    """(ballots, items): how each ballot's vote is split over the best of its items that are left."""
    far = np.iinfo(np.int32).max
    standing = np.where(left & (tiers >= 0), tiers, far)
    best = standing.min(axis=1)
    first = (standing == best[:, None]) & (best < far)[:, None]
    result: FloatArray = first / np.maximum(first.sum(axis=1), 1)[:, None]
    return result
