"""`luce evaluate`: metrics of a model, of scores or of a TREC run on judged data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import (
    Report,
    SeedOption,
    TableReport,
    check_outputs,
    check_unused,
    listed,
    refuse_two,
    settings_from,
)
from luce.cli.data_options import DaskOption, Reading, is_model, on_cluster, one_file, read_matching, say_columns
from luce.cli.options import Given, Group, Shown, flag
from luce.cli.train_options import LogUse
from luce.display import check_picture, plot_intervals
from luce.errors import SettingError
from luce.metrics.conventions import PRESETS, Conventions, conventions
from luce.result import sheet_of

if TYPE_CHECKING:
    from luce.data.comparisons import Comparisons
    from luce.data.groups import Groups
    from luce.data.trec import Qrels
    from luce.metrics import Evaluation
    from luce.metrics.catalog import Metric
    from luce.types import FloatArray


class ClickLogOptions(LogUse):
    """Evaluation by clicks instead of grades."""

    clicks_users: str = flag("position", "With --clicks: position, or last_click.")
    clicks: Path | None = flag(None, "A click log, or its counts: estimate DCG and clicks of --model from it.")
    most_unseen: float = flag(0.05, "With --clicks: allowed share of the weight on documents that were never shown.")


def evaluate_clicks(
    data: Path, given: _Rankings, log: ClickLogOptions, options: dict[str, Any], report: Report
) -> None:
    """Estimate the metrics of a model from clicks, with intervals, against what was shown."""
    from luce.clicks import evaluate
    from luce.model_file import load

    assert log.clicks is not None
    assert given.model is not None
    metrics = given.metrics
    if metrics is None:
        metrics = "dcg@10" if log.clicks_users == "last_click" else "dcg@10,clicks@10"
    loaded = load(given.model)
    groups = read_matching(data, loaded.feature_names_, options)
    seen = log.examined(log.clicks, groups, report)
    found = evaluate(
        seen,
        groups,
        loaded.predict(groups),
        metrics=listed(metrics),
        most_unseen=log.most_unseen,
        missing=log.missing_documents,
    )
    machine = found.as_dict()
    machine["examination"] = {
        "method": seen.method,
        "largest_standard_error": float(seen.standard_error.max()),
        "notes": list(seen.notes),
    }
    report.result(found, machine)
    unseen = ", ".join(f"{share:.1%} of {name}" for name, share in found.unseen.items())
    report.say(f"Weight on documents that were never shown: {unseen}; least examination {found.least_rho:.3g}.")


class _Rankings(Group):
    """What is evaluated; against which judgements."""

    model: Path | None = flag(None, "A model file; scores the data.")
    scores: Path | None = flag(None, "One score a line, in the row order of DATA.")
    run: Path | None = flag(None, "A TREC run file.")
    metrics: str | None = flag(
        None,
        "Metric names, comma-separated (default: ndcg@10,map,mrr; with --orders kappa_ndcg@10,kappa_err; with "
        "--comparisons pairwise_accuracy).",
    )
    qrels: Path | None = flag(None, "Judgements, for --run: TREC qrels or a table.")
    orders: list[Path] | None = flag(
        None, "Lists that judge in place of the labels: `query: d7 > {d2 d9}`, a TREC run, or a table; repeatable."
    )
    comparisons: list[Path] | None = flag(
        None, "Preferences and ties that judge in place of the labels, a table as for `luce train`; repeatable."
    )
    subtopics: Path | None = flag(
        None, "For alpha_ndcg: query, document, subtopic (CSV, Parquet), or TREC diversity judgements."
    )

    def check(self, data: list[str] | None) -> None:
        """Exactly one ranking, and exactly one place of its judgements."""
        given = sum(path is not None for path in (self.model, self.scores, self.run))
        if given != 1:
            raise SettingError(f"{given} of --model, --scores and --run were given; give exactly one of them.")
        if self.qrels is not None and self.run is None:
            raise SettingError("--qrels goes with --run; for --model and --scores the data file carries the labels.")
        for option, judges in (("orders", self.orders), ("comparisons", self.comparisons)):
            if judges and (self.run is not None or self.subtopics is not None):
                other = "run" if self.run is not None else "subtopics"
                raise SettingError(f"--{option} judges --model or --scores on DATA; leave out --{other}.")
        refuse_two("orders", self.orders, {"comparisons": self.comparisons})
        if (not data) == (self.qrels is None):
            raise SettingError("Give the judged data as DATA, or for --run as --qrels FILE: one of the two.")


class Ruled(Given):
    """Conventions of metrics."""

    of = (Conventions,)
    shown = Shown(names={"top_k": "--top-k"}, only_named=True)

    preset: str | None = flag(None, f"Those of another tool: {', '.join(PRESETS)}.")
    convention: list[str] | None = flag(None, "A convention, as ties=stable; may be repeated.", "--convention", "-c")

    @property
    def changed(self) -> dict[str, Any]:
        """The conventions that were given one by one."""
        said = settings_from(self.convention)
        if twice := next((name for name in said if name in self.settings), None):
            raise SettingError(f"The setting {twice!r} was given twice; give it once.")
        return {**said, **self.settings}

    @property
    def given(self) -> dict[str, Any]:
        """All that was given, as experiments take it."""
        return {**({"preset": self.preset} if self.preset else {}), **self.changed}


def _wanted(ruled: Ruled, given: _Rankings) -> list[Metric]:
    """The metrics under these conventions."""
    from luce.metrics.catalog import parse
    from luce.metrics.evaluate import refuse_unheard, warn_of_top_k

    chosen, changed = conventions(**ruled.given), ruled.changed
    usual = "kappa_ndcg@10,kappa_err" if given.orders else "ndcg@10,map,mrr"
    usual = "pairwise_accuracy" if given.comparisons else usual
    found = [parse(name, chosen) for name in listed(usual if given.metrics is None else given.metrics)]
    if found:  # that none was named is said later
        refuse_unheard(changed, found)
        warn_of_top_k(changed.get("top_k"), found)
    return found


class _More(Group):
    """Options: what is written and compared, and where."""

    per_query: Path | None = flag(None, "Write a CSV with the rows query, metric, value.")
    compare: list[Path] | None = flag(
        None, "Another model (.luce, or LightGBM's or XGBoost's), scores or run, for a paired test; may be repeated."
    )
    plot: Path | None = flag(None, "Picture of the differences from --compare with 95% intervals: .png .svg .pdf")
    dask: DaskOption = None
    seed: SeedOption = 0


def evaluate(
    *,
    context: typer.Context,
    data: list[str] | None = typer.Argument(
        None,
        help="Judged documents (LETOR, Parquet, CSV, ...); with --dask files, folders or patterns. Not needed with "
        "--qrels.",
    ),
    rankings: _Rankings,
    ruled: Ruled,
    clicking: ClickLogOptions,
    more: _More,
    reading: Reading,
    report: TableReport,
) -> None:
    """Evaluate a model, scores or a TREC run on judged data.

    \b
    luce evaluate test.txt --model model.luce --metrics ndcg@10,map
    luce evaluate --run run.txt --qrels judgements.txt --preset trec_eval
    """
    rankings.check(data)
    if clicking.clicks is not None:
        why = "does not go with --clicks, which takes DATA, --model and --metrics alone"
        check_unused(context, [_Rankings, Ruled, "top_k", _More], why, kept=["model", "metrics", "seed"])
        evaluate_clicks(one_file(data or []), rankings, clicking, reading.given(), report)
        return
    kept = ["missing_documents"] if rankings.orders or rankings.comparisons else []
    check_unused(context, [ClickLogOptions], "goes with --clicks LOG, and no log was given", kept=kept)
    wanted = _wanted(ruled, rankings)
    others, per_query = more.compare or [], more.per_query
    check_outputs(per_query)
    if more.plot is not None:
        if not others:
            raise SettingError("--plot draws differences from other models; give --compare MODEL, or leave it out.")
        check_picture(more.plot)
    judging = _Judging(data or [], rankings, wanted, reading.given(), report, clicking.missing_documents)
    found: list[Evaluation] = []
    if more.dask is not None:
        found = judging.there(more.dask, others)
    else:
        from luce.metrics import evaluate as evaluate_here

        for ranking, judged, lists in judging.here(others):
            found.append(evaluate_here(ranking, judged, wanted, comparisons=lists, order="data"))
    result, rivals = found[0], dict(zip(map(str, others), found[1:], strict=True))
    if per_query is not None:
        from luce.data.text_files import write_csv

        write_csv(per_query, ("query", "metric", "value"), result.rows)
        report.wrote(per_query)
    _tell(report, result, rivals, ruled, more)


def _tell(report: Report, result: Evaluation, rivals: dict[str, Evaluation], ruled: Ruled, more: _More) -> None:
    """Show means and paired tests of every metric against every rival; Holm's correction is over the rivals."""
    from luce.metrics.significance import Column, against, differences_sheet

    pairs = [(metric, name) for metric in result.values for name in rivals]
    columns = [Column(metric, name, result.values[metric], rivals[name].values[metric]) for metric, name in pairs]
    compared = [{"against": row.pop("model"), **row} for row in against(columns, more.seed)]
    others = [rival.means for rival in rivals.values()]
    rows = [[name, mean, *[means[name] for means in others]] for name, mean in result.means.items()]
    sheets = [sheet_of(f"{len(result.query_ids)} queries", ["metric", "mean", *rivals], rows)]
    sheets += [differences_sheet(compared, "against")] if compared else []
    used = conventions(**ruled.given).settings
    report.result(sheets, {**result.as_dict(), "conventions": used, "comparisons": compared})
    if more.plot is not None:
        panels: dict[str, list[Any]] = {}
        for row in compared:
            panel = panels.setdefault(f"difference of {row['metric']} (95%)", [])
            panel.append((row["against"], row["difference"], row["low"], row["high"]))
        plot_intervals(panels, more.plot)
        report.wrote(more.plot)


