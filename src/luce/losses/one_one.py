r"""Sets T of k documents that beat all others one by one: the normaliser of [HOM] (6), its slopes, chances and draws.

With $B(d) = 2\log(2\cosh\frac d2)$ and $a_i = \sum_{j \ne i} \log\sigma(f_i - f_j)$

$$\log w(T) = \sum_{i \in T,\, j \notin T} \log\sigma(f_i - f_j)
  = \sum_{i \in T} a_i + \sum_{i < l \in T} B(f_i - f_l).$$

$-B$ is conditionally positive definite: $B(f - c) + B(g - c) - B(f - g) - B(0) = \psi(f) \cdot \psi(g)$. With
$v_T = \sum_{i \in T} \psi(f_i)$ this makes, for every v,

$$w(T) = e^{U(v)}\, q_v(T)\, e^{-|v_T - v|^2 / 2}, \qquad q_v(T) \propto \prod_{i \in T} x_i, \qquad
  \log x_i = a_i + k B(f_i - c) - v \cdot \psi(f_i).$$

The law q is that of independent documents given that k are taken, and U is strictly convex. Where v is the mean of
$v_T$ under q the last factor is near 1: draws from q are kept with that chance, and are then exact. Its mean is that of
$e^{i z \cdot (v_T - v)}$ over normal z, which Gauss and Hermite's nodes sum, in the few directions in which $v_T$
varies; at a node it is a polynomial of complex weights. All is linear in the number of documents: $\psi$ and $a$ are
analytic, and interpolated from Chebyshev's points.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logit

from luce.numerics.compiled import kernel
from luce.numerics.symmetric import forward, pull_back
from luce.types import FloatArray, IntArray

_ROUNDS = 12
_TOLERANCE = 1e-5
"""A direction in which v_T has a smaller variance is left to its normal law."""
_NODES = ((1.0, 13), (0.1, 9), (0.02, 7), (0.002, 5), (_TOLERANCE, 3))
"""Nodes of a direction, by its variance."""
_MOST_NODES = 1 << 14
_CERTAIN = 26.0
"""A document whose score is this far, and the log of their number, from the cut is surely on its side of it."""


def _b(d: FloatArray) -> FloatArray:
    """B of differences."""
    size = np.abs(d)
    return size + 2.0 * np.log1p(np.exp(-size))


class ProductLaw(NamedTuple):
    """Sets of k documents in proportion to the product of their weights: their logs, the log of the sum over all sets,
    the chance of every document to be in one, and the chances to stay out of the walk that draws."""

    log_weight: FloatArray
    log_total: float
    chance: FloatArray
    stay: FloatArray

    @classmethod
    def of(cls, log_weight: FloatArray, k: int) -> ProductLaw:
        """The law of these weights."""
        n = len(log_weight)
        log_e, stay, chance = np.empty(n), np.zeros((n, k + 1)), np.zeros(n)
        forward(k * log_weight, k, n, log_e, np.empty(k + 1), stay, True)
        pull_back(stay, k, n, np.array([n]), np.ones(1), np.empty(k + 2), chance)
        return cls(log_weight, float(log_e[-1]), chance, stay)

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """(count, k) documents: from the last to the first, each stays out with the chance that the table has."""
        n, k = len(self.log_weight), self.stay.shape[1] - 1
        left, members = np.full(count, k), np.empty((count, k), dtype=np.int64)
        for i in range(n - 1, -1, -1):
            taken = np.flatnonzero((left > 0) & (rng.random(count) >= self.stay[i, left]))
            left[taken] -= 1
            members[taken, left[taken]] = i
        return members

    def log_prob(self, members: IntArray) -> FloatArray:
        """Of sets of k documents."""
        return np.asarray(self.log_weight[members].sum(axis=1) - self.log_total)


@lru_cache(maxsize=16)
def _features(half: float) -> tuple[FloatArray, FloatArray]:
    """Chebyshev's points of [-half, half], and the coefficients (degree, dimension) of psi, with c = 0."""
    size = max(8, math.ceil(27.0 / math.asinh(math.pi / half)))  # B is analytic up to pi from the real line
    angles = np.pi * (np.arange(size) + 0.5) / size
    points = half * np.cos(angles)
    gram = _b(points)[:, None] + _b(points)[None, :] - _b(points[:, None] - points[None, :]) - 2.0 * math.log(2.0)
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-13 * values[-1]
    return points, _coefficients(angles, vectors[:, kept] * np.sqrt(values[kept]))


