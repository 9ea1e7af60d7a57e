"""The conformance suite as functions: what must hold of every loss, scorer and metric, for parts of one's own.

Each check runs some properties and gives a `Verdict` that says in one line a property what holds and what does not;
`raise_on_failure=False` only looks, otherwise the first failure is raised as an error with the whole verdict.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from luce import losses, metrics, scorers
from luce.data.groups import Groups, from_arrays
from luce.errors import LuceError, LuceWarning, SettingError
from luce.registry import settings_of
from luce.types import FloatArray, IntArray

__all__ = ["Verdict", "check_loss", "check_metric", "check_scorer", "numeric_gradient"]

Problem = tuple[FloatArray, FloatArray, IntArray]


@dataclass
class Verdict:
    """What a check found: a line for every property."""

    part: str
    held: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True where nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        lines = [f"{self.part}: {'passed' if self.passed else f'{len(self.failed)} properties do not hold'}"]
        lines += [f"  holds    {name}" for name in self.held]
        lines += [f"  skipped  {name}: {why}" for name, why in self.skipped.items()]
        lines += [f"  FAILS    {name}: {why}" for name, why in self.failed.items()]
        return "\n".join(lines)

    __repr__ = __str__


class _Skip(Exception):
    """A property that a part does not claim."""


def _verdict(part: str, properties: Sequence[Callable[[], None]], raise_on_failure: bool) -> Verdict:
    found = Verdict(part)
    for check in properties:
        name = (check.__doc__ or check.__name__).strip().rstrip(".")
        try:
            with warnings.catch_warnings():  # queries without a preference are part of the checks
                warnings.simplefilter("ignore", LuceWarning)
                with np.errstate(over="ignore", under="ignore"):
                    check()
        except _Skip as why:
            found.skipped[name] = str(why)
        except (AssertionError, LuceError, ArithmeticError, TypeError, ValueError, IndexError) as error:
            found.failed[name] = " ".join(str(error).split())[:300] or type(error).__name__
        else:
            found.held.append(name)
    if raise_on_failure and not found.passed:
        raise SettingError(str(found))
    return found


def numeric_gradient(function: Callable[[FloatArray], float], at: FloatArray, step: float = 1e-4) -> FloatArray:
    """Central differences with Richardson extrapolation, error of order step^4."""

    def central(h: float) -> FloatArray:
        return np.array([(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(len(at))])

    return (4 * central(step) - central(2 * step)) / 3


def _problem(seed: int, sizes: Sequence[int] = (1, 2, 5, 7)) -> Problem:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return rng.normal(size=offsets[-1]), rng.integers(0, 4, offsets[-1]).astype(np.float64), offsets


def _near(found: Any, expected: Any, what: str, tolerance: float = 1e-6) -> None:
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    gap = float(np.max(np.abs(found - expected), initial=0.0))
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    assert gap <= tolerance * scale, f"{what} differ by {gap:.3g}"


def check_loss(loss: Any, *, raise_on_failure: bool = True) -> Verdict:
    """What every loss must hold: its gradient, sums over queries, order of rows, shifts, ties and extreme scores.

    `loss` is a name, a loss, or a function (scores, labels) of one query.

    >>> def square(scores, labels):
    ...     return ((scores - labels) ** 2).sum(), 2 * (scores - labels)
    >>> square.shift_invariant = square.ordinal = False
    >>> check_loss(square).passed
    True
    """
    part = losses.of(loss)

    def exact() -> None:
        if part.stochastic:
            raise _Skip("the gradient is an estimate by sampling")

    def gradient() -> None:
        """The gradient is that of the value."""
        exact()
        for seed in range(2):
            scores, labels, offsets = _problem(seed)
            grad = part.value_and_grad(scores, labels, offsets)[1]
            step = 1e-4 if part.smooth else 1e-7
            numeric = numeric_gradient(lambda s: part.value_and_grad(s, labels, offsets)[0], scores, step)  # noqa: B023
            _near(grad, numeric, "gradient and finite differences", 1e-5)

    def queries() -> None:
        """Queries add up."""
        exact()
        scores, labels, offsets = _problem(1)
        value, grad = part.value_and_grad(scores, labels, offsets)
        parts = [part.value_and_grad(scores[a:b], labels[a:b]) for a, b in pairwise(offsets)]
        _near(value, sum(v for v, _ in parts), "the whole and the sum of its queries", 1e-10)
        _near(grad, np.concatenate([g for _, g in parts]), "gradients of the whole and of its queries", 1e-10)

    def rows() -> None:
        """The order of rows within a query does not matter."""
        exact()
        if not part.permutation_invariant:
            raise _Skip("it says that it reads the order of the rows")
        scores, labels, offsets = _problem(2)
        shuffle = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(offsets)])
        value, grad = part.value_and_grad(scores, labels, offsets)
        other, moved = part.value_and_grad(scores[shuffle], labels[shuffle], offsets)
        _near(other, value, "values of two orders of the same rows", 1e-9)
        _near(moved, grad[shuffle], "gradients of two orders of the same rows", 1e-8)

    def shift() -> None:
        """A constant added to all scores of a query changes nothing."""
        if not part.shift_invariant:
            raise _Skip("shift_invariant is False")
        scores, labels, offsets = _problem(3)
        shifted = scores + np.repeat(np.arange(1.0, len(offsets)), np.diff(offsets))
        exact()
        values = [part.value_and_grad(s, labels, offsets)[0] for s in (scores, shifted)]
        _near(values[1], values[0], "values before and after a shift (else set shift_invariant = False)", 1e-8)

    def grades() -> None:
        """Only the order of the grades matters."""
        if not part.ordinal:
            raise _Skip("ordinal is False: it uses the grades as numbers")
        exact()
        scores, labels, offsets = _problem(4)
        values = [part.value_and_grad(scores, y, offsets)[0] for y in (labels, 10 * labels - 3)]
        _near(values[1], values[0], "values for grades and grades farther apart (else set ordinal = False)", 1e-10)

    def tied() -> None:
        """One document, and documents that are all tied, give finite numbers."""
        for scores, labels in (([0.7], [3.0]), ([0.5, -1.0, 2.0], [2.0] * 3)):
            value, grad, curvature = part.value_grad_curvature(scores, labels)
            assert np.isfinite([value, *grad, *curvature]).all(), "NaN or infinity"

    def curvature() -> None:
        """The curvature is at least 0."""
        found = part.value_grad_curvature(*_problem(5))[2]
        assert (found >= 0).all(), f"the least is {found.min():.3g}"

    def far() -> None:
        """Scores up to 10,000 give finite numbers."""
        labels = np.array([3.0, 3, 2, 1, 1, 0, 0, 0])
        for sign in (1.0, -1.0):
            scores = sign * np.array([1e4, 9e3, 1e3, 0, -10, -1e3, -9e3, -1e4])
            value, grad = part.value_and_grad(scores, labels)
            assert np.isfinite([value, *grad]).all(), "NaN or infinity"

    properties = [gradient, queries, rows, shift, grades, tied, curvature, far]
    return _verdict(f"loss {part.name!r}", properties, raise_on_failure)


def _sample(seed: int = 0) -> Groups:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] - X[:, 1] + rng.normal(0, 0.5, 60) + 1), 0, 3)
    return from_arrays(X, y, qid=np.repeat(np.arange(6), 10))


def _lists() -> Groups:
    """Queries of 1, 2, 7, 5 and 30 documents of as many features as `_sample` has, two of them equal."""
    X = np.random.default_rng(3).normal(size=(45, _sample().n_features)).astype(np.float32)
    X[4] = X[3]
    return from_arrays(X, np.zeros(45), group=[1, 2, 7, 5, 30])


def check_scorer(scorer: Any, *, raise_on_failure: bool = True) -> Verdict:
    """What a scorer with parameters must hold: its gradient, its fitted form, and that its settings make it again.

    >>> check_scorer("linear").passed
    True
    """
    part = scorers.of(scorer)
    data = _sample()
    rng = np.random.default_rng(1)

    def start() -> tuple[Any, FloatArray]:
        if not hasattr(part, "bind"):
            raise _Skip("it has no parameters that follow gradients")
        bound = part.bind(data)
        return bound, bound.initial(np.random.default_rng(0)) + 0.1 * np.abs(rng.normal(size=bound.n_parameters))

    def gradient() -> None:
        """The gradient is that of the scores."""
        bound, at = start()
        d_scores = rng.normal(size=data.n_rows)
        grad = bound.backward(at, data.X, data.offsets, d_scores)
        numeric = numeric_gradient(lambda w: float(bound.forward(w, data.X, data.offsets) @ d_scores), at)
        _near(grad, numeric, "gradient and finite differences", 1e-4)

    def isolated() -> None:
        """A query scores alone as among others, a row alone where the scorer takes no queries, in any order."""
        bound, at = start()
        lists = _lists()
        scores = bound.forward(at, lists.X, lists.offsets)
        alone = not getattr(bound, "needs_queries", True)
        bounds = np.arange(lists.n_rows + 1) if alone else lists.offsets
        d_scores, total = rng.normal(size=lists.n_rows), 0.0
        for a, b in pairwise(bounds.tolist()):
            one = np.array([0, b - a])
            said = "rows touch each other" if alone else "queries touch each other"
            _near(bound.forward(at, lists.X[a:b], one), scores[a:b], f"{said}: scores alone and among others", 1e-5)
            total = total + bound.backward(at, lists.X[a:b], one, d_scores[a:b])
        among = bound.backward(at, lists.X, lists.offsets, d_scores)
        _near(total, among, "the gradient is not a sum over queries: gradients of parts and of all", 1e-4)
        mixed = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(lists.offsets.tolist())])
        _near(bound.forward(at, lists.X[mixed], lists.offsets), scores[mixed], "scores of moved rows", 1e-5)
        last = int(lists.offsets[-2])
        back = np.concatenate([np.arange(last, lists.n_rows), np.arange(last)])
        turned = np.concatenate([[0], lists.n_rows - last + lists.offsets[:-1]])
        _near(bound.forward(at, lists.X[back], turned), scores[back], "scores of queries in another order", 1e-5)
        same = int(lists.offsets[2])
        _near(scores[same : same + 1], scores[same + 1 : same + 2], "scores of equal documents", 1e-5)

    def fitted() -> None:
        """The fitted scorer gives finite scores, one a row, and an importance a feature."""
        bound, at = start()
        found = bound.fitted(at)
        scores = found.score(data.X, data.offsets)
        assert scores.shape == (data.n_rows,), f"scores have shape {scores.shape}"
        assert np.isfinite(scores).all(), "NaN or infinity"
        assert found.importance().shape == (data.n_features,), "importance has another length than the features"

    def settings() -> None:
        """Its settings make the same scorer again."""
        again = type(part)(**settings_of(part))
        assert settings_of(again) == settings_of(part), "other settings come back"

    def file() -> None:
        """A model file can bring its fitted form back."""
        bound, at = start()
        if part.name not in scorers.registry:
            raise _Skip("it is not registered")
        found = bound.fitted(at)
        state = found.state()
        again = scorers.fitted_class(found.name).from_state(*state)
        _near(again.score(data.X, data.offsets), found.score(data.X, data.offsets), "scores after loading", 1e-12)

    return _verdict(f"scorer {part.name!r}", [gradient, isolated, fitted, settings, file], raise_on_failure)


def check_metric(metric: Any, *, raise_on_failure: bool = True) -> Verdict:
    """What a metric must hold: numbers, the same for any order of the rows, and better for a better ranking.

    >>> check_metric("ndcg@10").passed
    True
    """
    part = metrics.of(metric)
    data = _sample(2)

    def value(scores: FloatArray, on: Groups = data) -> FloatArray:
        return metrics.evaluate(scores, on, [part]).values[part.name]

    def numbers() -> None:
        """It gives a finite number a query, or NaN where the query does not count."""
        found = value(np.random.default_rng(0).normal(size=data.n_rows))
        assert found.shape == (data.n_queries,), f"shape {found.shape}"
        assert not np.isinf(found).any(), "infinity"

    def rows() -> None:
        """The order of rows within a query does not matter."""
        scores = np.random.default_rng(1).permutation(data.n_rows).astype(np.float64)
        back = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(data.offsets)])
        other = from_arrays(data.X[back], data.y[back], qid=data.qid)
        _near(np.nan_to_num(value(scores[back], other)), np.nan_to_num(value(scores)), "values of two orders", 1e-9)

    def better() -> None:
        """A ranking by the grades is not worse than its reverse."""
        noise = 1e-3 * np.random.default_rng(2).random(data.n_rows)
        good, bad = np.nanmean(value(data.y + noise)), np.nanmean(value(-data.y + noise))
        sign = 1.0 if part.greater_is_better else -1.0
        assert sign * (good - bad) >= -1e-12, f"{good:.4g} against {bad:.4g} (is greater_is_better right?)"

    return _verdict(f"metric {part.name!r}", [numbers, rows, better], raise_on_failure)
