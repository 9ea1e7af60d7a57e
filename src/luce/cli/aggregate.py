"""`luce aggregate`: a consensus out of ballots or TREC runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import Report, check_ending, check_outputs, check_unused, table
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.aggregate.ballots import Ballots
    from luce.aggregate.result import Consensus

UnrankedOption = Annotated[
    str, typer.Option("--unranked", help="Items that a ballot leaves open: last (tied), ignore, or error.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="soc, soi, toc, toi, lines, tidy or trec; by default from the file's name."),
]


def aggregate(
    *,
    context: typer.Context,
    files: list[Path] = typer.Argument(..., help="A file of ballots; or several TREC runs with --format trec."),
    rule: list[str] | None = typer.Option(
        None, "--rule", help="A rule (repeat for several): kemeny, borda, schulze, ..., or a formula like 1/i."
    ),
    unranked: UnrankedOption = "last",
    format: FormatOption = None,
    time_limit: float = typer.Option(60.0, help="Seconds for an exact Kemeny ranking."),
    seats: int | None = typer.Option(None, help="Seats for stv (1).", show_default=False),
    strength: str | None = typer.Option(
        None, help="Of a majority, for schulze and ranked_pairs: margin (default) or winning."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the consensus: CSV, JSON, or a fused TREC run."),
    plot: Path | None = typer.Option(
        None, help="Write a picture: the rules side by side, or the majority graph of a single rule."
    ),
    report: Report,
) -> None:
    """Join rankings into one, with ties shown as ties, and a proof or a bound where the rule minimises a distance."""
    rules = rule or ["kemeny"]
    check_outputs(out, plot)
    check_ending(plot, (".png", ".svg", ".pdf"))
    for name, takers in _TAKE.items():
        if not any(_rule_name(given) in takers for given in rules):
            check_unused(
                context, [name], f"is for the rule {' and '.join(takers)}, and the rules are {', '.join(rules)}"
            )
    if format != "trec":
        check_ending(out, (".csv", ".json"))
    options = {"time_limit": time_limit, "seats": seats, "strength": strength}
    if format == "trec":
        check_unused(context, ["plot"], "draws one consensus, and runs have one a topic")
        _fuse(files, rules, unranked, options, out, report)
        return
    if len(files) > 1:
        raise SettingError(
            f"{len(files)} files were given; one file of ballots is allowed (or runs with --format trec)."
        )
    from luce.aggregate import read_ballots

    ballots = read_ballots(files[0], format)
    report.say(f"{files[0].name}: {ballots!r}")
    answers = [_solve(ballots, name, unranked, options) for name in rules]
    for answer in answers:
        for note in answer.notes:
            report.say(f"{answer.rule}: {note}")
    machine = {"ballots": ballots.total, "items": ballots.n_items, "answers": [_machine(a) for a in answers]}
    if out is not None:
        _write(out, answers, machine)
    if plot is not None:
        _draw(plot, ballots, answers, unranked)
    report.result(_human(answers), machine)


_TAKE = {"time_limit": ("kemeny",), "seats": ("stv",), "strength": ("schulze", "ranked_pairs")}
"""Which rules an option is for."""


def _rule_name(rule: str) -> str:
    from luce.aggregate.rule_table import ALIASES
    from luce.registry import canonical

    return ALIASES.get(canonical(rule), canonical(rule))


def _solve(ballots: Ballots, rule: str, unranked: str, options: dict[str, Any]) -> Consensus:
    from luce.aggregate import consensus

    taken = {k: v for k, v in options.items() if v is not None and _rule_name(rule) in _TAKE[k]}
    return consensus(ballots, rule, unranked=unranked, **taken)


def _machine(answer: Consensus) -> dict[str, Any]:
    return {
        "rule": answer.rule,
        "tiers": answer.tiers,
        "winners": answer.winners,
        "optimum": answer.optimum,
        "certain": answer.certain if len(answer.order) <= 100 else None,
        "optima": None if answer.optima is None else answer.optima.count,
        "optima_counted": None if answer.optima is None else answer.optima.counted,
        "scores": answer.scores,
        "objective": answer.objective,
        "bound": answer.bound,
        "optimal": answer.optimal,
        "notes": list(answer.notes),
    }


def _human(answers: list[Consensus]) -> Any:
    if len(answers) == 1:
        answer = answers[0]
        rows: list[list[Any]] = [
            [answer.ranks[name], name, float(answer.scores[name])] for tier in answer.tiers for name in tier
        ]
        title = answer.rule
        if answer.objective is not None and answer.rule in ("kemeny", "footrule"):
            proof = "proven optimal" if answer.optimal else f"no ranking is below {answer.bound:g}"
            title += f": total distance {answer.objective:,.12g}, {proof}"
        return table(title, ["rank", "item", "score"], rows)
    rows = [[name, *[answer.ranks[name] for answer in answers]] for name in answers[0].order]
    return table("rank by rule (equal numbers are ties)", ["item", *[answer.rule for answer in answers]], rows)


def _write(out: Path, answers: list[Consensus], machine: dict[str, Any]) -> None:
    import json

    from luce.data.text_files import write_csv
    from luce.storage import atomic_write

    if out.suffix == ".json":
        with atomic_write(out, "w") as stream:
            json.dump(machine, stream)
        return
    rows = ([one.rule, one.ranks[name], name, one.scores[name]] for one in answers for name in one.order)
    write_csv(out, ["rule", "rank", "item", "score"], rows)


def _draw(path: Path, ballots: Ballots, answers: list[Consensus], unranked: str) -> None:
    from luce.aggregate.plots import bump_chart, majority_graph
    from luce.display import finished

    figure = bump_chart(answers) if len(answers) > 1 else majority_graph(ballots, answers[0], unranked=unranked)
    finished(figure, path)


def _fuse(
    files: list[Path], rules: list[str], unranked: str, options: dict[str, Any], out: Path | None, report: Report
) -> None:
    """One consensus a topic, as a TREC run."""
    from luce.aggregate import read_runs
    from luce.storage import atomic_write

    if len(rules) > 1:
        raise SettingError("Runs are fused by one rule; give --rule once.")
    topics = read_runs(files)
    report.say(f"{len(files)} runs, {len(topics)} topics")
    lines, proven = [], True
    with report.progress("topics") as progress:
        for number, (topic, ballots) in enumerate(topics.items(), 1):
            answer = _solve(ballots, rules[0], unranked, options)
            proven &= answer.optimal
            ranks = answer.ranks
            # Scores fall with the rank, so that tied documents keep equal scores.
            lines += [f"{topic} Q0 {d} {i} {-ranks[d]} luce-{answer.rule}" for i, d in enumerate(answer.order, 1)]
            progress(number, len(topics), {})
    if out is not None:
        with atomic_write(out, "w") as stream:
            stream.write("\n".join(lines) + "\n")
    human = "\n".join(lines) if out is None else f"{len(lines)} lines for {len(topics)} topics written to {out}"
    report.result(human, {"topics": len(topics), "lines": len(lines), "rule": rules[0], "optimal": proven})
