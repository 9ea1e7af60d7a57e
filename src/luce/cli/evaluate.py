"""`luce evaluate`: metrics of a model, of scores or of a TREC run on judged data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.cluster import DaskOption, on_cluster, one_file
from luce.cli.common import ConventionOption, Report, SeedOption, check_outputs, settings_from, table
from luce.cli.data_options import Reading, say_columns
from luce.cli.evaluate_clicks import ClickLogOptions, evaluate_clicks
from luce.cli.same_features import is_model, read_matching
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.data.comparisons import Comparisons
    from luce.metrics import Conventions, Evaluation
    from luce.metrics.catalog import Metric
    from luce.metrics.evaluate import Judged
    from luce.types import FloatArray


@dataclass(frozen=True)
class _Rankings:
    """What is evaluated, and against which judgements."""

    model: Annotated[Path | None, typer.Option(help="A model file; scores the data.")] = None
    scores: Annotated[Path | None, typer.Option(help="One score a line, in the row order of DATA.")] = None
    run: Annotated[Path | None, typer.Option(help="A TREC run file.")] = None
    qrels: Annotated[Path | None, typer.Option(help="TREC judgements, for --run.")] = None
    orders: Annotated[
        list[Path] | None,
        typer.Option(help="Lists that judge in place of the labels: `query: d7 > {d2 d9}`, or a TREC run; repeatable."),
    ] = None
    subtopics: Annotated[
        Path | None,
        typer.Option(help="For alpha_ndcg: query, document, subtopic (CSV, Parquet), or TREC diversity judgements."),
    ] = None

    def check(self, data: list[str] | None) -> None:
        """Exactly one ranking, and exactly one place of its judgements."""
        given = sum(path is not None for path in (self.model, self.scores, self.run))
        if given != 1:
            raise SettingError(f"{given} of --model, --scores and --run were given; give exactly one of them.")
        if self.qrels is not None and self.run is None:
            raise SettingError("--qrels goes with --run; for --model and --scores the data file carries the labels.")
        if self.orders and (self.run is not None or self.subtopics is not None):
            other = "run" if self.run is not None else "subtopics"
            raise SettingError(f"--orders judges --model or --scores on DATA by lists; leave out --{other}.")
        if (not data) == (self.qrels is None):
            raise SettingError("Give the judged data as DATA, or for --run as --qrels FILE: one of the two.")


@dataclass(frozen=True)
class _Measures:
    """Metrics and their conventions."""

    metrics: Annotated[
        str | None,
        typer.Option(
            help="Metric names, comma-separated (default: ndcg@10,map,mrr; with --orders kappa_ndcg@10,kappa_err)."
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(help="Conventions of: lightgbm, xgboost, catboost, sklearn, trec_eval, ranx, letor3, letor4."),
    ] = None
    top_k: Annotated[int | None, typer.Option(help="k of the kappa metrics.")] = None
    convention: ConventionOption = None

    def conventions(self) -> Conventions:
        """As the command line has them."""
        from luce.metrics import conventions

        return conventions(self.preset, **self._settings())

    def _settings(self) -> dict[str, Any]:
        return settings_from([*(self.convention or []), *([] if self.top_k is None else [f"top_k={self.top_k}"])])

    def wanted(self, on_lists: bool) -> list[Metric]:
        """The metrics under these conventions."""
        from luce.metrics.catalog import parse
        from luce.metrics.evaluate import refuse_unheard, warn_of_top_k

        chosen = self.conventions()
        usual = "kappa_ndcg@10,kappa_err" if on_lists else "ndcg@10,map,mrr"
        names = usual if self.metrics is None else self.metrics
        found = [parse(name.strip(), chosen) for name in names.split(",") if name.strip()]
        if found:  # that none was named is said later
            refuse_unheard(self._settings(), found)
            warn_of_top_k(self.top_k, found)
        return found


def evaluate(
    *,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Judged documents (LETOR, Parquet, CSV, ...); with --dask files, folders or patterns. Not needed with "
            "--qrels."
        ),
    ] = None,
    rankings: _Rankings,
    measures: _Measures,
    clicking: ClickLogOptions,
    per_query: Annotated[Path | None, typer.Option(help="Write a CSV with the rows query, metric, value.")] = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="Another model (.luce), scores or run, for a paired test; may be repeated."),
    ] = None,
    dask: DaskOption = None,
    seed: SeedOption = 0,
    reading: Reading,
    report: Report,
) -> None:
    """Evaluate a model, scores or a TREC run on judged data."""
    rankings.check(data)
    clicking.check()
    if clicking.clicks is not None:
        stray = replace(rankings, model=None) != _Rankings() or replace(measures, metrics=None) != _Measures()
        if dask is not None or compare or per_query is not None or not data or stray:
            raise SettingError("--clicks goes with DATA, --model and --metrics alone; leave the other options out.")
        evaluate_clicks(one_file(data), rankings.model, clicking, measures.metrics, reading.given(), report)
        return
    wanted = measures.wanted(bool(rankings.orders))
    check_outputs(per_query)
    others, options = compare or [], reading.given()
    if dask is not None:
        found = _there(dask, data, rankings, others, wanted, options, report)
    else:
        found = _here(data, rankings, others, wanted, options, report)
    result, rivals = found[0], dict(zip(map(str, others), found[1:], strict=True))
    if per_query is not None:
        from luce.data.text_files import write_csv

        write_csv(per_query, ("query", "metric", "value"), result.rows)
        report.say(f"Wrote {per_query}.")
    comparisons = _compare(result, rivals, seed)
    machine = {
        "queries": len(result.query_ids),
        "means": _jsonable(result.means),
        "counted": {name: int((values == values).sum()) for name, values in result.values.items()},
        "conventions": measures.conventions().__dict__,
        "comparisons": comparisons,
    }
    report.result(_tables(result, rivals, comparisons), machine)


def _here(
    data: list[str] | None,
    rankings: _Rankings,
    others: list[Path],
    wanted: list[Metric],
    options: dict[str, Any],
    report: Report,
) -> list[Evaluation]:
    """The metrics of the ranking and of the others, on this machine."""
    from luce.metrics import evaluate as evaluate_model

    source = _JudgedData(one_file(data) if data else None, rankings, report, options)
    first = next(path for path in (rankings.model, rankings.scores, rankings.run) if path is not None)
    found = []
    for path, known in [(first, rankings.model is not None), *((path, is_model(path)) for path in others)]:
        model, judged = source.ranking(path, as_model=known)
        found.append(evaluate_model(model, judged, wanted, comparisons=source.lists(judged), order="data"))
    return found


def _there(
    address: str,
    data: list[str] | None,
    rankings: _Rankings,
    others: list[Path],
    wanted: list[Metric],
    options: dict[str, Any],
    report: Report,
) -> list[Evaluation]:
    """The same on a Dask cluster, which takes models only."""
    if rankings.subtopics is not None or rankings.orders:
        name = "orders" if rankings.orders else "subtopics"
        raise SettingError(f"--{name} are read on one machine; leave out --dask.")
    if rankings.model is None or not data:
        raise SettingError("--dask scores data files by a model; give --model and DATA.")
    if any(path.is_file() and not is_model(path) for path in others):
        raise SettingError("--compare with --dask takes models (.luce) only; compare scores on one machine.")
    return _on_cluster(address, data, [rankings.model, *others], wanted, options, report)


def _on_cluster(
    address: str, data: list[str], models: list[Path], wanted: list[Metric], options: dict[str, Any], report: Report
) -> list[Evaluation]:
    """The metrics of several models of the same features, with the data on a Dask cluster."""
    from luce.model_file import load

    loaded = [load(path) for path in models]
    for path, other in zip(models[1:], loaded[1:], strict=True):
        if other.feature_names_ != loaded[0].feature_names_:
            raise SettingError(f"{path} has other features than {models[0]}; compare models of the same features.")
    columns = {} if loaded[0].schema_ is None else loaded[0].schema_.roles
    with on_cluster(address, data, {**columns, **options}, loaded[0].feature_names_, report) as dataset:
        from luce.distributed import evaluate as evaluate_there

        return [evaluate_there(each, dataset, wanted) for each in loaded]


class _JudgedData:
    """The judged data, read once, and how a file becomes scores on them."""

    def __init__(self, data: Path | None, given: _Rankings, report: Report, options: dict[str, Any]) -> None:
        from luce.data.readers.detect import read
        from luce.data.trec import Qrels, read_qrels

        self._report = report
        self._is_run = given.run is not None
        self._path, self._options, self._subtopics = data, options, given.subtopics
        self._orders = given.orders
        self._told = self._said = False
        if self._is_run and given.qrels is not None:
            self._qrels = read_qrels(given.qrels)
        elif self._is_run and data is not None:
            judged = read(data, **options)
            self._say_columns(judged)
            if judged.document_ids is None:
                report.say("The data name no documents: they are d1, d2, ... by row, unless --doc names their column.")
            self._qrels = Qrels.from_groups(judged)

    def ranking(self, path: Path, *, as_model: bool) -> tuple[Any, Judged]:
        """A model or scores, and the judged data that they go with."""
        from luce.data.readers.detect import read
        from luce.data.trec import read_scores
        from luce.model_file import load

        if self._is_run:
            return self._joined(path)
        assert self._path is not None
        if as_model:
            model = load(path)
            judged = read_matching(self._path, model.feature_names_, self._options, model.schema_)
            self._say_columns(judged)
            return model, self._with_subtopics(judged)
        data = read(self._path, **self._options)
        self._say_columns(data)
        return read_scores(path, data), self._with_subtopics(data)

    def _say_columns(self, data: Any) -> None:
        if not self._said:
            say_columns(self._report, data)
        self._said = True

    def lists(self, data: Any) -> Comparisons | None:
        """The lists that judge these data, where lists were given; said once what they leave out."""
        if not self._orders:
            return None
        from luce.data.order_files import read_orders

        found = read_orders(self._orders, data)
        if not self._told:
            judged = len(set(found.list_queries(data.offsets).tolist()))
            text = f"{found.n_orders:,} lists judge {judged:,} of {data.n_queries:,} queries"
            self._report.say(
                text + ("." if found.order_weight is None else "; all count alike, whatever their weights.")
            )
            self._told = True
        return found

    def _with_subtopics(self, data: Any) -> Any:
        if self._subtopics is None:
            return data
        from luce.data.named_rows import with_subtopics

        return with_subtopics(data, self._subtopics, missing="skip" if self._is_run else "error")

    def _joined(self, path: Path) -> tuple[FloatArray, Judged]:
        from luce.data.trec import join_run, read_run

        judged = join_run(read_run(path), self._qrels)
        if judged.unjudged_queries:
            self._report.say(f"{path}: {len(judged.unjudged_queries)} queries have no judgements and are left out.")
        return judged.scores, self._with_subtopics(judged)


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
