"""`luce simulate`: data to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from luce.cli.common import Report, SeedOption, check_unused, refuse_two
from luce.cli.data_options import JudgedReading, size_of
from luce.cli.options import OUTPUTS, Commands, Group, Sectioned, flag, prepared
from luce.errors import SettingError
from luce.result import check_ending

_LETOR_NAMES = ("train.txt", "vali.txt", "test.txt")


class _Collection(Group):
    """The collection."""

    queries: int = flag(1000, "Number of queries, all parts together.")
    features: int = flag(46, "Number of features.")
    grades: int = flag(5, "Number of labels, from 0 up.")
    noise: float = flag(0.5, "Standard deviation of the judge's noise.")


def simulate_data(
    *,
    out: Path = typer.Option(
        ..., "--out", "-o", help="File (.txt, .txt.gz, .parquet, .lucedata), or a folder for all three parts."
    ),
    drawn: _Collection,
    valid: Path | None = typer.Option(None, "--valid", help="Write a validation part to this file."),
    test: Path | None = typer.Option(None, "--test", help="Write a test part to this file."),
    split: str = typer.Option("0.6,0.2,0.2", "--split", help="Shares of training, validation and test."),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Simulate a judged collection: graded labels full of ties, nonlinear truth, useless and heavy-tailed features."""
    from luce.data import simulate as simulator
    from luce.data.writers import check_data_output, write
    from luce.storage import check_output, make_folder

    as_folder = out.is_dir() or str(out).endswith("/") or out.suffix == ""
    paths, shares = _parts(out, valid, test, _shares(split), as_folder)
    if as_folder and not out.is_dir():
        check_output(out)
    else:
        for path in paths:
            check_data_output(path)
    data = simulator.simulate(**vars(drawn), seed=seed)
    parts = simulator.split(data, shares, seed) if len(paths) > 1 else [data]
    if as_folder:
        make_folder(out)
    for path, part in zip(paths, parts, strict=True):
        write(part, path)
    lines, files = zip(*map(size_of, paths, parts), strict=True)
    report.result("\n".join(lines), {"seed": seed, "files": files})


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) != 3 or not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise SettingError(f"--split is {text!r}; give three shares that sum to 1, such as 0.6,0.2,0.2.")
    return shares


def _parts(
    out: Path, valid: Path | None, test: Path | None, shares: list[float], as_folder: bool
) -> tuple[list[Path], list[float]]:
    """The files to write, and the share of each."""
    if as_folder:
        if valid is not None or test is not None:
            raise SettingError(f"{out} is a folder and takes all three parts; leave --valid and --test out.")
        return [out / name for name in _LETOR_NAMES], shares
    wanted = [(path, share) for path, share in zip((out, valid, test), shares, strict=True) if path is not None]
    total = sum(share for _, share in wanted)
    return [path for path, _ in wanted], [share / total for _, share in wanted]


class _Spread(Group):
    """The model of the ballots."""

    size: int = flag(1000, "Number of ballots.", "-m", "--ballots")
    centre: list[str] | None = flag(None, "A centre such as 'A > B > C'; repeat for a mixture. Default: 1 > 2 > ...")
    n: int = flag(5, "Number of items where no centre is given.", "-n", "--items")
    phi: list[float] | None = flag(None, "Spread in (0, 1], small is concentrated; one, or one a centre.")
    weight: list[float] | None = flag(None, "Weights of a mixture, one a centre.")
    top: int | None = flag(None, "Keep only the first places of each ballot.")


