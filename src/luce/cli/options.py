"""Options in groups: a command takes dataclasses of options, and Typer sees their fields one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every parameter that is a dataclass replaced by the fields of that dataclass, in its place.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: int = 2
    >>> def draw(*, name: str, size: Size) -> None:
    ...     print(name, size)
    >>> list(signature(flattened(draw)).parameters), flattened(draw)(name="box", width=3)
    box Size(width=3)
    (['name', 'width'], None)
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return command
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _parameters(groups[parameter.name])
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    @wraps(command)
    def flat(**values: Any) -> None:
        made = {name: kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**made, **values)

    flat.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    defaults = {f.name: Parameter.empty if f.default is MISSING else f.default for f in fields(group)}
    return [Parameter(n, Parameter.KEYWORD_ONLY, default=d, annotation=hints[n]) for n, d in defaults.items()]
