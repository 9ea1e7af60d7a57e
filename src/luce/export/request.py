"""What a writer is asked for and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from luce.errors import SettingError
from luce.form import Column, Form, Layer

if TYPE_CHECKING:
    from luce.data.text.transformer import Text


@dataclass(frozen=True)
class Request:
    """A form and how it is to be written."""

    form: Form
    name: str = "luce"
    store: str = ""
    """Feature set (Elasticsearch, OpenSearch) or feature store (Solr)."""
    folded: bool = False
    """Linear models: plain weights instead of normalizers, the intercept left out."""
    ignore_missing: bool = False
    """Write trees also where the target would send a missing value another way."""
    text: Text | None = None
    """What computes the last features of the form."""
    queries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Features that are no stored field of the engine: what it takes for them, by name."""


@dataclass
class Written:
    """The models, what their reader must know, and facts for machines."""

    models: list[str] | list[bytes]
    """The content of a file each; their scores add up."""
    remarks: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Column] | None = None
    """The features that the target must be given, by name; None where they are those of the model."""
    beside: dict[str, str] = field(default_factory=dict)
    """Other files, by what their names have after that of the first model."""


def refuse(form: Form, target: str, able: str) -> NoReturn:
    """The error for a form that a target has no words for."""
    raise SettingError(f"The model is {form.kind}, which {target} cannot express; {able}.")


def activation(layer: Layer, known: Mapping[str, str], form: Form, target: str) -> str:
    """What a target calls the activation of a layer; one that it does not have is refused."""
    if layer.activation not in known:
        refuse(form, target, f"it has no activation {layer.activation!r} here, only {', '.join(known)}")
    return known[layer.activation]


def filled_outside(form: Form) -> list[str]:
    """What must be said where the model fills gaps and the target does not."""
    if not any(column.fill is not None for term in form.terms for column in term.columns):
        return []
    return ["The model fills a gap with the median of training, and the export does not: give it rows without gaps."]
