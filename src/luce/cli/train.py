"""`luce train`: fit a ranker and write it to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli import data_options
from luce.cli.common import INTERRUPTED, Report, SeedOption, interrupted, interruptible
from luce.cli.train_options import ClickOptions, Details, Fitting, Stated, Validation, What, with_click_loss
from luce.errors import DataError, SettingError
from luce.registry import canonical

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker
    from luce.types import FloatArray, IntArray, Progress


def train(
    *,
    context: typer.Context,
    data: list[str] = typer.Argument(
        ..., help="Judged documents to learn from; with --dask files, folders or patterns."
    ),
    out: Path = typer.Option(..., "--out", "-o", help="The model file to write."),
    what: What,
    held: Validation,
    fitting: Fitting,
    stated: Stated,
    clicking: ClickOptions,
    details: Details,
    dask: data_options.DaskOption = None,
    seed: SeedOption = 0,
    reading: data_options.JudgedReading,
    report: Report,
) -> None:
    """Train a ranker on judged documents and write it to a file.

    \b
    luce train train.csv --model auto --out model.luce
    luce train train.txt --valid vali.txt --loss pmop --scorer trees --out model.luce
    """
    settings = {**details.of_ranker(fitting), "random_state": seed}
    if held.folds is not None and what.model is not None and canonical(what.model) == "auto":
        settings["folds"], held = held.folds, replace(held, folds=None)  # it makes folds of its own
    stated.check(held)
    clicking.check(context, stated)
    what, clicking, settings = with_click_loss(what, stated.clicks, clicking, settings)
    ranker = _ranker(what, settings) if details.update is None else _updated(details.update, what, settings)
    parts = ranker.parts()
    if clicking.guard:
        clicking.check_guard(parts.loss, held)
    judges = [*(held.valid_orders or []), *(held.valid_comparisons or [])]
    files = [held.valid, *judges, *stated.files, clicking.clicks_examination]
    _check_before_work(ranker, out, files, details.sign)
    job = _Job(ranker, reading.given(), details.update is not None, f"Training {what.model or parts.title}", report)
    if held.hold_out is not None and stated.clicks is not None and not (job.by_pairs and clicking.ignore_grades):
        raise SettingError(
            "--hold-out goes with --clicks where preferences of the log judge the queries that are held out: give "
            "--ignore-grades and a loss over pairs, such as davidson, or leave it out."
        )
    if dask is None:
        groups, checked, fit, beside = job.prepared(data_options.one_file(data), held, stated, clicking, seed)
        with job.progress() as told:
            ranker = fit(groups, valid=checked, progress=told, **beside)
        if not clicking.guard and ranker.loss_ is not None:
            # All of their documents are tied, or an order graph has no edge.
            skipped = ranker.loss_.skipped(groups.y if groups.judges is None else groups.judges, groups.offsets)
            if skipped:
                report.say(f"{skipped:,} of {groups.n_queries:,} queries have no preference and were skipped.")
    elif alone := [*stated.kinds, *(name for name in held.given if name != "valid"), *["folds"] * bool(held.folds)]:
        raise SettingError(f"--{alone[0]} goes with one machine; leave it or --dask out.")
    else:
        job.there(dask, data, held.valid)
    ranker.save(out, sign=details.sign)
    _tell(report, ranker, out, what.model)
    if job.stopped:
        report.say(f"Interrupted after round {job.stopped[0]:,}: the model is that of the rounds until then.")
        raise typer.Exit(INTERRUPTED)


def _check_before_work(ranker: Ranker, out: Path, inputs: list[Path | None], key: Path | None) -> None:
    """What is wrong with the output, the base, the metric or the other files is said before the data are read."""
    from luce.storage import check_output

    check_output(out)
    if key is not None:
        from luce.signing import signer_of

        signer_of(key)
    if ranker.base is not None:
        from luce.base import make_base

        make_base(ranker.base)
    data_options.check_there(*inputs)


@dataclass(frozen=True)
class _Job:
    """A ranker to be trained; `goes_on` where it was trained before."""

    ranker: Ranker
    options: dict[str, Any]
    goes_on: bool
    title: str
    report: Report
    stopped: list[int] = field(default_factory=list)
    """The rounds after which Ctrl-C ended the training, where it did."""

    @property
    def by_pairs(self) -> bool:
        """Whether clicks are learned from as preferences and ties, for a loss over pairs."""
        loss = self.ranker.parts().loss
        return loss is not None and loss.takes_comparisons

    def prepared(
        self, data: Path, held: Validation, stated: Stated, clicking: ClickOptions, seed: int
    ) -> tuple[Groups, Groups | None, Callable[..., Ranker], dict[str, Any]]:
        """Training and validation data of this machine, what fits a ranker to them, and what it is told beside."""
        missing = clicking.missing_documents

        def stating(one: Groups) -> Groups:
            graded = clicking.graded(one) if clicking.ignore_grades else one
            if stated.clicks is not None and self.by_pairs:
                return clicking.paired(stated.clicks, graded, self.report)
            return _stated(graded, stated, missing, self.report)

        groups, checked = self._read(data, held, seed, stating)
        beside: dict[str, Any] = {"comparison_weight": stated.comparison_weight}
        if clicking.guard and stated.clicks is not None:
            log = stated.clicks

            def guarded(groups: Groups, valid: None, progress: Progress) -> Ranker:
                return clicking.guarded(self.ranker, log, groups, seed, self.report, progress)

            return groups, None, guarded, {}
        if stated.clicks is not None and self.by_pairs:
            beside["comparison_weight"] = clicking.clicks_weight
        elif stated.clicks is not None:
            beside = clicking.arguments(stated.clicks, groups, self.ranker, self.report)
        elif groups.stated is None:
            _check_preferences(str(data), groups.y, groups.offsets)
        judges = Stated(held.valid_comparisons, held.valid_orders)
        if judges.kinds:
            beside["valid_comparisons"] = _stated(checked or groups, judges, missing, self.report, "validate").stated
        if held.folds is None:
            return groups, checked, self.ranker.fit, beside
        from luce.cross_fitting import cross_fit

        folds = held.folds

        def on_folds(groups: Groups, valid: None, progress: Progress) -> Ranker:
            return cross_fit(self.ranker, groups, folds, progress=progress)

        return groups, None, on_folds, {}

    def _read(
        self, data: Path, held: Validation, seed: int, stating: Callable[[Groups], Groups]
    ) -> tuple[Groups, Groups | None]:
        """Training and validation data; `stating` adds to the former what is said of them in files of their own."""
        from luce.data.readers.detect import beside, read

        self.report.say(f"Reading {data} ...")
        known = self.ranker.feature_names_ if self.goes_on else None
        before = self.ranker.schema_ if self.goes_on else None
        groups = (
            read(data, **self.options)
            if known is None
            else data_options.read_matching(data, known, self.options, before)
        )
        data_options.say_columns(self.report, groups)
        self.report.say(f"{groups.n_queries:,} queries, {groups.n_rows:,} documents, {groups.n_features:,} features.")
        groups = stating(groups)
        if held.hold_out is None:
            valid = held.valid
            return groups, None if valid is None else data_options.read_matching(
                valid, groups.feature_names, beside(self.options), groups.schema
            )
        from luce.experiments.folds import hold_out

        groups, checked = hold_out(groups, seed, held.hold_out)
        purpose = "as validation queries" if self.ranker.parts().trainer.name == "blend" else "for early stopping"
        self.report.say(f"{checked.n_queries:,} of the queries are held out {purpose}.")
        return groups, checked

    def there(self, address: str, data: list[str], valid: Path | None) -> None:
        """Train on a Dask cluster; the validation data are read here."""
        from luce.distributed.fit import check_fit

        check_fit(self.ranker)
        known = self.ranker.feature_names_ if self.goes_on else None
        with data_options.on_cluster(address, data, self.options, known, self.report) as dataset:
            from luce.distributed import fit

            outline = dataset.layout.outline
            checked = None if valid is None else data_options.read_matching(valid, outline.feature_names, self.options)
            _check_preferences(data[0], outline.y, outline.offsets)
            with self.progress() as told:
                fit(self.ranker, dataset, checked, told)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """What the rounds tell is shown; Ctrl-C ends them, and what it kept is said."""
        names = {"validation": self.ranker.parts().metric.name}
        try:
            shown = self.report.progress(self.title, names)
            with shown as bar, interruptible(self.report, bar, self.stopped) as told:
                yield told
        except KeyboardInterrupt:
            folder = self.ranker.checkpoint
            kept = None if folder is None else f"The last checkpoint is kept in {folder}"
            raise interrupted(self.report, "--checkpoint", kept) from None


def _stated(groups: Groups, given: Stated, missing: str, report: Report, what: str = "teach") -> Groups:
    """The data with what is stated of the documents beside their grades, in the one kind of file that was given."""
    if not given.comparisons and not given.orders:
        return groups
    import numpy as np

    from luce.data.named_rows import with_statements
    from luce.numerics.segments import query_index

    groups = with_statements(groups, given.comparisons or None, given.orders or None, missing=missing)
    found = groups.stated
    assert found is not None
    if given.orders:
        said = f"{found.n_orders:,} ordered lists of {len(found.order_rows):,} documents"
    else:
        said = f"{len(found.wins):,} preferences and {len(found.ties):,} ties"
        judges = {int(judge) for part in (found.win_judge, found.tie_judge) if part is not None for judge in part}
        said += f" of {len(judges):,} judges" if judges else ""
    rows = np.concatenate([found.wins[:, 0], found.ties[:, 0], found.order_rows])
    queries = np.unique(query_index(groups.offsets)[rows])
    report.say(f"{said} {what} {len(queries):,} of {groups.n_queries:,} queries.")
    return groups


def _check_preferences(name: str, y: FloatArray, offsets: IntArray) -> None:
    from luce.numerics.segments import differing

    if not differing(y, offsets).any():
        raise DataError(
            f"{name}: all labels of every query are equal; grades that differ, --comparisons or --orders are needed."
        )


def _ranker(what: What, settings: dict[str, Any]) -> Ranker:
    """A ranker whose parts go together, so that what they refuse is known before the data are read."""
    if what.model is None:
        from luce.ranker import Ranker

        return Ranker(what.loss, what.scorer, **settings)
    if what.loss is not None or what.scorer is not None:
        raise SettingError("--model names a complete system; give it, or --loss and --scorer, not both.")
    from luce.systems import model, settings_grid

    settings_grid(what.model)  # refuses what is no ranker
    return model(what.model, **settings)


def _updated(path: Path, what: What, settings: dict[str, Any]) -> Ranker:
    """A saved ranker that will go on from where it is."""
    fixed = {"--model": what.model, "--loss": what.loss, "--scorer": what.scorer}
    fixed |= {f"--{name.replace('_', '-')}": settings.get(name) for name in ("query_norm", "base", "base_folds")}
    fixed["--loss-setting"] = next((value for name, value in settings.items() if name.startswith("loss__")), None)
    for option, value in fixed.items():
        if value is not None:
            raise SettingError(f"--update goes on with the model as it is; leave {option} out.")
    from luce.model_file import load

    ranker = load(path)
    if ranker.on_scores_:
        raise SettingError(f"{path} was trained on top of base_scores, which files do not carry; update it in Python.")
    return ranker.set_params(**settings, warm_start=True)


def _tell(report: Report, ranker: Ranker, out: Path, name: str | None) -> None:
    from luce.training.run import best_validation

    history, parts = ranker.history_, ranker.parts_
    objective = history["objective"][-1] if history["objective"] else None
    machine = {
        "model": str(out),
        "loss": None if ranker.loss_ is None else ranker.loss_.name,
        "trainer": parts.trainer.name,
        "scorer": ranker.scorer_.name,
        "iterations": len(history["objective"]),
        "converged": history["converged"],
        "objective": objective,
        "validation": best_validation(history, parts.metric),
    }
    if "blend" in history:
        from luce.auto.plan import as_lines, as_text

        machine["blend"] = history["blend"]
        for line in as_lines(history["blend"])[1:]:
            report.say(line)
        report.result(f"Wrote {out}: {name or 'a blend'}; {as_text(history['blend'])}.", machine)
        return
    text = f"Wrote {out}: {name or parts.title}, {machine['iterations']} iterations"
    if "guard" in history:
        machine["guard"] = history["guard"]
        text = f"Wrote {out}: {history['guard']['chosen']}"
    if hasattr(ranker.scorer_, "table"):
        machine["products"] = len(ranker.scorer_.table())
        text += f", {machine['products']:,} products of features"
    if "cross_fit" in history:
        found = machine["cross_fit"] = history["cross_fit"]
        text += f", {found['how']} of {found['folds']} folds, {found['metric']} of {found['value']:.4f} to be expected"
        text += f" (95%: {found['low']:.4f} to {found['high']:.4f})"
    if objective is not None:
        text += f", objective {objective:.6g}"
    if machine["validation"] is not None:
        text += f", best validation {parts.metric.name} {machine['validation']:.4f}"
    if not history["converged"] and not history["validation"]:
        text += " (not converged: raise --max-iter)"
    report.result(text + ".", machine)