def _coefficients(angles: FloatArray, values: FloatArray) -> FloatArray:
    """Chebyshev's coefficients of functions with these values at the points of these angles."""
    size = len(angles)
    matrix = np.cos(np.arange(size)[:, None] * angles) * (2.0 / size)
    matrix[0] *= 0.5
    return np.asarray(matrix @ values)


class _Line:
    """The scores of documents on an interval, on which smooth functions are interpolated."""

    def __init__(self, f: FloatArray) -> None:
        self.centre = 0.5 * (float(f.max()) + float(f.min()))
        self.half = 2.0 ** math.ceil(math.log2(max(0.5 * float(np.ptp(f)), 1.0)))
        points, self.psi = _features(self.half)
        self.points = points + self.centre
        self.angles = np.arccos(np.clip(points / self.half, -1.0, 1.0))
        degree, at = np.arange(len(points)), np.arccos(np.clip((f - self.centre) / self.half, -1.0, 1.0))
        self.basis = np.cos(degree * at[:, None])
        sine = np.sin(at)
        ends = np.where(np.cos(at)[:, None] > 0, 1.0, np.where(degree % 2, 1.0, -1.0)) * degree**2
        slopes = degree * np.sin(degree * at[:, None]) / np.where(sine < 1e-7, 1.0, sine)[:, None]
        self.slopes = np.where((sine < 1e-7)[:, None], ends, slopes) / self.half

    def at(self, values: FloatArray) -> FloatArray:
        """What a function with these values at the points is at the documents."""
        return self.basis @ _coefficients(self.angles, values)


