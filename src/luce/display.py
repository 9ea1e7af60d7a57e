"""Pictures, and bars of progress in notebooks, terminals and logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luce.errors import needing
from luce.result import check_ending

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from luce.types import Progress

PICTURES = (".png", ".svg", ".pdf")
_SECONDS = 0.2
"""Least time between two views of a bar in a notebook."""


@cache
def _picture() -> type[Figure]:
    with needing("A picture", "plot"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that a notebook shows, whichever backend it has."""

        def _repr_png_(self) -> bytes:
            from io import BytesIO

            FigureCanvasAgg(self)
            stream = BytesIO()
            self.savefig(stream, format="png", dpi=100)
            return stream.getvalue()

    return Picture


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; it needs the extra `plot`."""
    return _picture()(figsize=(width, height), layout="constrained")


def check_picture(path: str | Path | None) -> None:
    """Refuse a path that no picture can be written to, before anything is drawn."""
    check_ending(path, PICTURES)
    if path is not None:
        _picture()  # what draws it may be missing, too


def finished(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, written to a path where one was given; without a date, so that it is the same file every time."""
    if path is not None:
        from luce.storage import atomic_write

        check_picture(path)
        kind = Path(path).suffix.lower().lstrip(".")
        metadata: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        with atomic_write(path) as stream:
            figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
    return figure


Interval = tuple[str, float, float, float]
"""A name, a value, and the ends of its interval."""


def plot_intervals(panels: Mapping[str, Sequence[Interval]], path: str | Path | None = None) -> Figure:
    """Values with their intervals, a row a name, which all panels have; a line at 0 where one reaches below it."""
    check_picture(path)
    names = [name if len(name) <= 30 else f"…{name[-29:]}" for name, *_ in next(iter(panels.values()))]
    figure = new_figure(0.5 + 0.08 * max(map(len, names)) + 2.4 * len(panels), 1.1 + 0.3 * len(names))
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, found) in zip(axes, panels.items(), strict=True):
        for i, (_, value, low, high) in enumerate(found):
            axis.plot([low, high], [i, i], lw=1.6, color="#1f5fa8")
            axis.plot([value], [i], "o", ms=5, color="#1f5fa8")
        if min(low for _, _, low, _ in found) <= 0.0:
            axis.axvline(0.0, lw=0.8, color="#777777")
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.locator_params(axis="x", nbins=4)
        axis.set_ylim(len(found) - 0.5, -0.5)
        axis.tick_params(axis="x", labelsize=8)
        axis.set_title(title, fontsize=9)
        axis.grid(axis="x", lw=0.4)
    return finished(figure, path)


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours.

    >>> duration(75.2), duration(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def progress_text(step: int, total: int | None, info: Mapping[str, float], seconds: float) -> str:
    """Round, values and the time left at most: a search may end before its last round.

    >>> progress_text(25, 100, {"ndcg@10": 0.51234}, 20.0)
    'round 25 of 100, ndcg@10 0.51234, at most 1:00 left'
    >>> progress_text(25, 100, {"seconds left": 75.0}, 20.0)  # what has a clock of its own counts in hundredths
    '25% done, about 1:15 left'
    """
    if total is not None and "seconds left" in info:
        return f"{step / total:.0%} done, about {duration(info['seconds left'])} left"
    parts = [f"round {step:,}" + ("" if total is None else f" of {total:,}")]
    parts += [f"{name} {value:.5g}" for name, value in info.items()]
    if total is not None and 0 < step < total:
        parts.append(f"at most {duration(seconds / step * (total - step))} left")
    return ", ".join(parts)


_COMPILING = "compiling"


@contextmanager
def progress_bar(title: str, names: Mapping[str, str] | None = None, *, last: bool = False) -> Iterator[Progress]:
    """Shows what a training tells, in a notebook, a terminal or, every ten seconds, as lines of a log.

    With `last` a log also has a line of the last round, so that it says something of the quickest training.
    `names` are other words for values, such as the name of the metric for "validation". While kernels are compiled, and
    only then, it says so.
    """
    words, since = dict(names or {}), time.monotonic()
    with _surface(title, last) as show, _watched_compiler(lambda: show(_COMPILING, None)) as compiler:

        def tell(step: int, total: int | None, info: Mapping[str, float]) -> None:
            chosen = ["validation"] if "validation" in info else list(info)
            said = {words.get(name, name): info[name] for name in chosen}
            # What compiling takes is no part of a round.
            text = progress_text(step, total, said, time.monotonic() - since - compiler.seconds)
            show(text, step / total if total else None)

        yield tell


@contextmanager
def _watched_compiler(begins: Callable[[], None]) -> Iterator[Any]:
    """Listens to Numba's compiler: how long it worked (`seconds`), and that it begins."""
    from numba.core import event

    class Compiler(event.Listener):
        seconds, depth, since = 0.0, 0, 0.0

        def on_start(self, event: Any) -> None:
            if self.depth == 0:
                self.since = time.monotonic()
                begins()
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.monotonic() - self.since

    compiler = Compiler()
    with event.install_listener("numba:compile", compiler):
        yield compiler


@contextmanager
def _surface(title: str, last: bool) -> Iterator[Callable[[str, float | None], None]]:
    """Where a line of progress goes, with the share that is done."""
    if _runs_in_notebook():
        yield _in_notebook(title)
    elif sys.stderr is None:  # a program without a terminal may have closed it
        yield lambda text, share: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(bar_width=12), TimeElapsedColumn(), TextColumn("{task.description}"))
        console = Console(stderr=True, highlight=False)
        console.print(f"{title} ...", markup=False)
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda text, share: bar.update(
                task, description=text, total=None if share is None else 1.0, completed=share or 0.0
            )
    else:
        unsaid: list[str] = []

        def say(text: str, share: float | None = None) -> None:
            unsaid.clear()
            print(f"{title}: {text}", file=sys.stderr, flush=True)

        tell = _every(10.0, say)

        def noted(text: str, share: float | None) -> None:
            unsaid[:] = [text] if text != _COMPILING else []
            tell(text, share)

        yield noted
        if last and unsaid:
            say(unsaid[0])


def _every(seconds: float, show: Callable[[str, float | None], None]) -> Callable[[str, float | None], None]:
    """Passes on what comes at most that often; the first after that time."""
    last = time.monotonic()

    def told(text: str, share: float | None) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            show(text, share)

    return told


def _runs_in_notebook() -> bool:
    """Whether a kernel runs this code; that somebody imported one is not enough."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def _in_notebook(title: str) -> Callable[[str, float | None], None]:
    """A bar of plain HTML that is drawn again in its place; no widget needs to be installed."""
    shown: Any = import_module("IPython.display")
    handle = shown.display(shown.HTML(""), display_id=True)

    def draw(text: str, share: float | None) -> None:
        value = "" if share is None else f' value="{share:.3f}"'
        handle.update(shown.HTML(f"<progress{value}></progress> {escape(title)}: {escape(text)}"))

    return _every(_SECONDS, draw)
