"""`luce info`: what is in a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import JsonFlag, Report
from luce.cli.data_options import Reading
from luce.cli.options import Group, flag
from luce.errors import SettingError
from luce.result import setting_text, sheet_of

if TYPE_CHECKING:
    from luce.data.text.transformer import Text

Listed = tuple[list[str], list[list[Any]], dict[str, Any]]


def _models() -> Listed:
    from luce.systems import fixed_settings, model, ranker_names, settings_grid

    rows, machine = [], {}
    for name in ranker_names():
        parts = model(name).parts()
        own = {k: v for k, v in fixed_settings(name).items() if k not in ("loss", "scorer", "trainer")}
        found = {part: getattr(getattr(parts, part), "name", None) for part in ("loss", "scorer", "trainer")}
        shown = [found["loss"] or "its own", found["scorer"] or "its own", found["trainer"], setting_text(own, "")]
        rows.append([name, *shown])
        machine[name] = {**found, "settings": own, "grid": settings_grid(name)}
    return ["model", "loss", "scorer", "trainer", "settings"], rows, machine


def _parts(kind: str, package: str) -> Listed:
    """Every part of a kind with the settings that it has by default."""
    from importlib import import_module

    from luce.registry import settings_of

    parts = import_module(package)
    machine = {name: settings_of(parts.get(name)) for name in parts.names()}
    return [kind, "defaults"], [[name, setting_text(own, "")] for name, own in machine.items()], machine


def _metrics() -> Listed:
    from luce.metrics import get, names

    found = {name: get(name).formula for name in names()}
    rows = [
        [name + ("@k" if f.takes_cutoff else ""), "higher is better" if f.greater_is_better else "lower is better"]
        for name, f in found.items()
    ]
    machine = {
        name: {"takes_cutoff": f.takes_cutoff, "greater_is_better": f.greater_is_better} for name, f in found.items()
    }
    return ["metric", ""], rows, machine


_CATALOGUES: dict[str, Callable[[], Listed]] = {
    "models": _models,
    "losses": partial(_parts, "loss", "luce.losses"),
    "scorers": partial(_parts, "scorer", "luce.scorers"),
    "trainers": partial(_parts, "trainer", "luce.training"),
    "metrics": _metrics,
}


class _Lists(Group):
    """What there is to name."""

    models: bool = flag(False, "List all models, with their settings.")
    losses: bool = flag(False, "List all losses, with their defaults.")
    scorers: bool = flag(False, "List all scorers, with their defaults.")
    trainers: bool = flag(False, "List all trainers, with their defaults.")
    metrics: bool = flag(False, "List all metrics.")
    versions: bool = flag(False, "Versions of luce and of what it stands on, its kernels and threads.")

    @property
    def wanted(self) -> list[str]:
        """The lists that were asked for."""
        return [name for name, wanted in vars(self).items() if wanted]


def info(
    *,
    file: Path | None = typer.Argument(
        None, metavar="FILE", help="A file of judged documents in any format, or a model."
    ),
    lists: _Lists,
    reading: Reading,
    as_json: JsonFlag = False,
) -> None:
    """Say what is in a file, or list the models, losses, scorers, trainers or metrics that there are."""
    if len(lists.wanted) + (file is not None) != 1:
        raise SettingError(
            "Give one thing to tell of: a file, --models, --losses, --scorers, --trainers, --metrics or --versions."
        )
    report = Report(as_json=as_json)
    if lists.versions:
        _versions(report)
    elif file is None:
        header, rows, machine = _CATALOGUES[lists.wanted[0]]()
        report.result(sheet_of("", header, rows), {lists.wanted[0]: machine})
    else:
        from luce.data.text_files import open_input
        from luce.storage import container_kind

        with open_input(file):
            kind = container_kind(file)
        if kind == "ranker":
            _model(file, report)
        else:
            _data(file, reading.given(), report)


def _versions(report: Report) -> None:
    """Of luce and of what it stands on."""
    from importlib.metadata import version
    from platform import python_version

    from luce import __version__
    from luce.numerics.compiled import COMPILES_PARTS
    from luce.numerics.threads import thread_budget

    names = ("numpy", "scipy", "numba", "scikit-learn", "lightgbm", "pyarrow", "narwhals")
    facts: dict[str, Any] = {"luce": __version__, "python": python_version(), **{name: version(name) for name in names}}
    facts["kernels"] = "parts compiled once" if COMPILES_PARTS else "compiled as this Numba does it, which takes longer"
    facts["threads"], facts["threads_from"] = thread_budget()
    report.result("\n".join(f"{name.replace('_', ' '):<24} {value}" for name, value in facts.items()), facts)


def _data(file: Path, options: dict[str, Any], report: Report) -> None:
    from luce.data.describe import describe
    from luce.data.readers.detect import data_format, read
    from luce.storage import container_kind

    format = data_format(file)
    data = read(file, **options)
    facts = {"file": str(file), "format": format, **describe(data)}
    rows = _rows(facts)
    text = None if data.schema is None else data.schema.text
    if text is not None and container_kind(file) is not None:
        facts["texts"] = text.corpus_facts
        rows.append(("texts", _corpus(text)))
    elif text is not None:
        facts["texts"] = found = text.facts(file)
        none = ", ".join(f"{name}: {count:,}" for name, count in found["empty"].items())
        rows.append(("texts without a word", f"{none} of {found['rows']:,} rows"))
        strange, where = found["unknown_query_words"], "text of the table" if text.corpus is None else "of the corpus"
        rows.append(("query words unknown", f"{_few(strange)} of {found['query_words']:,} are in no {where}"))
    lines = [f"{name:<24} {value}" for name, value in rows]
    report.result("\n".join([*lines, *_columns(facts.get("columns", []))]), facts)


def _model(file: Path, report: Report) -> None:
    from luce.data.describe import column_facts
    from luce.losses.pairwise import TiedLoss
    from luce.model_file import load_signed
    from luce.signing import fingerprint
    from luce.training.run import best_validation

    model, key = load_signed(file)
    parts = model.parts_
    effect = model.scorer_.importance()
    strongest = sorted(range(len(effect)), key=lambda i: -abs(effect[i]))[:10]
    history = model.history_
    effects = {model.scored_names[i]: float(effect[i]) for i in strongest}
    facts: dict[str, Any] = {
        "file": str(file),
        "model": parts.title,
        "signed_by": None if key is None else fingerprint(key),
        "loss": None if model.loss_ is None else repr(model.loss_),
        "scorer": model.scorer_.name,
        "trainer": repr(parts.trainer),
        "features": model.n_features_in_,
        "query_norm": model.query_norm,
        "iterations": len(history.get("objective", [])),
        "converged": history.get("converged"),
        "best_validation": best_validation(history, parts.metric),
    }
    if "blend" in history:  # its members have rounds, which `tried` shows
        del facts["iterations"], facts["converged"], facts["best_validation"]
    if isinstance(model.loss_, TiedLoss) and len(model.loss_.parameters):
        facts["learned_tie_parameter"] = model.loss_.tie_parameter
    lines = [f"{name.replace('_', ' '):<24} {value}" for name, value in facts.items()]
    if "cross_fit" in history:
        facts["cross_fit"] = found = history["cross_fit"]
        worth = (
            f"{found['metric']} of {found['value']:.4f} to be expected (95%: {found['low']:.4f} to {found['high']:.4f})"
        )
        lines.append(f"{'cross-fitted':<24} {found['how']} of {found['folds']} folds, {worth}")
    if model.schema_ is not None and (text := model.schema_.text) is not None:
        facts["texts"] = text.corpus_facts
        lines.append(f"{'texts':<24} {_corpus(text)}")
    if model.schema_ is not None:
        facts["columns"] = [column_facts(column) for column in model.schema_.columns]
        lines += _columns(facts["columns"])
    if "blend" in history:
        from luce.auto.plan import as_lines

        facts["blend"] = history["blend"]
        lines += as_lines(history["blend"])
    if hasattr(model.scorer_, "kernel_table"):
        facts["kernels"] = model.scorer_.kernel_table()
        for term in facts["kernels"]:
            lines.append("weights                  " + ", ".join(f"{name} {value:.4g}" for name, value in term.items()))
    if any(effects.values()):
        meaning = getattr(model.scorer_, "importance_is", "effect of one standard deviation")
        lines += [f"strongest features       ({meaning})"]
        lines += [f"  {name:<22} {value:+.4f}" for name, value in effects.items()]
    report.result("\n".join(lines), {**facts, "strongest_features": effects})


def _corpus(text: Text) -> str:
    """What a file knows of texts, and tells."""
    found = text.corpus_facts
    sizes = ", ".join(f"{name} ({count:,} documents)" for name, count in found["documents"].items())
    words = f"whoever has this file can read {found['words']:,} words of the corpus in it"
    return f"{sizes} against {text.query}; {words}"


def _columns(columns: list[dict[str, Any]]) -> list[str]:
    """The columns of a table, a line each."""
    lines = ["columns"] if columns else []
    for column in columns:
        parts = [column["type"]]
        if "categories" in column:
            names = column["categories"]
            parts.append(f"{len(names)} categories ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})")
            parts.append(f"any other has the code {len(names)}")
        if "min" in column:
            parts.append(f"{column['min']:g} to {column['max']:g}" + (f" {column['unit']}" if "unit" in column else ""))
        elif "unit" in column:
            parts.append(column["unit"])
        if "grades" in column:
            parts.append(", ".join(f"{name} = {grade:g}" for name, grade in column["grades"].items()))
        if "missing" in column:
            parts.append(f"{column['missing']:.1%} missing")
        parts += [column["why"]] if "why" in column else []
        lines.append(f"  {column['name']:<22} {column['role']}: {'; '.join(parts)}")
    return lines


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    sizes, labels = facts["documents_per_query"], facts["labels"]
    tied = facts["tied_pairs"]
    rows = [
        ("file", f"{facts['file']} ({facts['format']})"),
        ("queries", f"{facts['queries']:,}"),
        ("documents", f"{facts['documents']:,}"),
        ("features", f"{facts['features']:,}"),
        ("documents a query", f"mean {sizes['mean']:.1f}; " + _joined({k: v for k, v in sizes.items() if k != "mean"})),
        ("labels", _joined(labels)),
        ("tied pairs", "none to compare" if tied is None else f"{tied:.1%} of pairs within queries"),
        ("one-document queries", f"{facts['one_document_queries']:,}"),
        ("all labels equal", f"{facts['all_equal_queries']:,} queries of two documents or more"),
        ("constant features", _few(facts["constant_features"])),
        ("missing values", f"{facts['missing_values']:,} in {facts['documents_with_missing_values']:,} documents"),
        ("document ids", "yes" if facts["document_ids"] else "no"),
        ("rows of a query apart", "yes, regrouped" if facts["rows_regrouped"] else "no"),
        ("memory", f"{facts['memory_bytes'] / 2**20:,.1f} MB" + (", mapped" if facts["memory_mapped"] else "")),
    ]
    if facts["query_weights"]:
        rows.append(("query weights", "yes"))
    if facts["relations"]:
        rows.append(("relations", _few(facts["relations"])))
    return rows


def _joined(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {value:,}" for name, value in counts.items())


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"{len(names)} ({shown})" if names else "none"
