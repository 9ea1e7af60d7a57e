r"""Joint probabilities of preferences under a cumulative distribution network.

The network gives $F$, the joint cdf of the preferences of an order graph. Its marginals come by setting the other
arguments to infinity, but they shrink with the number of edges and $F(i \to j) + F(j \to i)$ is not 1. So
probabilities here are normalised over the orderings of the items that are asked for:

$$P(\pi) = F(\pi) / \sum_{\pi'} F(\pi'),$$

with $F(\pi)$ the network over all edges of the complete order $\pi$.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from luce.errors import SettingError
from luce.losses.base import check_scores
from luce.losses.cdn.functions import INFINITE
from luce.losses.cdn.loss import CDN
from luce.types import FloatArray, IntArray

MOST_ITEMS = 8
"""Items whose orderings are all visited: 40,320 of them."""


class Orders(NamedTuple):
    """Every ordering of some items, best first, and its probability."""

    items: IntArray
    probability: FloatArray
    independent: FloatArray
    """The same with the network's marginals of single edges, taken as independent."""


class StatementProbability(NamedTuple):
    """The probability of a statement under the network, and with its preferences taken as independent."""

    probability: float
    independent: float

    @property
    def dependence(self) -> float:
        """What the network's dependence adds: the difference of the log odds."""
        odds = [math.log(p) - math.log1p(-p) for p in self if 0.0 < p < 1.0]
        return odds[0] - odds[1] if len(odds) == 2 else math.nan


def order_probabilities(loss: CDN, scores: ArrayLike, items: Sequence[int] | None = None) -> Orders:
    """The probability of every ordering of `items` (None: all documents of the query), 8 at the most.

    >>> orders = order_probabilities(CDN(), [1.0, 0.0, -1.0])
    >>> orders.items[orders.probability.argmax()].tolist(), round(float(orders.probability.sum()), 12)
    ([0, 1, 2], 1.0)
    """
    f = check_scores(scores)
    chosen = _checked(f, range(len(f)) if items is None else items)
    network = _network(loss)
    n = len(chosen)
    orders = np.array(list(itertools.permutations(range(n))), dtype=np.int64)
    labels = np.empty(orders.shape)
    np.put_along_axis(labels, orders, np.arange(n, 0, -1.0)[None, :].repeat(len(orders), 0), axis=1)
    log_joint = -_values(network, np.tile(f[chosen], len(orders)), labels.ravel(), n)
    log_single = np.array([_log_independent(network, f[chosen][order]) for order in orders])
    return Orders(chosen[orders], softmax(log_joint), softmax(log_single))


def before_all(loss: CDN, scores: ArrayLike, item: int, others: Sequence[int]) -> StatementProbability:
    """P(item before all of `others`), normalised over the orderings of these items.

    >>> chances = before_all(CDN(), [0.0, 0.0, 0.0], 0, [1, 2])
    >>> round(chances.probability, 12)
    0.333333333333
    """
    if not len(others) or item in others:
        raise SettingError("`others` must name at least one item, and not the one that is compared with them.")
    orders = order_probabilities(loss, scores, [item, *others])
    first = orders.items[:, 0] == item
    return StatementProbability(float(orders.probability[first].sum()), float(orders.independent[first].sum()))


def before_each_other(loss: CDN, scores: ArrayLike) -> FloatArray:
    """(n, n): P(i before j), normalised over the two orderings of each pair; the diagonal is 0.

    These are not the pair probabilities of the orders of all n documents: in `order_probabilities` the edges of a pair
    meet those of all others, and the shares of orders with i before j are far more certain.

    >>> before_each_other(CDN(w1=1.0, w2=1.0), [0.0, 0.0]).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    f = check_scores(scores)
    n = len(f)
    better, worse = (part.ravel() for part in np.indices((n, n)))
    apart = better != worse
    pairs = np.column_stack([f[better[apart]], f[worse[apart]]]).ravel()
    log_joint = np.zeros((n, n))
    log_joint[better[apart], worse[apart]] = -_values(_network(loss), pairs, np.tile([1.0, 0.0], len(pairs) // 2), 2)
    result: FloatArray = np.exp(-np.logaddexp(0.0, log_joint.T - log_joint))
    np.fill_diagonal(result, 0.0)
    return result


def _checked(scores: FloatArray, items: Any) -> IntArray:
    chosen = np.asarray(list(items), dtype=np.int64)
    if len(set(chosen.tolist())) != len(chosen) or np.any((chosen < 0) | (chosen >= len(scores))):
        raise SettingError(f"The items must be different places from 0 to {len(scores) - 1}; got {chosen.tolist()}.")
    if not 2 <= len(chosen) <= MOST_ITEMS:
        raise SettingError(f"All orderings of {len(chosen)} items were asked for; name 2 to {MOST_ITEMS} as `items`.")
    return chosen


def _network(loss: CDN) -> CDN:
    """The same network with every term counted once, whatever its training took."""
    if not isinstance(loss, CDN):
        raise SettingError(f"The loss {getattr(loss, 'name', loss)!r} is no network; 'cdn' is.")
    if loss.topology == "random":
        raise SettingError("A random network has other pairs in every draw; probabilities need another topology.")
    return loss._changed(weighting="all")


def _values(network: CDN, scores: FloatArray, labels: FloatArray, size: int) -> FloatArray:
    offsets = np.arange(0, len(scores) + 1, size)
    return network.evaluate(network.prepare(labels, offsets), scores, (0, len(offsets) - 1), np.zeros_like(scores))


def _log_independent(network: CDN, scores: FloatArray) -> float:
    """Sum over edges of the log of the edge's marginal, for one complete order, best first."""
    n = len(scores)
    edges = [(i, j) for j in range(n) for i in range(j)]
    r = np.array([scores[i] - scores[j] for i, j in edges])
    one, other = _pairs(network.topology, edges)
    alone = -_values(network, np.column_stack([np.zeros(len(r)), -r]).ravel(), np.tile([1.0, 0.0], len(r)), 2)
    if network.topology in ("disconnected", "list"):
        return float(alone.sum())
    same = one == other
    # A pair of two documents has one edge, which meets itself (twice in a star, once for each end).
    itself = alone / (2.0 if network.topology == "star" else 1.0)
    far = np.full(len(r), INFINITE)
    first = np.sum([network._family.terms(w1 * r, far).log for w1, _ in network.weights], axis=0)
    second = np.sum([network._family.terms(far, w2 * r).log for _, w2 in network.weights], axis=0)
    return float(itself[one[same]].sum() + first[one[~same]].sum() + second[other[~same]].sum())


def _pairs(topology: str, edges: list[tuple[int, int]]) -> tuple[IntArray, IntArray]:
    """The pairs of edges that share a function, by position."""
    places = range(len(edges))
    if topology == "line":
        found = list(itertools.pairwise(places)) or [(0, 0)]
    elif topology == "star":
        hubs = sorted({end for edge in edges for end in edge})
        at_hub = [[e for e in places if hub in edges[e]] for hub in hubs]
        found = [pair for here in at_hub for pair in itertools.product(here, here)]
    else:
        found = list(itertools.product(places, places))
    one, other = np.array(found, dtype=np.int64).T
    return one, other
