"""What texts, truth values and numbers mean to a model that was trained on a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import orjson

from luce.serve.errors import Refused
from luce.types import FloatArray


class Words(NamedTuple):
    """What texts and truth values mean to a model."""

    codes: Mapping[str, Mapping[str, int]]
    types: Mapping[str, str]

    def number(self, value: str | bool, feature: str, document: str | int) -> float:
        """A category's code, a date in days since 1970-01-01 UTC, 0 or 1 for a truth value."""
        type_ = self.types.get(feature, "number")
        if isinstance(value, bool):
            if type_ == "boolean":
                return float(value)
        elif feature in self.codes:
            return self.codes[feature].get(value, len(self.codes[feature]))
        elif type_ == "date":
            return _days(value, feature, document)
        wanted = {"boolean": "true or false", "date": "a date such as '2026-11-16'"}.get(type_, "a number")
        raise invalid(f"Document {document!r} has {shown(value)} as feature {feature!r}; it must be {wanted}.")

    def check_numbers(self, values: Mapping[str, Any], document: str | int) -> None:
        """Refuse a number for a category: it would be taken for a code, which nobody outside the model knows."""
        for name in self.codes:
            if type(values.get(name)) in (int, float):
                raise self._no_code(values[name], name, document)

    def check_codes(self, rows: FloatArray, ids: Sequence[str | int], names: Sequence[str]) -> None:
        """The same of a table that holds numbers alone."""
        for column, name in enumerate(names):
            if name in self.codes and not np.all(np.isnan(rows[:, column])):
                row = int(np.flatnonzero(~np.isnan(rows[:, column]))[0])
                raise self._no_code(float(rows[row, column]), name, ids[row])

    @staticmethod
    def _no_code(value: float, feature: str, document: str | int) -> Refused:
        what = f"Document {document!r} has {value:g} as feature {feature!r}, a category; give documents by name"
        return invalid(f"{what}, and categories as text.")

    def check_dates(self, rows: FloatArray, ids: Sequence[str | int], names: Sequence[str]) -> None:
        """Refuse days beyond the year 9999: such a number is a date without dashes, or counts seconds."""
        for column, name in enumerate(names):
            if self.types.get(name) == "date" and np.any(np.abs(rows[:, column]) > _LAST_DAY):
                row = int(np.flatnonzero(np.abs(rows[:, column]) > _LAST_DAY)[0])
                raise invalid(
                    f"Document {ids[row]!r} has {rows[row, column]:.15g} as feature {name!r}, a date; write it as "
                    "'2026-11-16', or in days since 1970-01-01 UTC."
                )


_LAST_DAY = 2_932_896
"""9999-12-31."""


def _days(text: str, feature: str, document: str | int) -> float:
    """Days since 1970-01-01 UTC, as dates are read from tables; a time without a zone is UTC.

    >>> _days("1970-01-02", "day", 0), _days("1970-01-02T06:00:00+06:00", "day", 0)
    (1.0, 1.0)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(
            f"Document {document!r} has {shown(text)} as feature {feature!r}, a date; write it as '2026-11-16', as "
            "'2026-11-16T12:30:00Z', or in days since 1970-01-01 UTC."
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)


def invalid(message: str) -> Refused:
    """The answer to a request that is not as it must be."""
    return Refused(422, "invalid_request", message)


def shown(value: Any) -> str:
    """A value as JSON, its beginning where it is long."""
    text = orjson.dumps(value).decode() if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:40] + "..."
