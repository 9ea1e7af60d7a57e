r"""How probable it is that a document is among the first k of its query.

Luce's model is a race: document i arrives at an exponential time of rate $\lambda_i = e^{f_i}$, and the first to arrive
is ranked first. So

$$P(i \in \text{top } k) = \int_0^\infty \lambda_i e^{-\lambda_i t}\; G_i(t)\,dt,
  \qquad G_i(t) = P(\text{fewer than } k \text{ others by } t),$$

where the number of others that have arrived is Poisson-binomial, a small dynamic program at every t. The falling curve
$G_i$ is nearly that of a gamma variable, $H(t) = Q(m, \mu t)$, with $m$ and $\mu$ from mean and variance of the number
that has arrived, and with $H$ in the place of $G_i$ the integral is $1 - (1 + \lambda_i/\mu)^{-m}$. What is left to
integrate is $\lambda_i e^{-\lambda_i t}(G_i - H)$, which lives only where the k-th document arrives: in $u = \log t$
it is analytic and falls off on both sides, so that the trapezoid rule is right to about 6e-15 with 30 to 80 nodes. The
time of the k-th arrival is spread over about $1/\sqrt{k}$ in $u$: the step is 0.2 up to k = 8, and falls as
$1/\sqrt{k}$ beyond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc, softmax

from luce.checks import whole
from luce.errors import SettingError
from luce.losses.base import Loss, check_scores
from luce.losses.pairwise import Davidson
from luce.losses.plackett_luce import PlackettLuce
from luce.losses.top_sets import weighed_sets
from luce.losses.topk import HomGG, HomOG, HomOO, TopKListMLE
from luce.numerics.compiled import kernel
from luce.types import FloatArray

STEP = 0.2
EARLY, LATE = -38.0, 4.0
"""log(rate * time) before which an arrival has a chance below 1e-16, and after which it has happened (1 - 1e-23)."""
NEGLIGIBLE = 1e-17
"""A chance that counts as none."""


class TopKChances(NamedTuple):
    """The chance of every document to be in the top k, its standard error, and the draws it comes from (0: exact)."""

    probability: FloatArray
    error: FloatArray
    draws: int


def topk_probability(loss: Loss, scores: ArrayLike, k: int, rng: np.random.Generator | int = 0) -> FloatArray:
    """P(in the top k) of every document of one query; they sum to k, or to n where the query has fewer.

    As `topk_chances` has them, without their errors; `rng` serves the models that are sampled.

    >>> import luce
    >>> topk_probability(luce.losses.get("listmle"), [np.log(2), 0.0, 0.0], 1).round(12).tolist()
    [0.5, 0.25, 0.25]
    """
    return topk_chances(loss, scores, k, rng).probability


def topk_chances(
    loss: Loss, scores: ArrayLike, k: int, rng: np.random.Generator | int = 0, draws: int = 4000
) -> TopKChances:
    r"""P(in the top k) of every document of one query, with standard errors.

    Exact for Luce's model (`listmle`, `topk_listmle`, and `davidson` by its `race_scale`). For a hierarchical ordering
    model it is the chance to be in T with $|T| = k$: for `hom_gg` $s_i + \frac{k-1}{n-1}(1 - s_i)$ with $s$ the
    softmax of the scores. `hom_oo` and `hom_og` enumerate the sets of k documents up to 100,000 of them;
    beyond, `draws` weighted sets are drawn.

    >>> import luce
    >>> chances = topk_chances(luce.losses.get("hom_og"), np.zeros(40), 10)
    >>> bool(np.all(abs(chances.probability - 0.25) <= 5 * chances.error)), chances.draws
    (True, 4000)
    """
    f = check_scores(scores)
    k = whole("k", k, 1)
    if not isinstance(loss, PlackettLuce | TopKListMLE | HomGG | HomOO | HomOG | Davidson):
        raise SettingError(
            f"The loss {loss.name!r} has no top-k probabilities; 'topk_listmle', 'listmle', 'davidson' and the 'hom' "
            "losses have."
        )
    n = len(f)
    if k >= n:
        return _exact(np.ones(n))
    if isinstance(loss, PlackettLuce | TopKListMLE | Davidson):
        return _exact(luce_topk(f * loss.race_scale if isinstance(loss, Davidson) else f, k))
    if isinstance(loss, HomGG):
        share = softmax(f)
        return _exact(share + (k - 1) / (n - 1) * (1.0 - share))
    if loss.enumerable(n, k):
        members, logs = loss.subsets(f, k)
        return _exact(np.bincount(members.ravel(), np.repeat(softmax(logs), k), n).astype(np.float64))
    sets = weighed_sets(loss.kind, f, k, np.random.default_rng(rng), draws)
    return TopKChances(*sets.inclusion(), draws)


def _exact(probability: FloatArray) -> TopKChances:
    return TopKChances(probability, np.zeros_like(probability), 0)


def luce_topk(scores: FloatArray, k: int) -> FloatArray:
    """The same under Luce's model, for 1 <= k < n."""
    middle, shape = _arrival(scores, k)
    log_rate = np.log(shape) - middle
    # 1 - (1 + lambda / mu)^-m; where lambda / mu would overflow, nothing is lost by stopping short of it.
    probability = -np.expm1(-shape * np.log1p(np.exp(np.minimum(scores - log_rate, 700.0))))
    step = STEP * min(1.0, np.sqrt(8.0 / k))
    ahead, behind, room = np.empty((len(scores) + 1, k)), np.empty(k), np.empty(len(scores))
    for direction in (1, -1):
        node, done = (0, False) if direction == 1 else (1, False)
        while not done:
            u = middle + direction * node * step
            z = scores + u
            _room(z, k, ahead, behind, room)
            gamma = float(gammaincc(shape, np.exp(min(u + log_rate, 700.0))))
            near = (z > EARLY) & (z <= LATE)
            at = z[near]
            probability[near] += step * np.exp(at - np.exp(at)) * (room[near] - gamma)
            # Both curves fall from 1 to 0: once both are at their end, nothing is beyond. Their sums round near 1.
            if direction == 1:
                done = max(gamma, room[near].max(initial=0.0)) < NEGLIGIBLE
            else:
                done = 1.0 - min(gamma, room[near].min(initial=1.0)) < 1e3 * NEGLIGIBLE
            node += 1
    result: FloatArray = np.clip(probability, 0.0, 1.0)
    return result


