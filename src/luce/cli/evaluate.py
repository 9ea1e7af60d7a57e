"""`luce evaluate`: metrics of a model, of scores or of a TREC run on judged data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import JsonFlag, QuietFlag, Report, settings_from, table
from luce.cli.data_options import AbsentOption, AllowNanFlag, FeaturesOption, MissingOption, QueryFileOption, given
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.metrics import Conventions, Evaluation
    from luce.metrics.evaluate import Judged
    from luce.types import FloatArray

__all__ = ["evaluate"]


def evaluate(
    data: Annotated[
        Path | None, typer.Argument(help="Judged documents (LETOR, Parquet, CSV, ...); not needed with --qrels.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A model file; scores the data.")] = None,
    scores: Annotated[Path | None, typer.Option(help="One score a line, in the row order of DATA.")] = None,
    run: Annotated[Path | None, typer.Option(help="A TREC run file.")] = None,
    qrels: Annotated[Path | None, typer.Option(help="TREC judgements, for --run.")] = None,
    subtopics: Annotated[
        Path | None,
        typer.Option(help="For alpha_ndcg: query, document, subtopic (CSV, Parquet), or TREC diversity judgements."),
    ] = None,
    metrics: Annotated[str, typer.Option(help="Metric names, comma-separated.")] = "ndcg@10,map,mrr",
    preset: Annotated[
        str | None,
        typer.Option(help="Conventions of: lightgbm, xgboost, catboost, sklearn, trec_eval, ranx, letor3, letor4."),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="k of the kappa metrics.")] = None,
    convention: Annotated[
        list[str] | None, typer.Option("--convention", "-c", help="A convention, as ties=stable; may be repeated.")
    ] = None,
    per_query: Annotated[Path | None, typer.Option(help="Write a CSV with the rows query, metric, value.")] = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="Another model (.luce), scores or run, for a paired test; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the paired test.")] = 0,
    absent: AbsentOption = None,
    allow_nan: AllowNanFlag = False,
    n_features: FeaturesOption = None,
    query_file: QueryFileOption = None,
    missing: MissingOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Evaluate a model, scores or a TREC run on judged data."""
    report = Report(as_json=json, quiet=quiet)
    rankings = [path for path in (model, scores, run) if path is not None]
    if len(rankings) != 1:
        raise SettingError(f"{len(rankings)} of --model, --scores and --run were given; give exactly one of them.")
    if qrels is not None and run is None:
        raise SettingError("--qrels goes with --run; for --model and --scores the data file carries the labels.")
    if (data is None) == (qrels is None):
        raise SettingError("Give the judged data as DATA, or for --run as --qrels FILE: one of the two.")

    from luce.metrics.catalog import parse
    from luce.storage import check_output

    chosen = _conventions(preset, top_k, convention or [])
    wanted = [parse(name.strip(), chosen) for name in metrics.split(",") if name.strip()]
    if per_query is not None:
        check_output(per_query)
    options = given(absent=absent, allow_nan=allow_nan, n_features=n_features, query_file=query_file, missing=missing)
    source = _Source(data, qrels, report, options, subtopics, is_run=run is not None)
    from luce.metrics import evaluate as evaluate_model

    result = evaluate_model(*source.ranking(rankings[0], is_model=model is not None), wanted)
    rivals = {
        str(path): evaluate_model(*source.ranking(path, is_model=_is_model(path)), wanted) for path in compare or []
    }
    if per_query is not None:
        _write_rows(per_query, result)
        report.say(f"Wrote {per_query}.")
    comparisons = _compare(result, rivals, seed)
    machine = {
        "queries": len(result.query_ids),
        "means": _jsonable(result.means),
        "counted": {name: int((values == values).sum()) for name, values in result.values.items()},
        "conventions": chosen.__dict__,
        "comparisons": comparisons,
    }
    report.result(_tables(result, rivals, comparisons), machine)


def _conventions(preset: str | None, top_k: int | None, pairs: list[str]) -> Conventions:
    """Conventions from the command line."""
    from luce.metrics import conventions

    settings = {**({} if top_k is None else {"top_k": top_k}), **settings_from(pairs)}
    return conventions(preset, **settings)


