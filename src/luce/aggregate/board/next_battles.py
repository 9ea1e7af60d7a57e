"""Which battles to hold next: the pairs whose outcomes are expected to shrink the rank sets most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from luce.aggregate.board.posterior import Posterior, difference_variances, precisions
from luce.checks import fits_in_memory, whole
from luce.errors import DataError
from luce.result import Result, Sheet
from luce.types import FloatArray


@dataclass(frozen=True)
class NextBattles(Result):
    """Pairs with how many battles each should have, and what is expected of them; the first gains most.

    `gain` is by how many ranks the battles are expected to shorten the rank sets of all items together; None for a
    battle that links two components, which no rank set spans as yet.
    """

    pairs: tuple[tuple[str, str], ...]
    battles: tuple[int, ...]
    gain: tuple[float | None, ...]
    open: int
    """Ranks by which all rank sets together could be shorter."""
    notes: tuple[str, ...] = ()

    def sheets(self) -> list[Sheet]:
        """A row a pair."""
        first, second = ([pair[k] for pair in self.pairs] for k in (0, 1))
        columns = {"a": first, "b": second, "battles": self.battles, "gain": self.gain}
        total = sum(gain or 0.0 for gain in self.gain)
        return [Sheet(f"next {sum(self.battles)} battles: rank sets shorter by {total:.2g} of {self.open}", columns, 3)]

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants."""
        rows = zip(self.pairs, self.battles, self.gain, strict=True)
        listed = [{"a": a, "b": b, "battles": many, "gain": gain} for (a, b), many, gain in rows]
        return {"next": listed, "open": self.open, "notes": list(self.notes)}


def information(chances: Callable[[FloatArray], tuple[FloatArray, FloatArray]], d: FloatArray) -> FloatArray:
    r"""Fisher's information of one battle on the difference of its sides: $\sum_o P_o'(d)^2 / P_o(d)$ over outcomes."""
    total, h = np.zeros_like(d), 1e-4
    (win, draw), above, below = chances(d), chances(d + h), chances(d - h)
    lost = (1.0 - win - draw, 1.0 - above[0] - above[1], 1.0 - below[0] - below[1])
    for at, up, down in ((win, above[0], below[0]), (draw, above[1], below[1]), lost):
        slope = (up - down) / (2.0 * h)
        total += np.divide(slope**2, at, out=np.zeros_like(d), where=at > 1e-12)
    return total


def next_battles(
    posterior: Posterior,
    games: FloatArray,
    chances: Callable[[FloatArray], tuple[FloatArray, FloatArray]] | None,
    n: int,
) -> NextBattles:
    r"""Choose n battles one by one, each given those before it.

    A battle of a and b with information I takes $I (u_i - u_j)^2 / (1 + I v_{ab})$ from the variance v of the
    difference of i and j, $u = C (e_a - e_b)$. The choice takes most from $\sum \log v$ over the pairs that are not
    decided: it has the greatest $I\, (e_a - e_b)^\top C L C\, (e_a - e_b) / (1 + I v_{ab})$, L the Laplacian of the
    weights 1 / v. Of eight other weights, among them $|d| v^{-3/2}$ and those that rise near a decision, none needed
    fewer battles in simulations beyond their error.
    """
    n, m, names = whole("n", n, 1), len(posterior.names), posterior.names
    if m < 2:
        raise DataError("The board has one item; battles need two.")
    fits_in_memory(64.0 * m**2, f"A choice among the pairs of {m:,} items", "choose among fewer items")
    # For every further component its item with most results, against that of the first.
    of = posterior.component
    first, *others = (int(np.flatnonzero(of == c)[np.argmax(games[of == c])]) for c in range(int(of.max()) + 1))
    links = [(first, other) for other in others][:n]
    d = np.abs(posterior.strength[:, None] - posterior.strength) / posterior.unit
    covariance = posterior.covariance / posterior.unit**2
    inside = precisions(covariance, posterior.component) > 0.0
    better = posterior.sets.surely_better
    open_ = inside & ~better & ~better.T
    told = np.ones_like(d) if chances is None else information(chances, d.ravel()).reshape(d.shape)
    before = difference_variances(covariance)
    gain: dict[tuple[int, int], float] = {}
    chosen: dict[tuple[int, int], int] = {}
    hoped = 0.0
    for _ in range(n - len(links) if open_.any() else 0):
        variance = difference_variances(covariance)
        weight = np.where(open_, 1.0 / np.where(open_, variance, 1.0), 0.0)
        laplacian = np.diag(weight.sum(axis=1)) - weight
        value = told * difference_variances(covariance @ laplacian @ covariance)
        value = np.where(inside, value / (1.0 + told * variance), -1.0)
        a, b = sorted(map(int, np.unravel_index(int(np.argmax(value)), value.shape)))
        u = covariance[a] - covariance[b]
        covariance = covariance - np.outer(u, u) * (told[a, b] / (1.0 + told[a, b] * variance[a, b]))
        # The estimate after the battles is normal around that of now with the variance that they take away. For every
        # pair that becomes decided, two sets become shorter by a rank; and every pair stands there twice.
        after = difference_variances(covariance)
        lost, edge = np.sqrt(np.maximum(before - after, 1e-300)), posterior.sets.critical * np.sqrt(after)
        now = float(np.sum((ndtr((d - edge) / lost) + ndtr((-d - edge) / lost))[open_]))
        chosen[a, b] = chosen.get((a, b), 0) + 1
        gain[a, b] = gain.get((a, b), 0.0) + now - hoped
        hoped = now
    order = sorted(chosen, key=lambda pair: -gain[pair])
    notes = ["The first battles link components; run --next again on the board that they make."] if links else []
    if not open_.any():
        none = "Every pair of a component is decided" if better.any() else "No error of a difference is known"
        notes.append(f"{none}; no battle can be chosen that shortens a rank set.")
    return NextBattles(
        pairs=tuple((names[a], names[b]) for a, b in (*links, *order)),
        battles=(*[1] * len(links), *(chosen[pair] for pair in order)),
        gain=(*[None] * len(links), *(gain[pair] for pair in order)),
        open=int(np.sum(open_)),
        notes=tuple(notes),
    )
