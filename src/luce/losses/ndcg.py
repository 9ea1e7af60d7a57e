r"""Convex losses that are consistent with NDCG: $\phi(s, r) = \psi^*(s) - \langle \tilde r, s \rangle$.

With $\psi$ strictly convex and $\nabla\psi$ order preserving, whatever minimises the expected loss sorts documents by
the expectation of $\tilde r = G(r) / \|G(r)\|_D$, and that is the order of the largest expected NDCG (Ravikumar et al.,
2011; [Pareek] (2.3), [Pareek] (3.4)). The gradient is $\nabla\psi^*(s) - \tilde r$, and
$\nabla\psi^* = (\nabla\psi)^{-1}$.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np

from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Target, as_labels
from luce.losses.conjugate import Brackets, dictionary_of, newton, skip_query
from luce.losses.gains import GainRule, NormalisedGains
from luce.losses.order_maps import map_of
from luce.losses.segments import ConjugateLoss, Costs, Run
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp, fast_log
from luce.numerics.segments import runs
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


class NDCGLoss(GainRule, ConjugateLoss):
    r"""What the losses of the family share: the target, queries that say nothing, and an offset of the scores.

    Bregman divergences [Pareek] (3.3) between the target and $(\nabla\psi)^{-1}(s)$, [Pareek] (3.5), written by the
    conjugate, [Pareek] (3.7) and [Pareek] (3.28); their gradient is [Pareek] (3.10).

    Parameters
    ----------
    offset
        Added to all scores; None learns it with the scorer, from 0. The loss sees the level of the scores, and scorers
        have no constant that training could move. The chapter has none: 0.0.
    link
        None, or an order-preserving g of the scores, [Pareek] (3.7): arcsinh, softplus, stretch, a function of your
        own from scores to g and its slope, or an object with the methods of `luce.losses.order_maps.OrderMap`.
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

    def costs(self, s: FloatArray, run: Run, known: NormalisedGains) -> Costs:
        """Of g(s), [Pareek] (3.9), by the chain rule [Pareek] (3.10); the offset moves all scores alike, after g."""
        link, bounds = self.map, run.offsets
        at = s if link is None else link.values(s, bounds)
        values, slopes, bends = super().costs(at + self._shift if self._shift else at, run, known)
        if self.learns_offset and run.own.size:
            run.own[:, 0] = self.score_unit * run.sums(slopes)
        if link is None:
            return values, slopes, bends
        bends = link.bent(s, bounds, slopes, bends) if run.curved else bends
        return values, link.pulled(s, bounds, slopes), bends


