"""Parts and estimators of a user in comparisons and searches, on one process and on several; what one may do to it."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning, OwnPartError, SettingError
from luce.experiments.estimators import from_file


def squares(scores, labels):
    """A loss as a function."""
    return float(((scores - labels) ** 2).sum()), 2 * (scores - labels)


class Squares:
    """The same as an object with a setting."""

    name = "own_squares"
    shift_invariant = ordinal = False

    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, scores, labels):
        value, gradient = squares(scores, labels)
        return self.factor * value, self.factor * gradient


class Plain(luce.scorers.Scorer):
    """A scorer."""

    name = "own_plain"

    def size(self, n_features):
        return n_features

    def scores(self, parameters, Z):
        return Z @ parameters

    def gradient(self, parameters, Z, d_scores):
        return Z.T @ d_scores


class Leaves:
    """An estimator that ends the program."""

    def fit(self, X, y):
        sys.exit("bye")

    def predict(self, X):
        return X[:, 0]


class First:
    """An estimator that works."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X[:, 0]


@pytest.fixture(scope="module")
def data():
    return simulate(queries=24, features=3, seed=0)


def test_own_parts_go_to_other_processes(data):
    models = {
        "function": luce.Ranker(squares, max_iter=4),
        "class": luce.Ranker(Squares(2.0), max_iter=4),
        "scorer": luce.Ranker(scorer=Plain(), max_iter=4),
    }
    one, two = (luce.compare(data, models, ["ndcg@10"], folds=3, jobs=jobs) for jobs in (1, 2))
    assert one.models == two.models == list(models)
    for a, b in zip(one.outcomes, two.outcomes, strict=True):
        np.testing.assert_array_equal(a.scores, b.scores)
    assert repr(one) == "ModelComparison(function, class, scorer on 3 folds)"


def test_a_lambda_stays_here(data):
    model = luce.Ranker(lambda scores, labels: squares(scores, labels), max_iter=4)
    assert luce.compare(data, {"m": model}, ["ndcg@10"], folds=3, jobs=1).models == ["m"]
    with pytest.raises(SettingError, match=r"cannot go to other processes .*not as lambdas .* or take jobs=1"):
        luce.compare(data, {"m": model}, ["ndcg@10"], folds=3, jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_estimator_that_ends_the_program_ends_itself(data, jobs):
    with pytest.warns(
        LuceWarning, match="The model 'leaves' failed and is left out: Leaves.fit raised SystemExit: bye"
    ):
        found = luce.compare(data, {"leaves": Leaves(), "first": First()}, ["ndcg@10"], folds=3, jobs=jobs)
    assert found.models == ["first"]


def test_an_own_part_that_ends_the_program_is_named(data):
    def leaves(scores, labels):
        raise SystemExit(3)

    with pytest.raises(OwnPartError, match="raised SystemExit: 3"):
        luce.Ranker(leaves).fit(data)
    with pytest.raises(OwnPartError, match="raised SystemExit: 3"):
        luce.evaluate(np.zeros(data.n_rows), data, leaves)


@pytest.mark.parametrize("loss", [squares, Squares(2.0)], ids=["function", "class"])
def test_searches_on_several_processes(data, loss):
    grid = {"trainer__l2": [0.1, 1.0]}
    with config_context(enable_metadata_routing=True):
        one, two = (
            GridSearchCV(luce.Ranker(loss, max_iter=3), grid, cv=GroupKFold(2), n_jobs=jobs)
            .fit(data.X, data.y, groups=data.qid, qid=data.qid)
            .cv_results_["mean_test_score"]
            for jobs in (1, 2)
        )
    np.testing.assert_array_equal(one, two)
    model = luce.Ranker(loss, max_iter=3).fit(data)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(data), model.predict(data))


def test_a_file_is_run_once_and_by_workers_too(data, tmp_path):
    luce.write_parquet(data, tmp_path / "data.parquet")
    own = tmp_path / "json.py"  # the name of a library
    own.write_text(
        "import luce\n\n\ndef squares(scores, labels):\n"
        "    return ((scores - labels) ** 2).sum(), 2 * (scores - labels)\n\n\n"
        "mine = luce.Ranker(squares, max_iter=3)\n\n\nclass First:\n    def fit(self, X, y):\n        return self\n\n"
        "    def predict(self, X):\n        return X[:, 0]\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "luce", "compare", str(tmp_path / "data.parquet"), "--folds", "3", "--quiet"]
    command += ["--models", f"{own}:First,{own}:mine", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "First" in done.stdout
    assert "mine" in done.stdout
    assert "failed" not in done.stdout


def test_a_file_that_cannot_be_run_is_named(tmp_path):
    (tmp_path / "broken.py").write_text("raise SystemExit('no')\n", encoding="utf-8")
    with pytest.raises(OwnPartError, match=r"broken\.py raised SystemExit: no"):
        from_file(f"{tmp_path / 'broken.py'}:mine")
    (tmp_path / "mine.txt").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"its name must end in \.py"):
        from_file(f"{tmp_path / 'mine.txt'}:x")
