"""Likelihoods of battles in the strengths, with gradient and Hessian, and the models of battles and races."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from luce.aggregate.board.design import Counts, Design, shares
from luce.aggregate.board.newton import Point, add_up, cross
from luce.checks import one_of
from luce.errors import SettingError
from luce.numerics import links
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk, map_chunks
from luce.registry import canonical, unknown_name
from luce.types import FloatArray, IntArray


class Likelihood(ABC):
    """Minus a log-likelihood (or half a sum of squares) of strengths, coefficients and a tie parameter."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Strengths first, then coefficients, then a tie parameter."""

    def start(self) -> FloatArray:
        """Where Newton starts: all equal."""
        return np.zeros(self.n_parameters)

    @abstractmethod
    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""

    @abstractmethod
    def meat(self, x: FloatArray) -> FloatArray:
        """Sum of outer products of the score vectors, of battles or races or, where there are judges, of these."""

    def log_likelihood(self, x: FloatArray, at: Point) -> float:
        """At a point that was evaluated, constants included."""
        return -at.value

    @abstractmethod
    def within(self, label: IntArray) -> Self:
        """That of what happened between items with one label."""

    @abstractmethod
    def resampled(self, rng: np.random.Generator) -> Self:
        """That of a bootstrap sample."""

    def sample(self) -> Self | None:
        """That of a small sample, whose maximum is a good start; None where there is no need."""
        return None


