"""`python -m tests.fuzz.ends --runs 50`: commands that fail while they read, again and again; none may end by a signal.

Files are some megabytes large, so that threads that read ahead are busy when the command gives up.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zstandard

ROWS = 150_000
LONGEST = 240.0
"""Seconds for one command."""
COMMANDS = {
    "CSV, no such column": "info plain.csv",
    "CSV, a cell too few": "info short.csv --qid q --label y",
    "CSV, text among numbers": "train mixed.csv --qid q --label y -o out.luce",
    "CSV, not UTF-8": "info bytes.csv --qid q --label y",
    "CSV, gzip, no such column": "info plain.csv.gz",
    "CSV, gzip, cut off": "info cut.csv.gz --qid q --label y",
    "CSV, bzip2": "info short.csv.bz2 --qid q --label y",
    "CSV, zstd": "info short.csv.zst --qid q --label y",
    "JSON lines, no such column": "info plain.jsonl",
    "JSON lines, damaged": "info broken.jsonl --qid q --label y",
    "JSON lines, gzip, damaged": "train broken.jsonl.gz --qid q --label y -o out.luce",
    "Parquet, no such column": "info plain.parquet",
    "Parquet, text as the label": "train text.parquet --qid q --label g -o out.luce",
    "Parquet, cut off": "info cut.parquet --qid q --label y",
    "LETOR, damaged": "train broken.txt -o out.luce",
    "LETOR, gzip, damaged": "info broken.txt.gz",
    "battles, an unknown outcome": "leaderboard battles.csv",
    "battles, no such column": "leaderboard plain.csv",
    "scores, no such file": "leaderboard absent.csv",
    "clicks, no such column": "clicks plain.csv -o out.lucedata",
    "clicks, JSON lines, damaged": "clicks broken.jsonl -o out.lucedata",
    "clicks, Parquet, no such column": "clicks plain.parquet -o out.lucedata",
    "predictions that do not fit": "evaluate plain.txt --scores short.csv",
}


def write_inputs(folder: Path, rows: int = ROWS) -> None:
    """Every file of the commands, damaged in its last third."""
    import pyarrow as pa
    from pyarrow import parquet

    header, place = b"q,y,f,g\n", 2 * rows // 3
    lines = [b"%d,%d,%d.5,0.25\n" % (i // 20, i % 3, i) for i in range(rows)]

    def damaged(line: bytes, of: list[bytes]) -> bytes:
        return b"".join([*of[:place], line, *of[place:]])

    records = [json.dumps({"q": i // 20, "y": i % 3, "f": i + 0.5}).encode() + b"\n" for i in range(rows)]
    letor = [b"%d qid:%d 1:%d.5 2:0.25\n" % (i % 3, i // 20, i) for i in range(rows)]
    battles = [b"p%d,p%d,%s\n" % (i % 7, 7 + i % 5, (b"a", b"b", b"tie")[i % 3]) for i in range(rows)]
    table = pa.table({"q": [i // 20 for i in range(rows)], "y": [i % 3 for i in range(rows)], "f": [0.5] * rows})
    parquet.write_table(table, folder / "plain.parquet")
    parquet.write_table(table.append_column("g", pa.array(["x"] * rows)), folder / "text.parquet")
    short = header + damaged(b"1,2\n", lines)
    contents = {
        "plain.csv": header + b"".join(lines),
        "short.csv": short,
        "mixed.csv": header + damaged(b"1,2,many,0.5\n", lines),
        "bytes.csv": header + damaged(b"1,2,\xff\xfe,0.5\n", lines),
        "plain.csv.gz": gzip.compress(header + b"".join(lines), 1),
        "cut.csv.gz": gzip.compress(header + b"".join(lines), 1)[: -(1 << 16)],
        "short.csv.bz2": bz2.compress(short, 1),
        "short.csv.zst": zstandard.compress(short),
        "plain.jsonl": b"".join(records),
        "broken.jsonl": damaged(b'{"q": 1, "y": \n', records),
        "broken.jsonl.gz": gzip.compress(damaged(b'{"q": 1, "y": \n', records), 1),
        "cut.parquet": (folder / "plain.parquet").read_bytes()[:-100],
        "plain.txt": b"".join(letor),
        "broken.txt": damaged(b"1 qid:x 1:2:3\n", letor),
        "broken.txt.gz": gzip.compress(damaged(b"1 qid:x 1:2:3\n", letor), 1),
        "battles.csv": b"a,b,outcome\n" + damaged(b"p1,p9,perhaps\n", battles),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def one(command: str, folder: Path) -> tuple[int, str]:
    """How it ended, and its last words."""
    run = [sys.executable, "-m", "luce", *COMMANDS[command].split()]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False)
    return done.returncode, done.stderr.strip()[-300:]


def main() -> None:
    """Run every command so often, and say which ended otherwise than with code 2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args()
    ended: dict[str, Counter[int]] = {}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.at_once) as pool:
        write_inputs(Path(name))
        for command in COMMANDS:
            found = list(pool.map(lambda _, command=command: one(command, Path(name)), range(options.runs)))
            ended[command] = Counter(code for code, _ in found)
            said = next((text for code, text in found if code != 2), found[0][1])
            print(f"{command}: {dict(ended[command])}  {said}", flush=True)
    wrong = sum(count for codes in ended.values() for code, count in codes.items() if code != 2)
    runs = sum(count for codes in ended.values() for count in codes.values())
    print(f"{runs} runs of {len(COMMANDS)} commands, {wrong} that did not end with code 2.")
    sys.exit(min(wrong, 100))


if __name__ == "__main__":
    main()
