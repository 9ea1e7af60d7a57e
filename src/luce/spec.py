"""A setting is written once: a class declares it, and its check, sentence, options, tables and tuning range follow.

    class Davidson(Spec):
        '''...

        Parameters
        ----------
        nu
            The tie parameter; None learns it.
        '''

        nu: float | None = option(default=None, above=0, tune=Range(0.1, 10.0, learned=True))
        ties: bool = True
        tie_grades: Sequence[float] | None = option(default=None, needs="ties", convert=grades)

A `Spec` is a frozen dataclass. The annotation says what a value may be (a number, a whole number, True or False, one of
the values of a Literal, None), `option` its range and what it needs beside it. Anything else goes through `convert`,
which gets name and value and gives what is kept, or raises. Words for people are the paragraphs of the docstring.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from functools import cache
from inspect import getdoc, getmro, signature
from math import inf
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeAlias, Union, dataclass_transform, get_args, get_origin, get_type_hints

from luce.checks import number, truth, whole
from luce.errors import SettingError


@dataclass(frozen=True)
class Range:
    """What to tune: numbers from `low` to `high`, log-uniform unless `log` is False; whole ones where `whole`.

    `learned` also draws None half of the time, for parameters that training can learn itself.
    """

    low: float
    high: float
    log: bool = True
    whole: bool = False
    learned: bool = False

    def draw(self, rng: Any) -> float | int | None:
        """One value, with four digits, so that it can be typed."""
        place, learn = rng.random(), rng.random()
        if self.learned and learn < 0.5:
            return None
        if self.log:
            import numpy as np

            value = float(np.exp(np.log(self.low) + place * (np.log(self.high) - np.log(self.low))))
        else:
            value = self.low + place * (self.high - self.low)
        return round(value) if self.whole else float(f"{value:.4g}")


@dataclass(frozen=True)
class Choice:
    """What to tune: some values, each as likely as the others."""

    values: tuple[Any, ...]

    def draw(self, rng: Any) -> Any:
        """One of the values."""
        return self.values[int(rng.integers(len(self.values)))]


Dimension: TypeAlias = Range | Choice


@dataclass(frozen=True)
class Rule:
    """What a value must be beyond its annotation, what it needs, and what there is to tune."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    needs: str | tuple[Callable[[Any], Any], str] | None = None
    """A setting without which this one has no effect, or a test of the whole with words for what is missing."""
    convert: Callable[[str, Any], Any] | None = None
    tune: Dimension | None = None
    learned: bool = False
    """None leaves the value to training; the settings say None whatever is learned."""


_PLAIN = Rule()


def option(*, default: Any = MISSING, factory: Any = MISSING, **rule: Any) -> Any:
    """A field with a `Rule`; the keywords are the fields of the rule."""
    kept: Any = {"default": default, "default_factory": factory}  # MISSING is what dataclasses take for none
    return field(**kept, metadata={"rule": Rule(**rule)})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(option, field))
