"""Options in groups: a command sees dataclasses, Typer their fields in order."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import luce
from luce.auto.trainer import Blend
from luce.cli.app import command
from luce.cli.options import prepared
from luce.cli.train_options import Fitting
from luce.data.schema import TableWords
from luce.settings import Budget, Choosing, LetorOptions, PartNames, ShortForms, Surroundings, TableOptions


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="Across.")]
    height: Annotated[int, typer.Option(min=1, help="Up.")] = 2


@dataclass(frozen=True)
class Sized(Size):
    names: Annotated[list[str] | None, typer.Option("--name", "-n")] = None


seen = []


def draw(*, first: Annotated[str, typer.Argument()], size: Sized, last: bool = False) -> None:
    """Draw a box."""
    seen.append((first, size, last))


def test_fields_take_the_place_of_their_group():
    assert list(signature(prepared(draw)).parameters) == ["first", "width", "height", "names", "last"]
    assert prepared(draw).__doc__ == "Draw a box."


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["box", "--width", "3"], ("box", Sized(3, 2, None), False)),
        (
            ["box", "--width", "3", "--height", "5", "-n", "a", "--name", "b", "--last"],
            ("box", Sized(3, 5, ["a", "b"]), True),
        ),
    ],
)
def test_a_group_is_made_of_its_options(words, expected):
    app = typer.Typer()
    app.command()(prepared(draw))
    seen.clear()
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    ((first, size, last),) = seen
    assert (first, size.width, size.height, size.names or None, last) == (
        expected[0],
        *(expected[1].width, expected[1].height, expected[1].names),
        expected[2],
    )


def test_what_typer_refuses_is_refused():
    app = typer.Typer()
    app.command()(prepared(draw))
    assert CliRunner().invoke(app, ["box"]).exit_code == 2  # no width
    assert CliRunner().invoke(app, ["box", "--width", "1", "--height", "0"]).exit_code == 2


def test_settings_are_those_of_the_library():
    """What the command line shares with the library is all there, with its defaults and words."""
    taken = {name: one.default for name, one in signature(luce.Ranker).parameters.items()}
    for spec in (ShortForms, PartNames, Choosing, Surroundings):
        assert spec().settings == {name: taken[name] for name in spec().settings}
    assert set(TableWords.__annotations__) == {*TableOptions().settings, "document_id", "query_weight"}
    assert Blend().settings["budget"] == Budget().budget
    read = {name: one.default for name, one in signature(luce.read_letor).parameters.items() if name != "path"}
    assert read == LetorOptions().settings


@pytest.mark.parametrize("name", ["train", "evaluate", "compare", "tune", "info"])
def test_every_option_says_what_it_is(name):
    for one in command(name).params:
        assert len(one.help or "") > 8, one.opts


def fit(*, fitting: Fitting) -> None:
    seen.append(dict(fitting.settings))


def test_what_is_not_typed_is_not_given():
    app = typer.Typer()
    app.command()(prepared(fit))
    seen.clear()
    for words in ([], ["--l2", "0", "--early-stopping", "0", "--budget", "12.5"], ["--metric", "ndcg@10"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert seen == [{}, {"l2": 0.0, "early_stopping": None, "budget": 12.5}, {"metric": "ndcg@10"}]


def test_without_a_command_the_help_has_its_lines(call):
    for words in ((), ("simulate",)):
        code, _, err = call(*words)
        assert code == 2
        assert "\nCommands:\n" in err


def test_what_was_typed_is_shown_safely(call):
    for words in (("\x1b[31m",), ("train", "--l2", "a\x1b[31m"), ("simulate", "\x1b[31m")):
        code, _, err = call(*words)
        assert code == 2
        assert "\x1b" not in err
        assert "Error: " in err
