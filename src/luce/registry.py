"""The only map from names to factories, and what a part made by one takes.

A registry is a table of import paths, so that listing the names imports nothing: `import luce` and `luce --help` stay
light. Anyone can add to it: `register` in a program, or an entry point of an installed package.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, getmro, isclass, signature
from typing import Any

from luce.checks import truth
from luce.errors import LuceError, LuceWarning, SettingError, UnknownNameError, of_user


def canonical(name: str) -> str:
    """Names accept `-` and `_` alike, in any case.

    >>> canonical("PMOP-Exact")
    'pmop_exact'
    """
    return name.strip().lower().replace("-", "_")


_ELSEWHERE = {
    "n_estimators": "max_iter",
    "num_boost_round": "max_iter",
    "num_iterations": "max_iter",
    "iterations": "max_iter",
    "n_iter": "max_iter",
    "epochs": "max_epochs",
    "objective": "loss",
    "eta": "learning_rate",
    "lr": "learning_rate",
    "reg_lambda": "l2",
    "weight_decay": "l2",
    "batch_size": "batch_queries",
    "early_stopping_rounds": "early_stopping",
    "eval_metric": "metric",
    "seed": "random_state",
    "sample_weight": "query_weight",
    "eval_set": "valid",
    "validation_data": "valid",
    "groups": "group",
}
"""Names that other libraries give to settings, and those that they have here."""
_MODELS = {"lambdarank": "lambdamart", "lambdamart": "lambdamart", "rank:ndcg": "lambdamart", "mart": "mart"}
"""Objectives of other libraries, and the complete systems that follow them here."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not known, with the nearest one that is."""
    known = sorted(known)
    if kind == "loss" and canonical(name) in _MODELS:
        model = _MODELS[canonical(name)]
        return UnknownNameError(
            f"{name!r} is no loss here but what the complete system {model!r} follows; give luce.model({model!r}), "
            f"--model {model}, in place of the loss."
        )
    close = difflib.get_close_matches(canonical(name), [canonical(k) for k in known], n=1, cutoff=0.6)
    hint = ""
    if close:
        hint = f" Did you mean {next(k for k in known if canonical(k) == close[0])!r}?"
    return UnknownNameError(f"Unknown {kind} {name!r}.{hint} Available: {', '.join(known)}.")


def make(
    kind: str, name: str, factory: Any, parameters: Mapping[str, Any], blamed: Mapping[str, Any] | None = None
) -> Any:
    """What `factory` makes of the parameters; those that it does not take, or not with these values, are named.

    >>> from fractions import Fraction
    >>> make("number", "half", Fraction, {"numerator": 1, "denominator": 2})
    Fraction(1, 2)
    """
    try:
        _check_truths(factory, parameters)
        return factory(**parameters)
    except LuceError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        taken = _parameters(factory)
        unknown = [key for key in parameters if key not in taken]
        if unknown:
            raise unknown_setting(f"{kind.capitalize()} {name!r}", unknown, taken) from error
        given = ", ".join(f"{key}={value!r}" for key, value in (blamed or parameters).items())
        if not given:
            said = " ".join(str(error).split()).rstrip(".")
            raise SettingError(
                f"{kind.capitalize()} {name!r} cannot be made of its defaults: {said}; give an object."
            ) from error
        message = f"{kind.capitalize()} {name!r} cannot use {given}; check the values, which have a wrong type."
        raise SettingError(message) from error


def _check_truths(factory: Any, parameters: Mapping[str, Any]) -> None:
    """Refuse what is neither True nor False where the default is one of them: any word would count as true."""
    if any(not isinstance(value, bool) for value in parameters.values()):
        usual = _parameters(factory)
        for name, value in parameters.items():
            if isinstance(usual.get(name), bool):
                truth(name, value)


def unknown_setting(owner: str, unknown: Iterable[str], taken: Iterable[str]) -> SettingError:
    """The error for settings that a part does not have, with the nearest one that it has."""
    unknown, taken = list(unknown), list(taken)
    here = [_ELSEWHERE.get(name) for name in unknown]
    if all(name in taken for name in here):
        names = ("it is " if len(here) == 1 else "they are ") + ", ".join(map(str, here))
        return SettingError(f"{owner} does not take these parameters: {', '.join(unknown)}; here {names}.")
    close = difflib.get_close_matches(unknown[0], taken, n=1, cutoff=0.6)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    takes = f"it takes {', '.join(taken)}" if taken else "it takes none"
    return SettingError(f"{owner} does not take these parameters: {', '.join(unknown)}; {takes}.{hint}")


def _parameters(factory: Any) -> dict[str, Any]:
    """The keyword parameters of a factory with their defaults; a class passes what it does not name on to its bases."""
    found: dict[str, Any] = {}
    makers = [vars(c)["__init__"] for c in getmro(factory) if "__init__" in vars(c)] if isclass(factory) else [factory]
    for maker in makers:
        named = signature(maker).parameters.values()
        taken = {
            p.name: p.default for p in named if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        }
        found = taken | found
        if not any(p.kind is Parameter.VAR_KEYWORD for p in named):
            break
    return {name: default for name, default in found.items() if name != "self"}


def all_settings_of(part: Any) -> dict[str, Any]:
    """As `settings_of`, with those that a part leaves out because they have their defaults."""
    return usual_settings(part) | settings_of(part)


def usual_settings(part: Any) -> dict[str, Any]:
    """The settings of a part that have a default, with it."""
    usual = _parameters(getattr(part, "with_settings", type(part))).items()
    return {name: default for name, default in usual if default is not Parameter.empty}


