"""Checks of settings and sizes that many parts share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from math import ceil, isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from luce.errors import DataError, SettingError

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


def words(name: str, value: Any) -> tuple[str, ...]:
    """A setting that must be a list of words without white space; anything else is an error.

    >>> words("missing", "NULL")
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: missing is 'NULL'; it must be a list of words such as ('NULL',).
    """
    if isinstance(value, str) or any(not word or set(word) & set(" \t\n#") for word in value):
        raise SettingError(f"{name} is {value!r}; it must be a list of words such as ('NULL',).")
    return tuple(value)


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


_SMALL = 64 << 20
"""Bytes about which nobody is asked."""


def fits_in_memory(needed: float, what: str, instead: str) -> None:
    """Refuse work before it begins where its arrays, of `needed` bytes, are more than what is available.

    >>> fits_in_memory(8e15, "A matrix", "take fewer")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    luce.errors.DataError: A matrix needs 7,450,580.6 GB of memory, and ... GB are available; take fewer.
    """
    if needed <= _SMALL:
        return
    at_hand = available_memory()
    if at_hand is not None and needed > at_hand:
        raise DataError(
            f"{what} needs {needed / 2**30:,.1f} GB of memory, and {at_hand / 2**30:,.1f} GB are available; {instead}."
        )


def available_memory() -> int | None:
    """Bytes that this process can still take: of the machine, its container and its own limit; None if unknown."""
    machine, own = _read("/proc/meminfo"), _read("/proc/self/status")
    found = [_kilobytes(machine, "MemAvailable") or _of_all_pages(), _of_container()]
    try:
        import resource
    except ImportError:  # no such limit on Windows
        pass
    else:
        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        taken = _kilobytes(own, "VmSize")
        found.append(most - taken if most != resource.RLIM_INFINITY and taken is not None else None)
    known = [max(size, 0) for size in found if size is not None]
    return min(known, default=None)


def available_cores() -> tuple[int, str]:
    """Cores that this process can use, at least one, and what says so: the machine, or the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = core_quota()
    if quota is None or ceil(quota) >= cores:
        return cores, "cores at hand"
    return max(1, ceil(quota)), f"a quota of {quota:g} of {cores} cores at hand"


@cache  # asked before every parallel work
def core_quota(folder: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> float | None:
    """How many cores' time control groups of Linux, of either version, leave this process; None where they leave all.

    `own` lists the groups of the process. A quota binds all groups below; in a container the names of groups may be
    those outside, of which only the topmost folder is there.
    """
    found: list[float] = []
    for line in _read(own).splitlines() or ["0::/"]:
        _, kinds, group = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        path = Path(group.strip("/"))
        for place in (path, *path.parents):
            if not kinds:
                quota, _, period = _read(f"{folder}/{place}/cpu.max").strip().partition(" ")
            else:
                at = f"{folder}/{kinds}/{place}" if Path(folder, kinds).exists() else f"{folder}/cpu/{place}"
                quota, period = (_read(f"{at}/cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
            if quota.isdecimal() and period.isdecimal() and int(period):
                found.append(int(quota) / int(period))
    return min(found, default=None)


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _kilobytes(text: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return None if found is None else int(found[1]) << 10


def _of_all_pages() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _of_container() -> int | None:
    """What a control group of Linux, of either version, leaves; pages of files that it holds can be given back."""
    for folder, most, now in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, taken = _read(f"{folder}/{most}").strip(), _read(f"{folder}/{now}").strip()
        if limit.isdigit() and taken.isdigit():
            files = re.search(r"^(?:total_)?inactive_file (\d+)", _read(f"{folder}/memory.stat"), re.MULTILINE)
            return int(limit) - int(taken) + (0 if files is None else int(files[1]))
    return None
