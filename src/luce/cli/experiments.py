"""`luce compare` and `luce tune`: models tuned and tested alike, and the best settings of one as a command line."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import Report, SeedOption, TableReport, interrupted, listed, settings_from
from luce.cli.data_options import StatedReading, say_columns
from luce.cli.evaluate import Ruled
from luce.cli.options import Given, Group, Shown, flag
from luce.display import check_picture, duration
from luce.errors import LuceError, SettingError
from luce.result import Sheet, for_terminal, plain, setting_text, sheet_of
from luce.settings import Searching, Splits

if TYPE_CHECKING:
    from luce.experiments.desk import Tally, Watch
    from luce.experiments.folds import Fold


_GRADED = "ndcg@10,ndcg@1,map"
_CHOOSES = "(default: ndcg@10; with --comparisons, --orders or --clicks log_likelihood)"


class _LiveTable:
    """A row a model: where it is, its best validation value so far, the time that is left."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.tally: Tally | None = None
        self.since = time.monotonic()

    def note(self, tally: Tally, model: str, fold: str, result: Any) -> None:
        self.tally = tally

    def table(self) -> Any:
        tally, now = self.tally, duration(time.monotonic() - self.since)
        if tally is None:
            return for_terminal(Sheet(f"{self.title}: reading the data, {now}", {}))
        left = tally.seconds_left()
        ending = "" if left is None else f", about {duration(left)} left"
        title, rows = f"{self.title}: {tally.total - tally.left} of {tally.total} fits, {now}{ending}", []
        for name, row in tally.models.items():
            left = tally.seconds_left(name)
            ending = "done" if row.left == 0 else "" if left is None else duration(left)
            if row.failed:
                ending += f" ({row.failed} failed: {shorten(row.error, 60, placeholder='...')})"
            rows.append([name, row.fold, f"{row.total - row.left}/{row.total}", row.best, ending])
        return for_terminal(
            sheet_of(title, ["model", "fold", "fits", f"best {tally.metric} so far", "time left"], rows)
        )


