"""Battles from known strengths, to try a model out and to test it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import ArrayLike

from luce.aggregate.board.likelihood import MODELS, get_model
from luce.checks import generator, number, whole
from luce.data.text_files import write_csv
from luce.errors import SettingError
from luce.result import check_ending
from luce.storage import atomic_write
from luce.types import FloatArray

ENDINGS = (".csv", ".jsonl", ".parquet")
"""What battles can be written as."""


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

    def write(self, path: Path, *, lmsys: bool = False) -> None:
        """As CSV, JSON lines or Parquet, with the columns a, b, outcome or those of LMSYS."""
        check_ending(path, ENDINGS)
        data = self.table
        if lmsys:
            sides = pa.compute.replace_substring_regex(data["outcome"], pattern="^([ab])$", replacement="model_\\1")
            data = pa.table({"model_a": data["a"], "model_b": data["b"], "winner": sides})
        with atomic_write(path) as stream:
            if path.suffix.lower() == ".parquet":
                pyarrow.parquet.write_table(data, stream)
            elif path.suffix.lower() == ".csv":
                pyarrow.csv.write_csv(data, stream, pyarrow.csv.WriteOptions(quoting_style="needed"))
            else:
                stream.write("".join(json.dumps(row) + "\n" for row in data.to_pylist()).encode())

    def write_truth(self, path: Path) -> None:
        """The strengths behind the battles, as CSV."""
        check_ending(path, (".csv",))
        write_csv(path, ["name", "strength"], zip(self.names, self.strength.tolist(), strict=True))


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
    n_battles, side, spread = whole("n_battles", n_battles, 1), number("side", side, -np.inf), number("spread", spread)
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
    (win, draw), u = chosen.chances(d, t, ties), rng.random(n_battles)
    outcome = np.where(u < win, 0, np.where(u < 1.0 - draw, 1, 2))
    width = len(str(n))
    names = tuple(f"player{i + 1:0{width}d}" for i in range(n))
    coded = {"a": (names, a), "b": (names, b), "outcome": (["a", "b", "tie"], outcome)}
    table = pa.table({name: pa.array(values).take(pa.array(codes)) for name, (values, codes) in coded.items()})
    return SimulatedBattles(table, names, truth, natural if ties else chosen.link.least, side)
