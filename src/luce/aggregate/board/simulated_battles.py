"""Battles from known strengths, to try a model out and to test it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from luce.aggregate.board.models import MODELS, get_model
from luce.checks import generator
from luce.errors import SettingError
from luce.types import FloatArray


@dataclass(frozen=True, eq=False)
class SimulatedBattles:
    """Battles, and the truth behind them."""

    table: pa.Table
    """Columns a, b, outcome."""
    names: tuple[str, ...]
    strength: FloatArray
    """With mean 0."""
    tie: float
    """The tie parameter on its natural scale."""
    side: float


def simulate_battles(
    n_battles: int,
    strength: ArrayLike | int = 20,
    *,
    model: str = "davidson",
    tie: float | None = None,
    side: float = 0.0,
    spread: float = 1.0,
    random_state: int | np.random.Generator | None = 0,
) -> SimulatedBattles:
    """Draw battles of random pairs.

    `strength` is a vector of strengths or a number of players, whose strengths are then normal with standard deviation
    `spread`. `tie` is theta, nu or epsilon of the model; `side` is the advantage of a.

    >>> battles = simulate_battles(4, [1.0, 0.0, -1.0], random_state=0)
    >>> battles.table.column_names, battles.table.num_rows
    (['a', 'b', 'outcome'], 4)
    """
    chosen = get_model(model)
    if chosen.link is None:
        paired = sorted(name for name, m in MODELS.items() if m.link is not None)
        raise SettingError(f"Battles cannot be drawn from the model {model!r}; use one of {', '.join(paired)}.")
    if tie is not None and chosen.draws != "model":
        raise SettingError(f"tie is {tie}, but the model {model!r} has no draws; leave it out or use another model.")
    if n_battles < 1:
        raise SettingError(f"The number of battles is {n_battles}; it must be at least 1.")
    if not (np.isfinite(side) and np.isfinite(spread) and spread >= 0):
        raise SettingError(f"side is {side} and spread is {spread}; both must be finite, and spread at least 0.")
    rng = generator(random_state)
    given = rng.normal(0.0, spread, int(strength)) if isinstance(strength, int | np.integer) else np.asarray(strength)
    if given.ndim != 1 or len(given) < 2 or not np.isfinite(given).all():
        raise SettingError("Battles need at least two players with finite strengths.")
    truth = given - given.mean()
    ties = chosen.draws == "model"
    natural = chosen.link.start if tie is None else tie
    t = chosen.link.unconstrained(natural) if ties else 0.0
    n = len(truth)
    a = rng.integers(n, size=n_battles)
    b = (a + rng.integers(1, n, size=n_battles)) % n
    d = truth[a] - truth[b] + side
    wins = np.exp(chosen.link.win(d, t, ties=ties).value)
    losses = np.exp(chosen.link.win(-d, t, ties=ties).value)
    u = rng.random(n_battles)
    outcome = np.where(u < wins, 0, np.where(u < wins + losses, 1, 2))
    width = len(str(n))
    names = tuple(f"player{i + 1:0{width}d}" for i in range(n))
    table = pa.table({"a": _coded(a, names), "b": _coded(b, names), "outcome": _coded(outcome, ("a", "b", "tie"))})
    return SimulatedBattles(table, names, truth, natural if ties else chosen.link.least, side)


def _coded(codes: NDArray[np.int64], values: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values, pa.string())).cast(pa.string())
