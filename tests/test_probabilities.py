"""Probabilities of a fitted ranker: consistent, exact where they can be, kept by model files."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import SettingError


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
