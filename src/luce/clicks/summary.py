"""What a click log holds and what can be told from it, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.clicks.counts import ClickCounts
from luce.clicks.examination import Examination


def summary(counts: ClickCounts, examined: Examination | None = None) -> dict[str, Any]:
    """Totals, a row a position with click rate (and examination), and how much was seen at several positions."""
    used = counts.by_position()
    at = used.position
    shown = np.bincount(at, used.shown)
    clicked = np.bincount(at, used.clicked)
    places = np.bincount(used.document, minlength=used.n_documents)
    several = places > 1
    by_document = np.bincount(used.document, used.clicked, minlength=used.n_documents)
    total = float(used.clicked.sum())
    rows: list[dict[str, Any]] = [
        {
            "position": int(k),
            "shown": int(shown[k]),
            "clicked": int(clicked[k]),
            "click_rate": float(clicked[k] / shown[k]),
        }
        for k in used.positions
    ]
    if examined is not None and examined.users != "last_click":
        for row, found in zip(rows, examined.table, strict=True):
            row |= {name: value for name, value in found.items() if name not in ("position", "after")}
    facts: dict[str, Any] = {
        "sessions": int(used.sessions.sum()),
        "rows": int(used.shown.sum()),
        "queries": used.n_queries,
        "documents": used.n_documents,
        "clicks": int(total),
        "clicks_per_session": total / float(used.sessions.sum()),
        "documents_at_several_positions": int(several.sum()),
        "share_of_clicks_on_them": float(by_document[several].sum() / total) if total else 0.0,
        "positions": rows,
        "notes": list(counts.notes),
    }
    if examined is not None:
        seen = examined.exposure > 0
        session = used.sessions[used.document_query]
        facts |= {
            "method": examined.method,
            "users": examined.users,
            "errors_from": examined.errors,
            "places": examined.table,
            "least_rho": float((examined.exposure[seen] / session[seen]).min()),
            "largest_standard_error": float(examined.standard_error.max()),
        }
        facts["notes"] += list(examined.notes)
    return facts
