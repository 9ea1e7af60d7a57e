"""Evaluation from clicks: estimates against the truth of simulated users, intervals by coverage, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import luce
from luce.clicks import click_rate, evaluate, examination, given_examination, interleaving, policy_value, read
from luce.clicks.choice import poisson_regression
from luce.clicks.evaluation import _Problem
from luce.clicks.simulation import attraction, production, simulate_counts
from luce.errors import DataError, SettingError

SHOWN, SIZE = 5, 8
DISCOUNT = {"dcg": lambda k: 1 / np.log2(1 + k), "clicks": lambda k: 1 / k}


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 80 * SIZE)
    X = np.column_stack([y + rng.normal(0, 0.5, len(y)), rng.normal(size=len(y))])
    return luce.from_arrays(X, y, qid=np.repeat(np.arange(80), SIZE), document_ids=np.arange(len(y)))


@pytest.fixture(scope="module")
def made(data):
    rng = np.random.default_rng(9)
    scores = [data.X[:, 0] + rng.normal(0, 2, data.n_rows) for _ in range(2)]
    return production(data, scores, shown=SHOWN, swap=0.3)


@pytest.fixture(scope="module")
def new(data, made) -> np.ndarray:
    """Scores of another ranker; what was never shown is last."""
    shown = np.zeros(data.n_rows, dtype=bool)
    shown[np.unique(made.lists[made.lists >= 0])] = True
    return np.where(shown, data.X[:, 0], -100.0)


def truth(data, counts, scores, name: str, cutoff: int) -> tuple[float, float]:
    """The value of the ranker and of what was shown, for users with examination 1/k."""
    gamma = attraction(data.y)
    sessions = np.zeros(data.n_queries)
    sessions[counts.query_ids.astype(int)] = counts.sessions
    order = np.argsort(-scores.reshape(-1, SIZE), axis=1)[:, :cutoff] + SIZE * np.arange(data.n_queries)[:, None]
    value = (sessions[:, None] * gamma[order] * DISCOUNT[name](np.arange(1, cutoff + 1))).sum() / sessions.sum()
    rows = counts.rows_in(data)[counts.document]
    inside = counts.position <= cutoff
    shown = (counts.shown * DISCOUNT[name](counts.position) * gamma[rows])[inside].sum() / sessions.sum()
    return value, shown


def test_intervals_cover_with_estimated_examination(data, made, new):
    """Standardised errors over many logs are as large as normal ones in the mean; without theta's part, larger."""
    z, without, ratio = [], [], []
    for seed in range(40):
        counts = simulate_counts(data, made, np.random.default_rng(seed), sessions=10_000)
        found = examination(counts)
        result = evaluate(found, data, new, metrics=("dcg@3", "clicks@5"))
        for metric in ("dcg@3", "clicks@5"):
            value, shown = truth(data, counts, new, metric[:-2], int(metric[-1]))
            for part, right in ((result.estimates, value), (result.differences, value - shown)):
                z.append((part[metric, "ips"].value - right) / part[metric, "ips"].standard_error)
        blind = replace(found, influence=0 * found.influence, covariance=0 * found.covariance)
        part = evaluate(blind, data, new, metrics=("dcg@3",)).estimates["dcg@3", "ips"]
        ratio.append(result.estimates["dcg@3", "ips"].standard_error / part.standard_error)
        value, _ = truth(data, counts, new, "dcg", 3)
        without.append((part.value - value) / part.standard_error)
    assert np.abs(z).mean() == pytest.approx(np.sqrt(2 / np.pi), abs=0.15)
    assert np.mean(np.abs(z) < 1.96) > 0.9
    assert min(ratio) > 1.2
    assert np.abs(without).mean() == pytest.approx(np.sqrt(2 / np.pi) * np.mean(ratio), abs=0.25)


def test_intervals_of_every_estimator_cover_where_examination_is_chosen_and_smoothed(data, made, new):
    inside: dict[tuple[str, str, str], list[bool]] = {}
    for seed in range(60):
        counts = simulate_counts(data, made, np.random.default_rng([seed, 7]), sessions=4000)
        result = evaluate(examination(counts, data), data, new, metrics=("dcg@3", "clicks@5"), most_unseen=1)
        for metric in ("dcg@3", "clicks@5"):
            value, shown = truth(data, counts, new, metric[:-2], int(metric[-1]))
            for estimator in ("ips", "snips", "dr"):
                for what, part, right in (
                    ("value", result.estimates, value),
                    ("difference", result.differences, value - shown),
                ):
                    one = part[metric, estimator]
                    inside.setdefault((metric, estimator, what), []).append(one.low <= right <= one.high)
    share = {key: np.mean(hits) for key, hits in inside.items()}
    assert min(share.values()) > 0.85, share  # three standard errors below .95
    assert np.mean(list(share.values())) == pytest.approx(0.95, abs=0.04), share


