r"""Convex losses that are consistent with NDCG: $\phi(s, r) = \psi^*(s) - \langle \tilde r, s \rangle$.

With $\psi$ strictly convex and $\nabla\psi$ order preserving, whatever minimises the expected loss sorts documents by
the expectation of $\tilde r = G(r) / \|G(r)\|_D$, and that is the order of the largest expected NDCG (Ravikumar et al.,
2011; [Pareek] (2.3), [Pareek] (3.4)). The gradient is $\nabla\psi^*(s) - \tilde r$, and
$\nabla\psi^* = (\nabla\psi)^{-1}$.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np

from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Loss, Outputs, Target, as_labels
from luce.losses.conjugate import brackets, dictionary_of, newton, skip_query
from luce.losses.gains import GainRule, NormalisedGains
from luce.losses.order_maps import OrderMap, map_of
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp, fast_log
from luce.spec import option
from luce.types import FloatArray, IntArray

BETA = 0.01
"""The chapter's factor of the entropy."""
TAIL = 50.0
"""Above this s / beta, exp goes on as its Taylor polynomial of second order."""
_LEAST_SHARE = 1e-2
"""Curvatures of the q-norm take a score to be at least this share of the norm: at 0 they are infinite."""


DICTIONARY = ("cross_entropy", "square", "qnorm")
"""The chapter's functions, in the order of `alpha`."""
_CHOICE = (lambda loss: loss.alpha is None, "alpha=None, which they choose")
_NEGLIGIBLE = 1e-10
"""Weights below this share of the largest count as 0."""


