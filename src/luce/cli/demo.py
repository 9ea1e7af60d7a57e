"""`luce demo` and `luce report`: a whole comparison on simulated data, and a comparison as a page."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from luce.cli.common import Report, SeedOption
from luce.errors import SettingError
from luce.result import check_ending

_MODELS = ["lambdamart", "pmop-fd", "ranknet", "ranksvm", "listnet"]
_METRICS = ["ndcg@10", "ndcg@1", "map", "err"]
_FEWEST = 10


def demo(
    *,
    out: Path = typer.Option(Path("demo"), "--out", "-o", help="Folder for data, model and results."),
    queries: int = typer.Option(1000, help="Number of queries to simulate."),
    features: int = typer.Option(40, help="Number of features to simulate."),
    auto: bool = typer.Option(True, help="Train auto as well, which takes most of the time."),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Simulate a judged collection, train several models, print a leaderboard and write a report."""
    from luce.data.simulate import simulate
    from luce.data.writers import write_letor
    from luce.experiments import Candidate, compare, find_folds
    from luce.experiments.run_folder import write_results
    from luce.report import write_report
    from luce.storage import make_folder

    if queries < _FEWEST:
        raise SettingError(f"--queries is {queries}; it must be at least {_FEWEST}, for data of three parts.")
    make_folder(out)
    report.say(f"Simulating {queries:,} queries with {features} features and graded labels 0 to 4 ...")
    data = simulate(queries, features, seed=seed)
    edges = [0, int(0.6 * queries), int(0.8 * queries), queries]
    for part, first, last in zip(("train", "vali", "test"), edges[:-1], edges[1:], strict=True):
        write_letor(data.take(range(first, last)), out / f"{part}.txt")
    report.say(f"Wrote {out / 'train.txt'}, {out / 'vali.txt'} and {out / 'test.txt'}.")

    candidates = [Candidate.named(name) for name in [*_MODELS, *(["auto"] if auto else [])]]
    report.say("Training; the first use of each model compiles it, once and for all ...")
    folds = find_folds(out)
    notes = {"data": str(out.resolve()), "reading": {}}
    with report.progress("Training") as progress:
        done = 0

        def tell(fold: str, name: str, what: str) -> None:
            nonlocal done
            report.say(f"  {name}: {what}")
            progress(done, len(candidates), {})
            done += 1

        result = compare(folds, candidates, _METRICS, seed=seed, report=tell, notes=notes)
    board = result.leaderboard()
    written = write_results(result, out / "results")
    write_report(out / "results", out / "report.html", title="Models on a simulated collection")
    written.insert(0, out / "report.html")

    best = board[0]["model"]
    next(outcome for outcome in result.outcomes if outcome.model == best).ranker().save(out / "model.luce")
    report.result(result.board_sheet(), {"leaderboard": board, "files": [str(path) for path in written]})
    train, test, model = (shlex.quote(str(out / name)) for name in ("train.txt", "test.txt", "model.luce"))
    report.say(
        f"Open {out / 'report.html'} in a browser; results are in {out / 'results'}, the best model is "
        f"{out / 'model.luce'}.\n"
        "What next:\n"
        f"  luce info {train}\n"
        f"  luce predict {test} --model {model} --format csv\n"
        f"  luce evaluate {test} --model {model} --metrics ndcg@10,map,err\n"
        "  luce train YOUR-TRAIN.txt --valid YOUR-VALI.txt --loss pmop --out model.luce"
    )


def report(
    *,
    run: Path = typer.Argument(..., metavar="RUN", help="A folder that `luce compare --out` wrote."),
    out: Path = typer.Option(Path("report.html"), "--out", "-o", help="The page to write."),
    data: Path | None = typer.Option(None, help="Where the data of the run are now, if not where they were then."),
    title: str | None = typer.Option(None, help="Title of the page."),
    told: Report,
) -> None:
    """Show a comparison as one HTML page that needs no network: tables, charts, rankings, explanations."""
    check_ending(out, (".html", ".htm"))
    from luce.report import write_report

    with told.progress("Making the report") as progress:
        built = write_report(run, out, data=data, title=title, progress=progress)
    for remark in built.remarks:
        told.say(f"Note: {remark}")
    size = out.stat().st_size
    facts = {"report": str(out), "bytes": size, "models": built.models, "queries": built.queries}
    told.result(
        f"Wrote {out}: {built.models} models, {built.queries:,} test queries, {size / 1e6:.1f} MB.",
        {**facts, "remarks": built.remarks},
    )