class OneOneLaw:
    """The law w of sets of k of n documents, 1 <= k < n.

    >>> law = OneOneLaw(np.zeros(6), 2)  # 15 sets, each with 8 pairs of chance 1/2
    >>> round(math.exp(law.log_total) * 2**8, 9), law.chance.round(9).tolist()
    (15.0, [0.333333333, 0.333333333, 0.333333333, 0.333333333, 0.333333333, 0.333333333])
    """

    def __init__(self, scores: FloatArray, k: int) -> None:
        self.scores, self.k = scores, k
        ranked = -np.sort(-scores)
        # Where a gap parts the top from all others, its two sides stay free: a law of nobody could not be summed.
        reach = max(_CERTAIN + math.log(len(scores)), 1.001 * float(ranked[k - 1] - ranked[k]))
        self.sure = np.flatnonzero(scores > ranked[k] + reach)
        out = scores < ranked[k - 1] - reach
        self.free = np.setdiff1d(np.flatnonzero(~out), self.sure)
        f, sure = scores[self.free], scores[self.sure]
        self.left = k - len(sure)
        self.line = _Line(f)
        points, centre = self.line.points, self.line.centre
        beats = np.array([log_expit(x - scores).sum() for x in points])
        alone = self.line.at(beats) + math.log(2.0)  # nobody meets himself
        alone += _b(f[:, None] - sure[None, :]).sum(axis=1)
        self.features = self.line.basis @ self.line.psi
        self.base = alone + self.left * _b(f - centre)
        within = 0.5 * (_b(sure[:, None] - sure[None, :]).sum() - 2.0 * math.log(2.0) * len(sure))
        of_sure = sum(float(log_expit(x - scores).sum()) + math.log(2.0) for x in sure)
        self.constant = of_sure + within - self.left * (self.left + 1) * math.log(2.0)
        self.centre_field()
        self.sum_up()

    def centre_field(self) -> None:
        """The law q whose mean of v_T is v, by Newton's steps with the covariance of nearly independent documents."""
        v: FloatArray = np.zeros(self.features.shape[1])
        step: FloatArray = np.zeros_like(v)
        best = math.inf
        for _ in range(_ROUNDS):
            law = ProductLaw.of(self.base - self.features @ (v - step), self.left)
            height = 0.5 * float((v - step) @ (v - step)) + law.log_total
            if height > best + 1e-12 * abs(best):
                step = 0.5 * step
                continue
            v, best, self.law = v - step, height, law
            slope: FloatArray = v - self.features.T @ law.chance
            if float(np.abs(slope).max()) < 1e-9:
                break
            step = np.linalg.solve(np.eye(len(v)) + self.covariance(), slope).astype(np.float64)
        self.v = v

    def covariance(self) -> FloatArray:
        """That of v_T under q, as if documents were independent but for their number (Hajek)."""
        spread = self.law.chance * (1.0 - self.law.chance)
        mean = self.features.T @ spread
        result: FloatArray = (self.features.T * spread) @ self.features
        return result - np.outer(mean, mean) / max(float(spread.sum()), 1e-300)

    def sum_up(self) -> None:
        """The log of the sum over all sets, the chance of every document, and the slopes of the former."""
        values, vectors = np.linalg.eigh(self.covariance())
        values = np.maximum(values, 0.0)
        active = np.flatnonzero(values > _TOLERANCE)[::-1]
        rotated = self.features @ vectors[:, active]
        # How far a change of one document moves v_T in each direction, where few may change: it then has no normal
        # law, and more nodes are needed than its variance tells.
        chance, jumps = self.law.chance, np.zeros(len(active))
        uncertain = (chance > 1e-9) & (chance < 1.0 - 1e-9)
        if uncertain.any() and (chance * (1.0 - chance)).sum() < 2.0:
            jumps = np.ptp(rotated[uncertain], axis=0)
        z, log_weight = _normal_nodes(values[active], jumps)
        rest = -0.5 * float(np.log1p(np.delete(values, active)).sum())
        turned = np.exp(log_weight - 1j * (z @ (vectors[:, active].T @ self.v)))
        # q as independent documents that are k in number with a chance that is not small.
        balance = _balance(self.law.log_weight, self.left)
        log_odds = self.law.log_weight + balance
        p = expit(log_odds)
        inside, twisted = np.zeros(len(p)), np.zeros(rotated.shape)
        total = float(sum_of_sets(p, rotated, z, turned, self.left, inside, twisted))
        log_e = math.log(total) - float(log_expit(-log_odds).sum()) - self.left * balance
        self.log_total = self.constant + 0.5 * float(self.v @ self.v) + log_e + rest
        inside /= total
        slopes_of_features = self.line.slopes @ self.line.psi
        bent = -(slopes_of_features @ self.v) * inside
        bent += np.einsum("id,id->i", twisted / total, slopes_of_features @ vectors[:, active])
        self._spread(np.clip(inside, 0.0, 1.0), inside, bent)

    def _spread(self, chance: FloatArray, inside: FloatArray, bent: FloatArray) -> None:
        """Chances and slopes of all documents, those that are surely in or out with the others."""
        scores, sure, f = self.scores, self.scores[self.sure], self.scores[self.free]
        self.chance = np.zeros(len(scores))
        self.chance[self.sure], self.chance[self.free] = 1.0, chance
        weight = np.zeros(len(scores))
        weight[self.sure], weight[self.free] = 1.0, inside
        points, every = self.line.points, scores
        # Who wins against a document, summed over all, and over those of T.
        losses = self.line.at(np.array([expit(every - x).sum() for x in points]))
        wins = self.line.at(np.array([weight @ expit(x - every) for x in points]))
        tilt = np.tanh(0.5 * (f - self.line.centre)) * self.left
        tilt += np.tanh(0.5 * (f[:, None] - sure[None, :])).sum(axis=1)
        self.slopes = np.zeros(len(scores))
        self.slopes[self.free] = inside * (losses + tilt) + bent - wins
        lost = np.zeros(len(scores))
        lost[self.free] = losses - 0.5
        others = np.setdiff1d(np.arange(len(scores)), self.free)
        for i in others.tolist():
            x = scores[i]
            lost[i] = float(expit(every - x).sum()) - 0.5
            self.slopes[i] = -float(weight @ expit(x - every))
            if weight[i]:
                met = weight * np.tanh(0.5 * (x - every))
                self.slopes[i] += lost[i] + 0.5 + float(met.sum())
        self.slopes -= self.slopes.mean()  # a shift of all scores changes nothing
        self.spread = greatest_spread(self.slopes, np.maximum(lost, 0.0), self.k)

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """(count, k) documents, exactly from the law: sets of q, kept with the chance of what q leaves out."""
        found, missing = [], count
        while missing > 0:
            members = self.law.draw(max(64, missing + missing // 8), rng)
            away = self.features[members].sum(axis=1) - self.v
            kept = members[rng.random(len(members)) < np.exp(-0.5 * (away**2).sum(axis=1))]
            found.append(kept[:missing])
            missing -= len(found[-1])
        sets = self.free[np.concatenate(found)]
        return np.column_stack([np.tile(self.sure, (count, 1)), sets])


def greatest_spread(slopes: FloatArray, lost: FloatArray, k: int, most: float = np.inf) -> FloatArray:
    """A bound of the variance of the slope of log w in each score, whose mean is `slopes`.

    A document of T loses to those of F, `lost` in all at the most (or `most`), one of F to the k of T: a variable
    between two bounds of which the mean is known (Bhatia and Davis).
    """
    up, down = np.minimum(lost, most), np.minimum(k, len(lost) - 1.0 - lost)
    return np.maximum((up - slopes) * (slopes + down), 0.0)


def _balance(log_weight: FloatArray, k: int) -> float:
    """What makes k the mean number of documents that are taken with odds of these logs and it."""
    low, high = -float(log_weight.max()) - 800.0, -float(log_weight.min()) + 800.0
    at = float(logit(k / len(log_weight)) - np.median(log_weight))
    for _ in range(200):
        p = expit(log_weight + at)
        excess, slope = float(p.sum()) - k, float((p * (1.0 - p)).sum())
        low, high = (low, at) if excess > 0 else (at, high)
        step = at - excess / slope if slope > 1e-300 else math.nan
        new = step if low < step < high else 0.5 * (low + high)
        if abs(new - at) < 1e-9:
            break
        at = new
    return at


def _normal_nodes(variances: FloatArray, jumps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points (nodes, directions) and log-weights of a mean over normal z of what falls off as e^(-variance z^2 / 2).

    Of z and -z, which give conjugate numbers, one stands for both.
    """
    sides: list[list[tuple[float, float]]] = []
    for variance, jump in zip(variances.tolist(), jumps.tolist(), strict=True):
        count = max(next((n for least, n in _NODES if variance > least), 3), min(3 + 2 * round(0.6 * jump**2), 101))
        points, weights = np.polynomial.hermite_e.hermegauss(count)
        scale = (1.0 + variance) ** -0.5
        logs = np.log(weights / math.sqrt(2.0 * math.pi)) + math.log(scale) + 0.5 * (1.0 - scale**2) * points**2
        if math.prod(len(side) for side in sides) * count > _MOST_NODES:
            points, logs = np.zeros(1), np.array([math.log(scale)])
        sides.append(list(zip((scale * points).tolist(), logs.tolist(), strict=True)))
    grid = [(tuple(x for x, _ in node), math.fsum(log for _, log in node)) for node in product(*sides)]
    half = [(z, log + (math.log(2.0) if any(z) else 0.0)) for z, log in grid if z >= tuple(-x for x in z)]
    return np.array([z for z, _ in half]).reshape(len(half), len(variances)), np.array([log for _, log in half])


@kernel
def sum_of_sets(p, features, z, turned, k, inside, twisted):  # type: ignore[no-untyped-def]
    """Over nodes, the real part of `turned` times the chance that k documents are taken, each with chance p.

    At a node a document turns by the angle z . features. `inside` and `twisted` grow by the same over the sets that
    have a document in them, as it is and with a factor i z.
    """
    n, total = len(p), 0.0
    below = np.empty((n + 1, k + 1), dtype=np.complex128)
    above, taken = np.empty(k + 1, dtype=np.complex128), np.empty(n, dtype=np.complex128)
    for node in range(len(z)):
        for i in range(n):
            angle = 0.0
            for d in range(features.shape[1]):
                angle += z[node, d] * features[i, d]
            taken[i] = p[i] * complex(math.cos(angle), math.sin(angle))
        for j in range(k + 1):
            below[0, j], above[j] = 0.0, 0.0
        below[0, 0], above[0] = 1.0, 1.0
        for i in range(n):
            stay = 1.0 - p[i]
            below[i + 1, 0] = stay * below[i, 0]
            for j in range(1, min(i + 1, k) + 1):
                below[i + 1, j] = stay * below[i, j] + taken[i] * below[i, j - 1]
            for j in range(min(i + 1, k) + 1, k + 1):
                below[i + 1, j] = 0.0
        factor = turned[node]
        total += (factor * below[n, k]).real
        for i in range(n - 1, -1, -1):
            most = min(n - 1 - i, k - 1)  # how many there may be above
            chance = complex(0.0, 0.0)
            for j in range(max(0, k - 1 - i), most + 1):
                chance += below[i, k - 1 - j] * above[j]
            chance *= factor * taken[i]
            inside[i] += chance.real
            for d in range(features.shape[1]):
                twisted[i, d] -= chance.imag * z[node, d]
            stay = 1.0 - p[i]
            for j in range(min(n - i, k), 0, -1):
                above[j] = stay * above[j] + taken[i] * above[j - 1]
            above[0] *= stay
    return total