def test_what_is_unknown_of_examination_beyond_clicks_widens_intervals_by_its_slope(data, made, new):
    found = examination(simulate_counts(data, made, np.random.default_rng(0), sessions=4000))
    problem = _Problem(found, data, "error")
    phi = found.influence[problem.cell]
    of_clicks = (phi.T * problem.variance) @ phi
    place, variance, step = 2, 0.01, 1e-5
    more = of_clicks.copy()
    more[place, place] += variance
    values = []
    for sign in (1, -1):
        theta = found.theta.copy()
        theta[place] *= np.exp(sign * step)
        values.append(evaluate(replace(found, theta=theta), data, new, metrics=["dcg@3"]).estimates)
    for estimator in ("ips", "snips"):
        narrow, wide = (
            evaluate(replace(found, covariance=one), data, new, metrics=["dcg@3"]).estimates["dcg@3", estimator]
            for one in (of_clicks, more)
        )
        slope = (values[0]["dcg@3", estimator].value - values[1]["dcg@3", estimator].value) / (2 * step)
        added = wide.standard_error**2 - narrow.standard_error**2
        assert added == pytest.approx(variance * slope**2, rel=1e-4)


@pytest.mark.parametrize("method", ["conditional", "joint"])
@pytest.mark.parametrize("estimator", ["ips", "snips", "dr"])
def test_influence_is_the_derivative_in_the_clicks(data, made, new, method, estimator):
    counts = simulate_counts(data, made, np.random.default_rng(0), sessions=4000).by_position()
    found = examination(counts, data, method=method)
    problem = _Problem(found, data, "error")
    for name in ("dcg", "clicks"):
        for weights in (problem.ranking(new, name, 4), problem.production(name, 4)):
            assert np.isfinite(problem.influence(weights, estimator).click).all()
        phi = problem.influence(problem.ranking(new, name, 4), estimator).click
        for cell in np.flatnonzero((counts.clicked > 3) & (counts.shown > counts.clicked + 1))[:2]:
            values = []
            for step in (1e-3, -1e-3):
                clicked = counts.clicked.copy()
                clicked[cell] += step
                moved = examination(replace(counts, clicked=clicked), data, method=method)
                other = _Problem(moved, data, "error")
                other.model = problem.model  # cross-fitted: of second order
                values.append(other.influence(other.ranking(new, name, 4), estimator)[0])
            assert (values[0] - values[1]) / 2e-3 == pytest.approx(phi[cell], rel=5e-3, abs=1e-7)


def test_clicks_of_what_was_shown_are_those_of_the_log(data, made, new):
    counts = simulate_counts(data, made, np.random.default_rng(0), sessions=4000)
    result = evaluate(examination(counts), data, new, metrics=("clicks@5",))
    shown = result.production["clicks@5", "ips"]
    assert shown.value == pytest.approx(counts.clicked.sum() / 4000, rel=1e-12)
    row = result.rows[0]
    assert row["difference"] == pytest.approx(row["value"] - row["production_value"], rel=1e-9)
    assert 0 < result.least_rho < 1


def test_unseen_weight_is_refused_or_modelled(data, made):
    counts = simulate_counts(data, made, np.random.default_rng(0), sessions=20_000)
    found = examination(counts)
    with pytest.raises(DataError, match=r"of the weight of dcg@10 is on documents that the log never showed"):
        evaluate(found, data, -data.X[:, 0], metrics=("dcg@10",))
    result = evaluate(found, data, data.X[:, 0], metrics=("dcg@8",), most_unseen=1.0)
    unseen = result.unseen["dcg@8"]
    assert 0 < unseen < 1
    value, _ = truth(data, counts.by_position(), data.X[:, 0].astype(float), "dcg", 8)
    errors = {name: abs(result.estimates["dcg@8", name].value - value) for name in ("ips", "dr")}
    assert errors["dr"] < errors["ips"]  # the model fills in what inverse propensity takes for 0


def test_what_evaluate_refuses(data, made, new):
    counts = simulate_counts(data, made, np.random.default_rng(0), sessions=4000)
    found = examination(counts)
    with pytest.raises(SettingError, match="cannot be told from clicks"):
        evaluate(found, data, new, metrics=("map",))
    with pytest.raises(DataError, match="finite scores"):
        evaluate(found, data, new[:-1])
    with pytest.raises(SettingError, match="take dcg@k"):
        evaluate(examination(counts, users="last_click"), data, new, metrics=("clicks@5",))


def test_known_examination_has_no_error_of_its_own(data, made, new):
    counts = simulate_counts(data, made, np.random.default_rng(0), sessions=10_000)
    known = given_examination(counts, {k: 1 / k for k in range(1, SHOWN + 1)})
    estimated = examination(counts)
    a, b = (evaluate(seen, data, new, metrics=("dcg@3",)).estimates["dcg@3", "ips"] for seen in (known, estimated))
    assert a.standard_error < b.standard_error
    value, _ = truth(data, counts.by_position(), new, "dcg", 3)
    assert abs(a.value - value) < 4 * a.standard_error


