r"""Top-k losses: Luce's stages cut at k, and hierarchical ordering models, which first part the top from the rest."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from luce.checks import whole
from luce.errors import SettingError
from luce.losses.base import Likelihood, Outputs, Target, check_scores, statements
from luce.losses.chances import PairProbabilities, TopKChances, exact_top
from luce.losses.one_one import OneOneLaw
from luce.losses.pairs import Here, Sums
from luce.losses.pairwise import RankNet
from luce.losses.plackett_luce import race_to_top
from luce.losses.top_lists import (
    GROUP_GROUP,
    ONE_GROUP,
    ONE_ONE,
    STAGES,
    K,
    TopGroups,
    TopLists,
    average_cuts,
    checked_k,
    fill_groups,
    top_groups,
    top_lists,
)
from luce.losses.top_sets import AllSets, draw_sets, weighed_sets
from luce.numerics.segments import query_index, shares
from luce.numerics.threads import one_blas_thread
from luce.spec import option
from luce.types import BoolArray, FloatArray, IntArray

MOST_SUBSETS = 100_000
"""Subsets of documents up to which a model without a normaliser in closed form is enumerated."""
_FEW_SUBSETS = 2_000
"""Subsets that cost less to enumerate than any other way."""
_DRAWN = (
    lambda loss: loss.inside == "random" or loss.ties in loss.averaged,
    "ties='average' or inside='random', which draw",
)


class TopKLoss(Likelihood):
    r"""-log P of the top of a query: the k documents T in their order, above the others, F, which have none.

    The target is labels, of which the k highest make T, or `Comparisons` with ordered lists: T is the first k of a
    list; below it are the rest of the query where the list is a top list, else the rest of the list alone. A query with
    fewer documents than k is all T, and so is a list that is shorter than k.

    Parameters
    ----------
    k
        How long the top is: a number, one number a query, or None for the whole of every list (of labels: the whole
        order).
    ties
        Equal labels at the cut: "extend" keeps them whole in T, "shrink" puts them into F (unless nothing else is
        in T), "stable" parts them in input order, "error" refuses them. `topk_listmle` also knows "exact", its
        default: so many of them as there are places left come first, whichever they are. The others know "average":
        the mean of -log P over the choices of those that come first, a composite likelihood, without a `log_prob`
        where there is such a tie. It goes over all choices where there are at most `draws`, else over so many that
        `seed` draws, and then depends a little on the order of the rows. `hom_gg` knows "exact" as well: a tie that
        holds the whole top is integrated out, in closed form; below other documents it is averaged, since P_T then
        depends on who is chosen.
    inside
        Equal labels inside T: "exact" sums over all orders that agree with them, as `plackett_luce` does; "random"
        draws one by `seed`, "stable" takes the order of the input, "error" refuses them.
    draws
        Of what is averaged at the cut, 16 unless told.
    seed
        Of the drawn order, and of those draws.
    """

    takes_comparisons: ClassVar[bool] = True
    outcome = "top"
    kind: ClassVar[int]
    averaged: ClassVar[tuple[str, ...]] = ("average",)
    """Ways to treat a tie at the cut that go over choices from it."""

    k: K = option(default=10, convert=checked_k)
    _: KW_ONLY
    ties: str = "extend"
    inside: Literal["exact", "stable", "random", "error"] = "exact"
    draws: int = option(default=16, least=1, needs=(lambda loss: loss.ties in loss.averaged, "ties='average'"))
    seed: int = option(default=0, least=0, needs=_DRAWN)

    def _check(self) -> None:
        if self.ties in ("exact", "average") and self.inside != "exact":
            raise SettingError(
                f"{self.name}(ties={self.ties!r}, inside={self.inside!r}): a tie across the cut needs inside='exact'; "
                "ties='extend' goes with the others."
            )
        drawn = self.ties in ("stable", *self.averaged) or self.inside in ("stable", "random")
        self.permutation_invariant = not drawn

    def prepare(self, target: Target, offsets: IntArray) -> TopGroups:
        """The lists of every query, cut into the parts of the model."""
        lists = self._known(target, offsets)
        if self.ties in self.averaged:
            lists = average_cuts(lists, self.draws, self.seed, self._closed(lists))
        return top_groups(self.kind, lists)

    def _closed(self, lists: TopLists) -> BoolArray:
        """The lists whose tie at the cut is integrated out, where the others are averaged."""
        return np.zeros(len(lists.tops), dtype=bool)

    def _known(self, target: Target, offsets: IntArray) -> TopLists:
        """The lists as the target has them, before ties at the cut are averaged."""
        ties = "exact" if self.ties == "average" else self.ties
        return top_lists(statements(self, target, offsets, pairs=False), self.k, ties, self.inside, self.seed)

    def fill(self, prepared: TopGroups, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian, for `hom_gg` that of a majoriser."""
        fill_groups(prepared, scores, out, self.against)

    def against(
        self, f: FloatArray, starts: IntArray, values: FloatArray, slopes: FloatArray, bends: FloatArray
    ) -> None:
        """-log P_TF of lists, as `luce.losses.top_lists.Against` says; nothing where stages see T and F alike."""

    def log_prob(self, scores: ArrayLike, target: Target) -> float:
        """Log-probability of the top of one query among all tops of that length, constants included."""
        f = check_scores(scores)
        lists = self._known(target, np.array([0, len(f)]))
        tops, ways, closed = lists.tops, 0.0, self._closed(lists)
        if self.ties in self.averaged and (lists.across & ~closed).any():
            raise SettingError(
                f"{self.name}(ties={self.ties!r}) is the mean of several tops where labels tie at the cut k = "
                f"{tops[lists.across & ~closed][0]}, and no probability; ties='extend' or 'shrink' has one."
            )
        if closed.any():
            places = zip((lists.ends[closed] - 1).tolist(), (tops[closed] - 1).tolist(), strict=True)
            ways = sum(math.log(math.comb(tied, top)) for tied, top in places)
            lists = average_cuts(lists, self.draws, self.seed, closed)
        lists = lists._replace(weights=np.ones_like(lists.weights))  # a list that counts twice is no less probable
        value = float(self.evaluate(top_groups(self.kind, lists), f, (0, 1), np.empty_like(f))[0])
        spans = zip(pairwise(lists.starts), tops.tolist(), strict=True)
        return ways - value - sum(self.log_normaliser(f[lists.rows[a:b]], top) for (a, b), top in spans if top)

    def sample_many(self, scores: ArrayLike, rng: np.random.Generator, n: int, sizes: Any = None) -> FloatArray:
        """Draw n tops of one query, a row of labels each: k for the best, 1 for the k-th, 0 for the others."""
        f = check_scores(scores)
        k = self.one_k(len(f))
        labels = np.zeros((n, len(f)))
        np.put_along_axis(labels, self.draw_tops(f, k, rng, n), np.arange(k, 0, -1.0)[None, :], axis=1)
        return labels

    def one_k(self, n: int) -> int:
        """The k of one query of n documents."""
        if isinstance(self.k, tuple) and len(self.k) != 1:
            raise SettingError(f"{self.name} has {len(self.k)} values of k; a draw for one query needs one.")
        k = self.k[0] if isinstance(self.k, tuple) else self.k
        if k is None and self.kind != STAGES:
            raise SettingError(
                f"{self.name}(k=None) is a model of tops of every length; a draw needs one: say k, or set loss__k."
            )
        return n if k is None else min(n, k)

    def of_length(self, k: int) -> Self:
        """The same loss with a top of k documents."""
        return self._changed(k=whole("k", k, 1))

    @abstractmethod
    def log_normaliser(self, scores: FloatArray, k: int) -> float:
        """Log of the sum of e^(-value) over all ordered tops of k documents."""

    @abstractmethod
    def draw_tops(self, scores: FloatArray, k: int, rng: np.random.Generator, count: int) -> IntArray:
        """Draw (count, k) documents, those of T, best first."""


