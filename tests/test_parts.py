"""Settings are heard or refused, parts of one's own work everywhere, and what no file can hold is refused at once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceError, LuceWarning, SettingError
from luce.registry import Registry
from luce.report.build import write_report
from luce.training.task import Task, Trained, Trainer


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=40, features=5, seed=3)


def pairs_apart(scores, labels, margin=1.0):
    """A hinge over neighbouring grades, as a user would write it."""
    better = labels[:, None] > labels[None, :]
    short = np.maximum(0, margin - (scores[:, None] - scores[None, :])) * better
    slope = (short > 0) * better
    return short.sum(), slope.sum(axis=0) - slope.sum(axis=1) + 0.0


pairs_apart.smooth = False


@dataclass
class Scaled:
    """A loss as an object with a setting."""

    factor: float = 1.0
    name = "scaled_square"
    shift_invariant = ordinal = False

    def __call__(self, scores, labels):
        return self.factor * ((scores - labels) ** 2).sum(), 2 * self.factor * (scores - labels)


@dataclass(frozen=True)
class Bent(luce.scorers.Scorer):
    """Scores w . z + v . z^2, two weights a feature."""

    bend: float = 1.0
    name = "bent"

    def size(self, n_features):
        return 2 * n_features

    def scores(self, parameters, Z):
        w, v = np.split(parameters, 2)
        return Z @ w + self.bend * Z**2 @ v

    def gradient(self, parameters, Z, d_scores):
        return np.concatenate([Z.T @ d_scores, self.bend * (Z**2).T @ d_scores])


def top_grade(scores, labels):
    """The grade of the first document."""
    return float(labels[np.argmax(scores)])


@pytest.fixture
def registered(monkeypatch):
    """The parts above under their names, for one test."""
    for registry in (luce.losses.registry, luce.scorers.registry, luce.metrics.catalog.METRICS):
        monkeypatch.setattr(registry, "_table", dict(registry._table))
        monkeypatch.setattr(registry, "_spelling", dict(registry._spelling))
    luce.losses.register(pairs_apart)
    luce.losses.register(Scaled)
    luce.scorers.register(Bent)
    luce.metrics.register(top_grade)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"scorer": "trees", "l2": 100},
            "l2 is a setting of no part of this ranker: trainer 'boosting' takes",
        ),
        (
            {"scorer": "trees", "trainer__learning_rate": 0.9},
            "'boosting' does not take these parameters: learning_rate",
        ),
        ({"schedule": "nonsense"}, "schedule is a setting of no part"),
        ({"learning_rate": -3}, "learning_rate is a setting of no part"),
        ({"batch_queries": 3}, "batch_queries is a setting of no part"),
        ({"max_epochs": 1}, "max_epochs is a setting of no part"),
        ({"trainer": "sgd", "schedule": "nonsense"}, "schedule is 'nonsense'; it must be one of constant"),
        ({"trainer": "sgd", "learning_rate": -3}, "learning_rate is -3"),
        ({"loss": "listnet", "scorer": "rankboost"}, "'rankboost' is no scorer but an algorithm"),
        ({"loss": "listnet", "trainer": "rankboost"}, "the loss 'listnet' would not be used"),
        ({"loss": "pmop", "scorer": "trees", "scorer__objective": "lambdarank"}, "the loss 'pmop' would not be used"),
        ({"max_iterr": 3}, "Did you mean 'max_iter'?"),
        ({"trainer__maxiter": 3}, "Did you mean 'max_iter'?"),
        ({"loss__k": 3}, "'pmop' does not take these parameters: k"),
        ({"trainer": "boosting"}, "trains the scorer 'trees', not 'linear'"),
        ({"scorer": "trees", "trainer": "lbfgs"}, "leave trainer at 'auto'"),
        ({"loss": 3}, "The loss is 3; give a name"),
        ({"loss": Scaled}, "The loss is the class Scaled; give an object: Scaled()"),
        ({"scorer": Bent}, "The scorer is the class Bent; give an object"),
        ({"scorer": 3.5}, "The scorer is 3.5; give a name or an object"),
        ({"metric": Scaled}, "The metric is the class Scaled"),
        ({"metric": 7}, "The metric is 7; give a name"),
        ({"trainer": 7}, "The trainer is 7; give a name or an object with a method train"),
        ({"loss": lambda scores: 0.0}, "takes (scores); a loss is a function (scores, labels)"),
        ({"loss": lambda scores, labels: 1.0}, "gave float; a loss is a function"),
        ({"loss": lambda scores, labels: (1.0, scores[:0])}, "a gradient or curvature of shape (0,)"),
        ({"loss": lambda scores, labels: (np.nan, scores)}, "gave NaN or infinity"),
    ],
    ids=lambda given: given if isinstance(given, str) else "+".join(given),
)
def test_what_is_not_used_is_refused_in_one_sentence(data, settings, message):
    with pytest.raises(LuceError) as caught:
        luce.Ranker(**settings).fit(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_short_and_long_forms_reach_the_same_part(data):
    short = luce.Ranker("davidson", l2=0.5, max_iter=7, random_state=0).fit(data)
    long = luce.Ranker("davidson", trainer__l2=0.5, trainer__max_iter=7, random_state=0).fit(data)
    np.testing.assert_array_equal(short.predict(data), long.predict(data))
    again = luce.Ranker("davidson", random_state=0).set_params(trainer__l2=0.5, trainer__max_iter=7).fit(data)
    np.testing.assert_array_equal(short.predict(data), again.predict(data))
    slow = luce.Ranker(scorer="trees", learning_rate=0.9, max_iter=3, random_state=0).fit(data)
    fast = luce.Ranker(scorer="trees", learning_rate=0.1, max_iter=3, random_state=0).fit(data)
    assert np.abs(slow.predict(data) - fast.predict(data)).max() > 0.1


@pytest.mark.parametrize("settings", [{"max_iter": 3}, {"trainer__max_iter": 3}, {"early_stopping": None}])
def test_a_stream_refuses_what_it_does_not_hear(data, settings):
    with pytest.raises(SettingError, match="hears l2 alone and would not use"):
        luce.Ranker(**settings).partial_fit(data)
    for trainer in ("sgd", "lbfgs", luce.training.get("sgd")):
        with pytest.raises(SettingError, match="would not use the trainer"):
            luce.Ranker(trainer=trainer).partial_fit(data)
    assert luce.Ranker(trainer__l2=0.5).partial_fit(data).stream_.l2 == luce.Ranker(l2=0.5).partial_fit(data).stream_.l2


def test_settings_of_named_parts_are_visible_and_settable():
    deep = luce.Ranker(scorer="trees").get_params()
    assert deep["scorer__num_leaves"] == 10
    assert deep["trainer__max_iter"] == 100
    assert deep["metric__gain"] == "exponential"
    pairs = luce.Ranker(loss="davidson", loss__race_scale=2.0).get_params()
    assert (pairs["loss__race_scale"], pairs["loss__nu"], pairs["loss__weighting"]) == (2.0, None, "all")
    ranker = luce.Ranker(loss="topk_listmle").set_params(loss__k=3, metric__gain="linear")
    assert ranker.parts().loss.k == 3
    assert ranker.parts().metric.conventions.gain == "linear"
    assert ranker.set_params(loss="pmop").parts().loss.name == "pmop"


def test_grid_search_reaches_everything(data):
    from sklearn import config_context

    grid = {"trainer__max_iter": [1, 30], "loss__stage_weights": [None]}
    with config_context(enable_metadata_routing=True):
        ranker = luce.Ranker("pmop", random_state=0).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, grid, cv=GroupKFold(2)).fit(data.X, data.y, qid=data.qid, groups=data.qid)
    one, many = search.cv_results_["mean_test_score"]
    assert np.isfinite([one, many]).all()
    assert one != many


@pytest.mark.parametrize("scorer", ["linear", "trees", "mlp"])
def test_a_function_of_one_query_is_a_loss(data, scorer):
    limits = {"max_iter": 15, "random_state": 0}
    own = luce.Ranker(pairs_apart, scorer, **limits).fit(data)
    chance = luce.evaluate(np.random.default_rng(0).normal(size=data.n_rows), data, "ndcg@10").means["ndcg@10"]
    assert own.score(data) > chance + 0.05


def test_a_function_equals_the_loss_that_it_copies(data):
    """ListNet as a function: the same objective, so the same model."""

    def listnet(scores, labels):
        target = np.exp(labels - labels.max())
        target /= target.sum()
        shifted = scores - scores.max()
        log_p = shifted - np.log(np.exp(shifted).sum())
        return -(target * log_p).sum(), np.exp(log_p) - target

    ours, own = (luce.Ranker(loss, tol=1e-10, max_iter=300).fit(data) for loss in ("listnet", listnet))
    np.testing.assert_allclose(own.predict(data), ours.predict(data), atol=1e-3)


def test_own_parts_are_saved_by_name_or_not_at_all(data, tmp_path, registered):
    path = tmp_path / "m.luce"
    model = luce.Ranker(Scaled(2.0), Bent(0.5), metric=top_grade, max_iter=20).fit(data)
    model.save(path)
    again = luce.load(path)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert again.get_params()["loss__factor"] == 2.0
    assert again.parts_.scorer.bend == 0.5
    named = luce.Ranker("pairs_apart", "bent", loss__margin=0.5, max_iter=5).fit(data)
    named.save(path)
    assert luce.load(path).loss_.settings == {"margin": 0.5}


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"loss": Scaled()}, "loss 'scaled_square'"), ({"scorer": Bent()}, "scorer"), ({"metric": top_grade}, "metric")],
)
def test_what_load_could_not_bring_back_is_not_saved(data, tmp_path, settings, what):
    model = luce.Ranker(**settings, max_iter=2).fit(data)
    with pytest.raises(LuceError, match=what):
        model.save(tmp_path / "m.luce")
    assert not (tmp_path / "m.luce").exists()


def test_load_finds_registered_names_only(data, tmp_path, registered, monkeypatch):
    model = luce.Ranker("pairs_apart", max_iter=2).fit(data)
    model.save(tmp_path / "m.luce")
    monkeypatch.undo()
    with pytest.raises(luce.errors.ModelFormatError, match="Unknown loss 'pairs_apart'"):
        luce.load(tmp_path / "m.luce")


def test_own_trainer(data, tmp_path):
    @dataclass(frozen=True)
    class Correlations(Trainer):
        """Weights that are correlations of features with the grades."""

        power: float = 1.0
        name = "correlations"

        def train(self, task: Task) -> Trained:
            bound = task.scorer.bind(task.data)
            Z = (task.data.X - bound.scale.mean) * bound.scale.inverse_sd
            weights = np.array([np.corrcoef(z, task.data.y)[0, 1] for z in Z.T])
            return bound.fitted(np.sign(weights) * np.abs(weights) ** self.power)

    model = luce.Ranker(trainer=Correlations(2.0)).fit(data)
    assert model.score(data) > 0.4
    assert model.get_params()["trainer__power"] == 2.0
    with pytest.raises(SettingError, match="trainer 'correlations' is not registered"):
        model.save(tmp_path / "m.luce")


def test_registries_refuse_a_name_twice_and_name_what_fails(monkeypatch):
    numbers = Registry("number", {"half": "fractions:Fraction"}, "luce.test")
    with pytest.raises(SettingError, match="There is a number 'half' already, luce's own fractions:Fraction"):
        numbers.register(int, name="half")
    numbers.register(int, name="whole")
    numbers.register(int, name="whole")  # a cell that runs twice
    with pytest.raises(SettingError, match="'whole' already, int of builtins"):
        numbers.register(float, name="WHOLE")
    with pytest.raises(SettingError, match="registered as a class or a function"):
        numbers.register(3)


@pytest.mark.parametrize(
    ("brought", "said"),
    [
        (ImportError("No module named 'no_such_package'"), "No module named 'no_such_package'"),
        (ValueError("bad table"), "bad table"),
        (SystemExit(), "SystemExit"),
        (3, "A number is registered as a class or a function; got the object 3"),
    ],
    ids=str,
)
def test_an_entry_point_that_fails_is_named_and_the_rest_works(monkeypatch, brought, said):
    class Point:
        name, value = "broken", "no_such_package:part"

        def load(self):
            if isinstance(brought, BaseException):
                raise brought
            return brought

    numbers = Registry("number", {"half": "fractions:Fraction"}, "luce.test")
    monkeypatch.setattr("luce.registry.entry_points", lambda group: [Point()])
    with pytest.warns(LuceWarning, match=f"number 'broken' of the package .* was left out: .*{said}"):
        assert numbers.names() == ["half"]


@pytest.mark.parametrize("name", luce.losses.names())
def test_every_loss_passes_the_public_suite(name):
    verdict = luce.testing.check_loss(name, raise_on_failure=False)
    assert verdict.passed, str(verdict)
    assert len(verdict.held) >= 3


def test_public_suite_on_own_and_wrong_parts(registered):
    assert luce.testing.check_loss(pairs_apart).passed
    assert luce.testing.check_scorer(Bent(0.3)).passed
    assert luce.testing.check_metric(top_grade).passed

    def wrong(scores, labels):
        return (scores**2).sum(), scores

    with pytest.raises(SettingError, match=r"FAILS.*The gradient is that of the value"):
        luce.testing.check_loss(wrong)
    verdict = luce.testing.check_loss(wrong, raise_on_failure=False)
    assert {"The gradient is that of the value", "Only the order of the grades matters"} & set(verdict.failed)
    with pytest.raises(SettingError, match="not worse than its reverse"):
        luce.testing.check_metric(lambda scores, labels: float(labels[np.argmin(scores)]))

    @dataclass(frozen=True)
    class Off(Bent):
        def gradient(self, parameters, Z, d_scores):
            return np.zeros(len(parameters))

    with pytest.raises(SettingError, match="The gradient is that of the scores"):
        luce.testing.check_scorer(Off())


def test_compare_takes_estimators_of_any_make(data, tmp_path):
    import lightgbm

    models = {
        "ridge": make_pipeline(StandardScaler(), Ridge()),
        "lightgbm": lightgbm.LGBMRanker(n_estimators=5, min_child_samples=5, verbose=-1),
        "mine": luce.Ranker(pairs_apart, max_iter=10, random_state=0),
        "listnet": luce.Ranker("listnet", max_iter=10, random_state=0),
    }
    result = luce.compare(data, models, ["ndcg@10"], folds=3, out=tmp_path / "run")
    assert set(result.models) == set(models)
    again = luce.experiments.read_run(tmp_path / "run")
    assert {row["model"] for row in again.results["leaderboard"]} == set(models)
    write_report(tmp_path / "run", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    with pytest.raises(SettingError, match="give a name or an object with fit and predict"):
        luce.compare(data, {"three": 3})


def test_compare_of_a_file_of_ones_own(data, tmp_path):
    luce.write_parquet(data, tmp_path / "data.parquet")
    own = tmp_path / "mine.py"
    own.write_text(
        "import numpy as np\n\n\nclass First:\n    def fit(self, X, y):\n        return self\n\n"
        "    def predict(self, X):\n        return X[:, 0]\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "luce", "compare", str(tmp_path / "data.parquet"), "--folds", "3", "--quiet"]
    command += ["--models", f"{own}:First,linear_regression"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "First" in done.stdout
    missing = subprocess.run([*command[:-1], f"{own}:Second"], capture_output=True, text=True, check=False, timeout=300)
    assert missing.returncode == 2
    assert "has no 'Second'" in missing.stderr


def test_a_metric_of_ones_own_chooses_and_judges(data):
    train, valid = data.take(np.arange(25)), data.take(np.arange(25, 40))
    model = luce.Ranker("ranknet", metric=top_grade, max_iter=20).fit(train, valid=valid)
    curve = model.history_["validation"]
    assert model.score(valid) == pytest.approx(max(curve))
    both = luce.evaluate(model, valid, ["map", top_grade])
    assert both.means["top_grade"] == pytest.approx(max(curve))
    with pytest.raises(SettingError, match="gave 'x' for query"):
        luce.evaluate(model, valid, [lambda scores, labels: "x"])


def test_examples_run_from_a_script(tmp_path: Path):
    """A class of `__main__` is registered and saved by its name, too."""
    code = (
        "import luce, numpy as np\nfrom luce.data.simulate import simulate\n"
        "@luce.losses.register\ndef mine(scores, labels):\n    return ((scores-labels)**2).sum(), 2*(scores-labels)\n"
        "d = simulate(queries=10, features=3, seed=0)\nm = luce.Ranker('mine', max_iter=3).fit(d)\n"
        f"m.save({str(tmp_path / 'm.luce')!r})\n"
        f"print((luce.load({str(tmp_path / 'm.luce')!r}).predict(d) == m.predict(d)).all())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("name", "said"), [("tier_gain", "write loss__tier_gain"), ("max_itr", "Did you mean 'max_iter'")]
)
def test_a_setting_that_needs_its_part(name, said):
    with pytest.raises(SettingError, match=said):
        luce.Ranker("pmop", **{name: 2})
    with pytest.raises(SettingError, match=said):
        luce.Ranker("pmop").set_params(**{name: 2})


def test_what_parts_take_is_listed_whole():
    with pytest.raises(SettingError, match=r"loss 'pmop' takes .*tier_gain\. It is a setting of trainer 'sgd'"):
        luce.Ranker("pmop", schedule="sqrt").fit(np.ones((4, 2)), [1, 0, 1, 0], qid=[1, 1, 2, 2])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda data: luce.Ranker(n_estimators=9), "A ranker does not .*: n_estimators; here it is max_iter."),
        (
            lambda data: luce.Ranker(n_estimators=9, objective="x"),
            "n_estimators, objective; here they are max_iter, loss.",
        ),
        (lambda data: luce.Ranker().fit(data, sample_weight=[1.0]), "fit does not .*: sample_weight; .* query_weight."),
        (lambda data: luce.Ranker().fit(data, eval_set=data), "fit does not .*: eval_set; here it is valid."),
        (
            lambda data: luce.Ranker().fit(data, vaild=data),
            "fit does not .*: vaild; it takes X, .*Did you mean 'valid'.",
        ),
        (lambda data: luce.Ranker("lambdarank").fit(data), "'lambdarank' is no loss here .*luce.model.'lambdamart'."),
        (lambda data: luce.Ranker("rank:ndcg").fit(data), "--model lambdamart"),
    ],
)
def test_words_of_other_libraries_are_answered_by_ours(data, call, said):
    with pytest.raises(SettingError, match=said):
        call(data)


def test_a_gap_in_an_array_is_said_with_its_place(data):
    X = np.array(data.X)
    X[3, 1] = np.nan
    with pytest.raises(DataError, match=r"Feature 2 of row 3 is NaN, and this model takes no gaps.*scorer='trees'"):
        luce.Ranker(max_iter=1).fit(X, data.y, qid=data.qid)
