"""Checks of settings that many parts share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from luce.errors import SettingError

if TYPE_CHECKING:
    import numpy as np


def is_whole(value: Any, least: int | None = None, most: int | None = None) -> TypeGuard[int]:
    """Whether a value is a whole number from `least` to `most`, of Python or NumPy; True and False are none.

    >>> is_whole(3), is_whole(3.0), is_whole(True), is_whole(3, least=4)
    (True, False, False, False)
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return (least is None or int(value) >= least) and (most is None or int(value) <= most)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """A setting that must be one of several names; anything else is an error.

    >>> one_of("schedule", "linear", ("constant", "sqrt"))
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: schedule is 'linear'; it must be one of constant, sqrt.
    """
    if isinstance(value, str) and value in allowed:
        return value
    raise SettingError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A setting that must be a whole number, as a number of Python; anything else is an error.

    >>> whole("depth", 0, 1)
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: depth is 0; it must be a whole number of at least 1.
    """
    if is_whole(value, least, most):
        return int(value)
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise SettingError(f"{name} is {value!r}; it must be a whole number {allowed}.")


def number(name: str, value: Any, least: float = 0.0, *, above: bool = False) -> float:
    """A setting that must be a finite number of at least `least`, or above it; anything else is an error.

    >>> number("l2", -1.0)
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: l2 is -1.0; it must be a number of at least 0.
    """
    good = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    if good and (value > least if above else value >= least):
        return float(value)
    allowed = f"a number {'above' if above else 'of at least'} {least:g}" if isfinite(least) else "a finite number"
    raise SettingError(f"{name} is {value!r}; it must be {allowed}.")


def truth(name: str, value: Any) -> bool:
    """A setting that must be True or False: a word such as "no" would count as true.

    >>> truth("exact", "no")
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: exact is 'no'; it must be True or False.
    """
    if type(value).__name__ in ("bool", "bool_"):  # that of NumPy too
        return bool(value)
    raise SettingError(f"{name} is {value!r}; it must be True or False.")


def heard(owner: str, given: Mapping[str, tuple[Any, Any]], where: bool, needed: str) -> None:
    """Refuse settings (value, usual value) that have no effect, unless `where` they have one.

    >>> heard("hom_gg", {"seed": (3, 0)}, False, "a draw")
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: seed=3 has no effect in 'hom_gg' without a draw; leave it out.
    """
    for name, (value, usual) in () if where else given.items():
        if value is not usual and value != usual:
            raise SettingError(f"{name}={value!r} has no effect in {owner!r} without {needed}; leave it out.")


def path_of(what: str, value: Any) -> Path:
    """A path that a user gives; anything else is an error.

    >>> path_of("The model file", None)
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: The model file is None; give the path of a file.
    """
    if isinstance(value, str | PathLike):
        return Path(value)
    raise SettingError(f"{what} is {value!r:.100}; give the path of a file.")


def patience(value: Any, step: float | None = None) -> int | None:
    """Check `early_stopping`: None, or iterations without a better validation metric that end a training.

    Where there is a `step`, "auto" is allowed as well, since short steps need more: five times 1/step, at least 20.

    >>> patience(7), patience("auto", 0.1), patience("auto", 0.02), patience("auto", 1.0)
    (7, 50, 250, 20)
    """
    if value == "auto" and step is not None:
        return max(20, round(5.0 / step))
    if not (value is None or is_whole(value, 1)):
        other = "" if step is None else ", 'auto'"
        raise SettingError(f"early_stopping is {value!r}; it must be None{other} or a whole number above 0.")
    return None if value is None else int(value)


def generator(random_state: int | np.random.Generator | np.random.RandomState | None) -> np.random.Generator:
    """What `random_state` means in every function that draws.

    A whole number of at least 0 gives the same draws in every call, a generator goes on where it is, None draws anew.

    >>> float(generator(3).random()) == float(generator(3).random())
    True
    """
    import numpy as np

    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    if random_state is None or isinstance(random_state, np.random.Generator) or is_whole(random_state, 0):
        return np.random.default_rng(random_state)
    raise SettingError(
        f"random_state is {random_state!r}; it must be a whole number of at least 0, a numpy.random.Generator or None."
    )
