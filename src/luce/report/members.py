"""What a blend is made of, fold by fold: weights, out-of-fold figures, and what it was expected to be worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from luce.auto.record import as_rows
from luce.ranker import Ranker
from luce.report.pool import Pool


def blend_members(pool: Pool, model: int, by_fold: Mapping[int, Ranker]) -> dict[str, Any] | None:
    """The members of a blend over the folds of a run, heaviest first; None where the model is no blend."""
    records = {fold: ranker.history_.get("blend") for fold, ranker in by_fold.items()}
    found = {fold: record for fold, record in records.items() if record}
    if not found:
        return None
    metric = next(iter(found.values()))["metric"]
    return {
        "metric": metric,
        "members": _rows(list(found.values())),
        "worth": [_worth(pool, model, fold, record) for fold, record in found.items()],
        "remarks": list(dict.fromkeys(remark for record in found.values() for remark in record["remarks"])),
    }


def _rows(records: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a member; a list has one value a fold that fitted it."""
    by_member: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        for row in as_rows(record):
            by_member.setdefault(row["member"], []).append(row)
    rows = []
    for member, turns in by_member.items():
        fitted = [row for row in turns if row["steps"]]
        rows.append(
            {
                "member": member,
                "about": next((row["about"] for row in turns if row["about"]), ""),
                "weight": [row["weight"] for row in turns],
                "alone": [row["alone"] for row in fitted],
                "chosen": [row["chosen"] for row in fitted if "chosen" in row],
                "worse": sum(not row.get("kept", True) for row in fitted),
                "trees": [step for row in fitted for step in row["steps"]],
                "failed": list(dict.fromkeys(row["note"] for row in turns if not row["steps"])),
                "folds": len(turns),
            }
        )
    return sorted(rows, key=lambda row: -float(np.mean(row["weight"])))


def _worth(pool: Pool, model: int, fold: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """What was expected of a fold, and what came of it, where the run has the metric."""
    expected = record.get("estimate") or {}
    came = None
    if record["metric"] in pool.metrics:
        values = pool.values[model, pool.metrics.index(record["metric"]), pool.fold == fold]
        came = float(np.nanmean(values)) if np.isfinite(values).any() else None
    return {"fold": fold, **{key: expected.get(key) for key in ("value", "low", "high")}, "test": came}
