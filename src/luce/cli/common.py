"""What the commands share: where results go and how long work shows that it lives."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce import result as forms
from luce.cli.options import Group, flag
from luce.errors import SettingError

if TYPE_CHECKING:
    from rich.console import Console

    from luce.types import Progress


INTERRUPTED = 130
"""What a shell gives for a command that Ctrl-C ended."""


@contextmanager
def interruptible(report: Report, progress: Progress, stopped: list[int]) -> Iterator[Progress]:
    """Ctrl-C asks for the end of the training in the block, whose last round is then in `stopped`.

    The model of the rounds so far can be kept, unless there are none or Ctrl-C is pressed again.
    """
    rounds = 0

    def tell(step: int, total: int | None, info: Mapping[str, float]) -> bool:
        nonlocal rounds
        rounds = step
        progress(step, total, info)
        stopped[:] = [step] if stopped else []
        return bool(stopped)

    def handle(number: int, frame: Any) -> None:
        if stopped or not rounds:
            raise KeyboardInterrupt
        stopped.append(rounds)
        report.say("Ending after this round to keep what there is; Ctrl-C again gives it up.")

    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as a shell's background jobs are
    if deaf or threading.current_thread() is not threading.main_thread():  # only that one hears signals
        yield tell
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield tell
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted(report: Report, option: str, kept: str | None) -> typer.Exit:
    """Say what Ctrl-C left and how to go on; `kept` says what there is and where, `option` what would have kept it."""
    lost = f"Nothing was kept: with {option} FOLDER, the same command goes on from where it was."
    report.say(f"Interrupted. {lost if kept is None else f'{kept}: the same command goes on from there.'}")
    return typer.Exit(INTERRUPTED)


JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the result.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]


@dataclass
class Report:
    """What is printed: results to standard output, progress and remarks to standard error."""

    as_json: JsonFlag = False
    quiet: QuietFlag = False

    def __post_init__(self) -> None:
        self.quiet = self.quiet or self.as_json

    @cached_property
    def stderr(self) -> Console:
        """A console for progress and remarks."""
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    @property
    def form(self) -> Callable[[forms.Sheet], str] | None:
        """What makes text of a table; None: a table for the terminal."""
        return None

    def say(self, text: str) -> None:
        """A remark for a person."""
        if not self.quiet:
            self.stderr.print(forms.seen_lines(text), markup=False, soft_wrap=True)

    def wrote(self, *paths: Path) -> None:
        """Say which files were written."""
        for path in paths:
            self.say(f"Wrote {path}.")

    def result(
        self, human: str | forms.Sheet | Sequence[forms.Sheet | str] | forms.Result, machine: Any = None
    ) -> None:
        """The result: a text or tables for a person, JSON for a machine, which is the result's own unless given."""
        if self.as_json:
            print(forms.json_text(human.as_dict() if machine is None and isinstance(human, forms.Result) else machine))
            return
        if isinstance(human, forms.Result):
            human = human.sheets()
        for one in [human] if isinstance(human, str | forms.Sheet) else human:
            if isinstance(one, str):
                print(forms.seen_lines(one))
            elif self.form is not None:
                print(self.form(one))
            else:
                from rich.console import Console

                Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(forms.for_terminal(one))

    def show(
        self, result: forms.Result, machine: Any = None, *, top: int | None = None, more: Sequence[forms.Sheet] = ()
    ) -> None:
        """A result with all that it says of itself: its tables, its first `top` rows, lines and notes."""
        sheets = [*(sheet.cut(top) for sheet in result.sheets()), *(sheet.cut(top) for sheet in more)]
        self.result(sheets, result.as_dict() if machine is None else machine)
        left = len(result.sheets()[0].rows) - len(sheets[0].rows)
        for line in (*result.lines, *([f"{left} more items are not shown."] if left else [])):
            self.say(line)
        for note in result.notes:
            self.say(f"Note: {note}")

    @contextmanager
    def progress(self, title: str, names: Mapping[str, str] | None = None) -> Iterator[Progress]:
        """Progress of long work: call what this yields with (step, total, info); `names` are other words for values."""
        if self.quiet:
            yield lambda step, total, info: None
            return
        from luce.display import progress_bar

        with progress_bar(forms.seen(title), names) as bar:
            yield bar