def settings_of(part: Any) -> dict[str, Any]:
    """The parameters that make a part, with their values: its `settings`, its fields, or what its class takes.

    >>> from dataclasses import dataclass
    >>> settings_of(dataclass(type("Step", (), {"__annotations__": {"size": float}}))(0.5))
    {'size': 0.5}
    """
    own = getattr(part, "settings", None)
    if isinstance(own, Mapping):
        return dict(own)
    if is_dataclass(part):
        return {field.name: getattr(part, field.name) for field in fields(part) if field.init}
    return {name: getattr(part, name) for name in _parameters(type(part)) if hasattr(part, name)}


def with_settings(kind: str, part: Any, changes: Mapping[str, Any]) -> Any:
    """A part of the same kind with some settings changed; those that it does not have are named."""
    if not changes:
        return part
    name = getattr(part, "name", type(part).__name__)
    own, factory = settings_of(part), getattr(part, "with_settings", type(part))
    # A part may leave out of its settings what has its default.
    taken = list(dict.fromkeys([*own, *_parameters(factory)]))
    unknown = [key for key in changes if key not in taken]
    if unknown:
        raise unknown_setting(f"{kind.capitalize()} {name!r}", unknown, taken)
    return make(kind, name, factory, {**own, **changes}, changes)


class Registry:
    """Names of one kind of part, each with its factory or the import path of it.

    `group` is the group of entry points by which installed packages add names.

    >>> Registry("number", {"half": "fractions:Fraction"}).get("half")(1, 2)
    Fraction(1, 2)
    """

    def __init__(self, kind: str, table: Mapping[str, str], group: str | None = None) -> None:
        self.kind = kind
        self._table: dict[str, Any] = dict(table)
        self._spelling = {canonical(known): known for known in table}
        self._group = group

    def names(self) -> list[str]:
        """All names, sorted."""
        self._join_entry_points()
        return sorted(self._table)

    def register(self, part: Any = None, *, name: str | None = None) -> Any:
        """Add a class or function under a name: its `name`, its own, or the one given; also as a decorator.

        >>> numbers = Registry("number", {})
        >>> @numbers.register(name="two")
        ... def double(x): return 2 * x
        >>> numbers.get("two")(4)
        8
        """
        if isinstance(part, str):
            part, name = None, part
        if part is None:
            decorate: Callable[[Any], Any] = lambda found: self.register(found, name=name)  # noqa: E731
            return decorate
        if not callable(part) or (not isclass(part) and not hasattr(part, "__name__")):
            raise SettingError(f"A {self.kind} is registered as a class or a function; got the object {part!r}.")
        own = getattr(part, "name", None)
        chosen = name if name is not None else own if isinstance(own, str) else part.__name__
        if not isinstance(chosen, str) or not re.fullmatch(r"\w[\w.-]*", chosen):
            raise SettingError(
                f"The name of a {self.kind} is {chosen!r}; it must be of letters, digits, '_', '-' and '.': give one "
                "by name=."
            )
        known = self._spelling.get(canonical(chosen))
        taken: Any = None if known is None else self._table[known]
        if known is not None and not _same(taken, part):
            place = f"luce's own {taken}" if isinstance(taken, str) else f"{taken.__qualname__} of {taken.__module__}"
            raise SettingError(f"There is a {self.kind} {known!r} already, {place}; choose another name.")
        self._table[known or chosen] = part
        self._spelling[canonical(chosen)] = known or chosen
        return part

    def keep(self, part: Any) -> Any:
        """Add an object under its name, in place of a factory; one registered before under that name is replaced."""
        known = self._spelling.get(canonical(part.name), part.name)
        if isinstance(self._table.get(known), str):
            raise SettingError(f"The {self.kind} {part.name!r} is one of luce's own; give yours another name.")
        self._table[known] = part
        self._spelling[canonical(part.name)] = known
        return part

    def _join_entry_points(self) -> None:
        """Add what installed packages bring; one that cannot be imported is named, and the rest works."""
        group, self._group = self._group, None
        if group is None:
            return
        for point in entry_points(group=group):
            try:
                with of_user("its import"):
                    self.register(point.load(), name=point.name)
            except LuceError as error:
                reason = str(error).rstrip(".: ")
                warnings.warn(
                    f"The {self.kind} {point.name!r} of the package {point.value!r} was left out: {reason}.",
                    LuceWarning,
                    stacklevel=3,
                )

    def resolve(self, name: str) -> str:
        """The registered spelling of `name`, or an error that lists the names."""
        known = self._spelling.get(canonical(name))
        if known is None:
            self._join_entry_points()
            known = self._spelling.get(canonical(name))
        if known is None:
            raise unknown_name(self.kind, name, self._table)
        return known

    def get(self, name: str) -> Any:
        """The factory behind a name; imports its module on first use."""
        found = self._table[self.resolve(name)]
        if not isinstance(found, str):
            return found
        module, _, attribute = found.partition(":")
        return getattr(import_module(module), attribute)

    def made(self, part: Any) -> bool:
        """Whether a part is what its name gives here, so that the name brings it back."""
        name = getattr(part, "name", None)
        if not isinstance(name, str) or name not in self:
            return False
        factory = self.get(name)
        return factory is type(part) or factory is getattr(part, "factory", None)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if canonical(name) not in self._spelling:
            self._join_entry_points()
        return canonical(name) in self._spelling


def _same(known: Any, factory: Any) -> bool:
    """Whether a name is only given again to what has it: a cell of a notebook or a module that runs twice."""
    return not isinstance(known, str) and (known.__module__, known.__qualname__) == (
        factory.__module__,
        factory.__qualname__,
    )
