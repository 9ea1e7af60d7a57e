"""Losses of one softmax or one angle a query: ListNet, choices among clicked documents, and the cosine of gains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.data.clicks import Clicks
from luce.errors import DataError
from luce.losses.base import NOT_WANTED, Target, as_labels
from luce.losses.gains import GainRule, NormalisedGains
from luce.losses.segments import ConjugateLoss, Costs, Run, SegmentLoss
from luce.spec import option
from luce.types import BoolArray, FloatArray, IntArray


class ListNet(ConjugateLoss):
    r"""Cross entropy of two softmax distributions over the documents of a query.

    $$-\sum_i p_i \log q_i, \quad p = \operatorname{softmax}(y), \; q = \operatorname{softmax}(f)$$

    >>> value, grad = ListNet().value_and_grad([0.0, 0.0], [1.0, 0.0])
    >>> round(value, 6), grad.round(6).tolist()
    (0.693147, [-0.231059, 0.231059])
    """

    learns_from_ties = True
    name = "listnet"
    ordinal = False

    def prepare(self, target: Target, offsets: IntArray) -> NormalisedGains:
        """The softmax of the labels of every query."""
        labels, sizes = as_labels(self, target, offsets), np.diff(offsets)
        weight = np.exp(labels - np.repeat(np.maximum.reduceat(labels, offsets[:-1]), sizes))
        share = weight / np.repeat(np.add.reduceat(weight, offsets[:-1]), sizes)
        return NormalisedGains(share, offsets, np.ones(len(sizes), dtype=bool))

    def conjugate(self, s: FloatArray, run: Run, known: NormalisedGains) -> Costs:
        """The log of the sum of exponentials; curvature is q (1 - q)."""
        logs, q = run.softmax(s)
        return logs, q, q * (1.0 - q) if run.curved else NOT_WANTED


class _Choices(NamedTuple):
    target: FloatArray
    """What was chosen, weighted."""
    log_exposure: FloatArray
    offsets: IntArray
    counted: BoolArray


class ClickChoice(ConjugateLoss):
    r"""Given a click in a query, which of its documents got it? A choice model with exposure as offset.

    $$-\sum_d h_d C_d f_d + \Big(\sum_d h_d C_d\Big) \log \sum_d h_d E_d e^{f_d}, \quad h_d = E_d^{-t}$$

    $C_d$ are clicks, $E_d = \sum_k N_{dk} \theta_k$ plus `prior` is how often the document was looked at. With free
    scores the minimum is at $f_d = \log(C_d / E_d)$, log attraction, for every $t$; a scorer that cannot reach it is
    fitted best where $h$ puts the weight: $t = 0$ is maximum likelihood, $t = 1$ weighs by inverse propensity, the
    default lies between. Grades instead of clicks count as that many choices of documents seen equally often.

    Parameters
    ----------
    temper
        $t$, from 0 to 1.
    prior
        Added to every exposure, so that a document that was hardly seen does not weigh without bound; it lowers the
        attraction learned for such documents. Rows that were never shown are left out.

    >>> value, grad = ClickChoice(prior=0.0).value_and_grad([0.0, 0.0], Clicks([1.0, 1.0], [4.0, 1.0]))
    >>> round(value, 6), grad.round(6).tolist()
    (1.647918, [0.5, -0.5])
    """

    learns_from_ties = True
    name = "click_choice"
    ordinal = False

    temper: float = option(default=0.5, least=0, most=1)
    prior: float = option(default=0.1, least=0)

    def prepare(self, target: Target | Clicks, offsets: IntArray) -> _Choices:
        """Weighted choices and the logarithms of weighted exposures."""
        if isinstance(target, Clicks):
            chosen, exposure = target.clicks, target.exposure
            if len(chosen) != offsets[-1]:
                raise DataError(f"{offsets[-1]} scores need as many clicks; got {len(chosen)}.")
            seen = exposure > 0
            total = np.where(seen, exposure + self.prior, 1.0)
            chosen, log_exposure = chosen * total**-self.temper, np.full(len(chosen), -np.inf)
            log_exposure[seen] = (1.0 - self.temper) * np.log(total[seen])
        else:
            chosen = as_labels(self, target, offsets)
            if np.any(chosen < 0):
                raise DataError("click_choice takes grades as numbers of choices; they must be at least 0.")
            log_exposure = np.zeros(len(chosen))
        return _Choices(chosen, log_exposure, offsets, np.add.reduceat(chosen, offsets[:-1]) > 0)

    def conjugate(self, s: FloatArray, run: Run, known: _Choices) -> Costs:
        """The weight of a query times the log of its sum; curvature is (sum h C) pi (1 - pi)."""
        weight, said = run.sums(known.target[run.rows]), run.each(known.counted[run.queries])
        # In a query without a click, nothing need have been seen.
        logs, share = run.softmax(np.where(said, s + known.log_exposure[run.rows], 0.0))
        pull = run.each(weight) * share
        return weight * logs, pull, pull * (1.0 - share) if run.curved else NOT_WANTED


class Cosine(GainRule, SegmentLoss):
    r"""One minus the cosine of scores and gains, $1 - \langle G(r), s \rangle / (\|G(r)\|_2 \|s\|_2)$.

    With `consistent=True`, $1 - \langle \tilde r, s \rangle / \|s\|_2$ with $\tilde r = G(r) / \|G(r)\|_D$: divided by
    the ideal DCG instead of the Euclidean norm, which makes the minimiser of the expected loss sort by the expectation
    of $\tilde r$, and so consistent with NDCG. Neither is convex, and neither sees the scale of the scores: a penalty
    only shrinks them. Where all scores are 0 the angle is not defined: the value is 1 and the gradient minus the
    target, along which it falls.

    Parameters
    ----------
    consistent
        Which of the two; discount and k matter for the latter only.

    >>> round(Cosine().value_and_grad([1.0, 1.0], [1, 0])[0], 4)  # 1 - cos 45 degrees
    0.2929
    """

    learns_from_ties = True
    name = "cosine"
    guides_newton = False
    shift_invariant = False
    ordinal = False

    consistent: bool = False

    def prepare(self, target: Target, offsets: IntArray) -> NormalisedGains:
        """Gains over their ideal DCG, or over their Euclidean norm."""
        labels = as_labels(self, target, offsets)
        gains = self.normalised(labels, offsets)
        if self.consistent:
            return gains
        length = np.sqrt(np.add.reduceat(gains.target**2, offsets[:-1]))
        unit = gains.target / np.repeat(np.where(length > 0, length, 1.0), np.diff(offsets))
        return gains._replace(target=unit)

    def costs(self, s: FloatArray, run: Run, known: NormalisedGains) -> Costs:
        """The curvature is the bound sqrt(2) ||target|| / ||s||^2 of all second derivatives."""
        target, counted = known.target[run.rows], known.counted[run.queries]
        top = np.maximum.reduceat(np.abs(s), run.firsts)
        length = np.where(top > 0.0, top, 1.0)
        s = s / run.each(length)  # squares of scores of any size are numbers
        inside = np.sqrt(np.where(top > 0.0, run.sums(s * s), 1.0))
        cosine, norm = run.sums(target * s) / inside, inside * length
        slopes = run.each(cosine / inside) * s - target
        values, kept = np.where(counted, 1.0 - cosine, 0.0), run.each(np.where(counted, 1.0 / norm, 0.0))
        if not run.curved:
            return values, kept * slopes, NOT_WANTED
        bound = np.sqrt(2.0 * run.sums(target * target)) / norm / norm
        return values, kept * slopes, run.each(np.where(counted, bound, 0.0))
