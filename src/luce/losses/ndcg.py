r"""Convex losses that are consistent with NDCG: $\phi(s, r) = \psi^*(s) - \langle \tilde r, s \rangle$.

With $\psi$ strictly convex and $\nabla\psi$ order preserving, whatever minimises the expected loss sorts documents by
the expectation of $\tilde r = G(r) / \|G(r)\|_D$, and that is the order of the largest expected NDCG (Ravikumar et al.,
2011; [Pareek] (2.3), [Pareek] (3.4)). The gradient is $\nabla\psi^*(s) - \tilde r$, and
$\nabla\psi^* = (\nabla\psi)^{-1}$.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from luce.checks import number
from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Loss, Outputs, Target, as_labels
from luce.losses.gains import GainRule, NormalisedGains
from luce.losses.order_maps import OrderMap, by_name
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp, fast_log
from luce.types import FloatArray, IntArray

BETA = 0.01
"""The chapter's factor of the entropy."""
TAIL = 50.0
"""Above this s / beta, exp goes on as its Taylor polynomial of second order."""
_LEAST_SHARE = 1e-2
"""Curvatures of the q-norm take a score to be at least this share of the norm: at 0 they are infinite."""


class NDCGLoss(Loss):
    r"""What the losses of the family share: the target, queries that say nothing, and an offset of the scores.

    Bregman divergences [Pareek] (3.3) between the target and $(\nabla\psi)^{-1}(s)$, [Pareek] (3.5), written by the
    conjugate, [Pareek] (3.7) and [Pareek] (3.28); their gradient is [Pareek] (3.10).
    """

    learns_from_ties = True
    shift_invariant = False
    ordinal = False

    def __init__(
        self,
        *,
        gain: str | Sequence[float] = "exponential",
        discount: str | Sequence[float] = "log2",
        k: int | None = None,
        empty: str = "skip",
        offset: float | None = None,
        link: str | OrderMap | None = None,
    ) -> None:
        self.rule = GainRule(gain, discount, k, empty)
        self.link = by_name(link)
        if offset is not None and not (isinstance(offset, int | float | np.number) and np.isfinite(offset)):
            raise SettingError(f"offset is {offset!r}; it must be a finite number, or None to be learned.")
        self.learns_offset = offset is None
        self.offset = 0.0 if offset is None else float(offset)

    @property
    @abstractmethod
    def own_settings(self) -> dict[str, Any]:
        """The parameters of psi."""

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of psi, then what differs from the defaults in gain, discount, k, empty, offset and link."""
        more: dict[str, Any] = {} if self.learns_offset else {"offset": self.offset}
        if self.link is not None:
            more["link"] = self.link.name
        return {**self.own_settings, **self.rule.settings, **more}

    @property
    def parameters(self) -> FloatArray:
        """The offset in units of `score_unit`, where it is learned."""
        return np.array([self.offset / self.score_unit]) if self.learns_offset else NOT_WANTED

    def with_parameters(self, values: FloatArray) -> Self:
        """The same loss with that offset."""
        if len(values) != len(self.parameters):
            raise SettingError(f"{self.name!r} learns {len(self.parameters)} parameters; got {len(values)}.")
        if not len(values):
            return self
        other = copy(self)
        other.offset = float(values[0]) * self.score_unit
        return other

    def prepare(self, target: Target, offsets: IntArray) -> NormalisedGains:
        """Normalised gains of every row."""
        return self.rule(as_labels(self, target, offsets), offsets)

    def fill(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """One value a query, 0 where it is skipped; the offset moves all scores alike, after g where there is one."""
        if self.link is not None:
            self._linked(self.link, prepared, scores, out)
            return
        self.run(prepared, scores, out)
        if self.learns_offset and out.d_parameters.size:
            cuts = prepared.offsets[out.chunk[0] : out.chunk[1] + 1]
            totals = np.add.reduceat(out.grad[cuts[0] : cuts[-1]], cuts[:-1] - cuts[0])
            out.d_parameters[:, 0] = self.score_unit * totals

    def _linked(self, link: OrderMap, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """The same of g(s): [Pareek] (3.9), its gradient [Pareek] (3.10), and a bound of the curvature."""
        cuts = prepared.offsets[out.chunk[0] : out.chunk[1] + 1]
        rows, local = slice(cuts[0], cuts[-1]), cuts - cuts[0]
        here = NormalisedGains(prepared.target[rows], local, prepared.counted[out.chunk[0] : out.chunk[1]])
        slopes = np.zeros(len(here.target))
        bends = np.zeros_like(slopes) if len(out.curvature) else NOT_WANTED
        inner = Outputs((0, len(out.values)), out.values, slopes, bends, NOT_WANTED)
        self.run(here, link.values(scores[rows], local), inner)
        out.grad[rows] = link.pulled(scores[rows], local, slopes)
        if len(out.curvature):
            out.curvature[rows] = link.bent(scores[rows], local, slopes, bends)
        if self.learns_offset and out.d_parameters.size:
            out.d_parameters[:, 0] = self.score_unit * np.add.reduceat(slopes, local[:-1])

    @abstractmethod
    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """Fill values, gradient and curvature, the offset added to the scores."""


class NDCGCrossEntropy(NDCGLoss):
    r"""$\psi(x) = \beta \sum_j (x_j \log x_j - x_j)$, so that $\psi^*(s) = \beta \sum_j e^{s_j / \beta}$.

    Above $s / \beta = 50$ the exponential goes on as its Taylor polynomial of second order: convex, and finite wherever
    scores are. $\beta$ is a unit of the scores, against which a penalty or the step of a trainer is large or small.

    Parameters
    ----------
    beta
        A number above 0.
    gain, discount, k, empty
        See `luce.losses.gains.GainRule`.
    offset
        Added to all scores; None learns it with the scorer, from 0. The loss sees the level of the scores, and scorers
        have no constant that training could move. The chapter has none: 0.0.
    link
        None, or an order-preserving g of the scores, [Pareek] (3.7): arcsinh, softplus, stretch, or an `OrderMap`.

    >>> value, grad = NDCGCrossEntropy(beta=1.0).value_and_grad([0.0, 0.0], [1, 0])
    >>> value, grad.tolist()
    (2.0, [0.0, 1.0])
    """

    name = "ndcg_cross_entropy"

    def __init__(self, beta: float = BETA, **common: Any) -> None:
        super().__init__(**common)
        self.beta = number("beta", beta, above=True)

    @property
    def own_settings(self) -> dict[str, Any]:
        """Beta."""
        return {"beta": self.beta}

    @property
    def score_unit(self) -> float:
        """Beta."""
        return self.beta

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel."""
        cross_entropies(scores, prepared, self.offset, self.beta, out)