@dataclass(frozen=True, eq=False)
class Penalised:
    r"""$-\log L(x) + \frac{1}{2} s^\top Q s - a^\top s$ over the strengths s, the first entries of x.

    Q is the precision of a normal prior. A tilt a moves the maximum along a profile: where it is $\lambda b$, the
    maximum is that of the likelihood under the constraint that $b^\top s$ has the value it takes there.
    """

    likelihood: Callable[[FloatArray], Point]
    precision: FloatArray | None = None
    tilt: FloatArray | None = None

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient, Hessian."""
        value, gradient, hessian = self.likelihood(x)
        if self.precision is not None:
            n = len(self.precision)
            pull = self.precision @ x[:n]
            value += 0.5 * float(x[:n] @ pull)
            gradient, hessian = gradient.copy(), hessian.copy()
            gradient[:n] += pull
            hessian[:n, :n] += self.precision
        if self.tilt is not None:
            n = len(self.tilt)
            value -= float(self.tilt @ x[:n])
            gradient = gradient - np.pad(self.tilt, (0, len(gradient) - n))
        return Point(value, gradient, hessian)


Draws = Literal["model", "half", "drop"]
"""Draws have a probability of their own, count as half a win for each side, or are left out."""

_CHUNK = 65_536
_DERIVATIVES, _SCATTER, _TIE_SCORE = range(3)
_SQUARES = -1
"""The code of least squares, in the place of that of a link."""


_MANY_ROWS, _SAMPLE = 200_000, 16


@dataclass(frozen=True, eq=False)
class BattleLikelihood(Likelihood):
    r"""Minus the log-likelihood of counts on a linear design.

    $$-\sum_r \left(w_r \log P(d_r) + l_r \log P(-d_r) + t_r \log P_0(d_r)\right),
      \quad d = X\beta,$$

    with P the probability of a win and $P_0$ that of a draw by one of `luce.numerics.links`. Parameters: strengths,
    coefficients, and last the unconstrained tie parameter where draws are modelled. With half-wins
    $\log P_0 = (\log P(d) + \log P(-d)) / 2$.
    """

    counts: Counts
    link: links.Link | None
    draws: Draws

    @property
    def n_parameters(self) -> int:
        """Strengths, coefficients and the tie parameter."""
        return self.counts.design.n_parameters + (self.draws == "model")

    def within(self, label: IntArray) -> Self:
        """That of the rows between items with one label."""
        rows, of = self.counts.design, self.counts
        same = (label[rows.first] == label[rows.second])[:, None]
        return replace(self, counts=Counts(rows, of.total * same, of.squares * same))

    def resampled(self, rng: np.random.Generator) -> Self:
        """That with Dirichlet weights of battles (or of whole groups), summed by cell: the Bayesian bootstrap.

        Drawing battles with replacement was rejected: a sample may lose the only win of an item, and its estimate is
        then infinite. The sum of k exponential weights is Gamma(k), so that a cell needs one draw.
        """
        of = self.counts
        if of.judged is not None:
            total = shares(np.ones(of.judged.shape[0]), rng) @ of.judged
        elif of.weighted is not None:
            cell, times, weight = of.weighted
            total = add_up(cell, shares(times, rng) * weight, of.total.size)
        else:
            total = shares(of.total.ravel(), rng)
        return self._counting(total.reshape(of.total.shape))

    def _counting(self, total: FloatArray) -> Self:
        return replace(self, counts=Counts(self.counts.design, total, total))

    def sample(self) -> Self | None:
        """That of every so many rows, where there are very many and each battle has one of its own."""
        of, d, rows = self.counts, self.counts.design, np.arange(0, len(self.counts.total), _SAMPLE)
        if len(of.total) <= _MANY_ROWS:
            return None
        teams = None if d.teams is None else d.teams[rows]
        part = Design(d.n_items, d.first[rows], d.second[rows], d.extra[rows], teams)
        return replace(self, counts=Counts(part, of.total[rows], of.squares[rows]))

    def meat(self, x: FloatArray) -> FloatArray:
        """The middle of the sandwich; the battles of one judge may depend on each other."""
        judged, rows = self.counts.judged, len(self.counts.total)
        if judged is None:
            (ss, st, _), (tt, _, _) = self._rows(x, _SCATTER)
            return self._assemble(np.zeros(rows), 0.0, ss, st, float(tt))[1]
        # Of every cell (row of the design times 3 plus outcome): d log P / d (predictor) and / d (tie parameter).
        by_d, by_t = np.zeros((rows, 3)), np.zeros((rows, 3))
        for outcome in range(3):
            # One battle of this outcome in every row: the derivatives of the sum are then those of its terms.
            one = np.zeros((rows, 3))
            one[:, outcome] = 1.0
            alone = self._counting(one)
            (by_d[:, outcome], _, _), _ = alone._rows(x, _DERIVATIVES)
            by_t[:, outcome] = alone._rows(x, _TIE_SCORE)[0][0]
        cells = self.counts.design.matrix()[np.repeat(np.arange(rows), 3)]
        sums = sparse.csr_array(judged.multiply(by_d.reshape(1, -1))) @ cells
        if self.n_parameters > sums.shape[1]:
            sums = sparse.csr_array(sparse.hstack([sums, sparse.csr_array((judged @ by_t.ravel())[:, None])]))
        return cross(sums)

    def start(self) -> FloatArray:
        """All equal, and the tie parameter that explains the share of draws between equals."""
        x = super().start()
        if self.draws == "model" and self.link is not None:
            # With which equals draw as often as there are draws.
            total, link = self.counts.total.sum(axis=0), self.link
            share = np.clip(total[2] / total.sum(), 1e-3, 1.0 - 1e-3)
            x[-1] = brentq(lambda t: float(np.exp(link.tie([0.0], t).value[0])) - share, *link.bounds, xtol=1e-6)
        return x

    def _rows(self, x: FloatArray, wanted: int) -> tuple[FloatArray, FloatArray]:
        """(3, rows) and 3 sums over outcomes; see `_by_row`."""
        p = self.counts.design.n_parameters
        d = self.counts.design.predict(x[:p])
        modelled = self.draws == "model"
        t = float(x[p]) if modelled else 0.0
        code = _SQUARES if self.link is None else self.link.code if modelled else self.link.code_without_ties
        weight = self.counts.squares if wanted == _SCATTER else self.counts.total
        out = np.empty((3, len(d)))
        chunks = [(low, min(low + _CHUNK, len(d))) for low in range(0, len(d), _CHUNK)]

        def run(_: int, chunk: Chunk) -> FloatArray:
            sums, rows = np.empty(3), slice(*chunk)
            _by_row(code, modelled, self.draws == "half", wanted, d[rows], t, weight[rows], out[:, rows], sums)
            return sums

        return out, np.sum(map_chunks(run, chunks), axis=0)

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""
        (g, h, mixed), (value, g_tie, h_tie) = self._rows(x, _DERIVATIVES)
        return Point(-float(value), *self._assemble(-g, -g_tie, -h, -mixed, -h_tie))

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
        if wanted == _DERIVATIVES and modelled and code == links.DAVIDSON:
            # Second derivatives are the same whatever the outcome: one exponential family.
            won, lost, tied = weight[r, 0], weight[r, 1], weight[r, 2]
            top, log_total, p_win, p_loss, p_tie = links.davidson_shares(d[r], t)
            total, decided = won + lost + tied, p_win + p_loss
            out[0, r] = won * (p_loss + 0.5 * p_tie) - lost * (p_win + 0.5 * p_tie) + 0.5 * tied * (p_loss - p_win)
            out[1, r] = -total * (p_win * p_loss + 0.25 * p_tie * decided)
            out[2, r] = 0.5 * total * p_tie * (p_win - p_loss)
            sums[0] += won * (0.5 * d[r] - top) - lost * (0.5 * d[r] + top) + tied * (t - top) - total * log_total
            sums[1] += tied * decided - (won + lost) * p_tie
            sums[2] -= total * p_tie * decided
            continue
        for outcome in range(3):
            w = weight[r, outcome]
            if w == 0.0 or (outcome == 2 and not (modelled or half)):
                continue
            value, by_d, by_dd, by_t, by_tt, by_dt = log_probability(code, modelled, outcome, d[r], t)
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
def log_probability(code, modelled, outcome, d, t):  # type: ignore[no-untyped-def]
    """Log P of an outcome (0: a won, 1: b won, 2: draw) and its derivatives in d and t: d, dd, t, tt, dt."""
    if code == _SQUARES:
        residual = (1.0 if outcome == 0 else -1.0 if outcome == 1 else 0.0) - d
        return -0.5 * residual * residual, residual, -1.0, 0.0, 0.0, 0.0
    if outcome == 0:
        return links.win(code, d, t)
    if outcome == 2 and modelled:
        return links.tie(code, d, t)
    value, by_d, by_dd, by_t, by_tt, by_dt = links.win(code, -d, t)
    if outcome == 1:
        return value, -by_d, by_dd, by_t, by_tt, -by_dt
    ahead, ahead_d, ahead_dd, _, _, _ = links.win(code, d, t)
    return 0.5 * (ahead + value), 0.5 * (ahead_d - by_d), 0.5 * (ahead_dd + by_dd), 0.0, 0.0, 0.0


@dataclass(frozen=True, eq=False)
class Hodge(BattleLikelihood):
    r"""Half the sum of squares $\frac{1}{2} \sum_{battles} (y - d)^2$, y = 1 for a win of a, -1 for b and 0 for a tie.

    A difference of strengths is thus a mean margin, P(a wins) - P(b wins), not a log-odds. It needs no prior for items
    that never win. One Newton step solves it.
    """

    link: None = None
    draws: Draws = "half"

    def log_likelihood(self, x: FloatArray, at: Point) -> float:
        """Least squares has no likelihood: NaN."""
        return float("nan")


@dataclass(frozen=True)
class Model:
    """A family of likelihoods, its link and its treatment of draws."""

    name: str
    family: Literal["paired", "races", "hodge"]
    link: links.Link | None = None
    draws: Draws = "model"
    elo: float | None = 400.0 / math.log(10.0)
    """Points of the Elo scale in one unit of strength: 400 are odds of ten to one; None where there are no odds."""

    def chances(self, d: FloatArray, t: float, modelled: bool) -> tuple[FloatArray, FloatArray]:
        """P(a wins) and P(draw) at differences of strength; draws have the tie parameter t where they are modelled."""
        if self.family == "hodge":
            raise SettingError("Least squares gives no probabilities; use a model such as 'davidson'.")
        if self.link is None:
            # PMOP gives a race of two the potentials phi_a, phi_b and their mean: a third of the probability is a tie.
            share = 2.0 / 3.0 if self.name == "pmop" else 1.0
            return share / (1.0 + np.exp(-d)), np.full_like(d, 1.0 - share)
        win = np.exp(self.link.win(d, t, ties=modelled).value)
        return win, np.exp(self.link.tie(d, t).value) if modelled else np.zeros_like(d)


# The normal link has unit variance of a difference of performances; Elo's own scale gave each performance a standard
# deviation of 200 points, so that a difference has 200 times the square root of 2.
MODELS = {
    model.name: model
    for model in (
        Model("bradley_terry", "paired", links.get("bradley_terry"), "half"),
        Model("davidson", "paired", links.get("davidson")),
        Model("hodge", "hodge", elo=None),
        Model("plackett_luce", "races"),
        Model("pmop", "races"),
        Model("rao_kupper", "paired", links.get("rao_kupper")),
        Model("thurstone_mosteller", "paired", links.get("thurstone_mosteller"), elo=200.0 * math.sqrt(2.0)),
    )
}


def get_model(name: str, draws: str | None = None) -> Model:
    """The model of that name, with another treatment of draws where one is given.

    >>> get_model("bradley-terry").draws
    'half'
    """
    if not isinstance(name, str) or canonical(name) not in MODELS:
        raise unknown_name("leaderboard model", str(name), MODELS)
    model = MODELS[canonical(name)]
    if draws is None:
        return model
    one_of("draws", draws, ("model", "half", "drop"))
    if model.family != "paired":
        raise SettingError(
            f"draws is {draws!r}, but the model {model.name!r} has one treatment of draws; leave it out."
        )
    return replace(model, draws=draws)  # type: ignore[arg-type]
