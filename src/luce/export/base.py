"""What a target is given and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from luce.errors import SettingError
from luce.export.form import Form


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


@dataclass
class Written:
    """The content of the file, what its reader must know, and facts for machines."""

    content: str | bytes
    remarks: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    products: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Features that the target must be given beside the model's own: products of two of them."""


def refuse(form: Form, target: str, able: str) -> NoReturn:
    """The error for a form that a target has no words for."""
    raise SettingError(f"The model is {form.kind}, which {target} cannot express; {able}.")
