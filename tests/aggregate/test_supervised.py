from __future__ import annotations

import gzip
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from luce.aggregate.supervised import (
    BordaAggregator,
    CPSAggregator,
    PositionalAggregator,
    Reading,
    _choice_loss,
    _choices,
    average_precision,
    choose_reading,
    system_positions,
)
from luce.errors import DataError, SettingError


def toy(rng, queries=60, systems=4, flipped=()):
    """Documents with a hidden quality; systems see it with more noise the higher their number; some rank backwards."""
    ranks, labels, sizes = [], [], rng.integers(4, 12, queries)
    for n in sizes:
        quality = rng.normal(size=n)
        noise = rng.normal(size=(n, systems)) * (0.3 + np.arange(systems))
        block = np.argsort(np.argsort(-(quality[:, None] + noise), axis=0), axis=0) + 1.0
        for m in flipped:
            block[:, m] = n + 1 - block[:, m]
        block[rng.random(block.shape) < 0.2] = np.nan
        ranks.append(block)
        labels.append(np.digitize(quality, [0.5, 1.2]).astype(float))
    return np.concatenate(ranks), np.concatenate(labels), np.concatenate([[0], np.cumsum(sizes)])


def test_positions_against_counting():
    rng = np.random.default_rng(0)
    ranks, _, offsets = toy(rng)
    ranks[::7, 1] = ranks[1::7, 1][: len(ranks[::7])] if len(ranks[1::7]) == len(ranks[::7]) else 3.0
    for small in (True, False):
        got = system_positions(ranks, offsets, Reading(small, "open"))
        for first, last in pairwise(offsets):
            block = ranks[first:last] if small else -ranks[first:last]
            block = np.where(np.isnan(block), np.inf, block)
            for i in range(last - first):
                before = (block < block[i]).sum(axis=0)
                tied = (block == block[i]).sum(axis=0)
                np.testing.assert_allclose(got[first + i], before + (tied + 1) / 2)
    lasts = system_positions(ranks, offsets, Reading(True, "last"))
    sizes = np.repeat(np.diff(offsets), np.diff(offsets))
    np.testing.assert_array_equal(lasts[np.isnan(ranks)], np.broadcast_to(sizes[:, None], ranks.shape)[np.isnan(ranks)])


def test_average_precision_by_hand():
    scores = np.array([1.0, 3, 2, 5, 4, 1, 0])
    labels = np.array([1.0, 0, 2, 0, 0, 1, 0])
    offsets = np.array([0, 3, 5, 7])
    # Ranked labels: 0 2 1; 0 0; 1 0.
    np.testing.assert_allclose(average_precision(scores, labels, offsets), [(1 / 2 + 2 / 3) / 2, 0.0, 1.0])


def test_choice_likelihood_by_hand_and_its_gradient():
    rng = np.random.default_rng(1)
    labels, offsets = np.array([0.0, 2, 1, 1, 0, 0]), np.array([0, 4, 6])
    choices = _choices(labels, offsets)
    assert choices.rows.tolist() == [1, 2, 3, 0, 2, 3, 0]  # best first; query 2 has one label only and no stage
    x, theta = rng.normal(size=(6, 3)), rng.normal(size=3)
    s = np.exp(x @ theta)
    expected = -np.log(s[1] / s[:4].sum()) - np.log(s[2] / s[[0, 2, 3]].sum()) - np.log(s[3] / s[[0, 2, 3]].sum())
    value, gradient = _choice_loss(theta, x[choices.rows], choices, 0.3)
    assert value == pytest.approx(expected / 2 + 0.15 * theta @ theta)
    for k in range(3):
        step = np.eye(3)[k] * 1e-6
        up, down = (_choice_loss(theta + d, x[choices.rows], choices, 0.3)[0] for d in (step, -step))
        assert gradient[k] == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_cps_picks_greedily_among_those_left(seed):
    rng = np.random.default_rng(seed)
    ranks, theta = rng.integers(1, 5, (7, 3)).astype(float), rng.normal(size=3)
    left, expected = list(range(7)), np.empty(7)
    for stage in range(7):
        cost = []
        for j in left:
            others = [i for i in left if i != j]
            d = [
                (ranks[others, m] < ranks[j, m]).sum() + 0.5 * (ranks[others, m] == ranks[j, m]).sum() for m in range(3)
            ]
            cost.append(theta @ d)
        chosen = left[int(np.argmin(np.round(cost, 9)))]
        expected[chosen] = -stage
        left.remove(chosen)
    model = CPSAggregator(reading=Reading())
    model.theta = np.asarray(theta)
    np.testing.assert_array_equal(model.predict(ranks, [0, len(ranks)]), expected)