def _is_model(path: Path) -> bool:
    from luce.storage import container_kind

    return path.is_file() and container_kind(path) is not None


class _Source:
    """The judged data, read once, and how a file becomes scores on them."""

    def __init__(
        self,
        data: Path | None,
        qrels: Path | None,
        report: Report,
        options: dict[str, Any],
        subtopics: Path | None,
        *,
        is_run: bool,
    ) -> None:
        from luce.data.readers.detect import read
        from luce.data.trec import Qrels, read_qrels

        self._report = report
        self._is_run = is_run
        self._path, self._options, self._subtopics = data, options, subtopics
        if is_run and qrels is not None:
            self._qrels = read_qrels(qrels)
        elif is_run and data is not None:
            self._qrels = Qrels.from_groups(read(data, **options))

    def ranking(self, path: Path, *, is_model: bool) -> tuple[Any, Judged]:
        """A model or scores, and the judged data that they go with."""
        from luce.cli.matching import read_matching
        from luce.data.predictions import read_scores
        from luce.data.readers.detect import read
        from luce.model_file import load

        if self._is_run:
            return self._joined(path)
        assert self._path is not None
        if is_model:
            model = load(path)
            return model, self._with_subtopics(read_matching(self._path, model.feature_names_, self._options))
        data = read(self._path, **self._options)
        return read_scores(path, data), self._with_subtopics(data)

    def _with_subtopics(self, data: Any) -> Any:
        if self._subtopics is None:
            return data
        from luce.data.subtopics import with_subtopics

        return with_subtopics(data, self._subtopics, missing="skip" if self._is_run else "error")

    def _joined(self, path: Path) -> tuple[FloatArray, Judged]:
        from luce.data.trec import join_run, read_run

        judged = join_run(read_run(path), self._qrels)
        if judged.unjudged_queries:
            self._report.say(f"{path}: {len(judged.unjudged_queries)} queries have no judgements and are left out.")
        return judged.scores, self._with_subtopics(judged)


def _write_rows(path: Path, result: Evaluation) -> None:
    import csv

    from luce.data.text_files import write_text

    with write_text(path) as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(("query", "metric", "value"))
        rows.writerows(result.rows)


def _compare(result: Evaluation, rivals: dict[str, Evaluation], seed: int) -> list[dict[str, Any]]:
    """Paired test of every metric against every rival; Holm's correction over the rivals."""
    from luce.metrics import compare, holm

    rows: list[dict[str, Any]] = []
    for metric, values in result.values.items():
        found = {name: compare(values, rival.values[metric], rng=seed) for name, rival in rivals.items()}
        adjusted = holm({name: each.test.p_value for name, each in found.items()})
        for name, each in found.items():
            rows.append(
                {
                    "against": name,
                    "metric": metric,
                    "difference": each.test.difference,
                    "low": each.interval.low,
                    "high": each.interval.high,
                    "p": each.test.p_value,
                    "p_holm": adjusted[name],
                    **each.counts._asdict(),
                }
            )
    return rows


def _jsonable(means: dict[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in means.items()}


def _tables(result: Evaluation, rivals: dict[str, Evaluation], comparisons: list[dict[str, Any]]) -> Any:
    from rich.console import Group

    def shown(row: dict[str, Any], key: str) -> Any:
        return f"{row[key]:.2g}" if key in {"p", "p_holm"} else row[key]

    header = ["metric", "mean", *rivals]
    others = [rival.means for rival in rivals.values()]
    rows = [[name, value, *[means[name] for means in others]] for name, value in result.means.items()]
    tables = [table(f"{len(result.query_ids)} queries", header, rows)]
    if comparisons:
        columns = ["metric", "against", "difference", "95% from", "to", "p", "p (Holm)", "win", "tie", "loss"]
        keys = ["metric", "against", "difference", "low", "high", "p", "p_holm", "wins", "ties", "losses"]
        tables.append(table("Paired differences", columns, [[shown(row, key) for key in keys] for row in comparisons]))
    return Group(*tables)