class Spec:
    """A part whose settings are its fields: checked when it is made, never changed.

    >>> class Step(Spec):
    ...     size: float = option(default=0.1, above=0, most=1)
    ...     schedule: Literal["constant", "sqrt"] = "constant"
    >>> Step(0.5), Step().settings
    (Step(size=0.5), {'size': 0.1, 'schedule': 'constant'})
    >>> Step(schedule="linear")
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: schedule is 'linear'; it must be one of constant, sqrt.
    >>> Step(size=2)
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: size is 2; it must be a number above 0 and at most 1.
    """

    learns = frozenset[str]()
    """Settings that were left to training."""

    def __init_subclass__(cls, open_to_change: bool = False, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        maker = next(c for c in getmro(cls) if "__init__" in vars(c))
        # A class of the usual kind, with a constructor of its own or of its base: what it takes are its settings.
        own = maker is not object and "__dataclass_params__" not in vars(maker)
        if not own:
            dataclass(frozen=True, eq=False, repr=False)(cls)
            # Those of this class serve; a subclass that is decorated as a dataclass once more could not replace them.
            del cls.__setattr__, cls.__delattr__
        if own or open_to_change:
            cls.__setattr__ = object.__setattr__  # type: ignore[method-assign, assignment]
            cls.__delattr__ = object.__delattr__  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to {name!r}: a part is never changed; make another one")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete {name!r}: a part is never changed; make another one")

    def __post_init__(self) -> None:
        own: Any = type(self)
        for name, (hint, rule) in _declared(own).items():
            value = checked(name, getattr(self, name), hint, rule)
            object.__setattr__(self, name, value)
            if rule.learned and value is None:
                object.__setattr__(self, "learns", self.learns | {name})
        _heard(self)
        self._check()

    def _check(self) -> None:
        """Settings that do not go together, where `needs` cannot say it: for classes that have such."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that make this part, for model files and reports."""
        own: Any = type(self)
        given = {name: getattr(self, name) for name in _defaults(own) if hasattr(self, name)}
        return given | dict.fromkeys(self.learns)

    def _unusual(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Those of the settings that differ from the defaults."""
        own: Any = type(self)
        usual = _defaults(own)
        return {name: value for name, value in settings.items() if not _same(value, usual.get(name, MISSING))}

    def _changed(self, **attributes: Any) -> Self:
        """A copy with other values of what is no setting, such as a parameter that was learned."""
        other = copy.copy(self)
        vars(other).update(attributes)
        return other

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(value, getattr(other, name)) for name, value in self.settings.items())

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        name = vars(type(self)).get("name", type(self).__name__)
        listed = ", ".join(f"{key}={value!r}" for key, value in self._unusual(self.settings).items())
        return f"{name if isinstance(name, str) else type(self).__name__}({listed})"


@cache
def _defaults(cls: Any) -> dict[str, Any]:
    """What a class takes, with the defaults."""
    return {parameter.name: parameter.default for parameter in signature(cls).parameters.values()}


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    equal = one == other if type(one) is type(other) else False
    return bool(equal.all() if hasattr(equal, "all") else equal)


@cache
def _declared(cls: Any) -> dict[str, tuple[Any, Rule]]:
    """The annotation and the rule of every setting of a class."""
    hints = get_type_hints(cls)
    return {f.name: (hints[f.name], f.metadata.get("rule", _PLAIN)) for f in fields(cls) if f.init}


def _works(spec: Any, rule: Rule) -> tuple[bool, str]:
    """Whether a setting has an effect beside the others, and what it needs for one."""
    if rule.needs is None:
        return True, ""
    if isinstance(rule.needs, str):
        return bool(getattr(spec, rule.needs)), f"{rule.needs}=True"
    return bool(rule.needs[0](spec)), rule.needs[1]


def _heard(spec: Any) -> None:
    """Refuse settings that were given but have no effect beside the others."""
    for declared in fields(spec):
        works, words = _works(spec, declared.metadata.get("rule", _PLAIN))
        usual = declared.default if declared.default_factory is MISSING else declared.default_factory()
        if not works and not _same(value := getattr(spec, declared.name), usual):
            name = getattr(spec, "name", type(spec).__name__)
            raise SettingError(f"{declared.name}={value!r} has no effect in {name!r} without {words}; leave it out.")


def checked(name: str, value: Any, hint: Any, rule: Rule = _PLAIN) -> Any:
    """A value as its annotation and its rule want it; anything else is an error that says what is allowed.

    >>> checked("k", 3, int | None, Rule(least=1)), checked("k", None, int | None)
    (3, None)
    >>> checked("k", 0, int | None, Rule(least=1))
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: k is 0; it must be a whole number of at least 1 or None.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and NoneType in kinds:
        return None
    if rule.convert is not None:
        return rule.convert(name, value)
    listed = [v for kind in kinds if get_origin(kind) is Literal for v in get_args(kind)]
    plain = [kind for kind in kinds if kind in (bool, int, float, str)]
    known = [kind for kind in kinds if kind is NoneType or get_origin(kind) is Literal or kind in plain]
    if len(known) < len(kinds):
        return value
    if any(type(value) is type(v) and value == v for v in listed):
        return value
    if plain == [bool] and not listed and NoneType not in kinds:
        return truth(name, value)
    for kind in plain:
        found = _as_kind(value, kind, rule)
        if found is not None:
            return found
    allowed = _allowed(plain, listed, NoneType in kinds, rule)
    raise SettingError(f"{name} is {value!r}; it must be {allowed}.")


def _as_kind(value: Any, kind: Any, rule: Rule) -> Any:
    if kind is str:
        return value if isinstance(value, str) else None
    if kind is bool:
        return bool(value) if type(value).__name__ in ("bool", "bool_") else None
    try:
        found = whole("", value, -(2**63)) if kind is int else number("", value, -inf)
    except SettingError:
        return None
    low = (rule.least is None or found >= rule.least) and (rule.above is None or found > rule.above)
    return (
        found
        if low and (rule.most is None or found <= rule.most) and (rule.below is None or found < rule.below)
        else None
    )


def _allowed(plain: list[Any], listed: list[Any], none: bool, rule: Rule) -> str:
    """What a value may be, in words."""
    words = []
    if listed:
        shown = [str(v) for v in listed] if all(isinstance(v, str) for v in listed) else [repr(v) for v in listed]
        words.append(f"one of {', '.join(shown)}")
    for kind in plain:
        words += ["True", "False"] if kind is bool else [_kind_in_words(kind, rule)]
    words += ["None"] if none else []
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _kind_in_words(kind: Any, rule: Rule) -> str:
    if kind is str:
        return "a text"
    name = "a whole number" if kind is int else "a number"
    ends = [
        f"{word} {end:,g}" if kind is float else f"{word} {int(end)}"
        for word, end in (
            ("above", rule.above),
            ("of at least", rule.least),
            ("below", rule.below),
            ("at most", rule.most),
        )
        if end is not None
    ]
    if rule.least is not None and rule.most is not None:
        return f"{name} from {rule.least:.15g} to {rule.most:.15g}"
    return f"{name} {' and '.join(ends)}" if ends else "a finite number" if kind is float else name


def accepted(cls: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Some settings of a class, each checked by itself.

    >>> class Step(Spec):
    ...     size: float = option(default=0.1, above=0, most=1)
    >>> accepted(Step, {"size": 1})
    {'size': 1.0}
    """
    declared = _declared(cls)
    return {name: checked(name, value, *declared[name]) for name, value in given.items()}


@cache
def described(cls: Any) -> dict[str, str]:
    """What each setting is, from the sections `Parameters` of the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for owner in getmro(cls):
        section = re.search(r"Parameters\n-+\n(.*?)(\n\n\w[^\n]*\n-+\n|\Z)", getdoc(owner) or "", re.S)
        for names, text in re.findall(
            r"(?m)^(\S[^\n]*)\n((?:[ ]+[^\n]*\n?|\n(?=[ ]))+)", section[1] if section else ""
        ):
            for name in names.split(","):
                found.setdefault(name.strip(), " ".join(text.split()))
    return found


def tuned(part: Any) -> dict[str, Dimension]:
    """What there is to tune of a part, by setting: what has an effect beside its other settings."""
    if not isinstance(part, Spec):
        return {}
    own: Any = type(part)
    rules = {name: rule for name, (_, rule) in _declared(own).items() if _works(part, rule)[0]}
    return {name: rule.tune for name, rule in rules.items() if rule.tune is not None}