class _Lines:
    """A line when a model has ended on a fold, or failed."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.failed: set[tuple[str, str, str]] = set()

    def note(self, tally: Tally, model: str, fold: str, result: Any) -> None:
        from luce.experiments.comparison import Outcome
        from luce.experiments.search import Attempt
        from luce.experiments.work import Failed

        if isinstance(result, Attempt):
            if not result.error:
                what = f"{tally.metric} {result.validation:.4f} on validation"
                self.report.say(f"{model}: setting {result.number}, {what}, {setting_text(result.settings)}")
        elif isinstance(result, Failed):
            if (fold, model, result.error) not in self.failed:  # once, not for every setting
                self.report.say(f"{fold}: {model} failed: {result.error}")
            self.failed.add((fold, model, result.error))
        elif isinstance(result, Outcome):
            left = tally.seconds_left()
            ending = "" if not left else f"; about {duration(left)} left"
            chosen = setting_text(result.chosen)
            what = f"{tally.metric} {result.validation:.4f} on validation with {chosen}"
            self.report.say(f"{fold}: {model}, {what}{ending}")


class Running(Group):
    """Where results go, how many fits run at a time, and the seed."""

    out: Path | None = flag(None, "Folder for the results; the same call again goes on there.", "--out", "-o")
    jobs: int | None = flag(None, "Fits at a time, each in a process of its own; default: as many as pay.", min=1)
    seed: SeedOption = 0

    def settings(self, data: Path, reading: dict[str, Any], ruled: Ruled) -> dict[str, Any]:
        """As an experiment takes them; a folder that cannot be written is refused before any work."""
        from luce.storage import make_folder

        if self.out is not None:
            make_folder(self.out)
        text = reading.get("text")
        said = reading if text is None else reading | {"text": {k: plain(v) for k, v in text.get_params().items()}}
        notes = {"data": str(data.resolve()), "reading": said}
        return {"seed": self.seed, "jobs": self.jobs, "out": self.out, "notes": notes, **ruled.given}

    @contextmanager
    def watched(self, report: Report, title: str) -> Iterator[Watch | None]:
        """Show how far the work is; who presses Ctrl-C is told how to go on."""
        try:
            if report.quiet:
                yield None
            elif report.stderr.is_terminal:
                from rich.live import Live

                view = _LiveTable(title)
                with Live(get_renderable=view.table, console=report.stderr, refresh_per_second=4, transient=True):
                    yield view.note
            else:
                yield _Lines(report).note
        except KeyboardInterrupt:
            kept = None if self.out is None else f"What was finished is kept in {self.out / 'state'}"
            raise interrupted(report, "--out", kept) from None


def _tell_folds(report: Report, found: Sequence[Fold]) -> None:
    """What is to be known of the data of an experiment."""
    for note in sorted({fold.note for fold in found if fold.note}):
        report.say(f"Note: {note}.")
    say_columns(report, found[0].load)


class _Compared(Given, kw_only=True):
    """Options: what is compared, by what, and how one file is cut."""

    of = (Splits,)
    shown = Shown(hidden=("hold_out",))

    models: str = flag(
        MISSING, "Names of models, comma-separated (`luce info --models` lists them), or FILE.py:NAME of your own."
    )
    metrics: str | None = flag(
        None,
        "Metrics to report, the first one leads (default: ndcg@10,ndcg@1,map; with --comparisons or --clicks "
        "pairwise_accuracy, with --orders kappa_ndcg@10,kappa_err).",
    )
    tune_on: str | None = flag(None, f"Metric on validation data that chooses the settings {_CHOOSES}.")
    baseline: str | None = flag(None, "A model of the list to test all others against, beside the best one.")
    plot: Path | None = flag(None, "Picture of the means with their 95% intervals: .png .svg .pdf")


def compare(
    *,
    data: Path = typer.Argument(..., help="A folder with Fold1..5 or train/vali/test files, or one file."),
    compared: _Compared,
    running: Running,
    ruled: Ruled,
    read: StatedReading,
    report: TableReport,
) -> None:
    """Compare models over folds, each tuned on validation data by its grid.

    \b
    luce compare judged.txt --models pmop-fd,lambdamart,auto --out results
    """
    from luce.experiments import Candidate, find_folds
    from luce.experiments import compare as run
    from luce.experiments.estimators import from_file
    from luce.experiments.run_folder import write_results
    from luce.metrics.significance import differences_sheet

    names, baseline = listed(compared.models), compared.baseline
    # FILE.py:NAME is an estimator of a file of the user's own.
    candidates = [Candidate.named(*(from_file(name) if ".py:" in name else [name])) for name in names]
    if running.jobs is None and any(not isinstance(c.system or c.name, str) for c in candidates):
        running = replace(running, jobs=1)  # an object of a file of the user's own need not reach other processes
    if baseline is not None and baseline not in [candidate.name for candidate in candidates]:
        raise SettingError(f"The baseline {baseline!r} is not among the models; give one of {compared.models}.")
    check_picture(compared.plot)
    settings = running.settings(data, read.given(), ruled)
    found = find_folds(data, **compared.settings, seed=running.seed, **read.given())
    _tell_folds(report, found)
    with running.watched(report, f"Comparing on {data.name}") as watch:
        measured, chosen_by = _measures(read, compared.metrics, compared.tune_on)
        result = run(found, candidates, measured, tune_on=chosen_by, watch=watch, **settings)
    if running.out is not None:
        report.wrote(*write_results(result, running.out, baseline=baseline))
    failed = result.failed
    if not result.models:
        first = next(iter(failed.items()))
        raise LuceError(f"No model could be fitted on all folds; the first one, {first[0]}, failed with: {first[1]}")
    if baseline in failed:
        report.say(f"Note: the baseline {baseline} failed, so that nothing is tested against it.")
        baseline = None
    against = [] if baseline is None else result.statistics(baseline)
    report.show(result, result.as_dict(baseline), more=[differences_sheet(against)] if against else [])
    if compared.plot is not None:
        result.plot(compared.plot)
        report.wrote(compared.plot)


def _measures(read: StatedReading, metrics: str | None, chosen_by: str | None) -> tuple[list[str], str]:
    """Metrics to report, and the one that chooses: what is stated in place of grades is chosen by its likelihood."""
    pairs = read.comparisons or read.clicks
    usual = "pairwise_accuracy" if pairs else "kappa_ndcg@10,kappa_err" if read.orders else _GRADED
    likely = "log_likelihood" if pairs or read.orders else "ndcg@10"
    return listed(usual if metrics is None else metrics), likely if chosen_by is None else chosen_by


class _Sought(Given):
    """How settings are sought."""

    of = (Searching,)

    fix: list[str] | None = flag(
        None, "A setting to hold: max_iter=200, scorer.num_leaves=8 or loss.k=5; may be repeated."
    )
    metric: str | None = flag(None, f"Metric on validation data {_CHOOSES}.")


class _Tuned(Group):
    """Options: what is tuned."""

    model: str | None = flag(None, "Name of the model; `luce info --models` lists them.", show_default=False)
    surrogate: bool = flag(False, "Instead: the weights of `ndcg_mix`, the best surrogate of NDCG.")
    valid: Path | None = flag(None, "Validation data, for a single training file.")


def tune(
    *,
    data: Path = typer.Argument(..., help="A training file, or a folder with train and vali files or Fold1..5."),
    tuned: _Tuned,
    searching: _Sought,
    running: Running,
    ruled: Ruled,
    read: StatedReading,
    report: Report,
) -> None:
    """Search a model's own space of settings and print the best ones as a command line.

    \b
    luce tune train.txt --valid vali.txt --model lambdamart --trials 50
    """
    from luce.experiments.folds import find_splits
    from luce.experiments.search import train_command, write_tuning
    from luce.experiments.search import tune as run
    from luce.experiments.spaces import space_of, without
    from luce.systems import model as complete

    model = tuned.model
    if tuned.surrogate == (model is not None):
        raise SettingError("Give --model NAME for its settings, or --surrogate for the best surrogate, one of the two.")
    fixed = {place.replace(".", "__", 1): value for place, value in settings_from(searching.fix).items()}
    space = {} if model is None else without(space_of(model), fixed)
    if model is not None:
        complete(model, **fixed).parts()  # what the model does not take is refused before any fit
    settings = running.settings(data, read.given(), ruled)
    found = find_splits(data, valid=tuned.valid, seed=running.seed, **read.given())
    _tell_folds(report, found)
    sought = {**searching.settings, "metric": _measures(read, None, searching.metric)[1]}
    if model is None:
        if ruled.given:
            raise SettingError(
                "--surrogate judges by luce's own conventions; leave --preset, --top-k and --convention out."
            )
        _tune_surrogate(report, found, sought, running, fixed)
        return
    with running.watched(report, f"Tuning {model} on {data.name}") as watch:
        result = run(found, model, **sought, space=space, fixed=fixed, watch=watch, **settings)
    command = train_command(result, found[0])
    if running.out is not None:
        report.wrote(*write_tuning(result, running.out, command))
    report.show(result, result.as_dict(command))
    if not report.as_json:
        many = f"The best settings, trained on the first of {len(found)} folds:"
        report.say("The best model again:" if len(found) == 1 else many)
        report.result(command)


def _tune_surrogate(
    report: Report, folds: list[Fold], sought: dict[str, Any], running: Running, fixed: dict[str, Any]
) -> None:
    """Search on every fold, show the weights and the best of what was visited, and write all of it.

    `fixed` holds settings of the ranker, those of its parts as `loss__NAME` and `scorer__NAME`.
    """
    from luce.experiments.desk import safe_name
    from luce.experiments.surrogate import Surrogate, best_surrogate, surrogate_sheets, write_surrogates
    from luce.ranker import Ranker

    known = set(Ranker().get_params(deep=False)) - {"loss", "metric", "random_state", "checkpoint"}
    for name in fixed:
        if name not in known and "__" not in name:
            raise SettingError(f"--fix {name}: --surrogate can hold {', '.join(sorted(known))}.")
    found: dict[str, Surrogate] = {}
    trials = sought.get("trials", Searching.trials)
    how = {"evaluations": trials, "metric": sought["metric"], "random_state": running.seed, **fixed}
    for fold in folds:
        train, valid, _ = fold.load()
        keep = None if running.out is None else running.out / "search" / safe_name(fold.name)
        with report.progress(f"Best surrogate, {fold.name}") as told:
            found[fold.name] = best_surrogate(train, valid, checkpoint=keep, progress=told, **how)
    if running.out is not None:
        report.wrote(*write_surrogates(found, running.out))
    machine: dict[str, Any] = {
        name: {"alpha": s.alpha, s.metric: s.value, "iterations": s.iterations, "surface": s.surface}
        for name, s in found.items()
    }
    report.result(surrogate_sheets(found), machine)
