"""Attack by coverage: atheris (libFuzzer) looks for inputs that take new paths through the readers.

Compiled kernels cannot be instrumented, so that the modules below are those which parse in Python. The corpus begins
with good files of `readers` and grows in a folder of its own; what raises a foreign error is kept as `__main__` does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import isclass, isfunction
from pathlib import Path
from typing import Any

__all__ = ["run_all"]

MODULES = (
    "luce.storage",
    "luce.aggregate.readers",
    "luce.data.trec",
    "luce.data.table",
    "luce.data.table_file",
    "luce.data.text_files",
    "luce.data.trec",
    "luce.data.order_files",
    "luce.data.text_files",
    "luce.data.readers.feature_log",
    "luce.serve.requests",
    "luce.track.files",
)


def run_all(names: list[str], minutes: float) -> int:
    """Every target that reads bytes, one process each; how many found something."""
    if find_spec("atheris") is None:
        sys.exit("atheris is not installed: `pip install atheris`, or leave --guided out.")
    names = [name for name in names if name.split()[0] in ("read", "request")]
    seconds = max(1, int(60 * minutes / len(names)))
    command = [sys.executable, "-m", "tests.fuzz.guided"]
    return min(
        100,
        sum(
            subprocess.run([*command, name, str(seconds)], check=False, timeout=seconds + 600).returncode != 0
            for name in names
        ),
    )


def _functions(module: Any) -> Iterator[Any]:
    """What is written in a module in Python: its functions and the methods of its classes."""
    for value in vars(module).values():
        inside = vars(value).values() if isclass(value) and value.__module__ == module.__name__ else [value]
        yield from (f for f in inside if isfunction(f) and f.__module__ == module.__name__)


def run(name: str, seconds: int) -> None:
    """One target, until the time is over or something is found."""
    import atheris

    from tests.fuzz import readers, requests
    from tests.fuzz.__main__ import _keep
    from tests.fuzz.targets import targets, tried

    for module in map(import_module, MODULES):
        for function in _functions(module):
            atheris.instrument_func(function)
    target, kind = targets()[name], name.partition(" ")[2]
    with tempfile.TemporaryDirectory() as folder:
        corpus, path = Path(folder) / "corpus", Path(folder) / f"input.{target.ending}"
        corpus.mkdir()
        if name.startswith("request"):
            (corpus / "good").write_bytes(requests.clean_body(kind))
        else:
            (corpus / "good").write_bytes(readers.clean(kind))

        def once(data: bytes) -> None:
            path.write_bytes(data)
            error = tried(target, path)
            if error is not None:
                _keep(name, path, repr(error))
                raise error

        options = [f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=3000", "-verbosity=0", str(corpus)]
        atheris.Setup([sys.argv[0], *options], once)
        atheris.Fuzz()


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]))
