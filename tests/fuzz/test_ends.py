"""Commands that fail while they read end with code 2; `python -m tests.fuzz.ends` tries all of them, often."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from pyarrow import csv

from luce.data.readers.loans import Loan
from tests.fuzz import ends


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ends")
    ends.write_inputs(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("CSV, no such column", 5),
        ("CSV, gzip, cut off", 1),
        ("JSON lines, damaged", 1),
        ("Parquet, no such column", 1),
        ("LETOR, gzip, damaged", 1),
        ("clicks, no such column", 1),
    ],
)
def test_no_command_ends_by_a_signal(command: str, runs: int, inputs: Path) -> None:
    for _ in range(runs):
        code, said = ends.one(command, inputs)
        assert code == 2, said


class Slow(io.BytesIO):
    """A stream that takes its time, and counts how often it is read."""

    times = 0

    def read(self, size: int | None = -1) -> bytes:
        self.times += 1
        time.sleep(0.01)
        return super().read(size)


ROWS = b"a,b\n" + b"1,2\n" * 400_000
SMALL = csv.ReadOptions(block_size=1 << 14)


def test_nothing_reads_a_stream_after_its_loan() -> None:
    stream = Slow(ROWS)
    with Loan(stream) as loan:
        rows = loan.open(csv.open_csv, read_options=SMALL)
        assert rows.schema.names == ["a", "b"]
        assert len(next(iter(rows))) > 0
    times = stream.times
    time.sleep(0.2)
    assert stream.times == times
    assert stream.tell() < len(ROWS)
    assert len(loan._returned) == len(loan._files) == 1


@pytest.mark.parametrize("make", [csv.open_csv, csv.read_csv])
def test_an_error_of_the_stream_does_not_keep_it(make) -> None:
    class Broken(Slow):
        def read(self, size: int | None = -1) -> bytes:
            if self.times > 2:
                raise ValueError("the stream is broken")
            return super().read(size)

    begun = time.monotonic()
    with pytest.raises(ValueError, match="the stream is broken"), Loan(Broken(ROWS)) as loan:  # noqa: PT012
        loan.read(make, read_options=SMALL)
        for _ in loan.open(make, read_options=SMALL):
            pass
    assert len(loan._returned) == len(loan._files)
    assert time.monotonic() - begun < 8.0
