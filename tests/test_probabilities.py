"""Probabilities of a fitted ranker: consistent, exact where they can be, kept by model files."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import LuceWarning, SettingError
from luce.losses.probabilities import topk_probability


@pytest.fixture(scope="module")
def data():
    return simulate(queries=50, features=5, seed=4)


@pytest.mark.parametrize("loss", ["pmop", "pmop_exact", "davidson", "listmle"])
def test_chances_of_a_pair_add_up(data, loss):
    model = luce.Ranker(loss=loss, random_state=0).fit(data)
    few = data.take(np.arange(4))
    for before, tie, n in zip(model.pair_probability(few), model.tie_probability(few), few.sizes, strict=True):
        assert before.shape == tie.shape == (n, n)
        np.testing.assert_allclose(before + before.T + tie, 1, atol=1e-9)
        assert (np.diag(tie) == 1).all()
    if loss == "listmle":
        assert all(tie.sum() == len(tie) for tie in model.tie_probability(few))


def test_closed_form_of_paired_comparisons(data):
    model = luce.Ranker(loss="rao_kupper", loss__theta=2.0).fit(data)
    (few,) = [data.take([1])]
    phi = np.exp(model.predict(few))
    expected = phi[:, None] / (phi[:, None] + 2.0 * phi[None, :])
    off = ~np.eye(len(phi), dtype=bool)
    np.testing.assert_allclose(model.pair_probability(few)[0][off], expected[off], rtol=1e-9)


def test_fitted_sizes_describe_held_out_queries_better(data):
    train, test = data.take(np.arange(35)), data.take(np.arange(35, 50))
    model = luce.Ranker(loss="pmop").fit(train)
    fitted, alone = model.log_likelihood(test).mean(), model.log_likelihood(test, sizes="model").mean()
    assert fitted > alone + 1
    assert luce.evaluate(model, test, ["log_likelihood"]).means["log_likelihood"] == pytest.approx(fitted)


def test_log_likelihood_is_a_sum_of_logs_of_probabilities(data):
    """Over all outcomes of a query of three documents, probabilities with fitted sizes sum to one."""
    from tests.conformance.cases import ordered_partitions

    model = luce.Ranker(loss="pmop").fit(data)
    X = data.X[:3]
    total = sum(np.exp(model.log_likelihood(X, labels)[0]) for labels in ordered_partitions(3))
    assert total == pytest.approx(1, abs=1e-9)


def test_sampled_rankings_follow_the_pair_probabilities(data):
    model = luce.Ranker(loss="pmop", random_state=1).fit(data)
    query = data.take([int(np.argmin(np.abs(data.sizes - 8)))])
    (draws,) = model.sample_rankings(query, n=4000)
    (tie,) = model.tie_probability(query, samples=4000)
    share = (draws[:, :, None] == draws[:, None, :]).mean(axis=0)
    np.testing.assert_allclose(share, tie, atol=0.05)


def test_survive_a_model_file(data, tmp_path):
    model = luce.Ranker(loss="pmop").fit(data)
    model.save(tmp_path / "m.luce")
    loaded = luce.load(tmp_path / "m.luce")
    np.testing.assert_allclose(loaded.log_likelihood(data), model.log_likelihood(data), rtol=1e-12)


def test_losses_without_probabilities_say_so(data):
    model = luce.Ranker(loss="listnet").fit(data)
    with pytest.raises(SettingError, match="not a likelihood"):
        model.log_likelihood(data)
    with pytest.raises(SettingError, match="not a likelihood"):
        model.tie_probability(data)
    with pytest.raises(SettingError, match="sizes"):
        luce.Ranker().fit(data).log_likelihood(data, sizes="large")


def test_command_writes_pairs(data, tmp_path):
    import subprocess
    import sys

    few = data.take(np.arange(3))
    luce.write_letor(few, tmp_path / "few.txt")
    luce.Ranker(loss="davidson").fit(data).save(tmp_path / "m.luce")
    command = [sys.executable, "-m", "luce", "predict", "few.txt", "--model", "m.luce", "--probabilities", "p.csv"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == sum(n * (n - 1) // 2 for n in few.sizes)
    for row in rows:
        better, tied, worse = (float(row[key]) for key in ("a_better", "tied", "b_better"))
        assert better >= worse
        assert better + tied + worse == pytest.approx(1, abs=1e-4)


TRUTH = np.array([1.0, -0.6, 0.4])


def drawn_queries(queries: int, documents: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, their true scores, and query boundaries."""
    X = np.random.default_rng(seed).normal(size=(queries * documents, 3))
    return X, X @ TRUTH, np.arange(0, queries * documents + 1, documents)


