"""The best surrogate of a data set as an experiment: weights, the surface that was visited, and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luce.data.groups import Groups
from luce.data.text_files import write_csv
from luce.experiments.run_folder import model_place, write_record
from luce.losses.conjugate import Function
from luce.metrics.catalog import get
from luce.ranker import Ranker
from luce.result import Sheet, sheet_of
from luce.storage import make_folder
from luce.systems import model
from luce.types import Progress


@dataclass(frozen=True)
class Surrogate:
    """What a search found.

    `alpha` holds the weights by function; `value` is the metric on the queries that judged; `surface` is all that was
    visited, in order, as {"alpha": weights, "value": metric, "iterations": kept of that fit, "converged": whether it
    came to its end}; `iterations` and `converged` are those of the chosen weights; `model` is the ranker.
    """

    alpha: Mapping[str, float]
    value: float
    surface: Sequence[Mapping[str, Any]]
    metric: str
    model: Ranker
    iterations: int = 0
    converged: bool = True


def best_surrogate(
    data: Groups,
    valid: Groups | None = None,
    *,
    dictionary: Sequence[str | Function] | None = None,
    evaluations: int = 60,
    progress: Progress | None = None,
    **settings: Any,
) -> Surrogate:
    """Choose the weights of a mixture of convex functions by the metric on other queries, and fit with them.

    `dictionary` is that of the loss `ndcg_mix`, whose other settings are `loss__beta` and so on; `settings`
    are those of the ranker, as in `luce.model("best-surrogate", ...)`: scorer, max_iter, metric, random_state, ....

    >>> from luce.data.simulate import simulate
    >>> data = simulate(queries=40, features=4, seed=0)
    >>> found = best_surrogate(data, evaluations=6, max_iter=200, random_state=0)
    >>> list(found.alpha), len(found.surface)
    (['cross_entropy', 'square', 'qnorm'], 6)
    """
    chosen: dict[str, Any] = {"loss__evaluations": evaluations}
    if dictionary is not None:
        chosen["loss__dictionary"] = dictionary
    ranker: Ranker = model("best-surrogate", **chosen, **settings)
    ranker.fit(data, valid=valid, progress=progress)
    loss: Any = ranker.loss_
    weights = dict(zip(loss.names, loss.alpha.tolist(), strict=True))
    surface = ranker.history_["surface"]
    chosen_visit = next(visit for visit in surface if loss.with_alpha(visit["alpha"]).settings == loss.settings)
    at = {name: chosen_visit[name] for name in ("iterations", "converged")}
    return Surrogate(weights, float(chosen_visit["value"]), surface, ranker.metric, ranker, **at)


def surrogate_sheets(found: Mapping[str, Surrogate]) -> list[Sheet]:
    """The weights of each part of the data; of a single one also the ten best that were visited."""
    first = next(iter(found.values()))
    header = [*first.alpha, first.metric, "rounds"]
    chosen = [[name, *s.alpha.values(), s.value, s.iterations] for name, s in found.items()]
    sheets = [sheet_of("Best surrogate", ["data", *header], chosen)]
    if len(found) == 1:
        rising = get(first.metric).greater_is_better
        best = sorted(first.surface, key=lambda visit: visit["value"], reverse=rising)[:10]
        rows = [[*visit["alpha"], visit["value"], visit["iterations"]] for visit in best]
        sheets.append(sheet_of(f"The best of {len(first.surface)} visited", header, rows))
    return sheets


def write_surrogates(found: Mapping[str, Surrogate], folder: str | Path) -> list[Path]:
    """Write surface.csv, a model for each part of the data by its name, and, last, results.json."""
    folder = make_folder(Path(folder))
    models = {name: model_place(folder, name) for name in found}
    for name, surrogate in found.items():
        surrogate.model.save(folder / models[name])
    tried = (
        [name, *visited["alpha"], visited["value"], visited["iterations"], visited["converged"]]
        for name, surrogate in found.items()
        for visited in surrogate.surface
    )
    header = ["part", *next(iter(found.values())).alpha, "value", "iterations", "converged"]
    write_csv(folder / "surface.csv", header, tried)
    parts = {
        name: {**vars(surrogate), "loss": surrogate.model.trained_loss.settings, "model": models[name]}
        for name, surrogate in found.items()
    }
    paths = [folder / "surface.csv", *(folder / place for place in models.values())]
    return [write_record(folder, {"parts": parts}), *paths]
