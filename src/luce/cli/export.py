"""`luce export`: a model in the format of a search engine or another library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import Report, number_from
from luce.cli.data_options import Reading
from luce.cli.options import Group, flag
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.export import Export


class _Form(Group):
    """How the model is written."""

    name: str | None = flag(None, "Name of the model in the engine (default: of the file).")
    store: str = flag("", "Feature set (Elasticsearch, OpenSearch) or feature store (Solr).")
    offset: str = flag("0", "Added to every score: a number, or auto for no negative score (see --check).")
    feature_names: Path | None = flag(None, "New names of features: JSON {old: new} or [all], or CSV lines old,new.")
    folded: bool = flag(False, "Linear models: plain weights without intercept, no normalizers.")
    ignore_missing: bool = flag(False, "RankLib: no value is missing, so do not care where one goes.")

    def settings(self, model: Path) -> dict[str, Any]:
        """As `luce.export` takes them; a model without a name has that of its file."""
        from luce.export.request import read_feature_names

        given, offset = self.feature_names, self.offset.strip().lower()
        return {
            **vars(self),
            "name": model.stem if self.name is None else self.name,
            "offset": "auto" if offset == "auto" else number_from("--offset", offset, " or auto"),
            "feature_names": None if given is None else read_feature_names(given),
        }


def export(
    *,
    model: Path = typer.Argument(..., help="A model file."),
    to: str = typer.Option(
        ..., help="elasticsearch, opensearch, solr, ranklib, onnx, lightgbm, xgboost-json, xgboost-dump or python."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="The file to write (default: standard output)."),
    check: Path | None = typer.Option(None, help="Documents on which the export is evaluated beside the model."),
    what: str = typer.Option("all", help="Files to write: all, model, features, query, index or check."),
    form: _Form,
    reading: Reading,
    report: Report,
) -> None:
    """Export a model, and check the export on data (--check); what the target cannot express is refused."""
    from luce.cli.data_options import read_matching
    from luce.export import export_model
    from luce.export.run import resolve
    from luce.model_file import load
    from luce.storage import check_output, container_kind

    target = resolve(to)
    if out is not None:
        check_output(out)
    elif report.as_json or target == "onnx":
        raise SettingError(f"{'--json' if report.as_json else target} needs a file for the model; give --out FILE.")
    settings, ranker = form.settings(model), load(model)
    options = reading.given()
    rows = None if check is None else read_matching(check, ranker.feature_names_, options, ranker.schema_)
    known = ranker.schema_ is not None and ranker.schema_.text is not None
    engine = known and target in ("elasticsearch", "opensearch", "solr")
    texts = check if engine and check is not None and container_kind(check) is None else None
    made = export_model(ranker, target, check=rows, texts=texts, **settings)
    if engine and check is not None and texts is None:
        report.say(f"{check} holds no texts, so that no rows are written to check an engine with; give the table.")
    if out is None:
        if what != "all":
            raise SettingError(f"--what {what} writes a file; give --out FILE, or leave it out.")
        if len(made.models) > 1:
            raise SettingError(f"{target} takes this model as {len(made.models)} files; give --out FILE.")
        print(made.content)
        for remark in made.remarks:
            report.say(remark)
        return
    made.save(out, what)
    _tell(report, made, out, what)


def _tell(report: Report, made: Export, out: Path, what: str) -> None:
    found = made.comparison
    machine: dict[str, Any] = {
        "file": str(out),
        "target": made.target,
        "bytes": out.stat().st_size if out.is_file() else None,
        "files": [str(path) for path in made.files(out, what)],
        "offset": made.offset,
        "remarks": made.remarks_on(out),
        "check": None if found is None else found._asdict(),
        **made.facts,
    }
    for remark in machine["remarks"]:
        report.say(remark)
    text = f"Wrote {', '.join(machine['files'])} for {made.target}"
    if found is not None:
        text += (
            f"; on {found.rows:,} documents the largest difference from the model is {found.largest:.2g} "
            f"(scores {found.lowest:.4g} to {found.highest:.4g}), {found.reordered:,} queries in another order"
        )
    report.result(text + ".", machine)
