"""Compiled passes over games in order of time: two filters, and the pieces of Newton's method on all history."""

from __future__ import annotations

import numpy as np

from luce.numerics import links
from luce.numerics.compiled import kernel, part


@part
def _log_probability(code, outcome, d, t):  # type: ignore[no-untyped-def]
    """Log P of an outcome and its first two derivatives in d."""
    if outcome == 2:
        value, first, second, _, _, _ = links.tie(code, d, t)
        return value, first, second
    sign = 1.0 if outcome == 0 else -1.0
    value, first, second, _, _, _ = links.win(code, sign * d, t)
    return value, sign * first, second


@part
def _chance(code, outcome, d, spread, t, nodes, weights):  # type: ignore[no-untyped-def]
    """P(outcome) with a normal difference of mean d and this standard deviation, by Gauss and Hermite."""
    total = 0.0
    for k in range(len(nodes)):
        total += weights[k] * np.exp(_log_probability(code, outcome, d + spread * nodes[k], t)[0])
    return total


@part
def _mode(code, outcome, d, v, t):  # type: ignore[no-untyped-def]
    """The most probable difference after an outcome, with N(d, v) before it, and minus the curvature of log P there."""
    x = d
    curve = 0.0
    for _ in range(30):
        _, first, second = _log_probability(code, outcome, x, t)
        curve = max(-second, 0.0)
        step = (first - (x - d) / v) / (curve + 1.0 / v)
        x += step
        if abs(step) < 1e-7:
            break
    return x, curve


@kernel
def diagonal_filter(code, games, sides, times, step, start, t, home, nodes, weights):  # type: ignore[no-untyped-def]
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
        d = mean[a] - mean[b] + home * sides[g]
        total += np.log(max(_chance(code, outcome, d, np.sqrt(v), t, nodes, weights), 1e-300))
        x, curve = _mode(code, outcome, d, v, t)
        moved, shrink = (x - d) / v, curve / (1.0 + curve * v)
        mean[a] += variance[a] * moved
        mean[b] -= variance[b] * moved
        variance[a] -= variance[a] ** 2 * shrink
        variance[b] -= variance[b] ** 2 * shrink
    return total


@kernel
def full_filter(code, games, sides, times, step, t, home, nodes, weights, mean, covariance, last, out):  # type: ignore[no-untyped-def]
    """The filter with all covariances; players are numbered by their first game. Fills (games, 3) predictions.

    `last` is NaN before a player's first game. Changes mean, covariance and last in place.
    """
    n = len(mean)
    gain = np.empty(n)
    known = 0
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
        for i in range(known):
            gain[i] = covariance[i, a] - covariance[i, b]
        v = gain[a] - gain[b]
        d = mean[a] - mean[b] + home * sides[g]
        for k in range(3):
            out[g, k] = _chance(code, k, d, np.sqrt(v), t, nodes, weights)
        x, curve = _mode(code, outcome, d, v, t)
        moved, shrink = (x - d) / v, curve / (1.0 + curve * v)
        for i in range(known):
            mean[i] += gain[i] * moved
            scale = gain[i] * shrink
            row = covariance[i]
            for j in range(known):
                row[j] -= scale * gain[j]


@kernel
def laplace_covariance(games, times, curves, step, covariance):  # type: ignore[no-untyped-def]
    """Covariance of the last strengths when every game is a normal observation with this precision; log determinant.

    The sum of log(1 + curve v), v the variance of the difference before the game, is the log of the determinant of the
    posterior precision over that of the prior.
    """
    n = len(covariance)
    gain, last = np.empty(n), np.full(n, np.nan)
    known, total = 0, 0.0
    for g in range(len(games)):
        a, b = games[g, 0], games[g, 1]
        known = max(known, a + 1, b + 1)
        for i in (a, b):
            if not np.isnan(last[i]):
                covariance[i, i] += step * (times[g] - last[i])
            last[i] = times[g]
        # Only the lower triangle is kept, which is half of the work.
        for i in range(known):
            gain[i] = covariance[max(i, a), min(i, a)] - covariance[max(i, b), min(i, b)]
        v = gain[a] - gain[b]
        total += np.log1p(curves[g] * v)
        shrink = curves[g] / (1.0 + curves[g] * v)
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
def game_terms(code, outcomes, d, t, first, curve):  # type: ignore[no-untyped-def]
    """Sum of log P; fills its derivative and minus its second derivative in d, by game."""
    total = 0.0
    for g in range(len(d)):
        value, by_d, by_dd = _log_probability(code, outcomes[g], d[g], t)
        total += value
        first[g] = by_d
        curve[g] = -by_dd
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
