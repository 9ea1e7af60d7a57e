"""A setting is declared once: what its declaration lets in, what it refuses, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest

from luce.errors import SettingError
from luce.spec import Choice, Range, Spec, described, option, tuned


def grades(name: str, value: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, value))


class Base(Spec):
    """A base.

    Parameters
    ----------
    depth, width
        How deep, and
        how wide.
    """

    depth: int = option(default=2, least=1, most=9)
    width: int | None = option(default=None, least=1)


class Part(Base):
    """A part.

    Parameters
    ----------
    rate
        A rate.

    Examples
    --------
    None.
    """

    name = "part"
    rate: float = option(default=0.5, above=0, most=1, tune=Range(0.1, 1.0))
    kind: Literal["one", "two"] = option(default="one", tune=Choice(("one", "two")))
    patience: int | Literal["auto"] | None = option(default="auto", least=1)
    ties: bool = True
    tie_grades: Sequence[float] | None = option(default=None, needs="ties", convert=grades)


def test_values_are_kept_as_numbers_of_python():
    part = Part(np.int64(3), rate=np.float32(0.5), patience=None, ties=np.bool_(False))
    assert (type(part.depth), type(part.rate), part.patience, part.ties) == (int, float, None, False)
    assert Part(tie_grades=[1, 2]).tie_grades == (1.0, 2.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"depth": 0}, "depth is 0; it must be a whole number from 1 to 9."),
        ({"depth": 2.0}, "depth is 2.0; it must be a whole number from 1 to 9."),
        ({"depth": True}, "depth is True; it must be a whole number from 1 to 9."),
        ({"width": 0}, "width is 0; it must be a whole number of at least 1 or None."),
        ({"rate": 0}, "rate is 0; it must be a number above 0 and at most 1."),
        ({"rate": float("nan")}, "rate is nan; it must be a number above 0 and at most 1."),
        ({"rate": "fast"}, "rate is 'fast'; it must be a number above 0 and at most 1."),
        ({"kind": "three"}, "kind is 'three'; it must be one of one, two."),
        ({"patience": "never"}, "patience is 'never'; it must be one of auto, a whole number of at least 1 or None."),
        ({"ties": "no"}, "ties is 'no'; it must be True or False."),
        (
            {"ties": False, "tie_grades": [1]},
            r"tie_grades=\(1.0,\) has no effect in 'part' without ties=True; leave it out.",
        ),
    ],
)
def test_refusals(settings, said):
    with pytest.raises(SettingError, match=said):
        Part(**settings)


def test_what_follows():
    part = Part(rate=0.25)
    assert repr(part) == "part(rate=0.25)"
    assert part.settings == Part(**part.settings).settings
    assert part == Part(rate=0.25) != Part()
    assert hash(part) == hash(Part(rate=0.25))
    assert tuned(Part()) == {"rate": Range(0.1, 1.0), "kind": Choice(("one", "two"))}
    assert described(Part) == {
        "rate": "A rate.",
        "depth": "How deep, and how wide.",
        "width": "How deep, and how wide.",
    }
    with pytest.raises(AttributeError):
        part.rate = 1.0
