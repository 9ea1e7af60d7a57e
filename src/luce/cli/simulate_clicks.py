"""`luce simulate clicks`: a click log for judged documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from luce.cli.common import Report, SeedOption
from luce.cli.data_options import JudgedReading

if TYPE_CHECKING:
    import numpy as np

    from luce.data.groups import Groups
    from luce.types import FloatArray


def simulate_clicks(
    *,
    data: Path = typer.Argument(..., help="Judged documents with document ids, in any format that luce reads."),
    out: Path = typer.Option(..., "--out", "-o", help="The log, .csv or .parquet; .lucedata writes its counts."),
    sessions: int | None = typer.Option(
        None, "--sessions", help="Sessions, over all queries (default: --impressions a query)."
    ),
    impressions: int | None = typer.Option(
        None, "--impressions", help="Sessions of a query in the mean (default: 20)."
    ),
    shown: int = typer.Option(10, "--shown", help="Documents that a session shows."),
    ranker: list[Path] | None = typer.Option(
        None, "--ranker", help="A model that ranks what is shown; several take turns (default: two weak ones)."
    ),
    weak_share: float | None = typer.Option(
        None, "--weak-share", help="Share of the queries that the weak rankers learn from (default: 0.05)."
    ),
    swap: float = typer.Option(0.1, "--swap", help="Probability that a pair of neighbours is swapped."),
    users: str = typer.Option("position", "--users", help="position, trust or cascade."),
    eta: float = typer.Option(1.0, "--eta", help="Examination of position k is k^-eta."),
    noise: float = typer.Option(0.1, "--noise", help="Attraction of the lowest grade, 0 to 1."),
    seed: SeedOption = 0,
    reading: JudgedReading,
    report: Report,
) -> None:
    """Simulate a click log (query, session, position, document, clicked) for judged documents."""
    import numpy as np

    import luce
    from luce.clicks.log_files import check_log_output, write_log
    from luce.clicks.simulation import production, simulate_counts, simulate_sessions
    from luce.clicks.users import Users, attraction
    from luce.data.named_rows import NO_IDS
    from luce.errors import DataError, SettingError

    check_log_output(out)
    people = Users(users, eta)
    for name, number in (("sessions", sessions), ("impressions", impressions)):
        if number is not None and number < 1:
            raise SettingError(f"{name} is {number}; it must be at least 1.")
    if sessions is not None and impressions is not None:
        raise SettingError("--sessions and --impressions were given; give one of them.")
    if ranker and weak_share is not None:
        raise SettingError("--weak-share is for the weak rankers, which --ranker replaces; give one of them.")
    attraction(np.zeros(1), noise)
    groups = luce.read(data, **reading.given())
    if groups.document_ids is None:
        raise DataError(NO_IDS)
    rng = np.random.default_rng(seed)
    made = production(
        groups, _rankers(groups, ranker, 0.05 if weak_share is None else weak_share, rng), shown=shown, swap=swap
    )
    total = groups.n_queries * (impressions or 20) if sessions is None else sessions
    if out.suffix == ".lucedata":
        counts = simulate_counts(groups, made, rng, sessions=total, users=people, noise=noise)
        counts.save(out)
        rows, clicks = int(counts.shown.sum()), int(counts.clicked.sum())
    else:
        log = simulate_sessions(groups, made, rng, sessions=total, users=people, noise=noise)
        write_log(log, groups, out)
        rows, clicks = len(log.row), int(log.clicked.sum())
    facts = {
        "file": str(out),
        "seed": seed,
        "queries": groups.n_queries,
        "sessions": total,
        "rows": rows,
        "clicks": clicks,
        "theta": people.theta(np.arange(1.0, shown + 1)).tolist(),
    }
    report.result(f"{out}: {total:,} sessions of {groups.n_queries:,} queries, {clicks:,} clicks", facts)


def _rankers(
    data: Groups, models: list[Path] | None, share: float | None, rng: np.random.Generator
) -> list[FloatArray]:
    """Scores of the rankers that were given, or of weak ones."""
    from luce.clicks.simulation import weak_rankers
    from luce.model_file import load

    if not models:
        return weak_rankers(data, rng) if share is None else weak_rankers(data, rng, share=share)
    return [load(path).predict(data) for path in models]
