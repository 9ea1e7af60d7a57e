r"""Random walks of strengths: drift by marginal likelihood, and the most probable history by Newton's method.

$\theta_i(t') - \theta_i(t) \sim N(0, s^2 |t' - t|)$ with $\theta_i \sim N(0, s_0^2)$ at a player's first game, and
games by a link with draws. A player has one node for every time at which it played. The Hessian of the posterior is
tridiagonal within a player, and a game couples one node of each of two: conjugate gradients with the tridiagonal
systems as preconditioner solve it. A sparse factorisation was rejected: 49,520 matches fill 11 million entries and take
7 s.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import roots_hermitenorm

from luce.aggregate.board.likelihood import log_probability
from luce.aggregate.board.newton import add_up
from luce.errors import LuceWarning
from luce.numerics.compiled import kernel, part
from luce.numerics.links import Link
from luce.types import FloatArray, IntArray


@part
def _term(code, modelled, outcome, share, weight, d, t):  # type: ignore[no-untyped-def]
    """What a game adds to the log-likelihood, with its first derivative in d and minus its second.

    The outcome 3 is a part of a win: `share` of it goes to a, the rest to b. A draw that is not modelled is half a win.
    """
    if outcome < 3:
        value, first, second, _, _, _ = log_probability(code, modelled, outcome, d, t)
    else:
        won, won_d, won_dd, _, _, _ = log_probability(code, modelled, 0, d, t)
        lost, lost_d, lost_dd, _, _, _ = log_probability(code, modelled, 1, d, t)
        rest = 1.0 - share
        value, first, second = share * won + rest * lost, share * won_d + rest * lost_d, share * won_dd + rest * lost_dd
    return weight * value, weight * first, -weight * second


@part
def _chance(code, modelled, outcome, share, weight, d, spread, t, nodes, weights):  # type: ignore[no-untyped-def]
    """P(outcome) with a normal difference of mean d and this standard deviation, by Gauss and Hermite."""
    total = 0.0
    for k in range(len(nodes)):
        total += weights[k] * np.exp(_term(code, modelled, outcome, share, weight, d + spread * nodes[k], t)[0])
    return total


@part
def _mode(code, modelled, outcome, share, weight, d, v, t):  # type: ignore[no-untyped-def]
    """The most probable difference after an outcome, with N(d, v) before it, and minus the curvature of log P there."""
    x = d
    curve = 0.0
    for _ in range(30):
        _, first, curve = _term(code, modelled, outcome, share, weight, x, t)
        curve = max(curve, 0.0)
        step = (first - (x - d) / v) / (curve + 1.0 / v)
        x += step
        if abs(step) < 1e-7:
            break
    return x, curve


@kernel
def diagonal_filter(code, modelled, games, offset, times, weight, share, step, start, t, nodes, weights):  # type: ignore[no-untyped-def]
    """Sum of log predictive probabilities when players are taken as independent; games is (games, 3): a, b, outcome."""
    n = games[:, :2].max() + 1
    mean, variance, last = np.zeros(n), np.full(n, start), np.full(n, np.nan)
    total = 0.0
    for g in range(len(games)):
        a, b, outcome = games[g]
        for i in (a, b):
            if not np.isnan(last[i]):
                variance[i] += step * (times[g] - last[i])
            last[i] = times[g]
        v = variance[a] + variance[b]
        d = mean[a] - mean[b] + offset[g]
        chance = _chance(code, modelled, outcome, share[g], weight[g], d, np.sqrt(v), t, nodes, weights)
        total += np.log(max(chance, 1e-300))
        x, curve = _mode(code, modelled, outcome, share[g], weight[g], d, v, t)
        moved, shrink = (x - d) / v, curve / (1.0 + curve * v)
        mean[a] += variance[a] * moved
        mean[b] -= variance[b] * moved
        variance[a] -= variance[a] ** 2 * shrink
        variance[b] -= variance[b] ** 2 * shrink
    return total


@kernel
def full_filter(code, modelled, played, step, t, nodes, weights, state, curves, out):  # type: ignore[no-untyped-def]
    """The filter with all covariances; players are numbered by their first game. Fills (games, 3) predictions.

    `last` is NaN before a player's first game. Changes mean, covariance and last in place. Where `curves` has the
    precision of every game, as a normal observation of the difference, the covariance alone is filtered, and the sum of
    log(1 + curve v) is returned, v the variance of the difference before the game: the log of the determinant of the
    posterior precision over that of the prior.
    """
    (games, offset, times, weight, share), (mean, covariance, last) = played, state
    n = len(mean)
    gain = np.empty(n)
    known, total = 0, 0.0
    for i in range(n):
        if not np.isnan(last[i]):
            known = i + 1
    for g in range(len(games)):
        a, b, outcome = games[g]
        known = max(known, a + 1, b + 1)
        for i in (a, b):
            if not np.isnan(last[i]):
                covariance[i, i] += step * max(times[g] - last[i], 0.0)
            last[i] = times[g]
        # Only the lower triangle is kept, which is half of the work.
        for i in range(known):
            gain[i] = covariance[max(i, a), min(i, a)] - covariance[max(i, b), min(i, b)]
        v = gain[a] - gain[b]
        if len(curves):
            curve = curves[g]
            total += np.log1p(curve * v)
        else:
            d = mean[a] - mean[b] + offset[g]
            for k in range(3):
                possible = modelled or k < 2
                chance = _chance(code, modelled, k, 0.0, 1.0, d, np.sqrt(v), t, nodes, weights) if possible else 0.0
                out[g, k] = chance
            x, curve = _mode(code, modelled, outcome, share[g], weight[g], d, v, t)
            for i in range(known):
                mean[i] += gain[i] * (x - d) / v
        shrink = curve / (1.0 + curve * v)
        for i in range(known):
            scale = gain[i] * shrink
            row = covariance[i]
            for j in range(i + 1):
                row[j] -= scale * gain[j]
    for i in range(n):
        for j in range(i):
            covariance[j, i] = covariance[i, j]
    return total


@kernel
def game_terms(code, modelled, outcomes, share, weight, d, t, first, curve):  # type: ignore[no-untyped-def]
    """Sum of log P; fills its derivative and minus its second derivative in d, by game."""
    total = 0.0
    for g in range(len(d)):
        value, first[g], curve[g] = _term(code, modelled, outcomes[g], share[g], weight[g], d[g], t)
        total += value
    return total


@kernel
def solve_chains(own, step, right, out):  # type: ignore[no-untyped-def]
    """Tridiagonal systems of all players end to end: own precisions, and those of the steps from i to i + 1.

    What a node hands on to the next is the precision of two in a row, s e / (s + e): a difference of the two would
    lose the own precisions beside those of very short steps.
    """
    n = len(own)
    pivot = np.empty(n)
    rest, out[0] = own[0], right[0]
    for i in range(n - 1):
        pivot[i] = rest + step[i]
        factor = step[i] / pivot[i]
        out[i + 1] = right[i + 1] + factor * out[i]
        rest = own[i + 1] + factor * rest
    out[n - 1] /= rest
    for i in range(n - 2, -1, -1):
        out[i] = (out[i] + step[i] * out[i + 1]) / pivot[i]


_NODES, _WEIGHTS = roots_hermitenorm(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_FEW_NODES, _FEW_WEIGHTS = roots_hermitenorm(5)
_FEW_WEIGHTS = _FEW_WEIGHTS / _FEW_WEIGHTS.sum()
_FEW_GAMES = 1000
"""Fewer than this are no guide to the rest."""


@dataclass(frozen=True, eq=False)
class Games:
    """Games in order of time; players are numbered by their first game."""

    players: int
    games: IntArray
    """(games, 3): a, b, outcome (0: a won, 1: b won, 2: draw, 3: a part of a win each)."""
    sides: FloatArray
    """1 where a has the advantage of its position."""
    times: FloatArray
    covariates: FloatArray | None = None
    """(games, k): values of a minus those of b."""
    weight: FloatArray | None = None
    """How much a game counts in the log-likelihood; 1 where None."""
    share: FloatArray | None = None
    """The part of a win that goes to a, where the outcome is 3."""
    modelled: bool = True
    """Draws have a probability of their own; otherwise they are half a win each."""

    def arrays(self, p: Parameters) -> tuple[Any, ...]:
        """What the filters pass over: games, what is added to their differences, times, weights and parts of wins."""
        offset = p.home * self.sides
        if self.covariates is not None:
            offset = offset + self.covariates @ np.array(p.effects)
        n = len(self.games)
        weight = np.ones(n) if self.weight is None else self.weight
        return self.games, offset, self.times, weight, np.zeros(n) if self.share is None else self.share

    def latest(self, few: int) -> Games:
        """The last games alone."""
        arrays = {name: values for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        cut: dict[str, Any] = {name: values[-few:] for name, values in arrays.items()}
        return replace(self, **cut)


class Parameters(NamedTuple):
    """Variance of a walk in a unit of time, variance at the start, unconstrained tie parameter, home advantage.

    And the coefficients of covariates.
    """

    step: float
    start: float
    t: float
    home: float
    effects: tuple[float, ...] = ()


class Present(NamedTuple):
    """A normal distribution of all strengths at their last games."""

    mean: FloatArray
    covariance: FloatArray
    last: FloatArray


def fit_parameters(games: Games, link: Link, given: dict[str, float | None], side: bool) -> Parameters:
    """Maximise the marginal likelihood: the product of the predictive probabilities of a filter.

    Players are taken as independent there, which makes a pass over 50,000 games take tens of milliseconds. The last
    games of many are fitted first: from what suits them all games need few passes more. `given` holds parameters that
    are not to be fitted.
    """
    span = max(float(games.times[-1] - games.times[0]), 1.0)
    first = {"step": np.log(1.0 / span), "start": 0.0, "t": link.unconstrained(link.start), "home": 0.0}
    fixed = {name: value for name, value in given.items() if value is not None}
    fixed |= ({} if side else {"home": 0.0}) | ({} if games.modelled else {"t": 0.0})
    width = 0 if games.covariates is None else games.covariates.shape[1]
    names = [f"effect {k}" for k in range(width)]
    first |= dict.fromkeys(names, 0.0)
    free = [name for name in first if name not in fixed]

    def parameters(x: FloatArray) -> Parameters:
        values = dict(zip(free, map(float, x), strict=True))
        for name in ("step", "start"):
            if name in values:
                values[name] = float(np.exp(np.clip(values[name], -60.0, 20.0)))
        values |= fixed
        return Parameters(**{k: values[k] for k in Parameters._fields[:4]}, effects=tuple(values[k] for k in names))

    def loss_of(some: Games) -> Callable[[FloatArray], float]:
        code, scale = _code(some, link), 1.0 / len(some.games)

        def loss(x: FloatArray) -> float:
            p = parameters(x)
            return -scale * float(
                diagonal_filter(*code, *some.arrays(p), p.step, p.start, p.t, _FEW_NODES, _FEW_WEIGHTS)
            )

        return loss

    if not free:
        return parameters(np.empty(0))
    bounds = [{"step": (-60.0, 20.0), "start": (-20.0, 20.0)}.get(name, (-8.0, 8.0)) for name in free]
    start = np.array([first[name] for name in free])
    few = len(games.games) // 8
    if few > _FEW_GAMES:
        start = _descend(loss_of(games.latest(few)), start, bounds)
        near = _newton_steps(loss_of(games), start)
        if near is not None:
            return parameters(near)
    return parameters(_descend(loss_of(games), start, bounds))


def _code(games: Games, link: Link) -> tuple[int, bool]:
    """The code of the link for the kernels, with draws or without, and whether they are modelled."""
    return (link.code if games.modelled else link.code_without_ties), games.modelled


def _descend(loss: Callable[[FloatArray], float], start: FloatArray, bounds: list[tuple[float, float]]) -> FloatArray:
    options = {"eps": 1e-4, "ftol": 1e-7, "maxiter": 60}
    return np.asarray(minimize(loss, start, method="L-BFGS-B", bounds=bounds, options=options).x)


def _newton_steps(loss: Callable[[FloatArray], float], x: FloatArray) -> FloatArray | None:
    """From a point near the minimum, with derivatives by differences; None where they lead elsewhere."""
    n, h = len(x), 1e-2
    before = np.inf
    for _ in range(3):
        value = loss(x)
        if value > before + 1e-7:
            return None
        if before - value < 1e-6:
            break
        before = value
        around = [[loss(x + sign * h * e) for e in np.eye(n)] for sign in (1.0, -1.0)]
        up, down = np.array(around)
        hessian = np.diag((up + down - 2.0 * value) / h**2)
        for i, j in zip(*np.triu_indices(n, 1), strict=True):
            both = loss(x + h * (np.eye(n)[i] + np.eye(n)[j]))
            hessian[i, j] = hessian[j, i] = (both - up[i] - up[j] + value) / h**2
        if np.linalg.eigvalsh(hessian)[0] <= 0.0:
            return None
        x = x - np.linalg.solve(hessian, (up - down) / (2.0 * h))
    return x


def filtered(games: Games, link: Link, p: Parameters, state: Present | None = None) -> tuple[Present, FloatArray]:
    """The state after the games, game by game, and (games, 3) probabilities that were foretold."""
    out, now = np.empty((len(games.games), 3)), _newcomers(games.players, p)
    if state is not None:
        old = len(state.mean)
        now.mean[:old], now.covariance[:old, :old], now.last[:old] = state
    _filter(games, link, p, now, np.empty(0), out)
    return now, out


def _newcomers(n: int, p: Parameters) -> Present:
    return Present(np.zeros(n), np.diag(np.full(n, p.start)), np.full(n, np.nan))


def _filter(games: Games, link: Link, p: Parameters, state: Present, curves: FloatArray, out: FloatArray) -> float:
    """Pass over the games from a state, which is changed."""
    settings = (p.step, p.t, _NODES, _WEIGHTS)
    return float(full_filter(*_code(games, link), games.arrays(p), *settings, tuple(state), curves, out))


@dataclass(frozen=True, eq=False)
class Mode:
    """The most probable history."""

    player: IntArray
    """The player of every node, and its time: nodes of a player are together and in order."""
    time: FloatArray
    strength: FloatArray
    variance: FloatArray
    """Of every node, given what all other players were: a little too small."""
    present: Present
    log_marginal: float
    """Laplace's approximation of the log of the marginal likelihood."""
    converged: bool


