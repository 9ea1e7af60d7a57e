"""`luce simulate data`: a judged collection to try things on."""

from __future__ import annotations

from pathlib import Path

import typer

from luce.cli.common import Report, SeedOption
from luce.errors import SettingError

_LETOR_NAMES = ("train.txt", "vali.txt", "test.txt")


def simulate_data(
    *,
    out: Path = typer.Option(
        ..., "--out", "-o", help="File (.txt, .txt.gz, .parquet, .lucedata), or a folder for all three parts."
    ),
    queries: int = typer.Option(1000, "--queries", help="Number of queries, all parts together."),
    features: int = typer.Option(46, "--features", help="Number of features."),
    grades: int = typer.Option(5, "--grades", help="Number of labels, from 0 up."),
    noise: float = typer.Option(0.5, "--noise", help="Standard deviation of the judge's noise."),
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
    data = simulator.simulate(queries, features, grades=grades, noise=noise, seed=seed)
    parts = simulator.split(data, shares, seed) if len(paths) > 1 else [data]
    if as_folder:
        make_folder(out)
    for path, part in zip(paths, parts, strict=True):
        write(part, path)
    files = [
        {"file": str(path), "queries": part.n_queries, "documents": part.n_rows, "features": part.n_features}
        for path, part in zip(paths, parts, strict=True)
    ]
    lines = [
        f"{f['file']}: {f['queries']} queries, {f['documents']} documents, {f['features']} features" for f in files
    ]
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
