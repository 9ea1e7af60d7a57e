"""What a blend was made of, read back from a fitted model: what was tried, what got which weight and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from luce.errors import SettingError

__all__ = ["as_lines", "as_rows", "as_text", "tried", "why"]


def tried(model: Any) -> list[dict[str, Any]]:
    """What a fitted `auto` tried, the heaviest member first: one row a member, for any data frame.

    `alone` is the metric of the member on queries that it did not see, `steps` its trees a fold (or the number of its
    penalty). The weight comes of `chosen`, its share in the blends that were best on halves of the queries, and of
    `kept`, whether it counts as much as others there; `note` says why in words.

    >>> import luce
    >>> from luce.data.simulate import simulate
    >>> model = luce.model("auto", members=["regression", "luce-linear"], random_state=0)
    >>> sorted(row["member"] for row in tried(model.fit(simulate(queries=30, features=5, seed=0))))
    ['luce-linear', 'regression']
    """
    record = getattr(model, "history_", {}).get("blend")
    if not record:
        raise SettingError("This model is no blend; luce.model('auto') makes one.")
    return as_rows(record)


def as_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The members of a record, the heaviest first, then those that were left out."""
    fitted = sorted(record["members"], key=lambda row: -row["weight"])
    rows = [{**row, "note": why(row)} for row in fitted]
    for member, reason in record["failed"].items():
        rows.append({"member": member, "about": "", "weight": 0.0, "alone": None, "steps": [], "note": reason})
    return rows


def why(row: Mapping[str, Any]) -> str:
    """Where the weight of a member comes from; nothing in files that do not say.

    >>> why({"chosen": 0.25, "kept": True}), why({"chosen": 0.0, "kept": False})
    ('25% of the best blends', '0% of the best blends; clearly worse than the best')
    """
    if "chosen" not in row:
        return ""
    return f"{row['chosen']:.0%} of the best blends" + ("" if row["kept"] else "; clearly worse than the best")


def as_text(record: Mapping[str, Any]) -> str:
    """What the blend will be worth, in a sentence.

    >>> as_text({"metric": "ndcg@10", "estimate": {"value": 0.5, "low": 0.4, "high": 0.6}, "queries": 60, "folds": 5})
    'ndcg@10 of 0.5000 is to be expected on queries like these (95%: 0.4000 to 0.6000; 60 queries, 5 folds)'
    """
    found = record.get("estimate")
    if found is None:
        return "too few queries to say what it will be worth"
    return (
        f"{record['metric']} of {found['value']:.4f} is to be expected on queries like these (95%: {found['low']:.4f} "
        f"to {found['high']:.4f}; {record['queries']:,} queries, {record['folds']} folds)"
    )


def as_lines(record: Mapping[str, Any]) -> list[str]:
    """The whole record for a reader at a terminal."""
    lines = [f"{'blend':<24} {as_text(record)}"]
    if record.get("yardstick") is not None:
        value = f"{record['metric']} {record['yardstick']:.4f}"
        lines.append(f"{'validation queries':<24} a yardstick, nothing was learned from them: {value}")
    elif record.get("valid"):
        lines.append(f"{'validation queries':<24} learned from as well; use_valid=yardstick keeps them apart")
    lines.append(f"  {'member':<14} {'weight':>7} {'alone':>8}  what it is, and why it counts")
    for row in as_rows(record):
        alone = "" if row["alone"] is None else f"{row['alone']:.4f}"
        what = "; ".join(text for text in (row["about"], row["note"]) if text)
        lines.append(f"  {row['member']:<14} {row['weight']:>7.3f} {alone:>8}  {what}")
    lines.append(f"{'plan':<24} {', '.join(record['plan'])}")
    return lines + [f"{'remark':<24} {remark}" for remark in record["remarks"]]
