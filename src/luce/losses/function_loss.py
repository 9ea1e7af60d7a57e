"""A loss that a user wrote as a function of one query, as a full member of the family."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from inspect import Parameter, isclass, signature
from itertools import pairwise
from typing import Any, Self

import numpy as np

from luce.errors import DataError, LuceWarning, SettingError, of_user
from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.registry import make, settings_of, unknown_setting
from luce.types import FloatArray, IntArray

_FUNCTION = "a function (scores, labels) of one query that gives (value, gradient) or (value, gradient, curvature)"
_FORM = f"a loss is {_FUNCTION}"
_STEP = 1e-4
_TRAITS = ("shift_invariant", "ordinal", "permutation_invariant", "smooth")


class FunctionLoss(Loss):
    """Calls `function(scores, labels)` for one query after the other; further parameters of it are settings.

    The function gives the value and the gradient in the scores, and if it likes the curvature; without one, trees take
    1 everywhere, which is plain gradient boosting. An object with a method `__call__` serves as well: what its class
    takes are its settings, and `shift_invariant`, `ordinal` and `smooth` say what `Loss` says.

    >>> def square(scores, labels):
    ...     return ((scores - labels) ** 2).sum(), 2 * (scores - labels)
    >>> FunctionLoss(square).value_and_grad([1.0, 0.0], [0.0, 0.0])
    (1.0, array([2., 0.]))
    """

    learns_from_ties = True

    def __init__(self, function: Any, name: str | None = None, **settings: Any) -> None:
        self.function = function
        own = name or getattr(function, "name", None) or getattr(function, "__name__", type(function).__name__)
        self.name = str(own)  # type: ignore[misc]  # a class variable of the built-in ones
        named = _options(function)
        self._settings = {**named, **settings} if self._named else settings_of(function)
        for trait in _TRAITS:
            setattr(self, trait, bool(getattr(function, trait, getattr(Loss, trait))))

    @property
    def _named(self) -> bool:
        """Whether it is a function, which takes its settings, and no object that has them."""
        return hasattr(self.function, "__name__")

    @property
    def factory(self) -> Any:
        """What a registry has under the name of this loss."""
        return self.function if self._named else type(self.function)

    @property
    def settings(self) -> dict[str, Any]:
        """Further parameters of the function, or what the class of the object takes."""
        return dict(self._settings)

    def with_settings(self, **settings: Any) -> Self:
        """The same loss with these settings."""
        if self._named:
            return type(self)(self.function, self.name, **settings)
        return type(self)(type(self.function)(**settings), self.name)

    def prepare(self, target: Target, offsets: IntArray) -> tuple[FloatArray, IntArray]:
        """Grades and query boundaries."""
        return as_labels(self, target, offsets), offsets

    def fill(self, prepared: tuple[FloatArray, IntArray], scores: FloatArray, out: Outputs) -> None:
        """Query after query."""
        labels, offsets = prepared
        bounds = pairwise(offsets[out.chunk[0] : out.chunk[1] + 1].tolist())
        for number, (first, last) in enumerate(bounds):
            rows = slice(first, last)
            out.values[number], out.grad[rows], bend = self._one(scores[rows].copy(), labels[rows].copy())
            if len(out.curvature):
                out.curvature[rows] = bend

    def _one(self, scores: FloatArray, labels: FloatArray) -> tuple[float, FloatArray, FloatArray | float]:
        with of_user(f"The loss {self.name!r}"):
            given = self.function(scores, labels, **(self._settings if self._named else {}))
        if not isinstance(given, tuple) or len(given) not in (2, 3):
            raise SettingError(f"The loss {self.name!r} gave {type(given).__name__}; {_FORM}.")
        try:
            value, gradient = float(given[0]), _reals(given[1])
            bend = 1.0 if len(given) == 2 else _reals(given[2])
        except (TypeError, ValueError) as error:
            raise SettingError(f"The loss {self.name!r} gave no numbers ({error}); {_FORM}.") from error
        if gradient.shape != scores.shape or (len(given) == 3 and np.shape(bend) != scores.shape):
            shape = gradient.shape if gradient.shape != scores.shape else np.shape(bend)
            raise SettingError(
                f"The loss {self.name!r} gave a gradient or curvature of shape {shape} for {len(scores)} documents; "
                "one number a document is needed."
            )
        if not (np.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(bend).all()):
            raise DataError(
                f"The loss {self.name!r} gave NaN or infinity for a query of {len(scores)} documents with scores from "
                f"{scores.min():.3g} to {scores.max():.3g}; it must stay finite."
            )
        return value, gradient, bend

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)


def _reals(given: Any) -> FloatArray:
    array = np.asarray(given)
    if array.dtype.kind == "c":
        raise TypeError("complex numbers")
    return array.astype(np.float64, copy=False)


def _options(function: Callable[..., Any]) -> dict[str, Any]:
    """Parameters of the function after scores and labels, with their defaults; an error where it takes no two."""
    try:
        named = list(signature(function).parameters.values())
    except (TypeError, ValueError):  # compiled functions need not say
        return {}
    plain = [p for p in named if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is Parameter.VAR_POSITIONAL for p in named):
        return {}
    further = [p for p in named if p not in plain[:2] and p.kind is not Parameter.VAR_KEYWORD]
    if len(plain) < 2 or any(p.default is Parameter.empty for p in further):
        name = getattr(function, "__name__", type(function).__name__)
        raise SettingError(f"{name!r} takes ({', '.join(p.name for p in named)}); {_FORM}.")
    return {p.name: p.default for p in further}


def warn_of_gradient(loss: Loss, labels: FloatArray, offsets: IntArray) -> None:
    """Say it where the gradient of a loss of one's own is not that of its value, on the first query that has grades.

    Two places along two lines, since a place may be a kink. Losses of luce are tested, and those that draw or have
    kinks everywhere say so themselves.
    """
    own = isinstance(loss, FunctionLoss) or not type(loss).__module__.startswith("luce.")
    first = next((q for q, (a, b) in enumerate(pairwise(offsets.tolist())) if np.ptp(labels[a:b]) > 0), None)
    if not own or loss.stochastic or not loss.smooth or first is None:
        return
    y, rng = labels[offsets[first] : offsets[first + 1]], np.random.default_rng(0)
    for _ in range(2):
        scores, line = rng.normal(size=len(y)), rng.normal(size=len(y))
        said = float(loss.value_and_grad(scores, y)[1] @ line)
        up, down = (loss.value_and_grad(scores + step * line, y)[0] for step in (_STEP, -_STEP))
        found = (up - down) / (2 * _STEP)
        # Losses in float32 pass too; what is wrong is a sign, a factor or a term.
        if abs(found - said) <= 0.05 * max(abs(found), abs(said)) + 2e-7 * max(abs(up), abs(down)) / _STEP:
            return
    warnings.warn(
        f"The gradient of the loss {loss.name!r} is not that of its value: along a line the value changes by "
        f"{found:.4g}, and the gradient says {said:.4g}; luce.testing.check_loss says more (smooth = False on the loss "
        "leaves this check out).",
        LuceWarning,
        stacklevel=5,
    )


def as_loss(part: Any) -> Loss:
    """A loss from what a user gives: a loss, or a function or object that is one for a single query."""
    if isinstance(part, Loss):
        return part
    if isclass(part):
        raise SettingError(f"The loss is the class {part.__name__}; give an object: {part.__name__}().")
    if not callable(part):
        raise SettingError(f"The loss is {part!r:.100}; give a name, a luce.losses.Loss, or {_FUNCTION}.")
    return FunctionLoss(part)


def from_factory(name: str, factory: Any, parameters: dict[str, Any]) -> Loss:
    """The loss that a registered class or function makes."""
    if isclass(factory):
        made = make("loss", name, factory, parameters)
        if not callable(made) and not isinstance(made, Loss):
            raise SettingError(f"{name!r} is registered as {factory.__name__}, whose objects are no losses; {_FORM}.")
        return made if isinstance(made, Loss) else FunctionLoss(made, name)
    taken = _options(factory)
    unknown = [key for key in parameters if key not in taken]
    if unknown:
        raise unknown_setting(f"Loss {name!r}", unknown, taken)
    return FunctionLoss(factory, name, **parameters)
