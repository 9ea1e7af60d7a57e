"""`luce simulate clicks`: a click log for judged documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import JsonFlag, QuietFlag, Report, SeedOption

__all__ = ["simulate_clicks"]


def simulate_clicks(
    data: Annotated[Path, typer.Argument(help="Judged documents with document ids, in any format that luce reads.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The log to write, .csv or .parquet.")],
    impressions: Annotated[int, typer.Option("--impressions", help="Impressions of every query.")] = 20,
    shown: Annotated[int, typer.Option("--shown", help="Documents that an impression shows.")] = 10,
    noise: Annotated[float, typer.Option("--noise", help="Probability of a click against the grade, 0 to 0.5.")] = 0.1,
    persistence: Annotated[
        float, typer.Option("--persistence", help="Probability to go on from one position to the next.")
    ] = 0.85,
    seed: SeedOption = 0,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Simulate a click log (query, impression, position, document, clicked) for judged documents."""
    import numpy as np

    import luce
    from luce.data import clicks

    report = Report(as_json=as_json, quiet=quiet)
    clicks.check_log_output(out)
    groups = luce.read(data)
    log = clicks.simulate_clicks(
        groups,
        np.random.default_rng(seed),
        impressions=impressions,
        shown=shown,
        noise=noise,
        persistence=persistence,
    )
    clicks.write_log(log, groups, out)
    facts = {
        "file": str(out),
        "seed": seed,
        "queries": groups.n_queries,
        "impressions": groups.n_queries * impressions,
        "rows": len(log.row),
        "clicks": int(log.clicked.sum()),
    }
    report.result(
        f"{out}: {facts['impressions']} impressions of {facts['queries']} queries, {facts['clicks']} clicks", facts
    )
