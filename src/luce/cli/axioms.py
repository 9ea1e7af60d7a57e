"""`luce axioms`: what a rule guarantees, or what it breaks on a profile of ballots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.aggregate import FormatOption, UnrankedOption
from luce.cli.common import Report, SeedOption, check_ending, check_outputs, check_unused, table
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.aggregate.profile_checks import ProfileReport

_MARGINS = [("Omega", "Omega"), ("omega", "omega"), ("omega1", "omega1"), ("iia", "IIA"), ("condorcet", "strong")]
_MARGINS += [("winner", "winner"), ("majority", "majority")]
_KEPT = ("pareto", "monotonic", "consistent")
_CLASSIC = ["borda", "plurality", "antiplurality", "log", "squared"]


def axioms(
    *,
    context: typer.Context,
    ballots: Path | None = typer.Argument(None, help="Ballots to check; without them, margins of a rule."),
    rule: list[str] | None = typer.Option(
        None, "--rule", help="A rule (repeat for several): a name or a formula like 1/i."
    ),
    n: int | None = typer.Option(None, "-n", "--items", help="Number of items, for margins."),
    k: int | None = typer.Option(None, "-k", "--top", help="With -n, also the margin of being among the first k."),
    unranked: UnrankedOption = "last",
    format: FormatOption = None,
    trials: int = typer.Option(200, help="Changed profiles to try for the axioms that need a search."),
    seed: SeedOption = 0,
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the result as JSON."),
    plot: Path | None = typer.Option(None, help="Write a heat map of the pairwise margins (with ballots)."),
    report: Report,
) -> None:
    """Say how far a voting rule is from each axiom, or what it breaks on given ballots.

    `luce axioms --rule borda -n 5` prints the margins a rule guarantees over all profiles; `luce axioms FILE --rule
    borda` checks one profile and gives a witness for every axiom broken.
    """
    check_outputs(out, plot)
    check_ending(plot, (".png", ".svg", ".pdf"))
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
        human, machine = _profile(ballots, rule or ["borda"], unranked, format, trials, seed, plot)
    if out is not None:
        import json

        from luce.storage import atomic_write

        with atomic_write(out, "w") as stream:
            json.dump(machine, stream)
    report.result(human, machine)


def _margins(rules: list[str], n: int, k: int | None) -> tuple[Any, dict[str, Any]]:
    from dataclasses import asdict

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
    machine = [{k: _finite(v) for k, v in asdict(m).items()} for m in found]
    return table(title, header, rows), {"n": n, "rules": machine}


def _number(value: float | None) -> str:
    return "" if value is None else "never" if value == float("inf") else f"{value:.4f}"


def _finite(value: Any) -> Any:
    return None if value == float("inf") else value


def _yes(value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"


def _profile(
    path: Path, rules: list[str], unranked: str, format: str | None, trials: int, seed: int, plot: Path | None
) -> tuple[Any, dict[str, Any]]:
    from luce.aggregate import check_profile, read_ballots

    if trials < 0:
        raise SettingError(f"--trials is {trials}; it must be at least 0.")
    votes = read_ballots(path, format)
    found = [check_profile(votes, rule, unranked=unranked, trials=trials, random_state=seed) for rule in rules]
    if plot is not None:
        from luce.aggregate.plots import margin_heat_map
        from luce.display import finished

        finished(margin_heat_map(votes, found[0].consensus, unranked=unranked), plot)
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
        "rules": [_machine(one) for one in found],
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


def _machine(report: ProfileReport) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "rule": report.consensus.rule,
        "tiers": report.consensus.tiers,
        "violations": [asdict(violation) for violation in report.violations],
        "kept": report.kept,
    }