class NDCGLoss(GainRule, Loss):
    r"""What the losses of the family share: the target, queries that say nothing, and an offset of the scores.

    Bregman divergences [Pareek] (3.3) between the target and $(\nabla\psi)^{-1}(s)$, [Pareek] (3.5), written by the
    conjugate, [Pareek] (3.7) and [Pareek] (3.28); their gradient is [Pareek] (3.10).
    """

    learns_from_ties = True
    shift_invariant = False
    ordinal = False

    _: KW_ONLY
    offset: float | None = option(default=None, learned=True)
    link: Any = None

    def _check(self) -> None:
        super()._check()
        self.map = map_of(self.link)
        vars(self)["offset"] = self._shift

    @property
    def _shift(self) -> float:
        return self.offset or 0.0

    @property
    def learns_offset(self) -> bool:
        """Whether the offset is learned."""
        return "offset" in self.learns

    @property
    def parameters(self) -> FloatArray:
        """The offset in units of `score_unit`, where it is learned."""
        return np.array([self._shift / self.score_unit]) if self.learns_offset else NOT_WANTED

    def take(self, values: FloatArray) -> None:
        """The offset."""
        vars(self)["offset"] = float(values[0]) * self.score_unit

    def prepare(self, target: Target, offsets: IntArray) -> NormalisedGains:
        """Normalised gains of every row."""
        return self.normalised(as_labels(self, target, offsets), offsets)

    def fill(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """One value a query, 0 where it is skipped; the offset moves all scores alike, after g where there is one."""
        if self.map is not None:
            self._linked(self.map, prepared, scores, out)
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
        None, or an order-preserving g of the scores, [Pareek] (3.7): arcsinh, softplus, stretch, a function of your
        own from scores to g and its slope, or an object with the methods of `luce.losses.order_maps.OrderMap`.

    >>> value, grad = NDCGCrossEntropy(beta=1.0).value_and_grad([0.0, 0.0], [1, 0])
    >>> value, grad.tolist()
    (2.0, [0.0, 1.0])
    """

    name = "ndcg_cross_entropy"

    beta: float = option(default=BETA, above=0)

    @property
    def score_unit(self) -> float:
        """Beta."""
        return self.beta

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel."""
        cross_entropies(scores, prepared, self._shift, self.beta, out)


class NDCGSquare(NDCGLoss):
    r"""$\psi(x) = \|x\|^2$, so that $\psi^*(s) = \|s\|^2 / 4$: half the score is regressed on $\tilde r$.

    >>> value, grad = NDCGSquare().value_and_grad([2.0, 0.0], [1, 0])
    >>> value, grad.tolist()
    (-1.0, [0.0, 0.0])
    """

    name = "ndcg_square"

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel."""
        squares(scores, prepared, self._shift, 1.0, out)


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

    q: float | None = option(default=None, above=1)

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel."""
        q = 0.0 if self.q is None else self.q
        q_norms(scores, prepared, self._shift, q, 1.0, out.arrays)


def _entries(name: str, given: Any) -> tuple[Any, ...]:
    if not (isinstance(given, str | Sequence) or callable(given)):
        raise SettingError(f"{name} is {given!r}; it must be names and functions, or None.")
    return (given,) if isinstance(given, str) or callable(given) else tuple(given)


class NDCGMix(NDCGLoss):
    r"""$\psi = \sum_i \alpha_i \psi_i$ with $\alpha \ge 0$: entropy, square and q-norm, or functions of your own.

    The conjugate of a sum is not the sum of the conjugates: $\nabla\psi^*(s)$ is the x with
    $\sum_i \alpha_i \nabla\psi_i(x) = s$, found for every query by Newton's method. With one weight above 0 the loss is
    that of the function alone (Section 3.5).

    Parameters
    ----------
    alpha
        One weight a function, not all 0. None lets training choose them (`luce.model("best-surrogate")`): it fits for
        one alpha after the other and takes the one that is best in the metric of the ranker on other queries. Outside
        training None means equal weights.
    beta, q
        Those of `ndcg_cross_entropy` and `ndcg_qnorm`; q at least 2.
    dictionary
        The functions: None for cross_entropy, square, qnorm; else a sequence of these names and of functions of your
        own, from an array x to p(x), p'(x) and p''(x), for a separable strictly convex psi. A function that is defined
        for x > 0 only has an attribute `positive = True`.
    evaluations
        How many fits the choice of alpha may take.
    search
        How alpha is chosen: "pattern", a pattern search from several starts, or "grid", the finest even grid that has
        no more points than `evaluations`.
    fits
        "converged" fits every alpha to the end, [Pareek] (3.26), so that the queries that judge alpha serve for nothing
        else. "stopped" ends fits early, by a fifth of the training queries that is set apart.
    gain, discount, k, empty, offset, link
        As for `ndcg_cross_entropy`.

    >>> scores, grades = [0.3, -0.2, 0.1], [2, 0, 1]
    >>> mixed, alone = NDCGMix((0, 1, 0)), NDCGSquare()
    >>> mixed.value_and_grad(scores, grades)[0] == alone.value_and_grad(scores, grades)[0]
    True
    """

    name = "ndcg_mix"

    alpha: Any = option(default=(1.0, 1.0, 1.0), learned=True)
    beta: float = option(default=BETA, above=0)
    q: float | None = option(default=None, least=2)
    dictionary: tuple[Any, ...] | None = option(default=None, convert=_entries)
    evaluations: int = option(default=60, least=1, needs=_CHOICE)
    search: Literal["pattern", "grid"] = option(default="pattern", needs=_CHOICE)
    fits: Literal["converged", "stopped"] = option(default="converged", needs=_CHOICE)

    def _check(self) -> None:
        super()._check()
        self.functions = dictionary_of(DICTIONARY if self.dictionary is None else self.dictionary, self.beta)
        self.standard = tuple(psi.name for psi in self.functions) == DICTIONARY
        given = np.ones(len(self.functions)) if self.chooses_alpha else self.alpha
        vars(self)["alpha"] = _checked(given, self.names)

    @property
    def chooses_alpha(self) -> bool:
        """Whether training chooses the weights."""
        return "alpha" in self.learns

    @property
    def names(self) -> list[str]:
        """The functions by name."""
        return [psi.name for psi in self.functions]

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the defaults, the weights as numbers."""
        found = super().settings
        return found if self.chooses_alpha else self._unusual(found | {"alpha": tuple(self.alpha.tolist())})

    @property
    def score_unit(self) -> float:
        """The slope of psi where x is about 1."""
        return float(sum(a * psi.unit for a, psi in zip(self.alpha, self.functions, strict=True)))

    def with_alpha(self, alpha: Sequence[float] | FloatArray) -> Self:
        """The same loss with these weights."""
        usual = {"evaluations": 60, "search": "pattern", "fits": "converged"}  # of the choice, which is made
        return self._changed(alpha=_checked(alpha, self.names), learns=self.learns - {"alpha"}, **usual)

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel of the one function that counts, or by that of the mixture."""
        q = 0.0 if self.q is None else self.q
        common = (scores, prepared, self._shift)
        entropy, square, norm = self.alpha if self.standard else (0.0, 0.0, 0.0)
        if not self.standard:
            out.values[:] = np.nan
        elif square == 0 and norm == 0:
            cross_entropies(*common, entropy * self.beta, out)
        elif entropy == 0 and norm == 0:
            squares(*common, square, out)
        elif entropy == 0 and square == 0:
            q_norms(scores, prepared, self._shift, q, norm, out.arrays)
        else:
            weights = np.array([entropy * self.beta, 2 * square, 2 * norm])
            newton(scores, prepared, self._shift, weights, q, out.arrays)
        left = out.chunk[0] + np.flatnonzero(np.isnan(out.values))
        if not len(left):
            return
        for some in np.split(left, len(left)) if self.standard else [left]:  # whatever others there are
            brackets(self.functions, self.alpha, q, scores + self._shift, prepared, some, out)


def _checked(alpha: Any, names: list[str]) -> FloatArray:
    shown = ", ".join(names)
    try:
        weights = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(f"alpha is {alpha!r}; it must hold {len(names)} weights, of {shown}.") from None
    if weights.shape != (len(names),):
        raise SettingError(f"alpha has shape {weights.shape}; it must hold {len(names)} weights, of {shown}.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise SettingError(f"alpha is {weights.tolist()}; weights must be finite and at least 0 ({shown}).")
    if not weights.any():
        raise SettingError(f"alpha is all zero; at least one of {shown} needs a weight above 0.")
    return np.where(weights < _NEGLIGIBLE * weights.max(), 0.0, weights)


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


def squares(scores: FloatArray, prepared: NormalisedGains, shift: float, weight: float, out: Outputs) -> None:
    """Psi* = ||s||^2 / (4 weight)."""
    rows, firsts, sizes = out.spans(prepared.offsets)
    target, counted = prepared.target[rows], prepared.counted[slice(*out.chunk)]
    s, half, by_row = scores[rows] + shift, 0.5 / weight, np.repeat(counted, sizes)
    out.values[:] = counted * np.add.reduceat((0.5 * half * s - target) * s, firsts)
    out.grad[rows] = by_row * (half * s - target)
    if len(out.curvature):
        out.curvature[rows] = by_row * half


@kernel
def q_norms(scores, gains, shift, q, weight, out):  # type: ignore[no-untyped-def]
    """Kernel of psi* = ||s||_p^2 / (4 weight); q = 0 is log(m) + 2."""
    half, (target, offsets, counted), (first, values, grad, curvature) = 0.5 / weight, gains, out
    for i in range(len(values)):
        start, stop = offsets[first + i], offsets[first + i + 1]
        if not counted[first + i]:
            skip_query(i, start, stop, values, grad, curvature)
            continue
        norm_q = np.log(stop - start) + 2.0 if q == 0.0 else q
        p = norm_q / (norm_q - 1.0)
        norm, value = _q_norm(scores, target, (np.uint64(start), np.uint64(stop)), shift, p, half, grad)
        values[i] = 0.5 * half * norm * norm - value
        for row in range(start, stop if len(curvature) else start):
            # From scores that are all 0, a single one moves along half the square.
            seen = max(abs(scores[row] + shift) / norm, _LEAST_SHARE) if norm > 0.0 else 1.0
            curvature[row] = half * ((2.0 - p) * seen ** (2.0 * p - 2.0) + (p - 1.0) * seen ** (p - 2.0))


@part(fastmath={"contract", "reassoc", "nnan", "nsz"})
def _q_norm(scores, target, rows, shift, p, half, grad):  # type: ignore[no-untyped-def]
    """||s||_p and <r, s> of one query, and its gradients, with one power a document: |s|^p = |s| |s|^(p - 1)."""
    (start, stop), top = rows, 0.0
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
