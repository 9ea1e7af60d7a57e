"""Projections against a quadratic program, and trainers that stay inside the set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize as by_scipy

import luce
from luce.data.simulate import simulate
from luce.errors import LuceWarning, SettingError
from luce.ranker.parts import inner
from luce.training.descent import ProjectedDescent
from luce.training.gradients import Projected, feasible_set
from luce.training.lbfgs import Feasible, lbfgs, onto_l1_ball, onto_simplex
from luce.training.objective import Objective
from luce.training.run import History, TrainingRun


def minimise(objective: Objective, start: np.ndarray, run: TrainingRun, **how) -> tuple[np.ndarray, History]:
    lbfgs(objective, start, run.validate is not None, **how).opened(run).follow()
    return run.result, run.history


def descended(
    objective: Objective, feasible: Feasible, start: np.ndarray, epochs: int, **settings
) -> tuple[np.ndarray, History]:
    run = ProjectedDescent(Projected(**settings), objective, feasible, start).opened(TrainingRun(epochs)).follow().run
    return run.result, run.history


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=30, features=6, seed=5)


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    vector, t = rng.normal(0.5, 1.0, 6), 1.5
    found = onto_simplex(vector, t)
    assert found.min() >= 0
    assert found.sum() <= t + 1e-12
    best = by_scipy(
        lambda x: ((x - vector) ** 2).sum(),
        np.full(6, 0.1),
        jac=lambda x: 2 * (x - vector),
        bounds=[(0, None)] * 6,
        constraints={"type": "ineq", "fun": lambda x: t - x.sum()},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(found, best.x, atol=1e-6)
    inside = rng.uniform(0, 0.2, 6)
    np.testing.assert_array_equal(onto_simplex(inside, t), inside)


def test_signed_ball_and_lower_bounds():
    rng = np.random.default_rng(0)
    vector = rng.normal(0, 2, 7)
    found = onto_l1_ball(vector, 2.0)
    assert np.abs(found).sum() == pytest.approx(2.0)
    assert (found * vector >= 0).all()
    # No other point of the ball is nearer: moving towards any vertex of the ball moves away.
    for vertex in np.vstack([2.0 * np.eye(7), -2.0 * np.eye(7)]):
        assert (vector - found) @ (vertex - found) <= 1e-12
    feasible = Feasible(np.array([0.0, 0.0, 0.1]), np.full(3, np.inf), np.ones(3, dtype=bool), 1.0)
    moved = feasible.nearest(np.array([3.0, -1.0, 0.0]))
    np.testing.assert_allclose(moved, [0.9, 0.0, 0.1])
    with pytest.raises(SettingError, match="radius"):
        Feasible(np.array([0.5, 0.6]), np.full(2, np.inf), np.ones(2, dtype=bool), 1.0)


def objective_of(data, scorer="nadaraya_watson") -> Objective:
    return Objective(data, luce.scorers.get(scorer).bind(data), luce.losses.get("cdn", weighting="pairs"), 0.0)


def test_every_iterate_of_the_descent_is_allowed_and_the_step_halves(data):
    objective = objective_of(data)
    feasible = feasible_set(objective, 3.0, None)
    seen, steps = [], []
    original = objective.on_batch

    def watched(batch, vector, loss):
        seen.append(vector.copy())
        return original(batch, vector, loss)

    objective.on_batch = watched
    start = feasible.nearest(np.full(8, 5.0))
    vector, history = descended(objective, feasible, start, 3, learning_rate=0.5)
    for point in (*seen, vector):
        assert point.min() >= 0
        assert point.sum() <= 3.0 + 1e-12
        assert point[-2:].min() >= 1e-6
    assert len(seen) == 3 * data.n_queries
    assert len(history.objective) == 3
    moves = np.abs(np.diff(np.array(seen), axis=0)).sum(axis=1)
    steps = [moves[e * 30 : e * 30 + 29].mean() for e in range(3)]
    assert steps[2] < steps[0]


@pytest.mark.parametrize("weighting", ["all", "pairs"])
@pytest.mark.parametrize("scorer", ["linear", "nadaraya_watson", "mlp"])
def test_default_settings_lower_the_objective_whatever_its_scale(data, scorer, weighting):
    """Gradients of the two weightings differ by the square of the edges, those of the scorers by their features."""
    shared = {"loss__weighting": weighting, "trainer": "projected", "l2": 0.0, "random_state": 0}
    model = luce.Ranker("cdn", scorer, **shared, max_epochs=4).fit(data)
    objective = model.history_["objective"]
    own = luce.losses.get("cdn", weighting=weighting)
    flat = own.with_parameters(np.ones(2)).value_and_grad(np.zeros(data.n_rows), data.y, data.offsets)[0]
    assert np.isfinite(objective).all()
    assert (np.diff(objective) <= 0).all()
    assert objective[-1] < 0.99 * flat  # all scores equal: what a linear scorer starts from, and others are near
    assert np.isfinite(model.predict(data)).all()


@pytest.mark.parametrize("scorer", ["linear", "nadaraya_watson"])
def test_default_settings_on_real_data(real_data, scorer):
    train = luce.read(real_data("OHSUMED-2.0/Fold1/train.txt.gz"))
    params = {"references": 300} if scorer == "nadaraya_watson" else None
    shared = {"trainer": "projected", **inner("scorer", params), "random_state": 0}
    model = luce.Ranker("cdn", scorer, **shared, max_epochs=2).fit(train)
    flat = luce.losses.get("cdn").value_and_grad(np.zeros(train.n_rows), train.y, train.offsets)[0] / train.n_queries
    assert np.isfinite(model.history_["objective"]).all()
    assert model.history_["objective"][-1] < 0.99 * flat


def test_an_epoch_that_raises_the_objective_is_undone(data):
    objective = objective_of(data, "linear")
    feasible = feasible_set(objective, None, None)
    start = np.concatenate([np.zeros(6), np.ones(2)])
    begun = objective.value(start)
    with pytest.warns(luce.errors.LuceWarning, match="1e\\+09 is too long a step"):
        vector, history = descended(objective, feasible, start, 2, learning_rate=1e9)
    np.testing.assert_array_equal(vector, start)
    assert history.objective == [begun, begun]
    # A step that is ten times too long is brought down to one that helps.
    vector, history = descended(objective, feasible, start, 12, learning_rate=20.0)
    assert history.objective[0] == begun
    assert history.objective[-1] < 0.99 * begun
    assert objective.value(vector) == pytest.approx(history.objective[-1], rel=1e-12)


def test_value_alone_is_that_of_the_gradient(data):
    weighted = replace(data, query_weight=np.linspace(0.5, 2.0, data.n_queries))
    for scorer in ("linear", "nadaraya_watson"):
        for loss in ("cdn", "pmop"):
            bound = luce.scorers.get(scorer).bind(weighted)
            objective = Objective(weighted, bound, luce.losses.get(loss), 0.3)
            vector = np.linspace(0.1, 1.0, objective.n_parameters)
            assert objective.value(vector) == pytest.approx(objective.value_and_grad(vector)[0], rel=1e-13)


def test_quasi_newton_finds_the_constrained_minimum():
    """On the linear scorer the problem is convex: a general solver must agree."""
    data = simulate(queries=30, features=4, seed=6)
    objective = Objective(data, luce.scorers.get("linear").bind(data), luce.losses.get("pmop"), 0.0)
    feasible = feasible_set(objective, 0.8, None)
    found, history = minimise(objective, np.zeros(4), TrainingRun(200), feasible=feasible, tol=1e-13)
    assert np.abs(found).sum() <= 0.8 + 1e-9
    # Split into positive and negative parts, the ball is a simplex that SLSQP takes.
    best = by_scipy(
        lambda z: objective.value_and_grad(z[:4] - z[4:])[0],
        np.full(8, 0.05),
        jac=lambda z: np.concatenate([g := objective.value_and_grad(z[:4] - z[4:])[1], -g]),
        bounds=[(0, None)] * 8,
        constraints={"type": "ineq", "fun": lambda z: 0.8 - z.sum()},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert objective.value_and_grad(found)[0] == pytest.approx(best.fun, rel=1e-7)
    assert history.converged
    np.testing.assert_allclose(found, best.x[:4] - best.x[4:], atol=1e-3)


@pytest.mark.parametrize("trainer", ["projected", "projected_lbfgs"])
def test_rankers_keep_to_the_ball_and_the_best_start(data, trainer, tmp_path):
    train, valid = data.take(np.arange(20)), data.take(np.arange(20, 30))
    steps = {"learning_rate": 0.5, "max_epochs": 3} if trainer == "projected" else {"max_iter": 6}
    settings = {"trainer": trainer, "random_state": 0, "l2": 0.0, **steps}
    shared = {"loss": "cdn", "scorer": "nadaraya_watson", "loss__weighting": "pairs", **settings}
    model = luce.Ranker(**shared, trainer__radius=4.0, trainer__starts=2).fit(train, valid=valid)
    assert model.scorer_.a.sum() + model.loss_.parameters.sum() <= 4.0 + 1e-9
    once = luce.Ranker(**shared, trainer__radius=4.0).fit(train, valid=valid)
    assert model.score(valid) >= once.score(valid)
    model.save(tmp_path / "model.luce")
    again = luce.load(tmp_path / "model.luce")
    np.testing.assert_array_equal(again.predict(valid), model.predict(valid))
    np.testing.assert_array_equal(again.loss_.parameters, model.loss_.parameters)


def test_the_last_iterate_is_kept_on_request_and_validation_judges_it_alone(data):
    train, valid = data.take(np.arange(20)), data.take(np.arange(20, 30))
    shared = {"loss": "cdn", "scorer": "nadaraya_watson", "trainer": "projected", "max_epochs": 2, "random_state": 0}
    params = {"radius": 4.0, "starts": 3, "keep": "last"}
    model = luce.Ranker(**shared, metric="map", **inner("trainer", params)).fit(train, valid=valid)
    values = []
    for starts in (1, 2, 3):
        params = {"radius": 4.0, "starts": starts, "keep": "last"}
        found = luce.Ranker(**shared, metric="map", **inner("trainer", params)).fit(train, valid=valid)
        values.append(found.history_["validation"])
        assert found.history_["validation"] == [pytest.approx(found.score(valid))]
    assert model.history_["validation"] == max(values)
    alone = luce.Ranker(**shared, trainer__radius=4.0).fit(train)
    once = luce.Ranker(**shared, trainer__radius=4.0, trainer__keep="last").fit(train, valid=valid)
    np.testing.assert_array_equal(once.scorer_.a, alone.scorer_.a)


def test_bad_settings_are_refused(data):
    for params, match in (
        ({"radius": -1}, "radius"),
        ({"starts": 0}, "starts"),
        ({"ball": 2}, "does not take these parameters: ball; it takes .*radius, starts"),
        ({"keep": "first"}, "keep"),
    ):
        with pytest.raises(SettingError, match=match):
            luce.Ranker(trainer="projected", **inner("trainer", params)).fit(data)
    with pytest.raises(SettingError, match="'lbfgs' does not take these parameters: radius"):
        luce.Ranker(trainer__radius=2.0).fit(data)
    with pytest.raises(SettingError, match="sampled"):
        luce.Ranker("pmop_gibbs", trainer="projected_lbfgs").fit(data)


def test_negative_weights_in_a_model_file_are_refused(data, tmp_path, monkeypatch):
    model = luce.Ranker("cdn", max_iter=2).fit(data)
    monkeypatch.setattr(type(model.loss_), "parameters", np.array([-1.0, 1.0]))
    model.save(tmp_path / "model.luce")
    monkeypatch.undo()
    with pytest.raises(luce.errors.ModelFormatError, match="at least 0"):
        luce.load(tmp_path / "model.luce")


def test_systems_are_tuned_in_their_ball():
    from luce.experiments.spaces import space_of

    for name in ("structrank", "structrank-disconnected", "structrank-random"):
        assert sorted(space_of(name)) == ["trainer__radius"]
        for choice in luce.systems.settings_grid(name):
            assert luce.model(name, **choice).parts().trainer.radius == choice["trainer__radius"]
    trainer = luce.model("structrank", trainer__radius=3.0).parts().trainer
    assert (trainer.radius, trainer.starts) == (3.0, 3)


def test_steps_that_shrink_stay_inside_without_projection(data):
    """[StructRank]: a step is halved until it is allowed; every iterate is the last plus a halved gradient step."""
    objective = objective_of(data)
    feasible = feasible_set(objective, 3.0, None)
    seen, slopes = [], []
    original = objective.on_batch

    def watched(batch, vector, loss):
        value, slope = original(batch, vector, loss)
        seen.append(vector.copy())
        slopes.append(slope.copy())
        return value, slope

    objective.on_batch = watched
    start = feasible.within(np.full(8, 5.0))
    assert start.min() > 0
    assert start.sum() == pytest.approx(0.9 * 3.0)
    settings = {"learning_rate": 4.0, "inside": "shrinking"}
    vector, history = descended(objective, feasible, start, 2, **settings)
    assert all(feasible.allows(point) for point in (*seen, vector))
    halvings = []
    for epoch, step in ((0, 4.0), (1, 2.0)):
        for k in range(epoch * data.n_queries, (epoch + 1) * data.n_queries - 1):
            moved, full = seen[k + 1] - seen[k], -step * slopes[k]
            if not full.any():
                continue  # all documents of the query are tied
            share = float(moved @ full) / float(full @ full)
            np.testing.assert_allclose(moved, share * full, atol=1e-12)
            if share > 1e-6:
                halvings.append(np.log2(share))
    np.testing.assert_allclose(halvings, np.round(halvings), atol=1e-6)
    assert min(halvings) < 0  # some step had to be shortened
    assert len(history.objective) == 2


def test_the_way_of_staying_inside_is_one_of_two():
    with pytest.raises(SettingError, match="inside is 'scaling'; it must be one of projection, shrinking"):
        luce.Ranker("cdn", "nadaraya_watson", trainer="projected", trainer__inside="scaling").fit(
            simulate(queries=3, features=2, seed=0)
        )


def test_structrank_is_trained_to_its_end_by_default():
    """A hundred iterations were not enough for these data."""
    data = simulate(queries=12, features=4, seed=1)
    history = luce.model("structrank", trainer__starts=1, random_state=0).fit(data).history_
    assert history["converged"]


def test_a_training_without_a_step_says_so():
    # Scores of a query come from the other queries, of which the comparisons say nothing.
    data = simulate(queries=3, features=2, seed=0)
    data = replace(data, y=np.zeros(data.n_rows))
    with pytest.warns(LuceWarning, match="No step was taken"):
        luce.model("structrank", random_state=0).fit(data, comparisons=luce.Comparisons(wins=np.array([[1, 0]])))


def test_no_steps_were_asked_for(data):
    model = luce.Ranker("pmop", scorer="mlp", max_iter=0, random_state=0).fit(data)  # without a warning
    assert len(model.history_["objective"]) == 0
