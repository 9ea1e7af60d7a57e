"""The models of a leaderboard by name, and what each of them can do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from luce.aggregate.board.battle_likelihood import Draws
from luce.errors import SettingError
from luce.numerics import links
from luce.registry import canonical, unknown_name


@dataclass(frozen=True)
class Model:
    """A family of likelihoods, its link and its treatment of draws."""

    name: str
    family: Literal["paired", "races", "hodge"]
    link: links.Link | None = None
    draws: Draws = "model"
    elo: float | None = 400.0 / math.log(10.0)
    """Points of the Elo scale in one unit of strength: 400 are odds of ten to one; None where there are no odds."""


# The normal link has unit variance of a difference of performances; Elo's own scale gave each performance a standard
# deviation of 200 points, so that a difference has 200 times the square root of 2.
MODELS = {
    model.name: model
    for model in (
        Model("bradley_terry", "paired", links.get("bradley_terry"), "half"),
        Model("davidson", "paired", links.get("davidson")),
        Model("hodge", "hodge", elo=None),
        Model("plackett_luce", "races"),
        Model("pmop", "races"),
        Model("rao_kupper", "paired", links.get("rao_kupper")),
        Model("thurstone_mosteller", "paired", links.get("thurstone_mosteller"), elo=200.0 * math.sqrt(2.0)),
    )
}


def get_model(name: str, draws: str | None = None) -> Model:
    """The model of that name, with another treatment of draws where one is given.

    >>> get_model("bradley-terry").draws
    'half'
    """
    if not isinstance(name, str) or canonical(name) not in MODELS:
        raise unknown_name("leaderboard model", str(name), MODELS)
    model = MODELS[canonical(name)]
    if draws is None:
        return model
    if draws not in ("model", "half", "drop"):
        raise SettingError(f"draws is {draws!r}; it must be 'model', 'half' or 'drop'.")
    if model.family != "paired":
        raise SettingError(
            f"draws is {draws!r}, but the model {model.name!r} has one treatment of draws; leave it out."
        )
    return Model(model.name, model.family, model.link, draws, model.elo)  # type: ignore[arg-type]
