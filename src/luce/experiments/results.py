"""Results on disk: the run folder for machines, CSV and one static page for people."""

from __future__ import annotations

import csv
import json
from html import escape
from pathlib import Path
from typing import Any

from luce.experiments.comparison import Comparison
from luce.experiments.run_folder import write_run
from luce.experiments.state import make_folder
from luce.storage import atomic_write

__all__ = ["write_results"]


def write_results(comparison: Comparison, folder: str | Path, title: str, *, baseline: str | None = None) -> list[Path]:
    """Write the run folder, leaderboard.csv and index.html; returns the paths of the files for people first."""
    folder = make_folder(Path(folder))
    board = comparison.leaderboard()
    with atomic_write(folder / "leaderboard.csv", "w") as stream:
        names = ["model", *comparison.metrics, *_COLUMNS]
        rows = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        rows.writerows(board)
    with atomic_write(folder / "index.html", "w") as stream:
        stream.write(page(title, comparison, board))
    return [folder / "index.html", folder / "leaderboard.csv", *write_run(comparison, folder, baseline=baseline)]


_COLUMNS = ("low", "high", "p", "p_holm", "seconds")
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #3b82f6; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
svg { width: 100%; height: auto; }
"""


def page(title: str, comparison: Comparison, board: list[dict[str, Any]]) -> str:
    """One page without any request to a network: leaderboard, intervals, settings."""
    metrics = comparison.metrics
    head = "".join(f"<th>{escape(m)}</th>" for m in [*metrics, "95% interval", "p (Holm)", "fit, s"])
    rows = ""
    for row in board:
        p = "best" if row["p_holm"] is None else f"{row['p_holm']:.3f}"
        cells = [f"{row[m]:.4f}" for m in metrics]
        cells += [f"{row['low']:.4f} to {row['high']:.4f}", p, f"{row['seconds']:.2f}"]
        rows += f"<tr><td>{escape(row['model'])}</td>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>\n"
    settings = escape(json.dumps(comparison.settings, indent=1, default=str))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{_STYLE}</style></head>
<body><h1>{escape(title)}</h1>
<p>Test means over {len(comparison.settings["folds"])} fold(s), settings chosen on validation
{escape(comparison.settings["tune_on"])}. The interval is a bootstrap over test queries of {escape(metrics[0])}; p is
a paired randomisation test of {escape(metrics[0])} against the best model, corrected for the number of models.</p>
<div class="scroll"><table><thead><tr><th>model</th>{head}</tr></thead><tbody>
{rows}</tbody></table></div>
{_failed(comparison)}
{_intervals(board, metrics[0])}
<h2>Settings</h2><pre class="scroll">{settings}</pre>
</body></html>
"""


def _failed(comparison: Comparison) -> str:
    items = "".join(f"<li>{escape(name)}: {escape(error)}</li>" for name, error in comparison.failed.items())
    return f"<h2>Models that failed</h2><ul>{items}</ul>" if items else ""


def _intervals(board: list[dict[str, Any]], metric: str) -> str:
    if not board:
        return ""
    low = min(row["low"] for row in board)
    high = max(row["high"] for row in board)
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return 160 + 420 * (value - low) / span

    marks = ""
    for i, row in enumerate(board):
        y = 24 + 26 * i
        marks += (
            f'<text x="4" y="{y + 5}" font-size="13" fill="currentColor">{escape(row["model"])}</text>'
            f'<line x1="{x(row["low"]):.1f}" x2="{x(row["high"]):.1f}" y1="{y}" y2="{y}" stroke="var(--bar)" '
            f'stroke-width="3"/><circle cx="{x(row[metric]):.1f}" cy="{y}" r="5" fill="var(--bar)"/>'
        )
    label = f"{escape(metric)}: mean and 95% interval of each model"
    return f'<svg viewBox="0 0 600 {26 * len(board) + 24}" role="img" aria-label="{label}">{marks}</svg>'