@dataclass(frozen=True)
class _Judging:
    """A ranking and its rivals on judged data: on this machine, or on a Dask cluster."""

    data: list[str]
    given: _Rankings
    wanted: list[Metric]
    options: dict[str, Any]
    report: Report
    missing: str

    def there(self, address: str, others: list[Path]) -> list[Evaluation]:
        """The metrics of several models of the same features, with the data on a cluster, which takes models only."""
        from luce.model_file import load

        given = self.given
        if given.subtopics is not None or given.orders or given.comparisons:
            name = "orders" if given.orders else "comparisons" if given.comparisons else "subtopics"
            raise SettingError(f"--{name} are read on one machine; leave out --dask.")
        if given.model is None or not self.data:
            raise SettingError("--dask scores data files by a model; give --model and DATA.")
        if any(path.is_file() and not is_model(path) for path in others):
            raise SettingError("--compare with --dask takes models (.luce) only; compare scores on one machine.")
        first, *rest = [load(path) for path in (given.model, *others)]
        for path, other in zip(others, rest, strict=True):
            if other.feature_names_ != first.feature_names_:
                what = f"{path} has other features than {given.model}"
                raise SettingError(f"{what}; compare models of the same features.")
        columns = {} if first.schema_ is None else first.schema_.roles
        with on_cluster(address, self.data, {**columns, **self.options}, first.feature_names_, self.report) as dataset:
            from luce.distributed import evaluate as evaluate_there

            return [evaluate_there(each, dataset, self.wanted) for each in (first, *rest)]

    def here(self, others: list[Path]) -> Iterator[tuple[Any, Any, Comparisons | None]]:
        """The ranking and the others, on this machine, each with the data and the lists that judge it."""
        given = self.given
        first = next(path for path in (given.model, given.scores, given.run) if path is not None)
        qrels = None if given.run is None else self._qrels()
        read_already: Groups | None = None
        told = False
        for path, known in [(first, given.model is not None), *((path, is_model(path)) for path in others)]:
            ranking: Any
            if qrels is not None:
                ranking, judged = self._joined(path, qrels)
            else:
                ranking, judged = self._scored(path, known, read_already)
                if not told:
                    read_already = judged
                    say_columns(self.report, judged)
            yield ranking, judged, self._lists(judged, tell=not told)
            told = True

    def _scored(self, path: Path, as_model: bool, before: Groups | None) -> tuple[Any, Groups]:
        """A model or scores, and the data that they go with; those of the first ranking serve what has no schema."""
        from luce.base import RankerBase, make_base
        from luce.data.readers.detect import read
        from luce.data.trec import read_scores
        from luce.model_file import load
        from luce.scorers.boosters import library_of_file

        file = one_file(self.data)
        if as_model:
            ranking: Any = load(path)
            data = read_matching(file, ranking.feature_names_, self.options, ranking.schema_)
            return ranking, self._with_subtopics(data, "error")
        data = read(file, **self.options) if before is None else before
        if library_of_file(path) is None:
            ranking = read_scores(path, data)
        else:
            base = make_base(str(path))
            assert isinstance(base, RankerBase)
            ranking = base.ranker
        return ranking, self._with_subtopics(data, "error")

    def _qrels(self) -> Qrels:
        """The judgements of a run."""
        from luce.data.readers.detect import read
        from luce.data.trec import Qrels, read_qrels

        if self.given.qrels is not None:
            return read_qrels(self.given.qrels)
        judged = read(one_file(self.data), **self.options)
        say_columns(self.report, judged)
        if judged.document_ids is None:
            self.report.say("The data name no documents: they are d1, d2, ... by row, unless --doc names their column.")
        return Qrels.from_groups(judged)

    def _joined(self, path: Path, qrels: Qrels) -> tuple[FloatArray, Any]:
        """The scores of a run, and its documents with their judgements."""
        from luce.data.trec import join_run, read_run

        judged = join_run(read_run(path), qrels)
        if judged.unjudged_queries:
            self.report.say(f"{path}: {len(judged.unjudged_queries)} queries have no judgements and are left out.")
        return judged.scores, self._with_subtopics(judged, "skip")

    def _with_subtopics(self, data: Any, missing: str) -> Any:
        if self.given.subtopics is None:
            return data
        from luce.data.named_rows import with_subtopics

        return with_subtopics(data, self.given.subtopics, missing=missing)

    def _lists(self, data: Any, *, tell: bool) -> Comparisons | None:
        """The lists that judge these data, where lists were given, and what they leave out."""
        if self.given.comparisons:
            from luce.data.named_rows import read_comparisons

            found = read_comparisons(self.given.comparisons, data, missing=self.missing)
            if tell:
                self.report.say(f"{len(found.wins):,} preferences and {len(found.ties):,} ties judge.")
            return found
        if not self.given.orders:
            return None
        from luce.data.order_files import read_orders

        found = read_orders(self.given.orders, data, missing=self.missing)
        if tell:
            judged = len(set(found.list_queries(data.offsets).tolist()))
            ending = "." if found.order_weight is None else "; all count alike, whatever their weights."
            self.report.say(f"{found.n_orders:,} lists judge {judged:,} of {data.n_queries:,} queries{ending}")
        return found
