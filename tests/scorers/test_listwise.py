"""The reranker against the slow form of its equation, its base, and permutations of the documents."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, ModelFormatError, SettingError
from luce.numerics.segments import centred
from luce.ranker.parts import inner
from luce.scorers.kernel_sums import check_kernels, default_kernels, kernel_sums
from luce.scorers.listwise import FittedListwise
from luce.training.listwise import Reranking, Units
from luce.training.task import Task

LOSSES = ["listnet", "ranknet", "rao_kupper", "ndcg_cross_entropy", "ndcg_square", "ndcg_qnorm", "cosine"]


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    plain = simulate(queries=40, features=12, seed=2)
    rng = np.random.default_rng(0)
    links = sparse.random_array((plain.n_rows, plain.n_rows), density=0.3, rng=rng).tocsr()
    query = np.repeat(np.arange(plain.n_queries), plain.sizes)
    entries = links.tocoo()
    kept = query[entries.row] == query[entries.col]
    links = sparse.csr_array((entries.data[kept], (entries.row[kept], entries.col[kept])), shape=links.shape)
    return luce.from_arrays(plain.X, plain.y, qid=plain.qid, document_ids=plain.document_ids, relations={"link": links})


@pytest.fixture(scope="module")
def base(data) -> luce.Ranker:
    return luce.Ranker("ranknet", random_state=0).fit(data)


def slow_cosines(X: np.ndarray) -> np.ndarray:
    low, high = X.min(axis=0), X.max(axis=0)
    Z = np.divide(X - low, high - low, out=np.zeros_like(X), where=high > low)
    pairs = np.zeros((len(X), len(X)))
    for i, a in enumerate(Z):
        for j, b in enumerate(Z):
            size = np.linalg.norm(a) * np.linalg.norm(b)
            pairs[i, j] = a @ b / size if size > 0 else 0.0
    return pairs


def test_kernel_sums_are_those_of_all_pairs(data):
    sums = kernel_sums(data, ["cosine", "relation:link", "relation:link:in"])
    for a, b in pairwise(data.offsets[:12]):
        cosines = slow_cosines(data.X[a:b].astype(np.float64))
        links = data.relations["link"][a:b][:, a:b].toarray()
        for column, pairs in enumerate([cosines, links, links.T]):
            expected = [sum(pairs[i, j] for j in range(b - a) if j != i) for i in range(b - a)]
            np.testing.assert_allclose(sums[a:b, column], expected, rtol=1e-5, atol=1e-5)


def test_rows_of_zeros_are_like_nothing():
    data = luce.from_arrays([[0.0, 0], [1, 0], [1, 0], [0, 0]])
    np.testing.assert_array_equal(kernel_sums(data, ["cosine"], None)[:, 0], [0, 1, 1, 0])
    model = luce.Ranker("listnet", "listwise").fit(luce.from_arrays(np.zeros((4, 2)), [0, 1, 0, 2]))
    assert np.isfinite(model.predict(data)).all()


def test_scores_are_the_equation(data, base):
    """f_i = sum_t b(x_i; v_t) prod_j exp(sum_k w_tk S_k(x_i, x_j)), pair by pair, up to a factor a query."""
    rng = np.random.default_rng(1)
    kernels = (*default_kernels(data), "gaussian")
    assert kernels[:-1] == ("cosine", "relation:link", "relation:link:in")
    weights, constants, tau = rng.normal(0, 0.2, (2, 4)), np.array([0.0, -0.7]), 1.7
    powers, slopes, widths = np.array([1.0, 0.4]), rng.normal(0, 0.1, (2, 12)), np.array([0.5, 1.2])
    slopes[0] = 0.0
    fitted = FittedListwise(
        weights, constants, tau, kernels, "minmax", 12, 0.1, None, powers, slopes, np.log(widths)[:, None]
    )
    scores, bases = fitted.score_groups(data, base.predict(data)), base.predict(data)
    for a, b in pairwise(data.offsets[:12]):
        X, links = data.X[a:b].astype(np.float64), data.relations["link"][a:b][:, a:b].toarray()
        low, high = X.min(axis=0), X.max(axis=0)
        Z = np.divide(X - low, high - low, out=np.zeros_like(X), where=high > low)
        near = [np.exp(-(((Z[:, None] - Z) ** 2).sum(axis=2)) / (2 * 12 * width**2)) for width in widths]
        f = np.zeros(b - a)
        for t in range(2):
            log_g = np.tensordot(weights[t], [slow_cosines(X), links, links.T, near[t]], axes=1)
            own_base = np.exp(powers[t] * bases[a:b] / tau + X @ slopes[t] + constants[t])
            f += [own_base[i] * np.prod(np.exp(np.delete(log_g[i], i))) for i in range(b - a)]
        apart = np.log(f) - scores[a:b] / tau
        np.testing.assert_allclose(apart, apart[0], atol=1e-5)


def test_centred_sums_would_be_another_function(data, base):
    """The order of three terms differs from that of the same terms on centred sums; that of one does not."""
    b = base.predict(data)

    def orders(terms: int, centre: bool) -> list[list[int]]:
        draw = np.random.default_rng(3)
        weights, constants = draw.normal(0, 0.3, (terms, 1)), draw.normal(0, 1, terms)
        powers = draw.random(terms)
        found = FittedListwise(weights, constants, 1.0, ("cosine",), "minmax", 12, 0.0, powers=powers).score_groups(
            data, b
        )
        if centre:
            sums = centred(kernel_sums(data, ["cosine"], "minmax"), data.offsets)
            found = np.log(np.exp(sums @ weights.T + constants + b[:, None] * powers).sum(axis=1))
        return [np.argsort(found[i:j]).tolist() for i, j in pairwise(data.offsets)]

    assert orders(1, True) == orders(1, False)
    assert orders(3, True) != orders(3, False)


def test_no_weight_is_the_base_bit_for_bit(data, base):
    b = base.predict(data)
    for constants in ([0.0], [0.0, -1.0]):
        none = FittedListwise(np.zeros((len(constants), 1)), np.array(constants), 2.0, ("cosine",), "minmax", 12, 0.0)
        np.testing.assert_array_equal(none.score_groups(data, b), b)
    heavy = luce.Ranker("listnet", "listwise", base=base, l2=1e12).fit(data)
    np.testing.assert_allclose(heavy.predict(data), b, rtol=1e-6, atol=1e-9)
    useless = luce.Ranker("listnet", "listwise", base=base).fit(data, valid=data.take([0]))
    assert max(useless.history_["validation"]) >= useless.history_["validation"][0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("further", [False, True])
def test_gradient_against_finite_differences(data, loss, product, further):
    rng = np.random.default_rng(3)
    fixed = rng.normal(0, 0.3, data.n_rows) if further else None
    loss = luce.losses.get(loss)
    columns = rng.normal(size=(data.n_rows, 2))
    problem = Reranking(data, rng.normal(size=data.n_rows), columns, loss, 0.3, product, fixed=fixed)
    at = np.concatenate([[-0.3, -0.5], rng.normal(0, 0.3, 2), loss.parameters])
    check_gradient(problem, at)


def check_gradient(problem: Reranking, at: np.ndarray) -> None:
    grad = problem.value_and_grad(at)[1]
    for i in range(len(at)):
        ahead, behind = at.copy(), at.copy()
        ahead[i] += 1e-5
        behind[i] -= 1e-5
        numeric = (problem.value_and_grad(ahead)[0] - problem.value_and_grad(behind)[0]) / 2e-5
        assert grad[i] == pytest.approx(numeric, rel=1e-4, abs=1e-6 * max(1.0, np.abs(grad).max()))


@pytest.mark.parametrize("further", [False, True])
def test_gradient_of_learned_kernels_and_further_bases(data, further):
    rng = np.random.default_rng(4)
    z, loss = rng.normal(size=data.n_rows), luce.losses.get("ndcg_square")
    scorer = luce.scorers.get("listwise", kernels=["cosine", "gaussian"], terms=2)
    units = Units(data, scorer.kernels, scorer, z, 0.0)
    columns = units.further if further else units.kernels
    assert columns.width == (2 if not further else 2 + 1 + 1 + 12)
    fixed = rng.normal(0, 0.3, data.n_rows) if further else None
    penalised = np.ones(columns.width)
    penalised[: int(further)] = 0.0
    problem = Reranking(data, z, columns, loss, 0.3, False, fixed=fixed, penalised=penalised)
    check_gradient(problem, np.concatenate([[-0.3, -0.5], rng.normal(0, 0.2, columns.width), [-0.4], loss.parameters]))


def test_width_of_a_kernel_is_learned():
    """Labels follow nearness at a width of 0.2; started from 0.5, the width moves towards it and beats the start."""
    rng = np.random.default_rng(0)
    X = rng.random((900, 2))
    plain = luce.from_arrays(X, group=[15] * 60)
    sums = kernel_sums(plain, ["gaussian"], None, np.log([0.2]))[:, 0].reshape(60, 15)
    y = (np.argsort(np.argsort(-sums, axis=1), axis=1) < 5).ravel()
    data = luce.from_arrays(X, y, group=[15] * 60)
    noise = rng.normal(0, 1e-3, 900)
    settings = {"scorer__kernels": "gaussian", "scorer__normalise": None, "l2": 0.0}
    model = luce.Ranker("listnet", "listwise", **settings).fit(data, base_scores=noise)
    width = float(np.exp(model.scorer_.shapes[0, 0]))
    assert 0.1 < width < 0.35
    held = FittedListwise(np.ones((1, 1)), np.zeros(1), 1.0, ("gaussian",), None, 2, 0.0, shapes=np.log([[0.5]]))
    values = [luce.evaluate(s, data, "ndcg@5").means["ndcg@5"] for s in (
        held.score_groups(data, noise), model.predict(data, base_scores=noise)
    )]  # fmt: skip
    assert values[1] > values[0] + 0.02


@pytest.mark.parametrize("term_base", ["linear", "power", "same"])
def test_further_terms_have_a_base_of_their_own(data, base, term_base, tmp_path):
    settings = {"l2": 1e-3, "scorer__terms": 2, "scorer__term_base": term_base}
    model = luce.Ranker("listnet", "listwise", base=base, **settings).fit(data)
    fitted = model.scorer_
    assert fitted.powers[0] == 1.0
    assert (fitted.powers[1] == 1.0) == (term_base == "same")
    assert (fitted.slopes is not None) == (term_base == "linear")
    one = luce.Ranker("listnet", "listwise", base=base, l2=1e-3).fit(data)
    assert min(model.history_["objective"]) < min(one.history_["objective"])
    model.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(data), model.predict(data))
    settings, arrays = fitted.state()
    with pytest.raises(ModelFormatError, match="powers"):
        FittedListwise.from_state(settings, {**arrays, "powers": np.ones(3)})


@pytest.mark.parametrize("loss", ["listnet", "ndcg_cross_entropy", "ndcg_square", "ndcg_qnorm"])
def test_learns_what_only_the_list_says(loss):
    """Labels that follow the similarity to the others: no base can see it, the kernel sums can."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(600, 5))) + np.repeat(rng.random((40, 5)), 15, axis=0)
    plain = luce.from_arrays(X, group=[15] * 40)
    sums = kernel_sums(plain, ["cosine"])[:, 0].reshape(40, 15)
    y = (np.argsort(np.argsort(-sums, axis=1), axis=1) < 5).ravel()
    data = luce.from_arrays(X, y, group=[15] * 40)
    noise = rng.normal(size=600)
    model = luce.Ranker(loss, "listwise", l2=0.0).fit(data, base_scores=noise)
    assert model.scorer_.kernel_table()[0]["cosine"] > 0
    means = [luce.evaluate(s, data, "ndcg@5").means["ndcg@5"] for s in (noise, model.predict(data, base_scores=noise))]
    assert means[0] < 0.6
    assert means[1] > 0.9


