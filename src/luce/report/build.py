"""A finished comparison as one page: its data, and the page that holds them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import LuceError
from luce.experiments.run_folder import read_run
from luce.report import panels
from luce.report.explain import pack_features, pack_models
from luce.report.pool import Blobs, Pool, ReportedRun, judged_features
from luce.result import plain
from luce.storage import atomic_write, check_output
from luce.types import Progress

STYLES = ("colours.css", "page.css", "panels.css", "media.css")

SCRIPTS = (
    "core.js",
    "charts.js",
    "leaderboard.js",
    "cutoffs.js",
    "differences.js",
    "shapley.js",
    "rankings.js",
    "why.js",
    "members.js",
    "importance.js",
    "calibration.js",
    "learning.js",
    "card.js",
    "saving.js",
    "main.js",
)


def render(title: str, facts: Mapping[str, Any], bundles: Mapping[str, str]) -> str:
    """The whole page as text."""
    style = "\n".join(map(asset, STYLES))
    script = '"use strict";\n(() => {\n' + "\n".join(map(asset, SCRIPTS)) + "\n})();\n"
    data = [f'<script type="application/json" id="facts">{embedded_json(facts)}</script>']
    data += [f'<script type="text/plain" id="bundle-{name}">{text}</script>' for name, text in bundles.items()]
    return Template(asset("page.html")).substitute(
        title=escape(title), policy=content_policy(style, script), style=style, script=script, data="\n".join(data)
    )


def embedded_json(value: Any) -> str:
    """JSON that can stand inside a script element: no text of the data can end the element or open a comment.

    >>> embedded_json({"query": "</script><!--"})
    '{"query":"\\\\u003c/script>\\\\u003c!--"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def asset(name: str) -> str:
    """A file of the pages, as text."""
    return files("luce.report").joinpath("assets", name).read_text(encoding="utf-8")


def static_page(title: str, style: str, body: str) -> str:
    """A page without a script, which asks no network; title and body are HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy(style)}">'
        f"<title>{title}</title><style>{style}</style></head><body>{body}</body></html>\n"
    )


def content_policy(style: str, script: str | None = None) -> str:
    """What a browser may do for a page: apply this style, run this script, and nothing else, whatever the data hold."""

    def only(text: str | None) -> str:
        if text is None:
            return "'none'"
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    sources = f"default-src 'none'; script-src {only(script)}; style-src {only(style)}"
    return f"{sources}; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class Built:
    """A finished page, and what had to be left out of it."""

    html: str
    models: int
    queries: int
    remarks: list[str]


def write_report(folder: str | Path, out: str | Path, **how: Any) -> Built:
    """Write the report of a run folder to one HTML file; `data`, `title` and `progress` are as in `build_report`."""
    check_output(out)
    built = build_report(folder, **how)
    with atomic_write(out, "w") as stream:
        stream.write(built.html)
    return built


def build_report(
    folder: str | Path,
    *,
    data: str | Path | None = None,
    title: str | None = None,
    progress: Progress | None = None,
) -> Built:
    """The report of a run folder that `luce compare --out` wrote.

    `data` is where the data of the run are now, if not where they were; their features are needed for one panel only.
    """
    steps = iter(range(1, _STEPS + 1))

    def tell() -> None:
        if progress:
            progress(next(steps), _STEPS, {})

    source = ReportedRun(read_run(folder))
    pool, blobs, remarks = source.pool, Blobs(), []
    tell()
    facts = _about(source, title)
    facts["queries"] = _queries(pool, blobs)
    facts["cutoffs"] = panels.cutoff_curves(pool, source.run.settings.get("conventions", {}))
    tell()
    facts["learning"] = panels.learning_curves(source.run.curves, pool.models, pool.folds)
    if source.not_kept:
        remarks.append(
            f"A run keeps the models of luce alone: of {', '.join(source.not_kept)}, features, probabilities and "
            "explanations are left out."
        )
    if source.models_gone:
        remarks.append(
            f"{source.models_gone} chosen models are not in the run folder or cannot be read; their features, "
            "probabilities and explanations are left out."
        )
    tell()
    facts["importance"] = {m: panels.feature_importance(by_fold) for m, by_fold in source.rankers.items()}
    facts["members"] = {m: panels.blend_members(pool, m, by_fold) for m, by_fold in source.rankers.items()}
    facts["calibration"] = {m: _calibration(source, m) for m in source.rankers}
    tell()
    found = _features(source, data, remarks)
    why = None if found is None else dict(zip(("parts", "left_out"), pack_models(source.rankers, blobs), strict=True))
    tell()
    facts["rankings"] = panels.pack_rankings(pool, blobs)
    if found is not None and why is not None:
        why["features"] = pack_features(pool, *found, blobs)
    facts["why"] = why
    tell()
    facts["remarks"] = remarks
    page = render(facts["title"], facts, blobs.texts)
    tell()
    return Built(page, len(pool.models), pool.n_queries, remarks)


_STEPS = 7


def _about(source: ReportedRun, title: str | None) -> dict[str, Any]:
    pool, results = source.pool, source.run.results
    data = Path(str(source.run.settings.get("data") or source.run.folder)).resolve().name
    return {
        "title": title or f"Models compared on {data}",
        "luce": results.get("luce"),
        "models": pool.models,
        "folds": pool.folds,
        "metrics": pool.metrics,
        "leaderboard": plain(results["leaderboard"]),
        "lower_is_better": source.run.lower_is_better,
        "statistics": plain(results.get("statistics", [])),
        "fits": plain([fit for fit in results["folds"] if fit["model"] in pool.models]),
        "failures": plain(results.get("failures", [])),
        "failed": plain(results.get("failed_models", {})),
        "settings": plain(results["settings"]),
        "card": plain(results["data"]),
    }


MOST_VALUES = 1_000_000


def _queries(pool: Pool, blobs: Blobs) -> dict[str, Any]:
    """Names and values of the test queries: of as many metrics, the leading one first, as there is room for."""
    metrics = max(1, min(len(pool.metrics), MOST_VALUES // (4 * len(pool.models) * pool.n_queries)))
    arrays: dict[str, NDArray[Any]] = {
        "fold": pool.fold.astype(np.uint16),
        "values": pool.values[:, :metrics].astype(np.float32),
        "spread": panels.spread(pool).astype(np.float32),
    }
    return {
        "count": pool.n_queries,
        "documents": len(pool.grades),
        "metrics": metrics,
        "names": blobs.add_texts("queries", pool.query_ids),
        "data": blobs.add("values", arrays),
    }


def _calibration(source: ReportedRun, model: int) -> dict[str, Any] | None:
    by_fold = source.rankers[model]
    reason = next((why for why in map(panels.why_no_probabilities, by_fold.values()) if why), None)
    return {"why_not": reason} if reason else panels.calibration(source.pool, model, by_fold, source.seed)


def _features(
    source: ReportedRun, data: str | Path | None, remarks: list[str]
) -> tuple[NDArray[np.float32], tuple[str, ...]] | None:
    """The features of the test documents; None, with a remark, where the data are gone and the user named no others."""
    if not source.rankers:
        return None
    try:
        return judged_features(source, data)
    except LuceError as error:
        if data is not None:
            raise
        remarks.append(f"Explanations of two documents are left out, since the data cannot be read again: {error}")
        return None