class NDCGSquare(NDCGLoss):
    r"""$\psi(x) = \|x\|^2$, so that $\psi^*(s) = \|s\|^2 / 4$: half the score is regressed on $\tilde r$.

    >>> value, grad = NDCGSquare().value_and_grad([2.0, 0.0], [1, 0])
    >>> value, grad.tolist()
    (-1.0, [0.0, 0.0])
    """

    name = "ndcg_square"

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)

    @property
    def own_settings(self) -> dict[str, Any]:
        """None."""
        return {}

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel."""
        squares(scores, *prepared, self.offset, 1.0, *out.arrays)


class NDCGQNorm(NDCGLoss):
    r"""$\psi(x) = \|x\|_q^2$, so that $\psi^*(s) = \|s\|_p^2 / 4$ with $1/p + 1/q = 1$.

    The gradient of $\psi^*$ is $\frac12 \|s\|_p^{2-p} \operatorname{sign}(s) |s|^{p-1}$. Its curvature is infinite
    where a score is 0 and $q > 2$; what trees are handed takes $|s_j|$ to be at least a hundredth of the norm.

    Parameters
    ----------
    q
        A number above 1, or None for the chapter's $\log(m) + 2$, m the number of documents of the query.
    gain, discount, k, empty, offset, link
        As for `ndcg_cross_entropy`.

    >>> value, grad = NDCGQNorm(q=2).value_and_grad([2.0, 0.0], [1, 0])  # q = 2 is the square
    >>> value, grad.tolist()
    (-1.0, [0.0, 0.0])
    """

    name = "ndcg_qnorm"

    def __init__(self, q: float | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.q = None if q is None else number("q", q, 1.0, above=True)

    @property
    def own_settings(self) -> dict[str, Any]:
        """The norm."""
        return {"q": self.q}

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel."""
        q = 0.0 if self.q is None else self.q
        q_norms(scores, *prepared, self.offset, q, 1.0, *out.arrays)