@pytest.mark.parametrize("terms", [1, 3])
def test_exchangeable(data, base, terms):
    """Permuting the documents permutes the scores."""
    model = luce.Ranker("listnet", "listwise", base=base, l2=1e-3, scorer__terms=terms).fit(data)
    assert np.abs(model.scorer_.weights).max() > 1e-4
    rng = np.random.default_rng(5)
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in pairwise(data.offsets)])
    moved = luce.from_arrays(
        data.X[order],
        data.y[order],
        qid=data.qid[order],
        relations={"link": data.relations["link"][order][:, order]},
    )
    np.testing.assert_allclose(model.predict(moved), model.predict(data)[order], rtol=1e-9, atol=1e-9)


def test_terms_lower_the_objective(data, base):
    fits = [luce.Ranker("listnet", "listwise", base=base, l2=0.0, scorer__terms=t).fit(data) for t in (1, 2, 3)]
    values = [min(fit.history_["objective"]) for fit in fits]
    assert values[0] >= values[1] >= values[2]
    assert len(fits[0].scorer_.constants) == 1 < len(fits[1].scorer_.constants) <= len(fits[2].scorer_.constants)
    assert fits[2].scorer_.constants[0] == 0.0


def test_validation_chooses_the_penalty(data, base):
    model = luce.Ranker("listnet", "listwise", base=base, scorer__l2_grid=[1e-3, 1.0]).fit(data, valid=data)
    values = model.history_["validation"]
    assert len(values) == 3  # the base, and each penalty
    assert model.history_["best_iteration"] == int(np.argmax(values))
    assert luce.evaluate(model, data, "ndcg@10").means["ndcg@10"] == pytest.approx(max(values))