class NDCGCrossEntropy(NDCGLoss):
    r"""$\psi(x) = \beta \sum_j (x_j \log x_j - x_j)$, so that $\psi^*(s) = \beta \sum_j e^{s_j / \beta}$.

    Above $s / \beta = 50$ the exponential goes on as its Taylor polynomial of second order: convex, and finite wherever
    scores are. $\beta$ is a unit of the scores, against which a penalty or the step of a trainer is large or small.

    Parameters
    ----------
    beta
        A number above 0.

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

    def conjugate(self, s: FloatArray, run: Run, known: NormalisedGains) -> Costs:
        """With its tail."""
        return of_entropy(s, run, known, self.beta)


class NDCGSquare(NDCGLoss):
    r"""$\psi(x) = \|x\|^2$, so that $\psi^*(s) = \|s\|^2 / 4$: half the score is regressed on $\tilde r$.

    >>> value, grad = NDCGSquare().value_and_grad([2.0, 0.0], [1, 0])
    >>> value, grad.tolist()
    (-1.0, [0.0, 0.0])
    """

    name = "ndcg_square"

    def conjugate(self, s: FloatArray, run: Run, known: NormalisedGains) -> Costs:
        """A quarter of the square."""
        return of_square(s, run, known, 1.0)


class NDCGQNorm(NDCGLoss):
    r"""$\psi(x) = \|x\|_q^2$, so that $\psi^*(s) = \|s\|_p^2 / 4$ with $1/p + 1/q = 1$.

    The gradient of $\psi^*$ is $\frac12 \|s\|_p^{2-p} \operatorname{sign}(s) |s|^{p-1}$. Its curvature is infinite
    where a score is 0 and $q > 2$; what trees are handed takes $|s_j|$ to be at least a hundredth of the norm.

    Parameters
    ----------
    q
        A number above 1, or None for the chapter's $\log(m) + 2$, m the number of documents of the query.

    >>> value, grad = NDCGQNorm(q=2).value_and_grad([2.0, 0.0], [1, 0])  # q = 2 is the square
    >>> value, grad.tolist()
    (-1.0, [0.0, 0.0])
    """

    name = "ndcg_qnorm"

    q: float | None = option(default=None, above=1)

    def conjugate(self, s: FloatArray, run: Run, known: NormalisedGains) -> Costs:
        """By the kernel."""
        return of_q_norm(s, run, known, 0.0 if self.q is None else self.q, 1.0)


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

    def conjugate(self, s: FloatArray, run: Run, known: NormalisedGains) -> Costs:
        """That of the one function that counts, or of the mixture, by its kernel and where this strays by brackets."""
        q = 0.0 if self.q is None else self.q
        entropy, square, norm = self.alpha if self.standard else (1.0, 1.0, 1.0)
        if square == 0 and norm == 0:
            return of_entropy(s, run, known, entropy * self.beta)
        if entropy == 0 and norm == 0:
            return of_square(s, run, known, square)
        if entropy == 0 and square == 0:
            return of_q_norm(s, run, known, q, norm)
        offsets, values, x = run.offsets, np.full(len(run.sizes), np.nan), np.empty_like(s)
        bends = np.empty(len(s) if run.curved else 0)
        if self.standard:
            counted = known.counted[run.queries]
            newton(s, offsets, counted, np.array([entropy * self.beta, 2 * square, 2 * norm]), q, (values, x, bends))
        left = np.flatnonzero(np.isnan(values))
        if not len(left):
            return values, x, bends
        for some in np.split(left, len(left)) if self.standard else [left]:  # whatever others there are
            rows, local = runs(offsets[some], run.sizes[some]), np.append(0, np.cumsum(run.sizes[some]))
            x[rows], bent, values[some] = Brackets(self.functions, self.alpha, q, local).solve(s[rows])
            if run.curved:
                bends[rows] = bent
        return values, x, bends


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


def of_entropy(s: FloatArray, run: Run, known: NormalisedGains, beta: float) -> Costs:
    """Psi* = beta sum exp(s / beta), with its tail."""
    counted = run.each(known.counted[run.queries])
    beyond, bend = np.maximum(s / beta - TAIL, 0.0), counted * np.exp(np.minimum(s / beta, TAIL))
    values = run.sums(beta * bend * (1.0 + beyond * (1.0 + 0.5 * beyond)))
    return values, bend * (1.0 + beyond), bend / beta if run.curved else NOT_WANTED


def of_square(s: FloatArray, run: Run, known: NormalisedGains, weight: float) -> Costs:
    """Psi* = ||s||^2 / (4 weight)."""
    half = run.each(0.5 / weight * known.counted[run.queries])
    slopes = half * s
    return run.sums(0.5 * slopes * s), slopes, half


def of_q_norm(s: FloatArray, run: Run, known: NormalisedGains, q: float, weight: float) -> Costs:
    """Psi* = ||s||_p^2 / (4 weight) of the queries that count; q = 0 is log(m) + 2."""
    values, x, bends = np.empty(len(run.sizes)), np.empty_like(s), np.empty(len(s) if run.curved else 0)
    _q_norms(s, run.offsets, known.counted[run.queries], q, 0.5 / weight, (values, x, bends))
    return values, x, bends


@kernel
def _q_norms(s, offsets, counted, q, half, out):  # type: ignore[no-untyped-def]
    values, x, bends = out
    for i in range(len(values)):
        start, stop = offsets[i], offsets[i + 1]
        if not counted[i]:
            skip_query(i, start, stop, values, x, bends)
            continue
        norm_q = np.log(stop - start) + 2.0 if q == 0.0 else q
        p = norm_q / (norm_q - 1.0)
        norm = _q_norm(s, np.uint64(start), np.uint64(stop), p, half, x)
        values[i] = 0.5 * half * norm * norm
        for row in range(start, stop if len(bends) else start):
            # From scores that are all 0, a single one moves along half the square.
            seen = max(abs(s[row]) / norm, _LEAST_SHARE) if norm > 0.0 else 1.0
            bends[row] = half * ((2.0 - p) * seen ** (2.0 * p - 2.0) + (p - 1.0) * seen ** (p - 2.0))


@part(fastmath={"contract", "reassoc", "nnan", "nsz"})
def _q_norm(s, start, stop, p, half, x):  # type: ignore[no-untyped-def]
    """||s||_p of one query, and the gradients, with one power a document: |s|^p = |s| |s|^(p - 1)."""
    top, total = 0.0, 0.0
    for row in range(start, stop):
        top = max(top, abs(s[row]))
    by_top = 1.0 / top if top > 0.0 else 0.0
    _powers(s, start, stop, by_top, p - 1.0, x)
    for row in range(start, stop):
        total += abs(s[row]) * by_top * x[row]
    root = total ** (1.0 / p)
    # (|s| / norm)^(p - 1), times half the norm.
    factor = half * top * root * root ** (1.0 - p) if top > 0.0 else 0.0
    for row in range(start, stop):
        x[row] *= factor if s[row] > 0.0 else (-factor if s[row] < 0.0 else 0.0)
    return top * root


@part(fastmath={"contract"})
def _powers(s, start, stop, scale, power, out):  # type: ignore[no-untyped-def]
    for row in range(start, stop):
        out[row] = fast_exp(power * fast_log(abs(s[row]) * scale))
