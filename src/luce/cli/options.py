"""Options in groups: a command takes dataclasses of options, or settings of the library, and Typer sees their fields.

A field of a group is a `flag`; a setting of a `Spec` of the library has the words of its docstring. The first sentence
of a group is the heading of its options in the help, which shows at first what most people need.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from luce.errors import OutputError, SettingError
from luce.settings import UNSET
from luce.spec import Spec, described

_MANY = 30
"""Options of a command above which its help shows the groups that are for every day alone."""


def flag(default: Any, help: str, *names: str, **more: Any) -> Any:
    """A field that is an option, with its help, and its names where they are not those of the field."""
    return field(default=default, metadata={"option": (names, {"help": help, **more})})


@dataclass(frozen=True)
class Shown:
    """How the settings of a `Spec` of the library stand on the command line, where not as they are.

    `names` are other names, and the only settings that are shown where `only_named`; `hidden` are not shown; `typed` is
    what is typed and how it becomes the value; `defaults` are those of what is typed, None where the library's holds.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, tuple[Any, Callable[[Any], Any]]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    only_named: bool = False
    hidden: tuple[str, ...] = ()


@dataclass_transform(frozen_default=True)
class Group:
    """Options of a command under one heading: a field is one of them, and a subclass is a dataclass by itself."""

    def __init_subclass__(cls, kw_only: bool = False, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        dataclass(frozen=True, kw_only=kw_only)(cls)


class Given(Group):
    """Options that are settings of the library, with its words; what was typed of them is what is passed on.

    A subclass says of which classes they are; its own fields are further options.

    >>> class Size(Spec):
    ...     width: int = 2
    >>> class Sized(Given):
    ...     of = (Size,)
    >>> def draw(*, size: Sized) -> None:
    ...     print(size.settings)
    >>> prepared(draw)(width=3), prepared(draw)(width=None)
    {'width': 3}
    {}
    (None, None)
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    of: ClassVar[tuple[type[Spec], ...]] = ()
    shown: ClassVar[Shown] = Shown()


def _grouped(command: Callable[..., None]) -> tuple[list[Parameter], dict[str, tuple[Any, Shown]]]:
    """All options of a command, and its groups, whose fields stand in their places."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, Shown]] = {}
    for name, hint in hints.items():
        kind, *how = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if is_dataclass(kind):
            known = (*how, getattr(kind, "shown", None), Shown())
            groups[name] = kind, next(one for one in known if isinstance(one, Shown))
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _parameters(*groups[parameter.name])
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))
    return parameters, groups


def _made(kind: Any, shown: Shown, values: dict[str, Any]) -> Any:
    """A group of what was typed of it."""
    taken = {f.name: values.pop(f.name) for f in fields(kind) if f.name in values}
    if issubclass(kind, Given):
        own = {name: values.pop(name) for spec in kind.of for name in _shown(spec, shown) if name in values}
        own = {name: value for name, value in own.items() if value is not None and value is not False and value != []}
        meant = {name: parse(own[name]) for name, (_, parse) in shown.typed.items() if name in own}
        return kind(settings=own | meant, **taken)
    for name, (_, parse) in shown.typed.items():
        if taken[name] is not None:
            taken[name] = parse(taken[name])
        else:
            del taken[name]
    try:
        return kind(**taken)
    except SettingError as error:  # says how the setting is called, which may be another name than was typed
        name, _, rest = str(error).partition(" ")
        raise SettingError(f"{shown.names.get(name, name)} {rest}") from error


def _shown(spec: type[Spec], shown: Shown) -> list[str]:
    """The settings of a class that are options."""
    names: Any = fields(spec)  # type: ignore[arg-type]  # every Spec is a dataclass
    only = shown.names if shown.only_named else [one.name for one in names]
    return [one.name for one in names if one.name in only and one.name not in shown.hidden]


def _parameters(group: Any, shown: Shown) -> list[Parameter]:
    """The options of a group, under its heading."""
    panel = re.split(r"[.:;]", (group.__doc__ or "").strip().partition("\n")[0])[0]
    made: dict[str, Parameter] = {}
    if issubclass(group, Given):
        for spec in group.of:
            made |= {name: _setting(spec, name, shown, panel, given=True) for name in _shown(spec, shown)} | made
    elif issubclass(group, Spec):
        return [_setting(group, name, shown, panel, given=False) for name in _shown(group, shown)]
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        if issubclass(group, Given) and one.name == "settings":
            continue
        default = Parameter.empty if one.default is MISSING else one.default
        names, said = one.metadata.get("option", ((), {}))
        made[one.name] = _option(one.name, hints[one.name], default, panel, names, **said)
    return list(made.values())


