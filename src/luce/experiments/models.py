"""`luce.compare`: models by name and estimators of any make, on data in any form."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from luce.data.groups import Groups
from luce.errors import DataError, LuceWarning, SettingError
from luce.experiments.compare import Candidate
from luce.experiments.compare import compare as run
from luce.experiments.comparison import ModelComparison
from luce.experiments.folds import Fold, find_folds, grouped_folds
from luce.experiments.run_folder import write_results


def compare(
    data: Groups | str | Path | Sequence[Fold],
    models: Mapping[str, Any] | Sequence[str],
    metrics: Sequence[str] = ("ndcg@10", "ndcg@1", "map"),
    *,
    folds: int = 5,
    seed: int = 0,
    out: str | Path | None = None,
    **settings: Any,
) -> ModelComparison:
    """Compare estimators over folds: rankers of luce, and anything else with fit and predict.

    `models` maps a name to an estimator, which is fitted as it is on every fold, or to the name of a complete system,
    which is tuned by its grid; a list of such names serves as well. Estimators of others get the training queries
    alone, with `qid`, `group` or `group_id` if their `fit` (or that of the last step of a pipeline) takes it; rankers
    of luce stop early on the validation queries. `data` are `Groups`, a path, or folds; further settings are those of
    `luce.experiments.compare` (`tune_on`, `watch`, conventions). With `out` the results are written there, and
    `luce report` reads them.

    >>> import luce
    >>> from luce.data.simulate import simulate
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> data = simulate(queries=60, features=4, seed=0)
    >>> result = compare(data, {"boosted": HistGradientBoostingRegressor(), "listnet": luce.Ranker("listnet")}, folds=3)
    >>> sorted(result.models)
    ['boosted', 'listnet']
    """
    if isinstance(models, str) or not isinstance(models, Mapping | Sequence):
        raise SettingError(
            f"models is {models!r}; give a list of names, or names with estimators: {{'mine': estimator}}."
        )
    named = dict(models) if isinstance(models, Mapping) else {str(name): name for name in models}
    if hasattr(data, "columns"):
        raise DataError(f"The data are {type(data).__name__}; give Groups: luce.from_frame(frame, qid=..., label=...).")
    if isinstance(data, Groups):
        split = grouped_folds(data, folds, seed)
    else:
        split = find_folds(data, folds=folds, seed=seed) if isinstance(data, str | Path) else list(data)
    result = run(split, [Candidate.named(*pair) for pair in named.items()], metrics, seed=seed, out=out, **settings)
    for name, error in result.failed.items():
        warnings.warn(f"The model {name!r} failed and is left out: {error}", LuceWarning, stacklevel=2)
    if out is not None:
        write_results(result, out)
    return result