def _luce_order(scores: FloatArray, among: IntArray, rng: np.random.Generator) -> IntArray:
    """Every row of documents in an order drawn from Luce's model: sorting scores plus Gumbel noise does it."""
    order = np.argsort(-(scores[among] + rng.gumbel(size=among.shape)), axis=1)
    return np.take_along_axis(among, order, axis=1)


class TopKListMLE(TopKLoss):
    r"""Luce's model cut after k stages, [HOM] (1).

    $$-\log p(\sigma) = \sum_{i \le k} \Big[\log\sum_{j \ge i} e^{f_{\sigma(j)}} - f_{\sigma(i)}\Big]$$

    where the sums run over everything that is left, F included. With k = n it is `listmle`.

    >>> loss = TopKListMLE(k=1)
    >>> round(float(np.exp(loss.log_prob([0.0, 0.0, 0.0], [0, 1, 0]))), 12)
    0.333333333333
    """

    name = "topk_listmle"
    kind = STAGES
    averaged = ()

    ties: Literal["exact", "extend", "shrink", "stable", "error"] = "exact"

    def log_normaliser(self, scores: FloatArray, k: int) -> float:
        """Nothing: the stages are probabilities."""
        return 0.0

    def draw_tops(self, scores: FloatArray, k: int, rng: np.random.Generator, count: int) -> IntArray:
        """The first k of an order of all documents."""
        return _luce_order(scores, np.tile(np.arange(len(scores)), (count, 1)), rng)[:, :k]

    def top_chances(self, scores: FloatArray, k: int, rng: np.random.Generator, draws: int) -> TopKChances:
        """Exact, by a race."""
        return race_to_top(scores, k)


