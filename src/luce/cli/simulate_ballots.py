"""`luce simulate ballots`: rankings from a Mallows model or a mixture of them."""

from __future__ import annotations

from pathlib import Path

import typer

from luce.cli.common import Report, SeedOption, check_ending
from luce.errors import SettingError


def ballots(
    *,
    out: Path = typer.Option(..., "--out", "-o", help="Where to write: .soc (PrefLib), .soi for top-k lists, or .txt."),
    size: int = typer.Option(1000, "-m", "--ballots", help="Number of ballots."),
    centre: list[str] | None = typer.Option(
        None, help="A centre such as 'A > B > C'; repeat for a mixture. Default: 1 > 2 > ..."
    ),
    n: int = typer.Option(5, "-n", "--items", help="Number of items where no centre is given."),
    phi: list[float] | None = typer.Option(None, help="Spread in (0, 1], small is concentrated; one, or one a centre."),
    weight: list[float] | None = typer.Option(None, help="Weights of a mixture, one a centre."),
    top: int | None = typer.Option(None, help="Keep only the first places of each ballot."),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Sample ballots around one or several centres, by Kendall's distance."""
    import numpy as np

    from luce.aggregate import Ballots, Mallows, MallowsMixture, write_ballots
    from luce.storage import check_output

    check_ending(check_output(out), (".soc", ".soi", ".toc", ".toi", ".txt"))
    if size < 1 or n < 1:
        raise SettingError(f"--ballots is {size} and --items is {n}; both must be at least 1.")
    centres = [[name.strip() for name in text.split(">")] for text in centre or []]
    centres = centres or [[str(i + 1) for i in range(n)]]
    spreads = _one_each("--phi", phi or [0.8], len(centres))
    weights = np.array(_one_each("--weight", weight or [1.0], len(centres)))
    if not (weights > 0).all():
        raise SettingError("Every --weight must be above 0.")
    components = tuple(Mallows(tuple(c), p) for c, p in zip(centres, spreads, strict=True))
    mixture = MallowsMixture(weights / weights.sum(), components)
    votes = mixture.ballots(size, np.random.default_rng(seed))
    if top is not None:
        if not 1 <= top <= votes.n_items:
            raise SettingError(f"--top is {top}; it must be between 1 and {votes.n_items}, the number of items.")
        votes = Ballots(votes.items, np.where(votes.tiers < top, votes.tiers, -1), votes.weights)
    write_ballots(votes, out)
    report.result(f"{votes!r} written to {out}", {"out": out, "ballots": size, "items": votes.n_items, "seed": seed})


def _one_each(option: str, values: list[float], count: int) -> list[float]:
    if len(values) not in (1, count):
        raise SettingError(
            f"{option} was given {len(values)} times for {count} centres; give it once, or once a centre."
        )
    return values * count if len(values) == 1 else values
