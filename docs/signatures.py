"""Types and defaults of the API page, taken from the signature.

A docstring may describe several parameters in one entry (`max_iter, tol`); griffe gives all of them the type and
default of the first.
"""

from __future__ import annotations

from typing import Any

import griffe


class OwnSignatures(griffe.Extension):
    """Every described parameter has the annotation and the default of its own."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Called by griffe for each function."""
        _correct(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called by griffe for each class, after its members."""
        _correct(cls)


def _correct(thing: griffe.Function | griffe.Class) -> None:
    if thing.docstring is None:
        return
    own = {parameter.name: parameter for parameter in thing.parameters}
    for section in thing.docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.parameters:
            for described in section.value:
                parameter = own.get(described.name)
                if parameter is not None:
                    described.annotation, described.value = parameter.annotation, parameter.default
