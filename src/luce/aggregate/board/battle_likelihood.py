"""Likelihood of paired comparisons with draws on a linear design, with exact gradient and Hessian."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from luce.aggregate.board.design import Counts
from luce.aggregate.board.newton import Point
from luce.numerics import links
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk, map_chunks
from luce.types import FloatArray

Draws = Literal["model", "half", "drop"]
"""Draws have a probability of their own, count as half a win for each side, or are left out."""

_CHUNK = 65_536
_DERIVATIVES, _SCATTER, _TIE_SCORE = range(3)


@dataclass(frozen=True, eq=False)
class BattleLikelihood:
    r"""Minus the log-likelihood of counts.

    $$-\sum_r \left(w_r \log P(d_r) + l_r \log P(-d_r) + t_r \log P_0(d_r)\right),
      \quad d = X\beta,$$

    with P the probability of a win and $P_0$ that of a draw by one of `luce.numerics.links`. Parameters: strengths,
    coefficients, and last the unconstrained tie parameter where draws are modelled. With half-wins
    $\log P_0 = (\log P(d) + \log P(-d)) / 2$.
    """

    counts: Counts
    link: links.Link
    draws: Draws

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

    def _rows(self, x: FloatArray, wanted: int) -> tuple[FloatArray, FloatArray]:
        """(3, rows) and 3 sums over outcomes; see `_by_row`."""
        p = self.counts.design.n_parameters
        d = self.counts.design.predict(x[:p])
        t = float(x[p]) if self.draws == "model" else 0.0
        modelled = self.draws == "model"
        code = self.link.code if modelled else self.link.code_without_ties
        weight = self.counts.squares if wanted == _SCATTER else self.counts.total
        out = np.empty((3, len(d)))
        chunks = [(low, min(low + _CHUNK, len(d))) for low in range(0, len(d), _CHUNK)]

        def run(_: int, chunk: Chunk) -> FloatArray:
            sums, rows = np.empty(3), slice(*chunk)
            given = code, modelled, self.draws == "half", wanted, d[rows], t, weight[rows], out[:, rows], sums
            _by_row(*given)
            return sums

        return out, np.sum(map_chunks(run, chunks), axis=0)

    def log_likelihood(self, x: FloatArray, at: Point) -> float:
        """Sum of log-probabilities of all battles."""
        return -at.value

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""
        (g, h, mixed), (value, g_tie, h_tie) = self._rows(x, _DERIVATIVES)
        return Point(-float(value), *self._assemble(-g, -g_tie, -h, -mixed, -h_tie))

    def meat(self, x: FloatArray) -> FloatArray:
        """Sum over battles of the outer product of their score vectors: the middle of the sandwich."""
        (ss, st, _), (tt, _, _) = self._rows(x, _SCATTER)
        return self._assemble(np.zeros(len(ss)), 0.0, ss, st, float(tt))[1]

    def scores(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of every cell (row of the design times 3 plus outcome): d log P / d (predictor) and / d (tie parameter)."""
        rows = len(self.counts.total)
        by_d, by_t = np.zeros((rows, 3)), np.zeros((rows, 3))
        for outcome in range(3):
            # One battle of this outcome in every row: the derivatives of the sum are then those of its terms.
            one = np.zeros((rows, 3))
            one[:, outcome] = 1.0
            alone = replace(self, counts=self.counts.with_totals(one))
            (by_d[:, outcome], _, _), _ = alone._rows(x, _DERIVATIVES)
            by_t[:, outcome] = alone._rows(x, _TIE_SCORE)[0][0]
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


@kernel
def _by_row(code, modelled, half, wanted, d, t, weight, out, sums):  # type: ignore[no-untyped-def]
    """Weighted sums over the three outcomes of every row, by what is wanted.

    Derivatives: out = (d, dd, dt) of log P, sums = (log P, t, tt) over all rows. Scatter: out[:2] = (d d, d t), and
    sums[0] = t t. Score of the tie parameter: out[0] = t.
    """
    for k in range(3):
        sums[k] = 0.0
    for r in range(len(d)):
        for k in range(3):
            out[k, r] = 0.0
        for outcome in range(3):
            w = weight[r, outcome]
            if w == 0.0 or (outcome == 2 and not (modelled or half)):
                continue
            value, by_d, by_dd, by_t, by_tt, by_dt = _log_probability(code, modelled, outcome, d[r], t)
            if wanted == _DERIVATIVES:
                out[0, r] += w * by_d
                out[1, r] += w * by_dd
                out[2, r] += w * by_dt
                sums[0] += w * value
                sums[1] += w * by_t
                sums[2] += w * by_tt
            elif wanted == _SCATTER:
                out[0, r] += w * by_d * by_d
                out[1, r] += w * by_d * by_t
                sums[0] += w * by_t * by_t
            else:
                out[0, r] += w * by_t


@part
def _log_probability(code, modelled, outcome, d, t):  # type: ignore[no-untyped-def]
    if outcome == 0:
        return links.win(code, d, t)
    if outcome == 2 and modelled:
        return links.tie(code, d, t)
    value, by_d, by_dd, by_t, by_tt, by_dt = links.win(code, -d, t)
    if outcome == 1:
        return value, -by_d, by_dd, by_t, by_tt, -by_dt
    ahead, ahead_d, ahead_dd, _, _, _ = links.win(code, d, t)
    return 0.5 * (ahead + value), 0.5 * (ahead_d - by_d), 0.5 * (ahead_dd + by_dd), 0.0, 0.0, 0.0


def _equal_share(link: links.Link, share: float) -> float:
    """The unconstrained tie parameter with which equals draw with this probability."""
    share = min(max(share, 1e-3), 1.0 - 1e-3)
    low, high = link.bounds
    return float(brentq(lambda t: float(np.exp(link.tie([0.0], t).value[0])) - share, low, high, xtol=1e-6))
