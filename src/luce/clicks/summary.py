"""What a click log holds and what can be told from it, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from luce.clicks.counts import ClickCounts
from luce.clicks.evaluation import click_rate, policy_value
from luce.clicks.examination import HEADINGS, Examination
from luce.result import Result, Sheet, records


@dataclass(frozen=True, eq=False)
class LogSummary(Result):
    """Totals, a row a position with click rate (and examination), and how much was seen at several positions."""

    counts: ClickCounts
    examined: Examination | None = None

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Of the counts and of the examination."""
        return self.counts.notes + (() if self.examined is None else self.examined.notes)

    def columns(self) -> dict[str, Any]:
        """A row a position."""
        used = self.counts.by_position()
        at = used.positions
        shown, clicked = (np.bincount(used.position, weight)[at] for weight in (used.shown, used.clicked))
        found = {"position": at, "shown": shown.astype(int), "clicked": clicked.astype(int)}
        found["click_rate"] = clicked / shown
        if self.examined is None or self.examined.users == "last_click":
            return found
        return found | {name: values for name, values in self.examined.columns().items() if name != "after"}

    def as_dict(self) -> dict[str, Any]:
        """Everything by name."""
        used = self.counts.by_position()
        sessions, total = float(used.sessions.sum()), float(used.clicked.sum())
        several = np.bincount(used.document, minlength=used.n_documents) > 1
        by_document = np.bincount(used.document, used.clicked, minlength=used.n_documents)
        facts: dict[str, Any] = {
            "sessions": int(sessions),
            "rows": int(used.shown.sum()),
            "queries": used.n_queries,
            "documents": used.n_documents,
            "clicks": int(total),
            "clicks_per_session": total / sessions,
            "documents_at_several_positions": int(several.sum()),
            "share_of_clicks_on_them": float(by_document[several].sum() / total) if total else 0.0,
            "positions": records(self.columns()),
            "notes": list(self.notes),
        }
        if self.examined is not None:
            looked, session = self.examined.exposure, used.sessions[used.document_query]
            facts |= {
                "method": self.examined.method,
                "users": self.examined.users,
                "errors_from": self.examined.errors,
                "places": records(self.examined.columns()),
                "least_rho": float((looked / session)[looked > 0].min()),
                "largest_standard_error": float(self.examined.standard_error.max()),
            }
        if self.counts.propensity_sums is not None:
            even = {name: value._asdict() for name, value in policy_value(self.counts).items()}
            facts |= {"logged_policy": click_rate(self.counts)._asdict(), "even_policy": even}
        return facts

    def sheets(self) -> list[Sheet]:
        """By position, by place where what was clicked above counts, and by policy where propensities are known."""
        facts = self.as_dict()
        title = (
            f"{facts['sessions']:,} sessions of {facts['queries']:,} queries, {facts['documents']:,} documents, "
            f"{facts['clicks']:,} clicks; {facts['share_of_clicks_on_them']:.1%} of them on documents seen at several "
            "positions"
        )
        sheets = [Sheet(title, {HEADINGS.get(name, name): values for name, values in self.columns().items()})]
        if self.examined is not None and self.examined.users == "last_click":
            sheets += [sheet._replace(title="") for sheet in self.examined.sheets()]
        if "even_policy" in facts:
            known = {"as logged": facts["logged_policy"]}
            known |= {f"drawn evenly, {name}": value for name, value in facts["even_policy"].items()}
            columns: dict[str, Any] = {"policy": list(known)}
            for heading, key in (("click rate", "value"), ("95% from", "low"), ("to", "high")):
                columns[heading] = [value[key] for value in known.values()]
            sheets.append(Sheet("Clicks a row", columns, 5))
        return sheets