def test_distances_are_made_small(data, base):
    model = luce.Ranker("listnet", "listwise", base=base, metric="spearman-footrule").fit(data, valid=data)
    assert model.history_["best_iteration"] == int(np.argmin(model.history_["validation"]))


def test_without_a_base_it_makes_a_linear_one(data, tmp_path):
    model = luce.Ranker("ndcg_square", "listwise", l2=0.1).fit(data)
    linear = luce.Ranker("listnet", l2=0.1).fit(data)
    np.testing.assert_allclose(model.scorer_.base.weights, linear.scorer_.weights)
    model.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(data), model.predict(data))


def test_model_file(data, base, tmp_path):
    model = luce.Ranker("listnet", "listwise", base=base, l2=1e-3, scorer__terms=2).fit(data)
    model.save(tmp_path / "m.luce")
    again = luce.load(tmp_path / "m.luce")
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert again.scorer_.kernel_table() == model.scorer_.kernel_table()
    settings, arrays = model.scorer_.state()
    for broken in (
        {**arrays, "weights": arrays["weights"][:, :-1]},
        {**arrays, "constants": arrays["constants"] * np.nan},
        {"weights": arrays["weights"]},
    ):
        with pytest.raises(ModelFormatError):
            FittedListwise.from_state(settings, broken)
    for change in ({"kernels": ["cosin"] * 3}, {"normalise": "max"}, {"tau": -1.0}, {"n_features": "12"}):
        with pytest.raises(ModelFormatError):
            FittedListwise.from_state({**settings, **change}, arrays)


