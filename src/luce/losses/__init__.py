"""Losses by name. A loss sees scores, a target and query boundaries; never features."""

from __future__ import annotations

from typing import Any

from luce.errors import SettingError
from luce.losses.base import Likelihood, Loss
from luce.registry import Registry

__all__ = ["Likelihood", "Loss", "get", "names"]

_registry = Registry(
    "loss",
    {
        "listmle": "luce.losses.listmle:ListMLE",
        "listnet": "luce.losses.listnet:ListNet",
        "pmop": "luce.losses.pmop:PMOP",
        "pmop_exact": "luce.losses.pmop_exact:PMOPExact",
        "pmop_gibbs": "luce.losses.pmop_sampled:PMOPGibbs",
        "pmop_mh": "luce.losses.pmop_sampled:PMOPMetropolis",
        "ranknet": "luce.losses.ranknet:RankNet",
    },
)


def names() -> list[str]:
    """All losses.

    >>> "pmop" in names()
    True
    """
    return _registry.names()


def get(name: str, **parameters: Any) -> Loss:
    """The loss of that name.

    >>> get("listmle", ties="random", seed=3)
    listmle(ties='random', seed=3)
    """
    factory = _registry.get(name)
    try:
        loss: Loss = factory(**parameters)
    except TypeError as error:
        raise SettingError(f"Loss {name!r} does not take these parameters, {sorted(parameters)}: {error}.") from error
    return loss