@part
def skip_query(i, start, stop, values, grad, curvature):  # type: ignore[no-untyped-def]
    """A query that says nothing."""
    values[i] = 0.0
    for row in range(start, stop):
        grad[row] = 0.0
        if len(curvature):
            curvature[row] = 0.0


def cross_entropies(scores: FloatArray, prepared: NormalisedGains, shift: float, beta: float, out: Outputs) -> None:
    """Psi* = beta sum exp(s / beta), with its tail."""
    rows, firsts, sizes = out.spans(prepared.offsets)
    target, counted = prepared.target[rows], prepared.counted[slice(*out.chunk)]
    s, by_row = scores[rows] + shift, np.repeat(counted, sizes)
    beyond, bend = np.maximum(s / beta - TAIL, 0.0), np.exp(np.minimum(s / beta, TAIL))
    whole = beta * bend * (1.0 + beyond * (1.0 + 0.5 * beyond))
    out.values[:] = counted * np.add.reduceat(whole - target * s, firsts)
    out.grad[rows] = by_row * (bend * (1.0 + beyond) - target)
    if len(out.curvature):
        out.curvature[rows] = by_row * bend / beta


@kernel
def squares(scores, target, offsets, counted, shift, weight, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """Kernel of psi* = ||s||^2 / (4 weight)."""
    half = 0.5 / weight
    for i in range(len(values)):
        start, stop = offsets[first + i], offsets[first + i + 1]
        if not counted[first + i]:
            skip_query(i, start, stop, values, grad, curvature)
            continue
        value = 0.0
        for row in range(start, stop):
            s = scores[row] + shift
            value += (0.5 * half * s - target[row]) * s
            grad[row] = half * s - target[row]
            if len(curvature):
                curvature[row] = half
        values[i] = value


@kernel
def q_norms(scores, target, offsets, counted, shift, q, weight, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """Kernel of psi* = ||s||_p^2 / (4 weight); q = 0 is log(m) + 2."""
    half = 0.5 / weight
    for i in range(len(values)):
        start, stop = offsets[first + i], offsets[first + i + 1]
        if not counted[first + i]:
            skip_query(i, start, stop, values, grad, curvature)
            continue
        norm_q = np.log(stop - start) + 2.0 if q == 0.0 else q
        p = norm_q / (norm_q - 1.0)
        norm, value = _q_norm(scores, target, np.uint64(start), np.uint64(stop), shift, p, half, grad)
        values[i] = 0.5 * half * norm * norm - value
        for row in range(start, stop if len(curvature) else start):
            # From scores that are all 0, a single one moves along half the square.
            seen = max(abs(scores[row] + shift) / norm, _LEAST_SHARE) if norm > 0.0 else 1.0
            curvature[row] = half * ((2.0 - p) * seen ** (2.0 * p - 2.0) + (p - 1.0) * seen ** (p - 2.0))


@part(fastmath={"contract", "reassoc", "nnan", "nsz"})
def _q_norm(scores, target, start, stop, shift, p, half, grad):  # type: ignore[no-untyped-def]
    """||s||_p and <r, s> of one query, and its gradients, with one power a document: |s|^p = |s| |s|^(p - 1)."""
    top = 0.0
    for row in range(start, stop):
        top = max(top, abs(scores[row] + shift))
    by_top = 1.0 / top if top > 0.0 else 0.0
    _powers(scores, start, stop, shift, by_top, p - 1.0, grad)
    total, value = 0.0, 0.0
    for row in range(start, stop):
        s = scores[row] + shift
        total += abs(s) * by_top * grad[row]
        value += target[row] * s
    root = total ** (1.0 / p)
    # (|s| / norm)^(p - 1), times half the norm.
    factor = half * top * root * root ** (1.0 - p) if top > 0.0 else 0.0
    for row in range(start, stop):
        s = scores[row] + shift
        sign = 1.0 if s > 0.0 else (-1.0 if s < 0.0 else 0.0)
        grad[row] = sign * factor * grad[row] - target[row]
    return top * root, value


@part(fastmath={"contract"})
def _powers(scores, start, stop, shift, scale, power, out):  # type: ignore[no-untyped-def]
    for row in range(start, stop):
        out[row] = fast_exp(power * fast_log(abs(scores[row] + shift) * scale))
