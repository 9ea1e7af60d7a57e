"""Early stopping keeps the best iterate whichever way a metric points."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.training.run import TrainingRun, best_validation

WAYS = {
    "lbfgs": {"loss": "pmop", "l2": 0.0, "max_iter": 30},
    "sgd": {"loss": "pmop", "trainer": "sgd", "learning_rate": 5.0, "max_iter": 30},
    "boosting": {"loss": "ranknet", "scorer": "trees", "max_iter": 30},
    "projected": {"loss": "cdn", "trainer": "projected", "max_epochs": 5, "trainer__starts": 2},
    "projected lbfgs": {"loss": "cdn", "trainer": "projected_lbfgs", "max_iter": 15},
    "own criterion": {"trainer": "rankboost", "max_iter": 30},
}


@pytest.fixture(scope="module")
def parts():
    data = simulate(queries=60, features=6, seed=4)
    return data.take(np.arange(20)), data.take(np.arange(20, 60))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("metric", "best"), [("NDCG@5", np.argmax), ("spearman-footrule", np.argmin)])
def test_the_best_iterate_is_kept(parts, way, metric, best):
    train, valid = parts
    model = luce.Ranker(metric=metric, early_stopping=None, random_state=0, **WAYS[way]).fit(train, valid=valid)
    curve = np.array(model.history_["validation"])
    first = 1 - (len(curve) - len(model.history_["objective"]))  # the start is validated too by most trainers
    assert model.history_["best_iteration"] == best(curve) + first
    value = luce.evaluate(model, valid, [metric]).means[luce.metrics.get(metric).name]
    assert value == pytest.approx(curve[best(curve)], abs=1e-12)
    assert best_validation(model.history_, metric) == curve[best(curve)]
    # scikit-learn maximises scores, so that of a distance is negative.
    assert model.score(valid) == pytest.approx(value if best is np.argmax else -value, abs=1e-12)


def test_patience_counts_from_the_lowest_value():
    distances = iter([3.0, 2.0, 1.0, 2.0, 3.0, 0.5])
    run = TrainingRun(10, validate=lambda _: next(distances), patience=2, greater_is_better=False)
    run.consider(np.zeros(1))
    steps = 0
    while not run.exhausted:
        steps += 1
        run.step(np.full(1, float(steps)), 0.0)
    assert steps == 4
    assert run.result == 2.0