def test_cps_features_are_recounted_at_each_stage():
    # One query, labels 2 > 1 > 0: at the second stage the first document is gone and the others move up.
    ranks, offsets = np.array([[1.0], [3.0], [2.0]]), np.array([0, 3])
    model = CPSAggregator(l2=1.0, reading=Reading()).fit(ranks, [2, 0, 1], offsets)
    choices = _choices(np.array([2.0, 0, 1]), offsets)
    d = np.array([[0.0], [1], [2], [0], [1]])
    spread = d.std(axis=0)
    theta = model.theta * spread
    _, gradient = _choice_loss(theta, -d / spread, choices, 1.0)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-4)
    assert model.predict(ranks, offsets).tolist() == [0.0, -2.0, -1.0]


@pytest.mark.parametrize("distance", ["kendall", "spearman"])
def test_coset_distances_are_means_over_all_rankings_that_go_on(distance):
    """What `fit` sees of the documents left is the mean distance over all completions, up to a constant."""
    rng = np.random.default_rng(2)
    for n, picked in ((4, 0), (5, 1), (5, 2)):
        system = rng.permutation(n)  # the position of every document
        left = list(range(picked, n))  # 0, 1, ... were picked before
        means = []
        for j in left:
            rest = [i for i in left if i != j]
            orders = [(*range(picked), j, *tail) for tail in permutations(rest)]
            means.append(np.mean([_between(np.argsort(order), system, distance) for order in orders]))
        if distance == "kendall":
            ours = [sum(system[i] < system[j] for i in left) for j in left]
        else:
            ours = [len(left) * system[j] for j in left]
        assert np.subtract(means, means[0]) == pytest.approx(np.subtract(ours, ours[0]))


def _between(place, other, distance):
    if distance == "spearman":
        return ((place - other) ** 2).sum()
    return sum((place[i] < place[j]) != (other[i] < other[j]) for i in range(len(place)) for j in range(i))


def test_cps_with_spearmans_distance_is_a_weighted_borda_rule_with_weights_of_its_own():
    ranks, offsets = np.array([[1.0, 3], [2, 1], [3, 2]]), [0, 3]
    model = CPSAggregator(l2=1.0, reading=Reading(), distance="spearman").fit(ranks, [2, 0, 1], offsets)
    # Stages: {0, 1, 2} picks 0 with features -3 position, {1, 2} picks 2 with features -2 position.
    x = -np.concatenate([3 * ranks, 2 * ranks[1:]])
    spread = x.std(axis=0)

    def loss(scaled):
        utility = x / spread @ scaled
        first = np.log(np.exp(utility[:3]).sum()) - utility[0]
        return first + np.log(np.exp(utility[3:]).sum()) - utility[4] + 0.5 * scaled @ scaled

    best = minimize(loss, np.zeros(2)).x / spread
    assert model.theta == pytest.approx(best, abs=1e-4)
    assert model.predict(ranks, offsets) == pytest.approx(-ranks @ model.theta)
    with pytest.raises(SettingError, match="kendall, spearman"):
        CPSAggregator(distance="cosine")


