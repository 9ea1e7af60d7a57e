"""Likelihood of paired comparisons with draws on a linear design, with exact gradient and Hessian."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq

from luce.aggregate.board.design import Counts
from luce.aggregate.board.newton import Point
from luce.numerics import links
from luce.numerics.segments import map_chunks
from luce.types import FloatArray, IntArray

__all__ = ["Draws", "Paired"]

Draws = Literal["model", "half", "drop"]
"""Draws have a probability of their own, count as half a win for each side, or are left out."""

_CHUNK = 65_536


class _Outcome(NamedTuple):
    rows: IntArray | slice
    total: FloatArray
    squares: FloatArray


@dataclass(frozen=True, eq=False)
class Paired:
    r"""Minus the log-likelihood of counts, and a ridge on the strengths.

    $$-\sum_r \left(w_r \log P(d_r) + l_r \log P(-d_r) + t_r \log P_0(d_r)\right) + \frac{\lambda}{2} \|s\|^2,
      \quad d = X\beta,$$

    with P the probability of a win and $P_0$ that of a draw by one of `luce.numerics.links`. Parameters: strengths,
    coefficients, and last the unconstrained tie parameter where draws are modelled. With half-wins
    $\log P_0 = (\log P(d) + \log P(-d)) / 2$.
    """

    counts: Counts
    link: links.Link
    draws: Draws
    ridge: float = 0.0
    _last: dict[bytes, list[tuple[_Outcome, links.Terms]]] = field(default_factory=dict, repr=False)
    """What was evaluated last: errors and likelihood are wanted where the search ended."""

    @property
    def n_parameters(self) -> int:
        """Strengths, coefficients and the tie parameter."""
        return self.counts.design.n_parameters + (self.draws == "model")

    def start(self) -> FloatArray:
        """All equal, and the tie parameter that explains the share of draws between equals."""
        x = np.zeros(self.n_parameters)
        if self.draws == "model":
            total = self.counts.total.sum(axis=0)
            share = total[2] / total.sum()
            x[-1] = _equal_share(self.link, share)
        return x

    @cached_property
    def _observed(self) -> list[_Outcome]:
        found = []
        for outcome in range(3):
            rows = _run(np.flatnonzero(self.counts.total[:, outcome]))
            found.append(_Outcome(rows, self.counts.total[rows, outcome], self.counts.squares[rows, outcome]))
        return found

    def _terms(self, outcome: int, d: FloatArray, t: float) -> links.Terms:
        chunks = [(low, min(low + _CHUNK, len(d))) for low in range(0, len(d), _CHUNK)]
        if len(chunks) < 2:
            return self._serial_terms(outcome, d, t)
        parts = map_chunks(lambda _, chunk: self._serial_terms(outcome, d[chunk[0] : chunk[1]], t), chunks)
        return links.Terms(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _serial_terms(self, outcome: int, d: FloatArray, t: float) -> links.Terms:
        modelled = self.draws == "model"
        if outcome == 0:
            return self.link.win(d, t, ties=modelled)
        if outcome == 1:
            lost = self.link.win(-d, t, ties=modelled)
            return lost._replace(d=-lost.d, dt=-lost.dt)
        if modelled:
            return self.link.tie(d, t)
        ahead, behind = self.link.win(d, t, ties=False), self.link.win(-d, t, ties=False)
        return links.Terms(
            0.5 * (ahead.value + behind.value),
            0.5 * (ahead.d - behind.d),
            0.5 * (ahead.dd + behind.dd),
            *(np.zeros_like(d),) * 3,
        )

    def _evaluate(self, x: FloatArray) -> list[tuple[_Outcome, links.Terms]]:
        key = x.tobytes()
        if key not in self._last:
            p = self.counts.design.n_parameters
            d = self.counts.design.predict(x[:p])
            t = float(x[p]) if self.draws == "model" else 0.0
            used = self._observed[: 2 if self.draws == "drop" else 3]
            self._last.clear()
            self._last[key] = [
                (seen, self._terms(i, d[seen.rows], t)) for i, seen in enumerate(used) if len(seen.total)
            ]
        return self._last[key]

    def log_likelihood(self, x: FloatArray) -> float:
        """Sum of log-probabilities of all battles, without the ridge."""
        return float(sum(seen.total @ terms.value for seen, terms in self._evaluate(x)))

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""
        rows = len(self.counts.total)
        value, g, h, mixed = 0.0, np.zeros(rows), np.zeros(rows), np.zeros(rows)
        g_tie = h_tie = 0.0
        for seen, terms in self._evaluate(x):
            value -= float(seen.total @ terms.value)
            g[seen.rows] -= seen.total * terms.d
            h[seen.rows] -= seen.total * terms.dd
            mixed[seen.rows] -= seen.total * terms.dt
            g_tie -= float(seen.total @ terms.t)
            h_tie -= float(seen.total @ terms.tt)
        gradient, hessian = self._assemble(g, g_tie, h, mixed, h_tie)
        n = self.counts.design.n_items
        if self.ridge:
            value += 0.5 * self.ridge * float(x[:n] @ x[:n])
            gradient[:n] += self.ridge * x[:n]
            hessian[np.arange(n), np.arange(n)] += self.ridge
        return Point(value, gradient, hessian)

    def meat(self, x: FloatArray) -> FloatArray:
        """Sum over battles of the outer product of their score vectors: the middle of the sandwich."""
        rows = len(self.counts.total)
        ss, st, tt = np.zeros(rows), np.zeros(rows), 0.0
        for seen, terms in self._evaluate(x):
            ss[seen.rows] += seen.squares * terms.d**2
            st[seen.rows] += seen.squares * terms.d * terms.t
            tt += float(seen.squares @ terms.t**2)
        return self._assemble(np.zeros(rows), 0.0, ss, st, tt)[1]

    def scores(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of every cell (row of the design times 3 plus outcome): d log P / d (predictor) and / d (tie parameter)."""
        rows = len(self.counts.total)
        by_d, by_t = np.zeros((rows, 3)), np.zeros((rows, 3))
        p = self.counts.design.n_parameters
        d = self.counts.design.predict(x[:p])
        t = float(x[p]) if self.draws == "model" else 0.0
        for outcome in range(2 if self.draws == "drop" else 3):
            terms = self._terms(outcome, d, t)
            by_d[:, outcome], by_t[:, outcome] = terms.d, terms.t
        return by_d.ravel(), by_t.ravel()

    def _assemble(
        self, g: FloatArray, g_tie: float, h: FloatArray, mixed: FloatArray, h_tie: float
    ) -> tuple[FloatArray, FloatArray]:
        design = self.counts.design
        if self.draws != "model":
            return design.pull(g), design.gram(h)
        p = design.n_parameters
        hessian = np.empty((p + 1, p + 1))
        hessian[:p, :p] = design.gram(h)
        hessian[p, :p] = hessian[:p, p] = design.pull(mixed)
        hessian[p, p] = h_tie
        return np.append(design.pull(g), g_tie), hessian


def _run(rows: IntArray) -> IntArray | slice:
    """Row numbers that follow each other as a slice, which needs no gathering."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _equal_share(link: links.Link, share: float) -> float:
    """The unconstrained tie parameter with which equals draw with this probability."""
    share = min(max(share, 1e-3), 1.0 - 1e-3)
    low, high = link.bounds
    return float(brentq(lambda t: float(np.exp(link.tie([0.0], t).value[0])) - share, low, high, xtol=1e-6))
