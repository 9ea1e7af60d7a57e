"""The angle between scores and gains: RankCosine, and the version that is consistent with NDCG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.losses.gains import GainRule, NormalisedGains
from luce.types import FloatArray, IntArray


class Cosine(Loss):
    r"""One minus the cosine of scores and gains, $1 - \langle G(r), s \rangle / (\|G(r)\|_2 \|s\|_2)$.

    With `consistent=True`, $1 - \langle \tilde r, s \rangle / \|s\|_2$ with $\tilde r = G(r) / \|G(r)\|_D$: divided by
    the ideal DCG instead of the Euclidean norm, which makes the minimiser of the expected loss sort by the expectation
    of $\tilde r$, and so consistent with NDCG. Neither is convex, and neither sees the scale of the scores: a penalty
    only shrinks them. Where all scores are 0 the angle is not defined: the value is 1 and the gradient minus the
    target, along which it falls.

    Parameters
    ----------
    consistent
        Which of the two.
    gain, discount, k, empty
        See `luce.losses.gains.GainRule`; discount and k matter where `consistent` is True only.

    >>> round(Cosine().value_and_grad([1.0, 1.0], [1, 0])[0], 4)  # 1 - cos 45 degrees
    0.2929
    """

    learns_from_ties = True
    name = "cosine"
    guides_newton = False
    shift_invariant = False
    ordinal = False

    def __init__(
        self,
        consistent: bool = False,
        *,
        gain: str | Sequence[float] = "exponential",
        discount: str | Sequence[float] = "log2",
        k: int | None = None,
        empty: str = "skip",
    ) -> None:
        self.consistent = bool(consistent)
        self.rule = GainRule(gain, discount, k, empty)

    @property
    def settings(self) -> dict[str, Any]:
        """Which version, and what differs from the defaults."""
        return {"consistent": self.consistent, **self.rule.settings}

    def prepare(self, target: Target, offsets: IntArray) -> NormalisedGains:
        """Gains over their ideal DCG, or over their Euclidean norm."""
        labels = as_labels(self, target, offsets)
        gains = self.rule(labels, offsets)
        if self.consistent:
            return gains
        length = np.sqrt(np.add.reduceat(gains.target**2, offsets[:-1]))
        unit = gains.target / np.repeat(np.where(length > 0, length, 1.0), np.diff(offsets))
        return gains._replace(target=unit)

    def fill(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """One value a query; the curvature is the bound sqrt(2) ||target|| / ||s||^2 of all second derivatives."""
        rows, firsts, sizes = out.spans(prepared.offsets)
        target, counted = prepared.target[rows], prepared.counted[slice(*out.chunk)]
        top = np.maximum.reduceat(np.abs(scores[rows]), firsts)
        known = top > 0.0
        s = scores[rows] / np.repeat(np.where(known, top, 1.0), sizes)  # squares of scores of any size are numbers
        length = np.sqrt(np.where(known, np.add.reduceat(s * s, firsts), 1.0))
        cosine = np.add.reduceat(target * s, firsts) / length
        norm = length * np.where(known, top, 1.0)
        out.values[:] = np.where(counted, 1.0 - cosine, 0.0)
        slopes = np.repeat(cosine / length, sizes) * s - target
        out.grad[rows] = np.repeat(np.where(counted, 1.0 / norm, 0.0), sizes) * slopes
        if len(out.curvature):
            bound = np.sqrt(2.0 * np.add.reduceat(target * target, firsts)) / norm / norm
            out.curvature[rows] = np.repeat(np.where(counted, bound, 0.0), sizes)