def _option(name: str, hint: Any, default: Any, panel: str, names: Sequence[str] = (), **said: Any) -> Parameter:
    """An option under its heading."""
    if get_origin(hint) is Annotated:
        hint, option = get_args(hint)[:2]
        option = copy(option)
        option.rich_help_panel = panel
    else:
        # One name for a switch, which else would have a second one, to switch it off.
        names = names or ([f"--{name.replace('_', '-')}"] if hint is bool and default is False else ())
        option = typer.Option(*names, rich_help_panel=panel, **said)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])


def _setting(spec: Any, name: str, shown: Shown, panel: str, *, given: bool) -> Parameter:
    """The option of a setting; where only what is `given` counts, nothing is its default, which the help then tells."""
    own, words = typed(get_type_hints(spec)[name]), described(spec).get(name, "")
    hint, default = own, getattr(spec, name)
    if name in shown.typed:
        hint, default = shown.typed[name][0], shown.defaults.get(name)
    if given:
        usual = getattr(spec, name)
        tells = isinstance(usual, int | float | str) and not isinstance(usual, bool) and usual != UNSET
        words += f"  [default: {usual}]" if tells and "default" not in words else ""
        hint, default = (bool, False) if hint is bool else (hint | None, None)
    return _option(name, hint, default, panel, [shown.names[name]] if name in shown.names else (), help=words)


def typed(hint: Any) -> Any:
    """What is typed for a setting of the library: a number, a switch, a path, texts, or else a text.

    >>> typed(float | None), typed(bool), typed(tuple[str, str] | str), typed(Sequence[str])
    (float | None, <class 'bool'>, <class 'str'>, list[str])
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain: Any = next((kind for kind in (bool, float, int) if kind in kinds and str not in kinds), str)
    if Path in kinds or Sequence[str] in kinds:
        plain = Path if Path in kinds else list[str]
    return plain | None if NoneType in kinds else plain


class Sectioned(TyperCommand):
    """A command whose help has headings, and shows at first what most people need."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show all of the help where that is asked for."""
        if "--help-all" in args[: args.index("--") if "--" in args else None]:
            ctx.meta["all"] = True
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options without a group, then a section a group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if one.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(one, "rich_help_panel", None) or usual, []).append(record)
        many = sum(map(len, sections.values())) > _MANY and not ctx.meta.get("all")
        shown = {name: rows for name, rows in sections.items() if not many or name in EVERY_DAY}
        for name, rows in shown.items():
            with formatter.section(name):
                formatter.write_dl(rows)
        if len(shown) < len(sections):
            left = [name for name in sections if name not in shown]
            with formatter.section("More options (--help-all says what they do)"):
                firsts = {name: [row[0].split()[0].rstrip(",") for row in sections[name]] for name in left}
                formatter.write_dl([(name, ", ".join(options)) for name, options in firsts.items()])


EVERY_DAY = (
    "Arguments",
    "Options",
    "What is trained",
    "Queries for early stopping",
    "What is evaluated",
    "How settings are sought",
)
"""Headings of what long helps show at first."""