def most_probable(games: Games, link: Link, p: Parameters, *, tolerance: float = 1e-6) -> Mode:
    """Newton on all history at once."""
    chain = _Chain.of(games, p)
    x, curve = np.zeros(len(chain.player)), np.empty(len(games.games))
    first, outcome = np.empty_like(curve), np.ascontiguousarray(games.games[:, 2])
    _, offset, _, weight, share = games.arrays(p)

    def evaluate(at: FloatArray) -> tuple[float, FloatArray]:
        d = at[chain.a] - at[chain.b] + offset
        total = game_terms(*_code(games, link), outcome, share, weight, d, p.t, first, curve)
        pull = chain.prior(at)
        gradient = pull - chain.scatter(first, -first)
        return 0.5 * float(at @ pull) - total, gradient

    value, gradient = evaluate(x)
    converged, goal = False, 0.1
    for _ in range(50):
        step = chain.solve(-gradient, np.maximum(curve, 0.0), goal)
        fraction, before = 1.0, x
        for _ in range(30):
            x = before + fraction * step
            trial, gradient = evaluate(x)
            if trial <= value + 1e-9 * abs(value):
                break
            fraction *= 0.5
        value = trial
        longest = float(np.max(np.abs(step)))
        if fraction == 1.0 and longest < tolerance:
            converged = True
            break
        # A step need not be more exact than what the next one leaves: its error shrinks with its length.
        goal = min(0.1, longest)
    if not converged:
        warnings.warn("Newton did not converge on this history; do not rely on it.", LuceWarning, stacklevel=2)
    state = _newcomers(games.players, p)
    ratio = _filter(games, link, p, state, np.maximum(curve, 0.0), np.empty((0, 3)))
    ends = np.append(chain.player[1:] != chain.player[:-1], True)
    order = np.argsort(chain.player[ends])
    present = Present(x[ends][order], state.covariance, chain.time[ends][order])
    variance = chain.variances(np.maximum(curve, 0.0))
    return Mode(chain.player, chain.time, x, variance, present, -value - 0.5 * ratio, converged)