def ballots(
    *,
    out: Path = typer.Option(..., "--out", "-o", help="Where to write: .soc (PrefLib), .soi for top-k lists, or .txt."),
    given: _Spread,
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Sample ballots around one or several centres, by Kendall's distance."""
    import numpy as np

    from luce.aggregate import Ballots, Mallows, MallowsMixture, write_ballots

    check_ending(out, (".soc", ".soi", ".toc", ".toi", ".txt"))
    if given.size < 1 or given.n < 1:
        raise SettingError(f"--ballots is {given.size} and --items is {given.n}; both must be at least 1.")
    centres = [[name.strip() for name in text.split(">")] for text in given.centre or []]
    centres = centres or [[str(i + 1) for i in range(given.n)]]
    spreads = _one_each("--phi", given.phi or [0.8], len(centres))
    weights = np.array(_one_each("--weight", given.weight or [1.0], len(centres)))
    if not (weights > 0).all():
        raise SettingError("Every --weight must be above 0.")
    components = tuple(Mallows(tuple(c), p) for c, p in zip(centres, spreads, strict=True))
    mixture = MallowsMixture(weights / weights.sum(), components)
    votes = mixture.ballots(given.size, np.random.default_rng(seed))
    if given.top is not None:
        if not 1 <= given.top <= votes.n_items:
            raise SettingError(f"--top is {given.top}; it must be between 1 and {votes.n_items}, the number of items.")
        votes = Ballots(votes.items, np.where(votes.tiers < given.top, votes.tiers, -1), votes.weights)
    write_ballots(votes, out)
    report.result(
        f"{votes!r} written to {out}", {"out": out, "ballots": given.size, "items": votes.n_items, "seed": seed}
    )


def _one_each(option: str, values: list[float], count: int) -> list[float]:
    if len(values) not in (1, count):
        raise SettingError(
            f"{option} was given {len(values)} times for {count} centres; give it once, or once a centre."
        )
    return values * count if len(values) == 1 else values


class _Contest(Group):
    """The contest."""

    strength: int = flag(20, "Number of players.", "--players")
    n_battles: int = flag(10_000, "Number of battles.", "--battles")
    model: str = flag("davidson", "davidson, rao_kupper, thurstone_mosteller or bradley_terry (no draws).")
    tie: float | None = flag(None, "Tie parameter: nu, theta or epsilon.")
    side: float = flag(0.0, "Advantage of being a.")
    spread: float = flag(1.0, "Standard deviation of the strengths.")


def battles(
    *,
    out: Path = typer.Option(..., "--out", "-o", help="Where to write the battles: .csv .jsonl .parquet"),
    given: _Contest,
    lmsys: bool = typer.Option(False, "--lmsys", help="Columns model_a, model_b, winner."),
    truth: Path | None = typer.Option(None, help="Write the true strengths too: .csv"),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Write simulated battles of players with known strengths."""
    from luce.aggregate.board.simulated_battles import ENDINGS, simulate_battles

    check_ending(out, ENDINGS)
    check_ending(truth, (".csv",))
    if given.strength < 2:
        raise SettingError(f"The number of players is {given.strength}; it must be at least 2.")
    drawn = simulate_battles(**vars(given), random_state=seed)
    drawn.write(out, lmsys=lmsys)
    if truth is not None:
        drawn.write_truth(truth)
    facts = {"out": str(out), "battles": given.n_battles, "players": given.strength}
    facts |= {"model": given.model, "tie": drawn.tie, "side": given.side}
    report.result(f"{given.n_battles:,} battles of {given.strength} players in {out}", facts)


class _Sessions(Group):
    """Sessions and users."""

    sessions: int | None = flag(None, "Sessions, over all queries (default: --impressions a query).")
    impressions: int | None = flag(None, "Sessions of a query in the mean (default: 20).")
    shown: int = flag(10, "Documents that a session shows.")
    ranker: list[Path] | None = flag(
        None, "A model that ranks what is shown; several take turns (default: two weak ones)."
    )
    weak_share: float | None = flag(None, "Share of the queries that the weak rankers learn from (default: 0.05).")
    swap: float = flag(0.1, "Probability that a pair of neighbours is swapped.")
    users: str = flag("position", "position, trust or cascade.")
    eta: float = flag(1.0, "Examination of position k is k^-eta.")
    noise: float = flag(0.1, "Attraction of the lowest grade, 0 to 1.")


def simulate_clicks(
    *,
    data: Path = typer.Argument(..., help="Judged documents with document ids, in any format that luce reads."),
    out: Path = typer.Option(..., "--out", "-o", help="The log, .csv or .parquet; .lucedata writes its counts."),
    given: _Sessions,
    seed: SeedOption = 0,
    reading: JudgedReading,
    report: Report,
) -> None:
    """Simulate a click log (query, session, position, document, clicked) for judged documents."""
    import numpy as np

    import luce
    from luce.clicks import simulation
    from luce.data.named_rows import NO_IDS
    from luce.errors import DataError, SettingError
    from luce.model_file import load

    check_ending(out, simulation.ENDINGS)
    people = simulation.Users(given.users, given.eta)
    for name, number in (("sessions", given.sessions), ("impressions", given.impressions)):
        if number is not None and number < 1:
            raise SettingError(f"{name} is {number}; it must be at least 1.")
    refuse_two("sessions", given.sessions, {"impressions": given.impressions})
    if given.ranker and given.weak_share is not None:
        raise SettingError("--weak-share is for the weak rankers, which --ranker replaces; give one of them.")
    simulation.attraction(np.zeros(1), given.noise)
    groups = luce.read(data, **reading.given())
    if groups.document_ids is None:
        raise DataError(NO_IDS)
    rng = np.random.default_rng(seed)
    if given.ranker:
        shown_by = [load(path).predict(groups) for path in given.ranker]
    else:
        shown_by = simulation.weak_rankers(groups, rng, share=0.05 if given.weak_share is None else given.weak_share)
    made = simulation.production(groups, shown_by, shown=given.shown, swap=given.swap)
    total = groups.n_queries * (given.impressions or 20) if given.sessions is None else given.sessions
    how: dict[str, Any] = {"sessions": total, "users": people, "noise": given.noise}
    if out.suffix.lower() == ".lucedata":
        counts = simulation.simulate_counts(groups, made, rng, **how)
        counts.save(out)
        rows, clicks = int(counts.shown.sum()), int(counts.clicked.sum())
    else:
        log = simulation.simulate_sessions(groups, made, rng, **how)
        simulation.write_log(log, groups, out)
        rows, clicks = len(log.row), int(log.clicked.sum())
    facts = {
        "file": str(out),
        "seed": seed,
        "queries": groups.n_queries,
        "sessions": total,
        "rows": rows,
        "clicks": clicks,
        "theta": people.theta(np.arange(1.0, given.shown + 1)).tolist(),
    }
    report.result(f"{out}: {total:,} sessions of {groups.n_queries:,} queries, {clicks:,} clicks", facts)


class _World(Group):
    """What is simulated."""

    path: str = flag("straight", "straight, spiral, walk or ocean.")
    steps: int = flag(100, "Number of steps (days for ocean).")
    sources: int = flag(10, "Number of sources (ocean has twelve).")
    r: int = flag(4, "Signals that the receiver keeps a step, the earliest.")
    sigma: float | None = flag(None, "Standard deviation of an arrival time.")
    detection: float | None = flag(None, "P_D, probability of hearing a source.")
    clutter_rate: float = flag(1.0, "Mean number of clutter signals a step.")
    step_sd: float | None = flag(None, "Noise of a step of walk and ocean.")


def simulate_track(
    *,
    context: typer.Context,
    out: Path = typer.Option(..., "--out", "-o", help="Folder for sources.csv, signals.csv and truth.csv."),
    world: _World,
    labels: bool = typer.Option(False, "--labels", help="Write the true labels into signals.csv."),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Simulate a target among sources, with misses and clutter, and write what its receiver kept."""
    from luce.storage import make_folder
    from luce.track import simulate, write_signals, write_sources
    from luce.track.files import date_text, write_rows

    if world.path == "ocean":
        check_unused(context, ["sources"], "has no use for the path ocean, which has twelve sources")
    elif world.path in ("straight", "spiral"):
        check_unused(context, ["step_sd"], f"is the noise of walk and ocean, and the path is {world.path}")
    drawn = simulate(**vars(world), random_state=seed)
    make_folder(out)
    write_sources(drawn.sources, out / "sources.csv")
    write_signals(drawn.signals, out / "signals.csv", labels=labels)
    dated = drawn.signals.dated
    times = [date_text(t) if dated else repr(float(t)) for t in drawn.signals.times]
    axes = drawn.sources.geometry.axes
    write_rows(
        out / "truth.csv",
        {"time": times} | {axis: [repr(float(value)) for value in drawn.truth[:, a]] for a, axis in enumerate(axes)},
    )
    start = ",".join(f"{value:.6g}" for value in drawn.start)
    low, high = drawn.settings["window"]
    fixed = drawn.settings["detection"]
    p_d = 0.9 if callable(fixed) else fixed
    # The walk of the model has the noise of its own steps; a line needs room for its steps, three times over.
    hint = (
        f"luce track --sources {out / 'sources.csv'} --signals {out / 'signals.csv'} --start={start} "
        f"--sigma {drawn.settings['sigma']:g} --speed {drawn.settings['speed']:g} --detection {p_d:g} "
        f"--clutter-rate {world.clutter_rate:g} --window {low:g},{high:g} --r {world.r} --step-sd auto --out track.csv"
    )
    report.result(
        f"{world.steps} steps, {len(drawn.signals.arrivals)} signals of {len(drawn.sources)} sources in {out}\n"
        f"try: {hint}",
        {
            "steps": world.steps,
            "signals": len(drawn.signals.arrivals),
            "sources": len(drawn.sources),
            "start": [float(value) for value in drawn.start],
            "files": [str(out / name) for name in ("sources.csv", "signals.csv", "truth.csv")],
        },
    )


simulate = typer.Typer(
    name="simulate", help="Simulate data to try things on.", no_args_is_help=True, cls=Commands, rich_markup_mode=None
)
_COMMANDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "ballots": (ballots, OUTPUTS),
    "battles": (battles, ("out", "truth")),
    "clicks": (simulate_clicks, OUTPUTS),
    "data": (simulate_data, ("out", "valid", "test")),
    "track": (simulate_track, OUTPUTS),
}
for _name, (_command, _outputs) in _COMMANDS.items():
    simulate.command(_name, cls=Sectioned)(prepared(_command, _outputs))