def test_learned_rules_trust_good_systems_and_reverse_backward_ones():
    rng = np.random.default_rng(3)
    train, test = toy(rng, 150, flipped=(0,)), toy(rng, 150, flipped=(0,))
    borda = BordaAggregator().fit(*train)
    base = average_precision(borda.predict(test[0], test[2]), test[1], test[2]).mean()
    for model in (PositionalAggregator(), PositionalAggregator(("log", "ranked")), CPSAggregator()):
        model.fit(*train)
        assert average_precision(model.predict(test[0], test[2]), test[1], test[2]).mean() > base + 0.05
    weights = PositionalAggregator(reading=Reading()).fit(*train).theta[0]
    assert weights[0] < 0 < weights[1]
    assert abs(weights[1]) > abs(weights[3])


def test_reading_is_chosen_by_the_labels():
    rng = np.random.default_rng(4)
    ranks, labels, offsets = toy(rng, 100)
    assert choose_reading(ranks, labels, offsets).small_is_best
    assert not choose_reading(-ranks, labels, offsets).small_is_best


def test_bad_input():
    ranks, labels, offsets = toy(np.random.default_rng(5), 5)
    with pytest.raises(SettingError, match="call fit first"):
        BordaAggregator().predict(ranks, offsets)
    with pytest.raises(SettingError, match="call fit first"):
        CPSAggregator(reading=Reading()).predict(ranks, offsets)
    with pytest.raises(DataError, match="nothing to learn"):
        PositionalAggregator(reading=Reading()).fit(ranks, np.zeros(len(ranks)), offsets)
    with pytest.raises(DataError, match="as many finite labels"):
        CPSAggregator().fit(ranks, labels[:-1], offsets)
    with pytest.raises(DataError, match="learned for 4 systems"):
        PositionalAggregator().fit(ranks, labels, offsets).predict(ranks[:, :2], offsets)
    with pytest.raises(SettingError, match="A basis function is 'bord'"):
        PositionalAggregator(("bord",))
    with pytest.raises(SettingError, match="l2 is -1"):
        CPSAggregator(l2=-1)
    with pytest.raises(SettingError, match="open, last"):
        system_positions(ranks, offsets, Reading(True, "first"))


def read(path: Path):
    ranks, labels, queries = [], [], []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        label, query, *features = line.partition("#")[0].split()
        ranks.append([np.nan if f.endswith("NULL") else float(f.partition(":")[2]) for f in features])
        labels.append(float(label))
        queries.append(query)
    change = np.flatnonzero(np.array(queries[1:]) != np.array(queries[:-1])) + 1
    return np.array(ranks), np.array(labels), np.concatenate([[0], change, [len(labels)]])


@pytest.mark.real
def test_mq2008_agg_borda_and_the_official_figures(real_data):
    folder, official = real_data("MQ2008-agg"), real_data("letor-baselines") / "BordaCount.MQ2008-agg.txt"
    tests = [read(folder / f"Fold{k}" / "test.txt.gz") for k in range(1, 6)]

    def mean(reading):
        model = BordaAggregator(reading)
        return [average_precision(model.predict(x, o), y, o).mean() for x, y, o in tests]

    assert np.mean(mean(Reading(True, "open"))) >= 0.475
    assert np.mean(mean(Reading(True, "last"))) == pytest.approx(0.4798, abs=5e-5)
    # The official figures are Borda with the ranks read backwards, fold by fold.
    lines = official.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.rstrip().endswith("MAP"))
    published = [float(line.split("\t")[-1]) for line in lines[start + 1 : start + 6]]
    np.testing.assert_allclose(mean(Reading(False, "open")), published, atol=5.1e-5)
    train, (x, y, o) = read(folder / "Fold4" / "train.txt.gz"), tests[3]
    assert choose_reading(*train).small_is_best
    base = average_precision(BordaAggregator().fit(*train).predict(x, o), y, o).mean()
    for model in (PositionalAggregator(l2=0.1), CPSAggregator(l2=0.1)):
        assert average_precision(model.fit(*train).predict(x, o), y, o).mean() > base + 0.02
