"""What the API page makes of docstrings.

- A docstring may describe several parameters in one entry (`max_iter, tol`); griffe gives all of them the type and
  default of the first. Here each has its own, from the signature.
- Examples need no heading in a docstring of luce; griffe reads them as code only below one.
"""

from __future__ import annotations

from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Corrects docstrings before they are rendered."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Called by griffe for each function."""
        _correct(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called by griffe for each class, after its members."""
        _correct(cls)


def _correct(thing: griffe.Function | griffe.Class) -> None:
    if thing.docstring is None:
        return
    thing.docstring.value = _with_heading(thing.docstring.value)
    own = {parameter.name: parameter for parameter in thing.parameters}
    for section in thing.docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.parameters:
            for described in section.value:
                parameter = own.get(described.name)
                if parameter is not None:
                    described.annotation, described.value = parameter.annotation, parameter.default


def _with_heading(text: str) -> str:
    before, examples, rest = text.partition("\n>>> ")
    if not examples or "Examples\n---" in before:
        return text
    return f"{before.rstrip()}\n\nExamples\n--------{examples}{rest}"
