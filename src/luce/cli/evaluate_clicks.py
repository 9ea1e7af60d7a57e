"""`luce evaluate --clicks`: what a model would get, from the log of another ranker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luce.cli.click_options import examined
from luce.cli.common import Report, table
from luce.cli.options import flag
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.clicks import ClickEvaluation


@dataclass(frozen=True)
class ClickLogOptions:
    """Evaluation by clicks instead of grades."""

    clicks: Path | None = flag(None, "A click log, or its counts: estimate DCG and clicks of --model from it.")
    clicks_users: str = flag("position", "With --clicks: position, or last_click.")
    most_unseen: float = flag(0.05, "With --clicks: allowed share of the weight on documents that were never shown.")
    missing_documents: str = flag("error", "Documents of the click log that the data lack: error or skip.")
    clicks_examination: Path | None = flag(
        None, "Examination of the click log that is known: a table with position, propensity."
    )

    def check(self) -> None:
        """The others go with a log."""
        if self.clicks is None and self != ClickLogOptions():
            name = next(name for name, value in vars(self).items() if value != getattr(ClickLogOptions(), name))
            raise SettingError(f"--{name.replace('_', '-')} goes with --clicks LOG; give a log or leave it out.")


def evaluate_clicks(
    data: Path, model: Path | None, log: ClickLogOptions, metrics: str | None, options: dict[str, Any], report: Report
) -> None:
    """Estimate the metrics of a model from clicks, with intervals, against what was shown."""
    from luce.cli.same_features import read_matching
    from luce.clicks import evaluate
    from luce.model_file import load

    if model is None:
        raise SettingError("--clicks estimates what a model would get; give it by --model.")
    assert log.clicks is not None
    if metrics is None:
        metrics = "dcg@10" if log.clicks_users == "last_click" else "dcg@10,clicks@10"
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    loaded = load(model)
    groups = read_matching(data, loaded.feature_names_, options)
    how = log.clicks_users, log.missing_documents, log.clicks_examination
    seen = examined(log.clicks, groups, *how, report)
    found = evaluate(
        seen,
        groups,
        loaded.predict(groups),
        metrics=wanted,
        most_unseen=log.most_unseen,
        missing=log.missing_documents,
    )
    machine = {
        "sessions": found.sessions,
        "level": found.level,
        "rows": found.rows,
        "unseen": found.unseen,
        "least_rho": found.least_rho,
        "examination": {
            "method": seen.method,
            "largest_standard_error": float(seen.standard_error.max()),
            "notes": list(seen.notes),
        },
    }
    report.result(_table(found), machine)
    unseen = ", ".join(f"{share:.1%} of {name}" for name, share in found.unseen.items())
    report.say(f"Weight on documents that were never shown: {unseen}; least examination {found.least_rho:.3g}.")


def _table(found: ClickEvaluation) -> Any:
    header = ["metric", "estimator", "model", "95% from", "to", "shown", "difference", "95% from", "to"]
    keys = ["metric", "estimator", "value", "low", "high", "production_value", "difference"]
    keys += ["difference_low", "difference_high"]
    return table(f"{found.sessions:,.0f} sessions", header, [[row[key] for key in keys] for row in found.rows])
