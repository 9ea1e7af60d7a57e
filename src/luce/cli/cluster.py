"""What the commands share that work on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.cli.common import Report
    from luce.distributed import Dataset

DaskOption = Annotated[
    str | None,
    typer.Option("--dask", help="Work on the Dask cluster at this address, or 'local' for processes of this machine."),
]


def one_file(files: list[str]) -> Path:
    """The one file that work on one machine takes."""
    if len(files) > 1:
        raise SettingError(f"{len(files)} files were given; give one, or --dask local for all of them.")
    return Path(files[0])


@contextmanager
def on_cluster(
    address: str, files: list[str], options: dict[str, Any], features: tuple[str, ...] | None, report: Report
) -> Iterator[Dataset]:
    """Files as a data set on a cluster, for as long as the block lasts; says what it found."""
    from luce.distributed import connect, open_dataset

    if options.get("query_file") is not None and len(files) > 1:
        raise SettingError("--query-file goes with one file; name them FILE.query beside the files instead.")
    if address != "local":
        report.say(f"Looking for the Dask scheduler at {address} ...")
    with connect(address) as client:
        report.say(f"Reading {', '.join(files[:3])}{', ...' if len(files) > 3 else ''} on the cluster ...")
        dataset = open_dataset(client, files, features, **options)
        outline, repaired = dataset.layout.outline, dataset.layout.repaired
        report.say(
            f"{len(dataset.layout.files):,} files, {dataset.n_queries:,} queries, {outline.n_rows:,} documents, "
            f"{outline.n_features:,} features."
        )
        if repaired:
            report.say(
                f"{len(repaired):,} queries go from one file into the next ({', '.join(map(str, repaired[:3]))}"
                f"{', ...' if len(repaired) > 3 else ''}); each was made whole in one partition."
            )
        yield dataset