class Commands(TyperGroup):
    """Commands whose list has whole sentences."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The first sentence of every command, on as many lines as it needs."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            parts = [(name, " ".join((one.help or "").split()).partition(". ")) for name, one in found if one]
            formatter.write_dl([(name, first + dot.strip()) for name, (first, dot, _) in parts])


OUTPUTS = (
    "out",
    "save",
    "per_query",
    "probabilities",
    "plot",
    "page",
    "site",
    "win_matrix",
    "map_out",
    "arrivals_out",
    "request_log",
)
"""Parameters that name files to write, in all commands that read files."""
_GOES_ON = ("update", "checkpoint")
"""Parameters that name what a command goes on from: it may stand under the same name afterwards."""
_TEXTS = ("data", "base", "relation", "models", "shadow")
"""Parameters that are texts and may name files: patterns and addresses too, and NAME=FILE."""


def prepared(command: Callable[..., None], outputs: tuple[str, ...] = OUTPUTS) -> Callable[..., None]:
    """The command as Typer takes it; what it seldom comes to is imported late, and its help imports nothing.

    Every parameter that is a dataclass is replaced by the fields of that dataclass, in its place. The command is
    refused before any work where one of its `outputs` is a file that another parameter names.

    >>> class Size(Group):
    ...     width: int = 2
    >>> def draw(*, name: str, size: Size) -> None:
    ...     print(name, size)
    >>> list(signature(prepared(draw)).parameters), prepared(draw)(name="box", width=3)
    box Size(width=3)
    (['name', 'width'], None)
    """
    parameters, groups = _grouped(command)

    @wraps(command)
    def started(**given: Any) -> None:
        postpone("scipy.stats", "pandas")
        with ExitStack() as stack:
            given = _with_standard_input(given, outputs, stack)
            _check(given, outputs)
            made = {name: _made(kind, shown, given) for name, (kind, shown) in groups.items()}
            command(**made, **given)

    flat: Any = started
    flat.__signature__ = Signature(parameters)
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return started


class _Postponed(ModuleType):
    """Stands for a module until an attribute is asked for, and then has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # as if we had never been
            del sys.modules[self.__name__]
            package, _, own = self.__name__.rpartition(".")
            if package:
                delattr(sys.modules[package], own)
        real = importlib.import_module(self.__name__)
        self.__dict__.update(real.__dict__)
        return getattr(real, name)


def postpone(*names: str) -> None:
    """Let the first use of these modules import them; those that are there, or not installed, are left alone.

    The package that a module is part of must be imported already, or be quick to import.
    """
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is None:
            continue
        stand_in = _Postponed(name)
        stand_in.__spec__ = spec
        sys.modules[name] = stand_in
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, stand_in)


def _with_standard_input(given: dict[str, Any], outputs: tuple[str, ...], stack: ExitStack) -> dict[str, Any]:
    """The parameters with a file that holds standard input where an input is `-`, which readers may open anew."""

    def wanted(name: str, value: Any) -> bool:
        return name not in outputs and (value == Path("-") or (value == "-" and name in _TEXTS))

    asked = [name for name, value in given.items() for one in _listed(value) if wanted(name, one)]
    if not asked:
        return given
    if len(asked) > 1:
        raise SettingError("Standard input (-) was asked for twice; give it once, and files for the others.")
    if sys.stdin is None or sys.stdin.isatty():
        raise SettingError("Standard input (-) is a terminal or closed; pipe a file into it.")
    content = sys.stdin.buffer.read()
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="luce-")))
    path = folder / f"standard-input{_ending(content)}"
    path.write_bytes(content)
    (name,), value = asked, given[asked[0]]
    put = [type(one)(path) if wanted(name, one) else one for one in _listed(value)]
    return given | {name: put if isinstance(value, list) else put[0]}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _ending(content: bytes) -> str:
    """The ending that a file of this content would have; formats that are known by their content need none.

    >>> _ending(b"a,b\\n1,2\\n"), _ending(b'{"a": 1}'), _ending(b"# DATA TYPE: soc\\n1: 1,2"), _ending(b"1 qid:1 1:2")
    ('.csv', '.jsonl', '.soc', '')
    """
    first = content.lstrip()[:4096].partition(b"\n")[0]
    ballots = re.search(rb"# DATA TYPE: (so[ci]|to[ci]|cat)\b", content[:4096])
    if ballots:
        return f".{ballots[1].decode()}"
    if first[:1] in (b"{", b"["):
        return ".jsonl" if first[:1] == b"{" else ".json"
    separated = any(sign in first for sign in (b",", b";", b"\t"))
    return ".csv" if separated and b"qid:" not in first and b">" not in first else ""


def _check(given: Mapping[str, Any], outputs: tuple[str, ...]) -> None:
    written: set[Path] = set()
    for path in (path for name in outputs for path in _files(name, given.get(name))):
        if path in written:
            raise OutputError(f"Cannot write two results to {path}; give each of them a name of its own.")
        if path.is_file() or not path.exists():  # a device or pipe, such as /dev/null, takes anything
            written.add(path)
    for name, value in given.items():
        for path in () if name in (*outputs, *_GOES_ON) else _files(name, value):
            if path in written and path.is_file():
                raise OutputError(f"Cannot write {path}: this command reads it; give the output another name.")


def _files(parameter: str, value: Any) -> Iterator[Path]:
    """What a parameter names, as absolute paths without links."""
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, Path):
            yield Path(os.path.realpath(one))
        elif isinstance(one, str) and parameter in _TEXTS:
            yield Path(os.path.realpath(one.rpartition("=")[2]))