@dataclass(frozen=True, eq=False)
class _Chain:
    """Nodes of all players end to end, and the precision of their walks."""

    player: IntArray
    time: FloatArray
    a: IntArray
    """The node of side a in every game."""
    b: IntArray
    own: FloatArray
    """The precision of the start at the first node of a player, 0 at the others."""
    step: FloatArray
    """The precision of the step from each node to the next; 0 at the end of a player."""

    @staticmethod
    def of(games: Games, p: Parameters) -> _Chain:
        sides = np.concatenate([games.games[:, 0], games.games[:, 1]])
        moments, when = np.unique(games.times, return_inverse=True)
        key, node = np.unique(sides * len(moments) + np.tile(when, 2), return_inverse=True)
        player, time = key // len(moments), moments[key % len(moments)]
        same = player[1:] == player[:-1]
        step: FloatArray = np.where(same, 1.0 / np.maximum(p.step * np.diff(time), 1e-12), 0.0)
        own: FloatArray = np.where(np.concatenate([[True], ~same]), 1.0 / p.start, 0.0)
        half = len(games.games)
        return _Chain(player, time, node[:half], node[half:], own, step)

    def prior(self, x: FloatArray) -> FloatArray:
        result: FloatArray = self.own * x
        flow = self.step * np.diff(x)
        result[1:] += flow
        result[:-1] -= flow
        return result

    def scatter(self, of_a: FloatArray, of_b: FloatArray) -> FloatArray:
        n = len(self.player)
        return add_up(self.a, of_a, n) + add_up(self.b, of_b, n)

    def solve(self, right: FloatArray, curve: FloatArray, exact: float) -> FloatArray:
        """Conjugate gradients with the tridiagonal system of every player as preconditioner, to a relative error."""
        own = self.own + self.scatter(curve, curve)
        x, residual = np.zeros_like(right), right.copy()
        better = np.empty_like(right)
        solve_chains(own, self.step, residual, better)
        direction, size = better.copy(), float(residual @ better)
        goal = max(exact**2, 1e-12) * size
        for _ in range(1000):
            if size <= goal:
                break
            flow = curve * (direction[self.a] - direction[self.b])
            image = self.prior(direction) + self.scatter(flow, -flow)
            length = size / float(direction @ image)
            x += length * direction
            residual -= length * image
            solve_chains(own, self.step, residual, better)
            size, old = float(residual @ better), size
            direction = better + (size / old) * direction
        return x

    def variances(self, curve: FloatArray) -> FloatArray:
        """Diagonal of the inverse of every player's own tridiagonal block."""
        own = self.own + self.scatter(curve, curve)
        # Sequential in a player, and cheap beside the rest: plain Python over numbers of a list.
        ahead, back, step = own.tolist(), own.tolist(), self.step.tolist()
        for i, s in enumerate(step):
            ahead[i + 1] += s * ahead[i] / (s + ahead[i])
        for i, s in reversed(list(enumerate(step))):
            back[i] += s * back[i + 1] / (s + back[i + 1])
        return np.asarray(1.0 / (np.array(ahead) + np.array(back) - own))
