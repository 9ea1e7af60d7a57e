r"""Cross-fitting of any ranker: no query is lost to validation, and none is judged by what saw it.

The queries are cut into K folds; the ranker is fitted K times without one fold, on which it stops early. Trees and
linear scores are averaged, $f(x) = \frac1K \sum_k f_k(x)$; any other scorer is fitted once more on all queries, with
the mean number of iterations. Scores of held-out queries say what to expect: every fold is valued after as many
iterations as the other folds ask for, since those that suit it best would flatter it.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import stats
from sklearn.base import clone

from luce.base import check_folds, fits_on_folds
from luce.blending import can_join, joined_models
from luce.checks import generator, whole
from luce.data.groups import Groups
from luce.errors import LuceWarning, SettingError
from luce.metrics.evaluate import evaluate_rows
from luce.ranker import Ranker
from luce.registry import settings_of
from luce.types import FloatArray, IntArray, Progress


def cross_fit(
    ranker: Ranker, data: Groups, folds: int = 5, *, seeds: int = 1, progress: Progress | None = None
) -> Ranker:
    """Fit a copy of a ranker on folds of the queries; `history_["cross_fit"]` says what it will be worth.

    With `seeds` above 1 the folds are drawn so many times, and trees and linear scores are the mean of all fits.

    >>> from luce.data.simulate import simulate
    >>> data = simulate(queries=60, features=6, seed=0)
    >>> model = cross_fit(Ranker("pmop", "trees", max_iter=20, random_state=0), data, folds=3)
    >>> sorted(model.history_["cross_fit"])
    ['folds', 'high', 'how', 'iterations', 'low', 'metric', 'seeds', 'value']
    """
    whole("seeds", seeds, 1)
    check_folds("folds", folds, data)
    if ranker.checkpoint is not None or ranker.warm_start:
        what = "checkpoint" if ranker.checkpoint is not None else "warm_start"
        raise SettingError(f"{what} is for one fit, and cross-fitting makes several; leave it out.")
    seed = int(generator(ranker.random_state).integers(2**31))
    fits: list[Ranker] = []
    scores: list[FloatArray] = []
    sizes: list[int] = []
    for turn in range(seeds):
        found = np.empty(data.n_rows)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The .* on the validation data was best after", LuceWarning)
            for one, held, rows in fits_on_folds(ranker, data, folds, [seed, turn], lambda held: held):
                fits.append(one)
                found[rows] = one.predict(held)
                sizes.append(held.n_queries)
                if progress is not None:
                    progress(len(fits), seeds * folds, {})
        scores.append(found)
    held_out = np.reshape(sizes, (seeds, folds))
    return _noted(*_whole(ranker, fits, data, seed), fits, np.mean(scores, axis=0), data, held_out)


def _whole(ranker: Ranker, fits: list[Ranker], data: Groups, seed: int) -> tuple[Ranker, str]:
    """The mean of the models, or one more fit on all queries; and which of them it is."""
    if all(can_join(fit, fits[0]) for fit in fits):
        losses = [fit.loss_ for fit in fits if fit.loss_ is not None]
        loss = losses[0].with_parameters(np.mean([one.parameters for one in losses], axis=0)) if losses else None
        return joined_models(fits, np.full(len(fits), 1.0 / len(fits)), loss), "mean"
    again, counts = clone(ranker).set_params(random_state=seed), [fit.history_.get("best_iteration") for fit in fits]
    known = [count for count in counts if count is not None]  # there are trainers that do not count
    if known and "max_iter" in settings_of(ranker.parts().trainer):
        again.set_params(max_iter=max(1, round(float(np.mean(known)))))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* had no effect, since there are no validation data", LuceWarning)
        return again.fit(data), "refit"  # the folds have said when to stop


def _value(curves: list[list[float]], sizes: IntArray, rising: bool) -> float | None:
    """The mean of all folds, each after the iterations that are best for the others of its draw; None without curves.

    >>> _value([[0.1, 0.5, 0.2], [0.1, 0.2, 0.4]], np.array([[10, 10]]), True)  # 0.2 after 2, and 0.2 after 1
    0.2
    """
    longest = max(map(len, curves))
    if min(map(len, curves)) < 2:
        return None
    sign = 1.0 if rising else -1.0
    held = np.stack([np.pad(curve, (0, longest - len(curve)), mode="edge") for curve in curves]) * sign
    found = []
    for part, weight in zip(held.reshape(*sizes.shape, longest), sizes, strict=True):
        others = weight @ part - weight[:, None] * part
        found.append(weight @ part[np.arange(len(part)), others.argmax(axis=1)] / weight.sum())
    return float(sign * np.mean(found))


def _noted(model: Ranker, how: str, fits: list[Ranker], scores: FloatArray, data: Groups, sizes: IntArray) -> Ranker:
    metric, (seeds, folds) = fits[0].parts_.metric, sizes.shape
    values = evaluate_rows(scores, data, [metric]).values[metric.name]
    values = values[~np.isnan(values)]
    value = _value([fit.history_["validation"] for fit in fits], sizes, metric.greater_is_better)
    value = float(values.mean()) if value is None else value
    width = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    counts = [fit.history_.get("best_iteration") for fit in fits]
    most = settings_of(model.parts_.trainer).get("max_iter")
    limited = sum(count is not None and count == most for count in counts)
    if limited and how == "mean":
        warnings.warn(
            f"{limited} of {len(fits)} fits were best after {most} iterations, the most that were allowed; "
            "raise max_iter.",
            LuceWarning,
            stacklevel=3,
        )
    found = {"metric": metric.name, "value": value, "low": value - width, "high": value + width}
    found |= {"folds": folds, "seeds": seeds, "iterations": counts, "how": how}
    model.history_ = {**model.history_, "cross_fit": found}
    return model