@dataclass
class TableReport(Report):
    """What is printed: results to standard output, as tables of a document where asked for."""

    latex: Annotated[bool, typer.Option("--latex", help="Print the tables as LaTeX.")] = False
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")] = False

    def __post_init__(self) -> None:
        refuse_two("json", self.as_json, {"latex": self.latex, "markdown": self.markdown})
        refuse_two("latex", self.latex, {"markdown": self.markdown})
        super().__post_init__()

    @property
    def form(self) -> Callable[[forms.Sheet], str] | None:
        """What makes text of a table."""
        return forms.latex_table if self.latex else forms.markdown_table if self.markdown else None


def settings_from(pairs: list[str] | None) -> dict[str, Any]:
    """Settings given as name=value; numbers, lists of numbers, true, false and none are told from names by their looks.

    >>> settings_from(["theta=2.5", "ties=false", "name=stable", "hidden=64,32"])
    {'theta': 2.5, 'ties': False, 'name': 'stable', 'hidden': [64, 32]}
    """
    settings: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals:
            raise SettingError(f"The setting {pair!r} must have the form name=value, as in ties=stable.")
        key = name.strip().lower().replace("-", "_")
        if key in settings:
            raise SettingError(f"The setting {key!r} was given twice; give it once.")
        settings[key] = typed_value(text.strip())
    return settings


def number_from(option: str, text: str, other: str = "") -> float:
    """A number that an option was given as text, which may be something else as well.

    >>> number_from("--speed", "fast", " or auto")
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: --speed is 'fast'; it must be a number or auto.
    """
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{option} is {text!r}; it must be a number{other}.") from None


def listed(text: str) -> list[str]:
    """Names that were written with commas between.

    >>> listed("map, mrr,")
    ['map', 'mrr']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def typed_value(text: str) -> Any:
    """A value as a setting has it: a number, true, false, none, numbers with commas between, or else a text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    parts = [typed_value(part) for part in listed(text)] if "," in text else []
    return parts if parts and all(type(part) in (int, float) for part in parts) else text


def check_outputs(*paths: Path | None) -> None:
    """Fail before long work, not after it: refuse outputs that cannot be written."""
    from luce.storage import check_output

    for path in paths:
        if path is not None:
            check_output(path)


def check_unused(context: typer.Context, unused: Iterable[Any], why: str, *, kept: Collection[str] = ()) -> None:
    """Refuse options that were typed although this kind of run has no use for them.

    They are named by parameter or by group, of which some may be `kept`; of a group, what is typed as it is without
    the option does no harm.
    """
    named = {one for one in unused if isinstance(one, str)}
    grouped = {name for one in unused if not isinstance(one, str) for name in one.__dataclass_fields__}
    for parameter in context.command.params:
        name, source = parameter.name or "", context.get_parameter_source(parameter.name or "")
        typed = source is not None and source.name == "COMMANDLINE" and name not in kept
        if typed and (name in named or (name in grouped and context.params[name] != parameter.default)):
            raise SettingError(f"{parameter.opts[0]} {why}; leave it out.")


def refuse_two(name: str, given: Any, others: Mapping[str, Any]) -> None:
    """Refuse an option beside others that it excludes; what is None, empty or False was not given."""
    other = next((other for other, value in others.items() if value), None)
    if given and other is not None:
        raise SettingError(f"--{name} and --{other} were given; give one of them.")


class Publishing(Group):
    """A page to publish."""

    page: Path | None = flag(None, "Write a page to publish: .html", "--html", "--page")
    site: Path | None = flag(None, "Write a static site into this folder: index, items, JSON.")
    title: str | None = flag(None, "Title of the page.")
    date: str | None = flag(None, "Date that the page shows.")
    source: str | None = flag(None, "Where the results come from, for the page.")
    link: list[str] | None = flag(None, "item=address; may be repeated.")

    def check(self, context: typer.Context) -> None:
        """Refuse what cannot be written, and words for no page."""
        forms.check_ending(self.page, (".html",))
        if self.page is None and self.site is None:
            check_unused(context, [Publishing], "does nothing without --html or --site")

    def write(self, board: Any, **more: Any) -> None:
        """Write what was asked for."""
        from luce.report.board_pages import write_board_page, write_board_site

        links = {}
        for text in self.link or ():
            name, sign, address = text.partition("=http")
            if not sign:
                raise SettingError(f"--link was given {text!r}; it takes item=https://...")
            links[name] = f"http{address}"
        told = {"title": self.title, "date": self.date, "source": self.source, "links": links or None}
        given = more | {name: value for name, value in told.items() if value is not None}
        if self.page is not None:
            write_board_page(board, self.page, **given)
        if self.site is not None:
            write_board_site(board, self.site, **given)