def test_own_kernel(data, base, tmp_path):
    model = luce.Ranker("listnet", "listwise", base=base, scorer__kernels=[slow_cosines]).fit(data)
    named = luce.Ranker("listnet", "listwise", base=base, scorer__kernels="cosine").fit(data)
    np.testing.assert_allclose(model.predict(data), named.predict(data), rtol=1e-4, atol=1e-4)
    with pytest.raises(SettingError, match="'slow_cosines' is a function, which a model file cannot hold"):
        model.save(tmp_path / "m.luce")


def test_bad_learned_kernels():
    def wrong(X: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return t[0] * X @ X.T, np.ones((1, len(X), len(X)))

    with pytest.raises(SettingError, match="derivative 0 is not that of its values"):
        luce.scorers.LearnedKernel("wrong", wrong, (1.0,))
    with pytest.raises(SettingError, match="has no parameters"):
        luce.scorers.LearnedKernel("none", wrong, ())
    with pytest.raises(DataError, match="documents need"):
        luce.scorers.LearnedKernel("short", lambda X, t: (X, X), (1.0,))
    with pytest.raises(SettingError, match="term_base is 'tree'"):
        luce.scorers.get("listwise", term_base="tree")


def test_bad_kernels(data, base):
    def with_nan(X: np.ndarray) -> np.ndarray:
        pairs = np.ones((len(X), len(X)))
        if np.array_equal(X, X0):
            pairs[1, 0] = np.nan
        return pairs

    from luce.data.filling import normalise_within_queries

    a, b = data.offsets[3:5]
    X0 = normalise_within_queries(data.X, data.offsets, "minmax")[a:b].astype(np.float64)
    error = f"'with_nan' gives nan for document '{data.document_ids[a + 1]}' of query '{data.query_ids[3]}'"
    with pytest.raises(DataError, match=re.escape(error)):
        luce.Ranker("listnet", "listwise", base=base, scorer__kernels=[with_nan]).fit(data)
    with pytest.raises(DataError, match="need a matrix of all pairs"):
        kernel_sums(data, [lambda X: X])
    with pytest.raises(DataError, match=r"needs the relation 'parent'; the data have link"):
        kernel_sums(data, ["relation:parent"])
    for kernels in ("cosin", "relation:", [3], []):
        with pytest.raises(SettingError, match=r"kernel .* is not known; a kernel is|No kernel was named"):
            check_kernels("kernels", kernels)


def test_no_probabilities(data, base):
    model = luce.Ranker("pmop", "listwise", base=base).fit(data)
    for ask in (model.log_likelihood, model.pair_probability, model.sample_rankings):
        with pytest.raises(SettingError, match="its scores have no probabilities"):
            ask(data)


def test_bad_settings(data, base):
    for params in ({"terms": 0}, {"scale": "linear"}, {"l2_grid": []}, {"l2_grid": [-1]}, {"normalise": "max"}):
        (name,) = params
        with pytest.raises(SettingError, match=rf"^{name} is .*; it must "):
            luce.Ranker("listnet", "listwise", base=base, **inner("scorer", params)).fit(data)
    with pytest.raises(SettingError, match="is sampled"):
        luce.Ranker("pmop_gibbs", "listwise", base=base).fit(data)
    scores = np.zeros(data.n_rows)
    scores[5] = np.nan
    with pytest.raises(DataError, match=rf"document '{data.document_ids[5]}' of query '1' is nan"):
        luce.Ranker("listnet", "listwise").fit(data, base_scores=scores)
    model = luce.Ranker("listnet", "listwise", base=base).fit(data)
    with pytest.raises(DataError, match="needs the relation 'link'"):
        model.predict(luce.from_arrays(data.X, qid=data.qid))


def test_real_data_keep_the_ranking_of_the_base(real_data):
    from luce.experiments import find_folds

    train, valid, test = find_folds(real_data("MQ2008"))[0].load()
    base = luce.model("linear_regression").fit(train)
    model = luce.Ranker("listnet", "listwise", base=base, l2=1e15).fit(train)
    np.testing.assert_allclose(model.scorer_.weights, 0.0, atol=1e-12)
    none = FittedListwise(np.zeros((1, 1)), np.zeros(1), 1.0, ("cosine",), "minmax", 46, 0.0)
    np.testing.assert_array_equal(none.score_groups(test, base.predict(test)), base.predict(test))
    reranked = luce.Ranker("pmop", "listwise", base=base).fit(train, valid=valid)
    values = [luce.evaluate(m, valid, "ndcg@10").means["ndcg@10"] for m in (base, reranked)]
    assert values[1] >= values[0]


@pytest.mark.parametrize(("trainer", "what"), [("reranking", "warm_start"), ("closed_form", "warm_start")])
def test_what_would_not_be_used_is_refused(data, trainer, what):
    with pytest.raises(SettingError, match="cannot go on from an earlier fit"):
        luce.training.get(trainer).check_task(Task(data, **{what: object()}))
