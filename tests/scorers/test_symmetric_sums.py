"""Symmetric functions as signed sums of products, and the scorer that learns such sums."""

from __future__ import annotations

from itertools import pairwise, product
from math import comb

import numpy as np
import pytest

import luce
from luce.errors import DataError, SettingError
from luce.scorers import decompose
from luce.testing import check_scorer


def planted(d, m, rank, rng):
    """A table of a sum of so many products, with signs."""
    functions, signs = rng.normal(size=(d, rank)), rng.choice([-1.0, 1.0], rank)
    table = np.zeros((d,) * m)
    for cell in product(range(d), repeat=m):
        table[cell] = np.sum(signs * np.prod(functions[list(cell)], axis=0))
    return table


@pytest.mark.parametrize(("d", "m", "rank"), [(3, 3, 2), (4, 3, 4), (5, 4, 3), (3, 6, 3), (6, 2, 4), (4, 1, 1)])
def test_planted_ranks_are_found(d, m, rank):
    table = planted(d, m, rank, np.random.default_rng([d, m, rank]))
    found = decompose(table)
    assert found.rank == rank
    np.testing.assert_allclose(found.table(), table, atol=1e-10 * np.abs(table).max())


@pytest.mark.parametrize("name", ["max", "median", "distinct"])
def test_any_symmetric_function_is_a_sum_of_generic_powers(name):
    """Of m = 3 arguments with 4 values: as many terms as there are different cells are enough."""
    functions = {"max": np.max, "median": np.median, "distinct": lambda cell: len(set(cell))}
    table = np.zeros((4, 4, 4))
    for cell in product(range(4), repeat=3):
        table[cell] = functions[name](cell)
    found = decompose(table)
    assert found.rank <= comb(4 + 3 - 1, 3)
    np.testing.assert_allclose(found.table(), table, atol=1e-10)


def test_even_orders_need_signs():
    """F = -1 of two arguments is no sum of squares: the best one of them misses it by 100%."""
    found = decompose(-np.ones((3, 3)))
    assert (found.coefficients < 0).all()
    np.testing.assert_allclose(found.table(), -np.ones((3, 3)), atol=1e-12)


def test_a_partially_symmetric_function_is_one_sum_for_each_first_value():
    rng = np.random.default_rng(5)
    tables = np.array([planted(3, 2, 2, rng) for _ in range(3)])  # h(x_1; x_2, x_3)
    for table in tables:
        np.testing.assert_allclose(decompose(table).table(), table, atol=1e-12)


def test_one_half_for_two_that_differ_is_no_mixture_of_squares():
    """Theorem 7 needs a function that extends to more documents: f(0, 1) = f(1, 0) = 1/2, else 0, has a negative term.

    The nearest mixture of squares with no negative weight has its positive part alone, and misses by the negative one.
    """
    found = decompose([[0.0, 0.5], [0.5, 0.0]])
    assert sorted(found.coefficients) == pytest.approx([-0.5, 0.5])


def test_nothing_is_no_sum():
    assert decompose(np.zeros((2, 2, 2))).rank == 0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[0.0, 1.0], [2.0, 0.0]], "arguments 1 and 2 change places"),
        (np.zeros((2, 3)), "shape"),
        ([[np.nan]], "finite"),
        (np.zeros((40, 40, 40)), "different cells"),
    ],
)
def test_what_is_no_symmetric_table_is_refused(table, words):
    with pytest.raises(DataError, match=words):
        decompose(table)


def test_the_scorer_is_its_formula():
    """By a loop over documents; a query of one has no others."""
    scorer = luce.scorers.get("list_terms", terms=3)
    rng = np.random.default_rng(1)
    Z, offsets = rng.normal(size=(9, 2)), np.array([0, 1, 5, 9])
    parameters = 0.5 * rng.normal(size=scorer.size(2))
    w, a = parameters[:2], parameters[2:5]
    u, v = parameters[5:11].reshape(2, 3), parameters[11:].reshape(2, 3)
    expected = []
    for first, last in pairwise(offsets):
        for i in range(first, last):
            others = [Z[j] for j in range(first, last) if j != i]
            mean = np.mean(others, axis=0) if others else np.zeros(2)
            expected.append(w @ Z[i] + sum(a[t] * np.exp(u[:, t] @ mean + v[:, t] @ Z[i]) for t in range(3)))
    np.testing.assert_allclose(scorer.scores(parameters, Z, offsets), expected, rtol=1e-12)


def test_the_scorer_keeps_the_rules_of_listwise_scorers():
    check_scorer(luce.scorers.get("list_terms"))


def test_what_only_the_list_says_is_learned(tmp_path):
    """Documents whose worth is that of the others: a linear scorer learns nothing, the terms do."""
    rng = np.random.default_rng(3)
    X, y, group = [], [], [6] * 300
    for n in group:
        Z = rng.normal(size=(n, 2))
        mean = (Z.sum(axis=0) - Z) / (n - 1)
        worth = np.exp(mean[:, 0] + Z[:, 1]) - np.exp(mean[:, 0])
        X.append(Z)
        y.append(np.argsort(np.argsort(worth + 0.01 * rng.normal(size=n))))
    data = luce.from_arrays(np.vstack(X), np.concatenate(y).astype(float), group=group)
    linear, terms = (
        luce.Ranker("plackett_luce", scorer, l2=1e-4, random_state=0).fit(data) for scorer in ("linear", "list_terms")
    )
    assert terms.history_["objective"][-1] < linear.history_["objective"][-1]
    terms.save(tmp_path / "model.luce")
    again = luce.load(tmp_path / "model.luce").predict(data)
    np.testing.assert_array_equal(again, terms.predict(data))


def test_terms_must_be_a_number():
    with pytest.raises(SettingError, match="terms"):
        luce.scorers.get("list_terms", terms=0)