def _arrival(scores: FloatArray, k: int) -> tuple[float, float]:
    """When k - 1/2 documents are expected to have arrived, as log t, and the shape of the gamma variable that fits."""
    low, high = -float(scores.max()) - 40.0, -float(np.partition(scores, -k)[-k]) + 6.0
    while high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        middle = 0.5 * (low + high)
        arrived = -np.expm1(-np.exp(np.minimum(scores + middle, LATE)))
        low, high = (low, middle) if arrived.sum() > k - 0.5 else (middle, high)
    rate = np.exp(np.minimum(scores + high, LATE))
    late = np.exp(-rate)
    slope, variance = float(np.sum(rate * late)), float(np.sum(late * (1.0 - late)))
    return high, max(1.0, slope**2 / variance)


@kernel(reorder=True)
def _room(z, k, ahead, behind, room):  # type: ignore[no-untyped-def]
    """`room[i]` becomes the chance that fewer than k of the others have arrived, at z = log(rate * time) of each.

    `ahead[a, c]` is the chance that c of the first a undecided documents have arrived, `behind[c]` that at most c of
    the last ones have; those that are sure to have arrived only take seats.
    """
    undecided, sure = 0, 0
    active, arrived = np.empty(len(z), dtype=np.int64), np.empty(len(z))
    for i in range(len(z)):
        room[i] = 0.0
        if z[i] > LATE:
            sure += 1
        elif z[i] > EARLY:
            active[undecided] = i
            arrived[undecided] = -np.expm1(-np.exp(z[i]))
            undecided += 1
    seats = k - sure
    if seats < 1:
        return
    ahead[0, :seats] = 0.0
    ahead[0, 0] = 1.0
    for a in range(undecided):
        p = arrived[a]
        old, new = ahead[a], ahead[a + 1]
        new[0] = old[0] * (1.0 - p)
        for c in range(1, seats):
            new[c] = old[c] * (1.0 - p) + old[c - 1] * p
    behind[:seats] = 1.0
    for a in range(undecided - 1, -1, -1):
        total = 0.0
        for c in range(seats):
            total += ahead[a, c] * behind[seats - 1 - c]
        room[active[a]] = total
        p = arrived[a]
        for c in range(seats - 1, 0, -1):
            behind[c] = behind[c] * (1.0 - p) + behind[c - 1] * p
        behind[0] *= 1.0 - p