def test_poisson_regression_is_stationary():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    exposure = rng.gamma(2, 20, 300)
    clicks = rng.poisson(exposure * np.exp(X @ [-1.0, 0.5, 0.0]))
    weights = poisson_regression(X, clicks.astype(float), exposure)
    score = (clicks - exposure * np.exp(X @ weights)) @ X - [0.0, 1.0, 1.0] * weights
    np.testing.assert_allclose(score, 0, atol=0.5)
    np.testing.assert_allclose(weights, [-1.0, 0.5, 0.0], atol=0.1)


def test_policy_value_by_hand():
    rng = np.random.default_rng(0)
    document = rng.choice(3, 400, p=[0.6, 0.3, 0.1])
    p = np.array([0.6, 0.3, 0.1])[document]
    clicked = (rng.random(400) < np.array([0.1, 0.3, 0.6])[document]).astype(int)
    log = {"query": ["q"] * 400, "document": document, "position": np.ones(400, int), "clicked": clicked, "p": p}
    counts = read(log, session="-", propensity="p")
    found = policy_value(counts)
    weight = 1 / 3 / p
    assert found["ips"].value == pytest.approx((clicked * weight).mean())
    assert found["ips"].standard_error == pytest.approx((clicked * weight).std() / 20)
    snips = (clicked * weight).sum() / weight.sum()
    assert found["snips"].value == pytest.approx(snips)
    error = np.sqrt((weight**2 * (clicked - snips) ** 2).sum()) / weight.sum()
    assert found["snips"].standard_error == pytest.approx(error)
    assert click_rate(counts).value == clicked.mean()
    with pytest.raises(DataError, match="lack propensities"):
        policy_value(read(log, session="-"))


@pytest.mark.real
def test_open_bandit(real_data):
    """The random policy's click rate is within the error of its estimate from the log of the other policy."""
    names = {"session": "-", "query": "-", "document": "item_id", "clicked": "click", "propensity": "propensity_score"}
    folder = real_data("clicks") / "open-bandit"
    logged, drawn = (read(folder / f"{name}_men_men.csv.gz", **names) for name in ("bts", "random"))
    right = click_rate(drawn)
    for estimate in policy_value(logged).values():
        error = np.hypot(estimate.standard_error, right.standard_error)
        assert abs(estimate.value - right.value) < 1.96 * error


def test_team_draft_and_balanced_by_hand():
    log = {
        "session": [1, 1, 2, 2, 3, 3, 4, 4],
        "team": ["a", "b", "a", "b", "b", "a", "a", "b"],
        "clicked": [1, 0, 1, 1, 1, 0, 0, 0],
    }
    found = interleaving(log)
    assert (found.wins_a, found.wins_b, found.draws, found.empty) == (1, 1, 1, 1)
    assert found.preference.value == 0
    assert found.winner is None
    many = {name: values * 100 for name, values in {"team": ["a", "b"], "clicked": [1, 0]}.items()}
    many["session"] = np.repeat(range(100), 2).tolist()
    won = interleaving(many)
    assert won.winner == "a"
    assert won.as_dict()["log_ratio"]["value"] is None  # b never won
    # Lists a: x y z, b: z x y. A click on z alone: k = min(3, 1) = 1, among the first of b only.
    balanced = {"session": [1, 1, 1], "rank_a": [1, 2, 3], "rank_b": [2, 3, 1], "clicked": [0, 0, 1]}
    found = interleaving(balanced, "balanced")
    assert (found.wins_a, found.wins_b) == (0, 1)
    # A click on x: k = 1, among the first of a only; on y: k = 2, x and y of a, z and x of b: a has the click.
    for row in (0, 1):
        found = interleaving(balanced | {"clicked": [int(i == row) for i in range(3)]}, "balanced")
        assert (found.wins_a, found.wins_b) == (1, 0)


def test_interleaving_covers_and_refuses():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(200):
        outcome = rng.choice([1, 0, -1], 400, p=[0.35, 0.4, 0.25])
        log = {
            "session": np.repeat(np.arange(400), 2),
            "team": ["a", "b"] * 400,
            "clicked": np.column_stack([outcome >= 0, outcome <= 0]).astype(int).ravel(),
        }
        found = interleaving(log)
        inside.append(found.preference.low < 0.1 < found.preference.high)
    assert 0.9 < np.mean(inside) <= 0.99
    log = {"session": [1], "team": ["c"], "clicked": [1]}
    for change, method, error, message in (
        ({}, "team_draft", DataError, "must be a, b, or empty"),
        ({"team": ["a"], "clicked": [0]}, "team_draft", DataError, "No session has a click"),
        ({"clicked": [3]}, "team_draft", DataError, "0 or 1"),
        ({}, "balanced", DataError, "no column 'rank_a'"),
        ({}, "sums", SettingError, "team_draft, balanced"),
    ):
        with pytest.raises(error, match=message):
            interleaving(log | change, method)