@pytest.mark.parametrize(
    "loss",
    [
        luce.losses.get("pmop"),
        luce.losses.get("pmop", direction="backward"),
        luce.losses.get("pmop_exact"),
        luce.losses.get("plackett_luce"),
        luce.losses.get("listmle"),
        luce.losses.get("topk_listmle", k=2),
        luce.losses.get("hom_gg", k=2),
        luce.losses.get("hom_oo", k=2),
        luce.losses.get("hom_oo", k=5),
        luce.losses.get("hom_og", k=2, normalised=True),
    ],
    ids=repr,
)
def test_what_a_loss_learns_from_its_own_draws_is_the_truth(loss):
    """Trained on outcomes drawn from itself, a loss gives unseen outcomes nearly the probability that they have."""
    documents = 14 if loss.settings.get("k") == 5 else 7
    X, scores, offsets = drawn_queries(400, documents, 1)
    rng = np.random.default_rng(2)
    labels = np.concatenate([loss.sample(scores[a:b], rng) for a, b in itertools.pairwise(offsets)])
    train = luce.from_arrays(X[: offsets[300]], labels[: offsets[300]], group=[documents] * 300)
    test = luce.from_arrays(X[offsets[300] :], labels[offsets[300] :], group=[documents] * 100)
    model = luce.Ranker(loss=loss, l2=0.0, tol=1e-8, random_state=0).fit(train)
    known = scores[offsets[300] :]
    here = test.offsets
    true = np.array([loss.log_prob(known[a:b], test.y[a:b]) for a, b in itertools.pairwise(here)])
    lost = true - model.log_likelihood(test, sizes="model")
    # Three weights learned from 300 queries cost 3 / 600 of a nat a query; the noise of 100 queries comes on top.
    assert lost.mean() < 0.005 + 4 * lost.std() / 10 + 0.01
    if loss.outcome == "top":
        k = loss.k
        fitted = model.topk_probability(test, k)
        exact = np.concatenate([topk_probability(loss, known[a:b], k) for a, b in itertools.pairwise(here)])
        assert np.abs(fitted - exact).mean() < 0.04


@pytest.mark.parametrize(
    "name", ["ranknet", "rao_kupper", "bradley_terry", "davidson", "thurstone_mosteller", "paired"]
)
def test_what_a_link_learns_from_its_own_draws_is_the_truth(name):
    loss = luce.losses.get(name)
    X, scores, offsets = drawn_queries(150, 6, 3)
    rng, wins, ties = np.random.default_rng(4), [], []
    for a, b in itertools.pairwise(offsets):
        for i, j in itertools.combinations(range(a, b), 2):
            win, tie = (
                chance(scores[i] - scores[j]).item() for chance in (loss.pair_probability, loss.tie_probability)
            )
            u = rng.random()
            (ties if win <= u < win + tie else wins).append((i, j) if u < win + tie else (j, i))
    said = luce.Comparisons(wins=wins, ties=np.array(ties).reshape(-1, 2))
    data = luce.from_arrays(X, np.zeros(len(X)), group=[6] * 150)
    model = luce.Ranker(loss=loss, l2=0.0, tol=1e-8).fit(data, comparisons=said)
    fresh, known, _ = drawn_queries(1, 40, 5)
    expected = loss.pair_probability(known[:, None] - known[None, :])
    off = ~np.eye(40, dtype=bool)
    assert np.abs(model.pair_probability(fresh)[0] - expected)[off].mean() < 0.02


@pytest.mark.parametrize("name", ["pmop", "pmop_exact", "hom_oo", "hom_og"])
def test_chances_are_seeded_and_never_nothing(data, name):
    few = data.take([0, 1])
    settings = {"loss__k": 3} if name.startswith("hom") else {}
    first = luce.Ranker(name, **settings, **({"loss__normalised": True} if name == "hom_og" else {}))
    short = luce.from_arrays(data.X[:60], data.y[:60], group=[6] * 10)
    first.fit(short)
    pairs, again = first.pairs(few), first.pairs(few)
    for one, other in zip(pairs, again, strict=True):
        assert np.array_equal(one.before, other.before)
        assert (one.before[~np.eye(len(one.before), dtype=bool)] > 0).all()


def test_a_top_of_any_length_is_drawn_with_its_chances(data):
    """A model of lists of mixed lengths has no length of its own: one is asked for, and draws then have its chances."""
    short = luce.from_arrays(data.X[:64], data.y[:64], group=[8] * 8)
    model = luce.Ranker("hom_oo", loss__k=None, random_state=0).fit(
        short, comparisons=luce.Comparisons.from_orders([[8 * q + 1, 8 * q] for q in range(8)], top=True)
    )
    with pytest.raises(SettingError, match="a draw needs one: say k"):
        model.sample_rankings(short.take([0]), 10)
    drawn = model.sample_rankings(short.take([0]), 4000, k=2)[0]
    chance = model.topk_probability(short.take([0]), 2)
    assert np.all(np.abs((drawn > 0).mean(axis=0) - chance) < 4.5 * np.sqrt(chance * (1 - chance) / 4000) + 1e-3)


def test_chances_of_a_composite_training_are_named(data):
    short = luce.from_arrays(data.X[:64], data.y[:64], group=[8] * 8)
    model = luce.Ranker("hom_oo", loss__k=2, loss__normalised=False).fit(short)
    with pytest.warns(LuceWarning, match="trained without its normaliser"):
        model.topk_probability(short, 2)