class HomGG(TopKLoss):
    r"""Hierarchical ordering model, group against group: $P(\sigma) = P_{TF}\, P_T(\sigma_T)$, [HOM] (4).

    $$P_{TF} = \frac{\sum_{i \in T} e^{f_i}}{\binom{n-1}{k-1} \sum_{j} e^{f_j}}, \qquad
      P_T = \prod_{i \le k} \frac{e^{f_{\sigma(i)}}}{\sum_{i \le j \le k} e^{f_{\sigma(j)}}}$$

    The first is [HOM] (5), normalised, the second [HOM] (8).
    Summed over all sets of k documents each $e^{f_i}$ counts in $\binom{n-1}{k-1}$ of them, whatever the scores;
    `value_and_grad` leaves that constant out, `log_prob` keeps it. Likewise `ties="exact"`: the k documents of T are
    some of the m best, all tied, with probability $\binom{m-1}{k-1} \sum_{i \le m} e^{f_i}$ over the same sum.

    >>> loss = HomGG(k=2)
    >>> round(float(np.exp(loss.log_prob([0.0, 0.0, 0.0], [2, 1, 0]))), 12)  # one of 3 sets, one of 2 orders
    0.166666666667
    """

    name = "hom_gg"
    kind = GROUP_GROUP
    averaged = ("average", "exact")

    ties: Literal["extend", "shrink", "stable", "error", "average", "exact"] = "extend"

    def against(
        self, f: FloatArray, starts: IntArray, values: FloatArray, slopes: FloatArray, bends: FloatArray
    ) -> None:
        """-log of the share of T in the sum over all; its curvature is that of log sum over all, a convex majoriser."""
        sizes = np.diff(starts)
        logs, inside = shares(f, starts[:-1], sizes)
        log_t, log_f = logs[::2], logs[1::2]
        log_all = np.logaddexp(log_t, log_f)
        outside = np.exp(log_f - log_all)
        values[:] = np.logaddexp(0.0, log_f - log_t)
        slopes[:] = np.repeat(np.column_stack([-outside, outside]).ravel(), sizes) * inside
        if len(bends):
            p = np.exp(f - np.repeat(np.repeat(log_all, 2), sizes))
            bends[:] = p * (1.0 - p)

    def _closed(self, lists: TopLists) -> BoolArray:
        return np.asarray(lists.across & (lists.begins == 0) & (self.ties == "exact"))

    def log_normaliser(self, scores: FloatArray, k: int) -> float:
        """Log of C(n - 1, k - 1)."""
        return math.log(math.comb(len(scores) - 1, k - 1))

    def draw_tops(self, scores: FloatArray, k: int, rng: np.random.Generator, count: int) -> IntArray:
        """A leader in proportion to e^f, and k - 1 of the others, all alike."""
        leader = np.argmax(scores + rng.gumbel(size=(count, len(scores))), axis=1)
        place = rng.random((count, len(scores)))
        np.put_along_axis(place, leader[:, None], -1.0, axis=1)
        return _luce_order(scores, np.argsort(place, axis=1)[:, :k], rng)

    def top_chances(self, scores: FloatArray, k: int, rng: np.random.Generator, draws: int) -> TopKChances:
        """As the leader, or as one of the k - 1 others."""
        n, share = len(scores), softmax(scores)
        return exact_top(np.ones(n) if k >= n else share + (k - 1) / (n - 1) * (1.0 - share))


