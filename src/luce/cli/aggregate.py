"""`luce aggregate` and `luce axioms`: a consensus out of ballots or runs, and what its rule guarantees or breaks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import Publishing, Report, SeedOption, TableReport, check_outputs, check_unused
from luce.cli.options import Group, flag
from luce.display import check_picture, finished
from luce.errors import SettingError
from luce.result import check_ending, json_text, sheet_of

if TYPE_CHECKING:
    from luce.aggregate.ballots import Ballots
    from luce.aggregate.profile_checks import ProfileReport
    from luce.aggregate.result import Consensus


class _Reading(Group):
    """How ballots are read."""

    unranked: str = flag("last", "Items that a ballot leaves open: last (tied), ignore, or error.")
    format: str | None = flag(None, "soc, soi, toc, toi, lines, tidy or trec; by default from the file's name.")


class _Rules(Group):
    """Rules and their options."""

    rule: list[str] | None = flag(
        None, "A rule (repeat for several): kemeny, borda, schulze, ..., or a formula like 1/i."
    )
    time_limit: float = flag(60.0, "Seconds for an exact Kemeny ranking.")
    seats: int | None = flag(None, "Seats for stv (1).", show_default=False)
    strength: str | None = flag(None, "Of a majority, for schulze and ranked_pairs: margin (default) or winning.")

    def solve(self, ballots: Ballots, rule: str, unranked: str) -> Consensus:
        """The answer of a rule, told the options that are for it."""
        from luce.aggregate import consensus

        given = {name: getattr(self, name) for name, takers in _TAKE.items() if _rule_name(rule) in takers}
        return consensus(ballots, rule, unranked=unranked, **{k: v for k, v in given.items() if v is not None})


def aggregate(
    *,
    context: typer.Context,
    files: list[Path] = typer.Argument(..., help="A file of ballots; or several TREC runs with --format trec."),
    rules: _Rules,
    reading: _Reading,
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the consensus: CSV, JSON, or a fused TREC run."),
    plot: Path | None = typer.Option(
        None, help="Write a picture: the rules side by side, or the majority graph of a single rule."
    ),
    publishing: Publishing,
    report: TableReport,
) -> None:
    """Join rankings into one, with ties shown as ties, and a proof or a bound where the rule minimises a distance."""
    named, unranked, format = rules.rule or ["kemeny"], reading.unranked, reading.format
    check_picture(plot)
    check_outputs(out)
    publishing.check(context)
    for name, takers in _TAKE.items():
        if not any(_rule_name(given) in takers for given in named):
            check_unused(
                context, [name], f"is for the rule {' and '.join(takers)}, and the rules are {', '.join(named)}"
            )
    if format != "trec":
        check_ending(out, (".csv", ".json"))
    if format == "trec":
        check_unused(context, ["plot", "page", "site"], "shows one consensus, and runs have one a topic")
        _fuse(files, rules, unranked, out, report)
        return
    if len(files) > 1:
        raise SettingError(
            f"{len(files)} files were given; one file of ballots is allowed (or runs with --format trec)."
        )
    from luce.aggregate import read_ballots

    ballots = read_ballots(files[0], format)
    report.say(f"{files[0].name}: {ballots!r}")
    if len(named) > 1:
        check_unused(context, ["page", "site"], f"shows one rule, and the rules are {', '.join(named)}")
    answers = [rules.solve(ballots, name, unranked) for name in named]
    for answer in answers:
        for note in answer.notes:
            report.say(f"{answer.rule}: {note}")
    machine = {"ballots": ballots.total, "items": ballots.n_items, "answers": [answer.as_dict() for answer in answers]}
    if out is not None:
        _write(out, answers, machine)
    if plot is not None:
        from luce.aggregate.plots import bump_chart, majority_graph

        one = len(answers) == 1
        finished(majority_graph(ballots, answers[0], unranked=unranked) if one else bump_chart(answers), plot)
    publishing.write(answers[0], ballots=ballots, unranked=unranked)
    rows = [[name, *[answer.ranks[name] for answer in answers]] for name in answers[0].order]
    header = ["item", *[answer.rule for answer in answers]]
    several = sheet_of("rank by rule (equal numbers are ties)", header, rows)
    report.result(answers[0] if len(answers) == 1 else several, machine)


_TAKE = {"time_limit": ("kemeny",), "seats": ("stv",), "strength": ("schulze", "ranked_pairs")}
"""Which rules an option is for."""


def _rule_name(rule: str) -> str:
    from luce.aggregate.rules import ALIASES
    from luce.registry import canonical

    return ALIASES.get(canonical(rule), canonical(rule))


def _write(out: Path, answers: list[Consensus], machine: dict[str, Any]) -> None:
    from luce.data.text_files import write_csv

    if out.suffix.lower() == ".json":
        _write_json(out, machine)
        return
    rows = ([one.rule, one.ranks[name], name, one.scores[name]] for one in answers for name in one.order)
    write_csv(out, ["rule", "rank", "item", "score"], rows)


def _write_json(out: Path, machine: dict[str, Any]) -> None:
    from luce.storage import atomic_write

    with atomic_write(out, "w") as stream:
        stream.write(json_text(machine))


def _fuse(files: list[Path], rules: _Rules, unranked: str, out: Path | None, report: Report) -> None:
    """One consensus a topic, as a TREC run."""
    from luce.aggregate import read_runs
    from luce.storage import atomic_write

    rule, *more = rules.rule or ["kemeny"]
    if more:
        raise SettingError("Runs are fused by one rule; give --rule once.")
    topics = read_runs(files)
    report.say(f"{len(files)} runs, {len(topics)} topics")
    lines, proven = [], True
    with report.progress("topics") as progress:
        for number, (topic, ballots) in enumerate(topics.items(), 1):
            answer = rules.solve(ballots, rule, unranked)
            proven &= answer.optimal
            ranks = answer.ranks
            # Scores fall with the rank, so that tied documents keep equal scores.
            lines += [f"{topic} Q0 {d} {i} {-ranks[d]} luce-{answer.rule}" for i, d in enumerate(answer.order, 1)]
            progress(number, len(topics), {})
    if out is not None:
        with atomic_write(out, "w") as stream:
            stream.write("\n".join(lines) + "\n")
    human = "\n".join(lines) if out is None else f"{len(lines)} lines for {len(topics)} topics written to {out}"
    report.result(human, {"topics": len(topics), "lines": len(lines), "rule": rule, "optimal": proven})


_MARGINS = [("Omega", "Omega"), ("omega", "omega"), ("omega1", "omega1"), ("iia", "IIA"), ("condorcet", "strong")]
_MARGINS += [("winner", "winner"), ("majority", "majority")]
_KEPT = ("pareto", "monotonic", "consistent")
_CLASSIC = ["borda", "plurality", "antiplurality", "log", "squared"]


class _Trying(Group):
    """Margins of a rule over all ballots, or the search for what it breaks; and what is written."""

    n: int | None = flag(None, "Number of items, for margins.", "-n", "--items")
    k: int | None = flag(None, "With -n, also the margin of being among the first k.", "-k", "--top")
    trials: int = flag(200, "Changed profiles to try for the axioms that need a search.")
    seed: SeedOption = 0
    out: Path | None = flag(None, "Write the result as JSON.", "--out", "-o")
    plot: Path | None = flag(None, "Write a heat map of the pairwise margins (with ballots).")


def axioms(
    *,
    context: typer.Context,
    ballots: Path | None = typer.Argument(None, help="Ballots to check; without them, margins of a rule."),
    rule: list[str] | None = typer.Option(
        None, "--rule", help="A rule (repeat for several): a name or a formula like 1/i."
    ),
    reading: _Reading,
    trying: _Trying,
    report: TableReport,
) -> None:
    """Say how far a voting rule is from each axiom, or what it breaks on given ballots.

    `luce axioms --rule borda -n 5` prints the margins a rule guarantees over all profiles; `luce axioms FILE --rule
    borda` checks one profile and gives a witness for every axiom broken.
    """
    n, k, out, plot = trying.n, trying.k, trying.out, trying.plot
    check_picture(plot)
    check_ending(out, (".json",))
    if ballots is None:
        if n is None:
            raise SettingError(
                "Give a file of ballots to check, or the number of items with -n for the margins of a rule."
            )
        of_ballots = ["plot", "unranked", "format", "trials", "seed"]
        check_unused(context, of_ballots, "is for a file of ballots, and margins are over all of them")
        human, machine = _margins(rule or _CLASSIC, n, k)
    else:
        if n is not None:
            raise SettingError("Both ballots and -n were given; the ballots fix the number of items, so leave -n out.")
        if k is not None:
            raise SettingError("-k asks for the margin of a rule over all ballots; give -n in place of a file.")
        human, machine = _profile(ballots, rule or ["borda"], reading, trying)
    if out is not None:
        _write_json(out, machine)
    report.result(human, machine)


def _margins(rules: list[str], n: int, k: int | None) -> tuple[Any, dict[str, Any]]:
    from luce.aggregate import axiom_margins

    found = [axiom_margins(rule, n, k) for rule in rules]
    columns = [*_MARGINS, *([] if k is None else [("top", f"first {k}")])]
    if all(m.Omega is None for m in found):
        columns = columns[3:]
    rows = [
        [m.rule, *(_number(getattr(m, name)) for name, _ in columns), *(_yes(getattr(m, name)) for name in _KEPT)]
        for m in found
    ]
    header = ["rule", *(heading for _, heading in columns), *_KEPT]
    title = f"n = {n}: least eps for which the relaxed axiom (strong: every pair; winner: of all pairs) holds "
    title += "beyond a share of 1/2 + eps"
    machine = [asdict(m) for m in found]
    return sheet_of(title, header, rows), {"n": n, "rules": machine}


def _number(value: float | None) -> str:
    return "" if value is None else "never" if value == float("inf") else f"{value:.4f}"


def _yes(value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"


def _profile(path: Path, rules: list[str], reading: _Reading, trying: _Trying) -> tuple[Any, dict[str, Any]]:
    from luce.aggregate import check_profile, read_ballots

    if trying.trials < 0:
        raise SettingError(f"--trials is {trying.trials}; it must be at least 0.")
    votes, unranked = read_ballots(path, reading.format), reading.unranked
    how: dict[str, Any] = {"unranked": unranked, "trials": trying.trials, "random_state": trying.seed}
    found = [check_profile(votes, rule, **how) for rule in rules]
    if trying.plot is not None:
        from luce.aggregate.plots import margin_heat_map

        finished(margin_heat_map(votes, found[0].consensus, unranked=unranked), trying.plot)
    text = [_facts(found[0])]
    for one in found:
        text.append(f"\n{one.consensus.rule}: {one.consensus}")
        for broken in one.violations:
            more = f" ({broken.count} such pairs)" if broken.count > 1 else ""
            text.append(f"  breaks {broken.axiom} by {broken.by:.4f}: {broken.witness}{more}")
        text.extend(f"  keeps {axiom}: {remark}" for axiom, remark in one.kept.items())
    return "\n".join(text), {
        "items": list(votes.items),
        "support": found[0].support.tolist(),
        "condorcet_winner": found[0].condorcet_winner,
        "majority_winner": found[0].majority_winner,
        "cycles": found[0].cycles,
        "rules": [
            {
                "rule": one.consensus.rule,
                "tiers": one.consensus.tiers,
                "violations": [asdict(violation) for violation in one.violations],
                "kept": one.kept,
            }
            for one in found
        ],
    }


def _facts(report: ProfileReport) -> str:
    lines = [
        f"Condorcet winner: {report.condorcet_winner or 'none'}",
        f"majority winner: {report.majority_winner or 'none'}",
    ]
    if report.cycles:
        lines += [f"cycle of majorities: {' > '.join([*cycle, cycle[0]])}" for cycle in report.cycles]
    else:
        lines.append("no cycle of majorities")
    return "\n".join(lines)