class _Composite(TopKLoss):
    """P_TF whose normaliser has no closed form. `normalised` takes it into the value, for maximum likelihood; without
    it learning is by a composite likelihood, as in [HOM], whose scores are not those of the probabilities."""

    _: KW_ONLY
    ties: Literal["extend", "shrink", "stable", "error", "average"] = "extend"
    normalised: bool = False

    def _check(self) -> None:
        super()._check()
        self.composite = not self.normalised
        self.guides_newton = not self.normalised

    def fill(self, prepared: TopGroups, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian, with a bound of that of the normaliser."""
        super().fill(prepared, scores, out)
        if not self.normalised:
            return
        lists, owner = prepared.lists, query_index(prepared.lists.queries)
        with one_blas_thread():  # with more, sums would depend on how many there are
            for one in range(*lists.queries[list(out.chunk)]):
                rows, k = lists.rows[lists.starts[one] : lists.starts[one + 1]], int(lists.tops[one])
                if k in (0, len(rows)):
                    continue
                law, weight = self.law(scores[rows], k), float(lists.weights[one])
                out.values[owner[one] - out.chunk[0]] += weight * law.log_total
                out.grad[rows] += weight * law.slopes
                if len(out.curvature):
                    out.curvature[rows] += weight * law.spread

    @abstractmethod
    def law(self, scores: FloatArray, k: int) -> AllSets | OneOneLaw:
        """The law of the sets T of k documents, for 1 <= k < n."""

    def log_normaliser(self, scores: FloatArray, k: int) -> float:
        """Log of the sum of P_TF over all sets of k documents; 0 where the value has it already."""
        return 0.0 if self.normalised or k == len(scores) else self.law(scores, k).log_total

    def draw_tops(self, scores: FloatArray, k: int, rng: np.random.Generator, count: int) -> IntArray:
        """A set of k documents, in an order of Luce's model."""
        if k == len(scores):
            sets = np.tile(np.arange(k), (count, 1))
        else:
            sets = self._draw_sets(scores, k, rng, count)
        return _luce_order(scores, sets, rng)

    def _draw_sets(self, scores: FloatArray, k: int, rng: np.random.Generator, count: int) -> IntArray:
        return self.law(scores, k).draw(count, rng)

    def top_chances(self, scores: FloatArray, k: int, rng: np.random.Generator, draws: int) -> TopKChances:
        """Those of the law."""
        return exact_top(np.ones(len(scores)) if k >= len(scores) else self.law(scores, k).chance)


class HomOO(_Composite):
    r"""Hierarchical ordering model, one against one: $P(\sigma) \propto P_{TF}\, P_T(\sigma_T)$, [HOM] (6).

    $$P_{TF} = \prod_{i \in T}\prod_{j \in F} \frac{e^{f_i}}{e^{f_i} + e^{f_j}}$$

    and $P_T$ as in `hom_gg`. Long queries go through panel sums, in linear time, with a relative error below 1e-8;
    `exact=True` takes every pair by itself. The normaliser over T, its gradient, chances and draws are those of
    `luce.losses.one_one`, in linear time; few sets are enumerated. `normalised=False` leaves it out, as [HOM] does.

    >>> loss = HomOO(k=1, normalised=False)
    >>> round(loss.value_and_grad([0.0, 0.0, 0.0], [1, 0, 0])[0] / float(np.log(2)), 12)
    2.0
    >>> round(float(np.exp(loss.log_prob([0.0, 0.0, 0.0], [1, 0, 0]))), 12)
    0.333333333333
    """

    name = "hom_oo"
    kind = ONE_ONE
    _: KW_ONLY
    normalised: bool = True
    exact: bool = False

    def against(
        self, f: FloatArray, starts: IntArray, values: FloatArray, slopes: FloatArray, bends: FloatArray
    ) -> None:
        """The pairs of `ranknet`, by panel sums where that costs less than pair by pair in any list."""
        pair, document, panel = RankNet.costs
        tops, others = np.diff(starts)[::2], np.diff(starts)[1::2]
        by_panels = not self.exact and bool(np.any(pair * tops * others >= document * (tops + others) + panel))
        lists, weight = 2 * np.arange(len(values) + 1), (np.ones(len(f)), np.zeros(len(f)))
        sums = Sums(values, np.zeros_like(values), slopes, bends)
        RankNet(exact=not by_panels).run_pairs(Here(starts, lists, f, *weight), sums)

    def law(self, scores: FloatArray, k: int) -> AllSets | OneOneLaw:
        """By enumeration of a few sets, else as a product law and a factor near 1."""
        few = k == 1 or math.comb(len(scores), k) <= _FEW_SUBSETS
        return AllSets(self.kind, scores, k) if few else OneOneLaw(scores, k)


class HomOG(_Composite):
    r"""Hierarchical ordering model, one against the group: $P(\sigma) \propto P_{TF}\, P_T(\sigma_T)$, [HOM] (7).

    $$P_{TF} = \prod_{i \in T} \frac{e^{f_i}}{e^{f_i} + \sum_{j \in F} e^{f_j}}$$

    and $P_T$ as in `hom_gg`. Not normalised over T: learning uses this composite likelihood as [HOM] does, unless
    `normalised=True`, which enumerates the sets of k documents in every evaluation, up to 100,000 of them. So do
    `log_prob`, `sample` and the chances to be in T; beyond that the latter two come from weighted draws
    (`luce.losses.top_sets`).

    >>> round(float(np.exp(-HomOG(k=1).value_and_grad([0.0, 0.0, 0.0], [1, 0, 0])[0])), 12)
    0.333333333333
    """

    name = "hom_og"
    kind = ONE_GROUP

    def against(
        self, f: FloatArray, starts: IntArray, values: FloatArray, slopes: FloatArray, bends: FloatArray
    ) -> None:
        """Every document of T by itself against all of F."""
        sizes = np.diff(starts)
        logs, inside = shares(f, starts[:-1], sizes)
        in_t = np.repeat(np.tile([True, False], len(values)), sizes)
        log_f = np.repeat(logs[1::2], sizes[::2])
        log_d = np.logaddexp(f[in_t], log_f)
        firsts = np.concatenate([[0], np.cumsum(sizes[:-2:2])])
        values[:] = np.add.reduceat(log_d - f[in_t], firsts)
        loses = np.exp(log_f - log_d)
        share = inside[~in_t]
        slopes[in_t] = -loses
        slopes[~in_t] = share * np.repeat(np.add.reduceat(loses, firsts), sizes[1::2])
        if len(bends):
            bends[in_t] = loses * np.exp(f[in_t] - log_d)
            twice = np.repeat(np.add.reduceat(loses * loses, firsts), sizes[1::2])
            bends[~in_t] = np.maximum(slopes[~in_t] - share * share * twice, 0.0)

    def law(self, scores: FloatArray, k: int) -> AllSets:
        """By enumeration."""
        if not self._enumerable(len(scores), k):
            raise SettingError(
                f"{self.name} has no normaliser in closed form, and {len(scores)} documents have "
                f"{math.comb(len(scores), k):.3g} sets of {k}, more than the {MOST_SUBSETS:,} that are enumerated; "
                "'hom_oo', 'hom_gg' and 'topk_listmle' have one, and luce.losses.top_sets estimates it."
            )
        return AllSets(self.kind, scores, k)

    def _enumerable(self, n: int, k: int) -> bool:
        return math.comb(n, k) <= MOST_SUBSETS

    def _draw_sets(self, scores: FloatArray, k: int, rng: np.random.Generator, count: int) -> IntArray:
        if self._enumerable(len(scores), k):
            return super()._draw_sets(scores, k, rng, count)
        return draw_sets(scores, k, rng, count)

    def pair_chances(
        self, scores: FloatArray, rng: np.random.Generator, samples: int, sizes: Any = None
    ) -> PairProbabilities:
        """Beyond enumeration from weighted draws; how many of them are effective counts as their number."""
        k = self.one_k(len(scores))
        if k == len(scores) or self._enumerable(len(scores), k):
            return super().pair_chances(scores, rng, samples, sizes)
        sets = weighed_sets(scores, k, rng, samples)
        return PairProbabilities(*sets.pairs(scores), int(sets.effective))

    def top_chances(self, scores: FloatArray, k: int, rng: np.random.Generator, draws: int) -> TopKChances:
        """By enumeration, beyond it from weighted draws."""
        if k >= len(scores) or self._enumerable(len(scores), k):
            return super().top_chances(scores, k, rng, draws)
        return TopKChances(*weighed_sets(scores, k, rng, draws).inclusion(), draws)
