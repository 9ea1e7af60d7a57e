"""Valid problems that are small or extreme, for every estimator: finite, or said, or refused, and nothing else.

`draw` makes one from a generator; `judged` calls it and gives what is wrong, if anything is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import luce
from luce import aggregate, clicks, experiments, metrics, track
from luce.errors import LuceError, LuceWarning
from luce.result import Result
from tests.fuzz import boards

__all__ = ["FAMILIES", "Verdict", "draw", "judged", "run"]

Rng = np.random.Generator
Call = Callable[[], Any]


class _Never(NamedTuple):
    """Numbers whose infinity has a meaning: the logarithm of what cannot happen, a threshold that no share reaches."""

    values: Any


def _one(rng: Rng, *of: Any) -> Any:
    return of[rng.integers(len(of))]


def _power(rng: Rng, low: float, high: float) -> float:
    return float(10.0 ** rng.uniform(low, high))


def _level(rng: Rng) -> float:
    return float(_one(rng, 0.95, 0.95, 0.5, 1e-6, 1 - 1e-9))


# Boards


def _board(case: Callable[[Rng], boards.Case]) -> Callable[[Rng], Call]:
    def make(rng: Rng) -> Call:
        data, options = case(rng)
        if rng.random() < 0.2 and "race" not in data and "time" not in options:
            options["level"] = _level(rng)
        if case is boards.of_scores and options["model"] in ("borda", "z_score"):  # these have no likelihood
            return lambda: dataclasses.replace(aggregate.score_board(data, **options), log_likelihood=0.0)
        if case is boards.of_scores:
            return lambda: aggregate.score_board(data, **options)
        return lambda: _used_board(aggregate.leaderboard(data, **options), data, options)

    return make


def _used_board(board: Any, data: Any, options: Mapping[str, Any]) -> Any:
    """A board, and what people ask of one."""
    if "by" in options:
        return board, board.matrix
    x, y = board.names[:2]
    found = [board]
    if "time" in options:
        return [board, board.history(x), board.win_probability(x, y), board.draw_probability(x, y)]
    if board.hodge is not None:  # least squares has no likelihood
        return dataclasses.replace(board, log_likelihood=0.0)
    if np.ptp(board.component[[0, 1]]):
        return found
    comparable = (board.component[:, None] == board.component) & ~np.eye(len(board.names), dtype=bool)
    found += [board.win_probability(x, y), board.win_matrix()[comparable], board.aic, board.differences(y)]
    found += [board.draw_probability(x, y)] if board.model.link is not None and board.treatment == "model" else []
    if board.model.link is not None and "group" in options and not {"weight", "count"} & set(options):
        kept = {name: options[name] for name in ("group", "side", "covariates", "draws") if name in options}
        found.append(aggregate.judge_agreement(board, data, **kept))
    return found


def _updated_board(rng: Rng) -> Call:
    case = _one(rng, boards.by_default, boards.with_a_prior, boards.in_time)
    (data, options), (more, _) = case(rng), case(rng)
    shared = {name: options[name] for name in ("time", "side") if name in options}

    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.luceboard"
            aggregate.save_board(aggregate.leaderboard(data, **options), path)
            return aggregate.update_board(path, more, **shared)

    return call


def _simulated_battles(rng: Rng) -> Call:
    strength = (rng.normal(size=rng.integers(2, 7)) * _power(rng, -6, 3)).tolist()
    model, side = _one(rng, *boards.PAIRED), float(rng.normal() * _one(rng, 0.0, 1.0, 100.0))
    tie = None if rng.random() < 0.5 or model == "bradley_terry" else _power(rng, -6, 3) + (model == "rao_kupper")
    count = int(rng.integers(1, 20))

    def call() -> Any:
        battles = aggregate.simulate_battles(count, strength, model=model, tie=tie, side=side, random_state=1)
        return battles.strength, aggregate.leaderboard(battles.table)

    return call


# Ballots


def _ballots(rng: Rng, *, ties: bool = True, cut: bool = True) -> aggregate.Ballots:
    items = "abcdef"[: rng.integers(2, 7)]
    orders: list[list[Any]] = []
    for _ in range(rng.integers(1, 9)):
        order: list[Any] = [items[i] for i in rng.permutation(len(items))]
        order = order[: rng.integers(1, len(items) + 1)] if cut and rng.random() < 0.5 else order
        if ties and rng.random() < 0.5:
            edges = np.unique([0, *rng.integers(0, len(order) + 1, 3), len(order)])
            order = [order[a:b] for a, b in pairwise(edges)]
        orders.append(order)
    weights = [_power(rng, -6, 6) for _ in orders] if rng.random() < 0.3 else None
    return aggregate.Ballots.from_orders(orders, items=list(items), weights=weights)


def _rule(rng: Rng, n: int) -> Any:
    vector = np.sort(rng.normal(size=n) * _power(rng, -8, 8))[::-1].tolist()
    return _one(rng, *aggregate.rule_names(), vector, [1.0] * n, "1/i", "n - i", "log(n + 1 - i)")


def _unranked(rng: Rng) -> str:
    return str(_one(rng, "last", "ignore", "last", "error"))


def _consensus(rng: Rng) -> Call:
    votes = _ballots(rng)
    rule, options = _rule(rng, votes.n_items), {"unranked": _unranked(rng)}
    if rule in ("schulze", "ranked_pairs"):
        options["strength"] = _one(rng, "margin", "winning")
    if rule == "stv":
        options["seats"] = int(rng.integers(1, max(votes.n_items, 2)))
    return lambda: aggregate.consensus(votes, rule, **options)


def _profile(rng: Rng) -> Call:
    votes = _ballots(rng)
    rule, unranked = _rule(rng, votes.n_items), _unranked(rng)
    return lambda: aggregate.check_profile(votes, rule, unranked=unranked, trials=5)


def _axioms(rng: Rng) -> Call:
    n, gamma = int(rng.integers(2, 7)), float(_one(rng, 0.0, 1.0, rng.random(), 0.5))
    rule, k = _rule(rng, n), int(rng.integers(1, n)) if rng.random() < 0.3 else None
    if rng.random() < 0.3 and n < 5:
        return lambda: (aggregate.margin_bounds(rule, n, gamma), aggregate.majority_bound(rule, n, gamma))
    return lambda: _Never(dataclasses.astuple(aggregate.axiom_margins(rule, n, k)))


def _distances(rng: Rng) -> Call:
    votes, unranked = _ballots(rng), _unranked(rng)
    other = votes.take(rng.permutation(votes.n_ballots)[:3])
    penalty = float(_one(rng, 0.0, 0.5, 1.0))
    return lambda: (
        aggregate.kendall_matrix(votes, other, unranked=unranked, penalty=penalty),
        aggregate.footrule_matrix(votes, unranked=unranked),
        aggregate.support(votes, unranked),
    )


def _mallows(rng: Rng) -> Call:
    votes, own = _ballots(rng, ties=rng.random() < 0.1), bool(rng.random() < 0.5)
    components = int(rng.integers(1, 4)) if rng.random() < 0.2 else 0

    def call() -> Any:
        chance = np.random.default_rng(0)
        found = (
            aggregate.fit_mixture(votes, components, chance, starts=1, max_iter=20, generalised=own)
            if components
            else aggregate.fit_mallows(votes, generalised=own)
        )
        return found, found.log_prob(votes), found.position_probabilities(), found.ballots(3, chance).weights

    return call


def _aggregator(rng: Rng) -> Call:
    data = _lists(rng)
    ranks = rng.integers(1, 6, data.X.shape).astype(float)
    ranks[rng.random(ranks.shape) < _one(rng, 0.0, 0.3, 1.0)] = np.nan
    l2 = _one(rng, 0.0, 1e-12, 0.01, 1e6)
    model = _one(
        rng,
        lambda: aggregate.BordaAggregator(),
        lambda: aggregate.CPSAggregator(l2, distance=_one(rng, "kendall", "spearman")),
        lambda: aggregate.PositionalAggregator(_one(rng, ("borda",), ("log", "reciprocal"), ("ranked",)), l2),
    )
    return lambda: model().fit(ranks, data.y, data.offsets).predict(ranks, data.offsets)


# Lists of judged documents


def _lists(rng: Rng, *, gaps: bool = False, least: int = 1) -> luce.Groups:
    sizes = rng.integers(1, 6, rng.integers(least, least + 4))
    rows, features = int(sizes.sum()), int(rng.integers(1, 5))
    X = _one(rng, rng.normal(size=(rows, features)), rng.integers(0, 2, (rows, features)).astype(float))
    X = X * _one(rng, 1.0, 1.0, 1.0, 0.0, 1e-20, 1e12, 1e30)
    if gaps and rng.random() < 0.2:
        X[rng.random(X.shape) < 0.3] = np.nan
    grades = _one(rng, 2, 2, 3, 5, 1, 31)
    y = rng.integers(0, grades, rows).astype(float) if rng.random() < 0.8 else rng.permutation(rows).astype(float) / 4
    weight = 10.0 ** rng.uniform(-6, 6, len(sizes)) if rng.random() < 0.1 else None
    query = np.repeat(np.arange(len(sizes)), sizes)
    return luce.from_arrays(X, y, qid=query, query_weight=weight, allow_nan=gaps)


def _statements(rng: Rng, data: luce.Groups) -> luce.Comparisons | None:
    """Some pairs, draws or orders of the rows of each query."""
    orders, wins, ties = [], [], []
    for a, b in pairwise(data.offsets.tolist()):
        order = (a + rng.permutation(b - a)).tolist()
        orders.append(order[: rng.integers(1, len(order) + 1)])
        if b - a > 1:
            (wins if rng.random() < 0.7 else ties).append(order[:2])
    if rng.random() < 0.5:
        return luce.Comparisons.from_orders(orders, top=bool(rng.random() < 0.5))
    return luce.Comparisons.from_pairs(wins, ties) if wins or ties else None


def _settings(rng: Rng) -> dict[str, Any]:
    drawn = {
        "l2": _one(rng, 0.0, 1e-12, 0.1, 1e6),
        "max_iter": int(rng.integers(1, 6)),
        "query_norm": _one(rng, "minmax", "zscore"),
        "early_stopping": None,
        "metric": _one(rng, "map", "ndcg@1", "err"),
    }
    chance = {"l2": 0.3, "max_iter": 0.5, "query_norm": 0.1, "early_stopping": 0.2, "metric": 0.1}
    return {name: value for name, value in drawn.items() if rng.random() < chance[name]}


def _used_ranker(ranker: Any, data: luce.Groups, test: luce.Groups, **targets: Any) -> Any:
    ranker.fit(data, **targets)
    found = [ranker.predict(test), _means(luce.evaluate(ranker, test, ["ndcg@3", "map", "err"]))]
    if getattr(ranker, "loss_", None) is not None and ranker.parts_.loss is not None:
        with contextlib.suppress(LuceError):  # most losses are no likelihoods
            found += [ranker.log_likelihood(test), ranker.pairs(test, samples=20), ranker.sample_rankings(test, 2)]
    return found


def _ranker(rng: Rng) -> Call:
    scorer = _one(rng, "linear", "linear", "linear", *luce.scorers.names())
    data = _lists(rng, gaps=True)
    test = data.take(rng.permutation(data.n_queries)[:2])
    options = _settings(rng) | {"loss": _one(rng, *luce.losses.names()), "scorer": scorer, "random_state": 0}
    targets: dict[str, Any] = {}
    if options["loss"] == "click_choice":
        exposure = 10.0 ** rng.uniform(-3, 6, data.n_rows) * (rng.random(data.n_rows) < 0.8)
        targets["clicks"] = clicks.Clicks(np.floor(exposure * rng.random(data.n_rows)), exposure)
    elif rng.random() < 0.2 and (stated := _statements(rng, data)) is not None:
        targets["comparisons"] = stated
    if rng.random() < 0.3:
        targets["valid"] = test if rng.random() < 0.5 else _renamed(rng, data)
    return lambda: _used_ranker(luce.Ranker(**options), data, test, **targets)


def _renamed(rng: Rng, data: luce.Groups) -> luce.Groups:
    """Other documents with the same features."""
    X = np.nan_to_num(rng.permuted(data.X, axis=0))
    return luce.from_arrays(X, rng.permuted(data.y), qid=np.repeat(np.arange(100, 100 + data.n_queries), data.sizes))


def _trainer(rng: Rng) -> Call:
    data = _lists(rng)
    options = _settings(rng) | {"trainer": _one(rng, *luce.training.names()), "random_state": 0}
    if options["trainer"] == "blend":  # the system of its own below
        options["trainer"] = "lbfgs"
    if rng.random() < 0.3:
        options["loss"] = _one(rng, "pmop", "ranknet", "listnet", "plackett_luce")
    return lambda: _used_ranker(luce.Ranker(**options), data, data)


def _system(rng: Rng) -> Call:
    name = _one(rng, *(name for name in luce.model_names() if name != "auto"))
    data = _lists(rng, least=2)
    options: dict[str, Any] = {}
    if rng.random() < 0.7:
        options["max_iter"] = int(rng.integers(1, 5))
    valid = {"valid": _renamed(rng, data)} if rng.random() < 0.4 else {}

    def call() -> Any:
        if name.endswith("-agg"):
            return luce.model(name).fit(data.X, data.y, data.offsets).predict(data.X, data.offsets)
        made = luce.model(name)
        takes = {key: value for key, value in options.items() if key in made.get_params()}
        return _used_ranker(luce.model(name, **takes, random_state=0), data, data, **valid)

    return call


def _reranker(rng: Rng) -> Call:
    data = _lists(rng, least=2)
    base = luce.Ranker(_one(rng, "listnet", "ranknet"), max_iter=3, random_state=0)
    name = _one(rng, "lrf", "lsr", "trees")

    def call() -> Any:
        base.fit(data)
        if name == "trees":
            return _used_ranker(luce.Ranker("pmop", "trees", base=base, max_iter=3, random_state=0), data, data)
        return _used_ranker(luce.model(name, base=base, random_state=0), data, data)

    return call


def _blend(rng: Rng) -> Call:
    data, weights = _lists(rng, least=2), _one(rng, "learned", "equal")
    losses = [_one(rng, "listnet", "ranknet", "pmop", "plackett_luce") for _ in range(rng.integers(1, 4))]

    def call() -> Any:
        models = [luce.Ranker(loss, max_iter=3, random_state=0).fit(data) for loss in losses]
        return luce.blend(models, data, weights=weights).predict(data)

    return call


def _cross_fit(rng: Rng) -> Call:
    data, folds = _lists(rng, least=6), int(rng.integers(2, 4))
    ranker = luce.Ranker(_one(rng, "listnet", "pmop"), _one(rng, "linear", "trees"), max_iter=3, random_state=0)
    return lambda: luce.cross_fit(ranker, data, folds).predict(data)


def _comparison(rng: Rng) -> Call:
    data, folds = _lists(rng, least=6), int(rng.integers(3, 5))
    models = {"a": luce.Ranker("listnet", max_iter=2), "b": luce.Ranker("ranknet", max_iter=2)}
    if rng.random() < 0.3:
        space = experiments.grouped_folds
        return lambda: experiments.tune(space(data, folds), "listnet", trials=2, metric="map").best.validation
    return lambda: luce.compare(data, models, ["map", "ndcg@2"], folds=folds)


def _loss(rng: Rng) -> Call:
    data = _lists(rng)
    name = _one(rng, *(name for name in luce.losses.names() if name != "click_choice"))
    scores = rng.normal(size=data.n_rows) * _power(rng, -6, 4)
    scores[rng.random(len(scores)) < 0.2] = 0.0
    first, last = data.offsets[:2]

    def call() -> Any:
        loss = luce.losses.get(name)
        found = [loss.value_and_grad(scores, data.y, data.offsets)]
        if hasattr(loss, "sample"):
            drawn = loss.sample(scores[first:last], np.random.default_rng(0))
            found += [drawn, loss.log_prob(scores[first:last], drawn)]
        return found

    return call


# Metrics


_CUT = ("dcg", "err", "kappa_ndcg", "map", "ndcg", "p", "recall")
"""Metrics that are often cut off."""


def _evaluation(rng: Rng) -> Call:
    data = _lists(rng)
    scores = _one(rng, rng.normal(size=data.n_rows), rng.integers(0, 2, data.n_rows).astype(float))
    scores = scores * _one(rng, 1.0, 1e-300, 1e300)
    drawn = {
        "preset": _one(rng, *metrics.PRESETS),
        "gain": "linear",
        "empty": _one(rng, 1, "skip"),
        "ties": _one(rng, "average", "stable", "best", "worst"),
        "label_ties": _one(rng, "extend", "stable", "error"),
        "rmax": _one(rng, 0, 1, 500),
        "persistence": _one(rng, 1e-9, 1 - 1e-9),
        "tie_margin": _power(rng, -9, 9),
        "top_k": int(rng.integers(1, 5)),
    }
    settings = {key: value for key, value in drawn.items() if rng.random() < 0.08}
    names = [n for n in metrics.names() if n not in ("log_likelihood", "alpha_ndcg")]
    wanted = [str(name) for name in rng.permutation(names)[: rng.integers(1, 9)]]
    wanted = [f"{name}@{rng.integers(1, 8)}" if name in _CUT and rng.random() < 0.5 else name for name in wanted]
    return lambda: _means(luce.evaluate(scores, data, wanted, **settings))


def _means(found: luce.Evaluation) -> Any:
    """Means where queries count, and where none does, that this is said."""
    found.to_markdown()
    nothing = [name for name, count in found.counted.items() if not count]
    assert all(name in found.lines[0] for name in nothing)
    return {name: mean for name, mean in found.means.items() if name not in nothing}


def _difference(rng: Rng) -> Call:
    n = int(rng.integers(1, 8))
    a = _one(rng, rng.random(n), np.ones(n), rng.integers(0, 2, n).astype(float)) * _one(rng, 1.0, 1e-300, 1e150)
    b = a if rng.random() < 0.2 else rng.permutation(a) + rng.normal() * _one(rng, 0, 1)
    level, p = _level(rng), {f"m{i}": float(_one(rng, 0.0, 1.0, rng.random())) for i in range(n)}
    return lambda: (
        metrics.compare(a, b, level=level, samples=200),
        metrics.bootstrap_interval(a, level=level, samples=100),
        metrics.randomisation_test(a, b, samples=200),
        metrics.win_tie_loss(a, b),
        metrics.holm(p),
    )


# Clicks


def _click_log(rng: Rng) -> dict[str, list[Any]]:
    log: dict[str, list[Any]] = {name: [] for name in ("session", "query", "document", "position", "clicked", "p")}
    chance = float(_one(rng, 0.5, 0.1, 0.9))
    documents = int(rng.integers(2, 5))
    shuffled = rng.random() < 0.7
    for session in range(_one(rng, rng.integers(1, 12), 30)):
        query = int(rng.integers(0, 2))
        shown = rng.permutation(documents) if shuffled else np.arange(documents)
        shown = shown[: rng.integers(1, documents + 1)]
        log["session"] += [session] * len(shown)
        log["query"] += [f"q{query}"] * len(shown)
        log["document"] += [f"d{query}{i}" for i in shown]
        log["position"] += range(1, len(shown) + 1)
        log["clicked"] += (rng.random(len(shown)) < chance).astype(int).tolist()
        log["p"] += [_power(rng, -6, 0) for _ in shown]
    return log


def _shown_documents(rng: Rng, log: dict[str, list[Any]]) -> luce.Groups:
    pairs = sorted(set(zip(log["query"], log["document"], strict=True)))
    X = rng.normal(size=(len(pairs), 2)) * _one(rng, 1.0, 0.0, 1e12)
    names = {"qid": [q for q, _ in pairs], "document_ids": [d for _, d in pairs]}
    return luce.from_arrays(X, rng.integers(0, 3, len(pairs)).astype(float), **names)


def _examination(rng: Rng) -> Call:
    log, level = _click_log(rng), _level(rng)
    data, given = _shown_documents(rng, log), rng.random() < 0.7
    users = _one(rng, "position", "last_click", "trust")
    given = given or users == "trust"
    method = "auto" if users == "trust" else _one(rng, "auto", "conditional", *(["joint"] if given else []))
    known = {k: _power(rng, -6, 0) for k in range(1, 6)} if rng.random() < 0.2 else None
    scores = rng.normal(size=data.n_rows)

    def call() -> Any:
        counts = clicks.read(log, pairs=True)
        seen = (
            clicks.given_examination(counts, known)
            if known
            else clicks.examination(counts, data if given else None, method=method, users=users)
        )
        found = [seen.theta, seen.covariance, seen.table, seen.target(data), clicks.click_rate(counts, level)]
        found += [clicks.evaluate(seen, data, scores, metrics=["dcg@2", "clicks@2"], most_unseen=1.0, level=level)]
        return [*found, clicks.pairs(seen, data), seen]

    return call


def _policy(rng: Rng) -> Call:
    log, level = _click_log(rng), _level(rng)

    def call() -> Any:
        counts = clicks.read(log, propensity="p")
        chance = rng.random(len(counts.shown)) * _one(rng, 0.0, 1.0, 1.0)
        return clicks.policy_value(counts, level=level), clicks.policy_value(counts, chance, level=level)

    return call


def _interleaving(rng: Rng) -> Call:
    log, level = _click_log(rng), _level(rng)
    rows = len(log["session"])
    log["team"] = rng.choice(["a", "b", ""], rows).tolist()
    for name in ("rank_a", "rank_b"):
        log[name] = rng.integers(1, 5, rows).tolist()
    method = _one(rng, "team_draft", "balanced")
    return lambda: clicks.interleaving(log, method, level=level)


# Tracking


def _world(rng: Rng) -> tuple[Any, ...]:
    count = int(rng.integers(1, 5))
    positions = rng.normal(size=(count, 2)) * _one(rng, 1.0, 10.0, 10.0, 1e5)
    window = (0.0, float(_one(rng, 10.0, 1e5)))
    steps = [np.sort(rng.uniform(*window, rng.integers(0, 5))) for _ in range(rng.integers(1, 5))]
    settings = {
        "sigma": _power(rng, -4, 2),
        "detection": float(_one(rng, 0.0, 0.5, 0.9, 1.0)),
        "clutter_rate": float(_one(rng, 0.0, 1e-9, 1.0, 100.0)),
        "window": window,
        "emission_sd": float(_one(rng, 0.0, 0.0, 1.0)),
    }
    return positions, steps, settings


def _reception(rng: Rng) -> Call:
    sources, steps, settings = _world(rng)
    places = rng.normal(size=(3, 2)) * _one(rng, 1.0, 1e3)
    engine = _one(rng, *(name for name in track.engine_names() if name != "labelled"))
    own = settings | {"engine": engine}
    return lambda: (
        _Never(track.log_likelihood(steps[0], places, sources, **own)),
        track.label_posteriors(steps[0], places, sources, **own),
        _Never(track.best_labels(steps[0], places, sources, **own)[1]) if engine == "exact" else None,
    )


def _followed(rng: Rng) -> Call:
    sources, steps, settings = _world(rng)
    settings |= {"particles": int(rng.integers(2, 40)), "trajectories": int(rng.integers(2, 20))}
    settings |= {"dynamics": _power(rng, -3, 2)} if rng.random() < 0.9 else {}
    settings |= {"end": [1.0, 1.0]} if rng.random() < 0.2 else {}
    if rng.random() < 0.1:
        del settings["trajectories"]
        settings.pop("dynamics", None)
        return lambda: _tuned(track.tune(steps, sources, {"sd": [0.1, 1.0]}, start=[0.0, 0.0], **settings))
    smooth = bool(rng.random() < 0.7)
    return lambda: track.follow(steps, sources, start=[0.0, 0.0], smooth=smooth, **settings)


def _tuned(found: track.Tuning) -> Any:
    """The best values, and where none is possible, that this is said."""
    values = np.array([row["log_likelihood"] for row in found.rows])
    assert found.notes or values.max() > -np.inf
    return found.best, _Never(values)


FAMILIES: dict[str, tuple[Callable[[Rng], Call], int]] = {
    "board by default": (_board(boards.by_default), 6),
    "board with a prior": (_board(boards.with_a_prior), 6),
    "board with options": (_board(boards.with_options), 10),
    "board of races": (_board(boards.of_races), 8),
    "board by least squares": (_board(boards.by_least_squares), 4),
    "board of teams": (_board(boards.of_teams), 4),
    "board of goals": (_board(boards.of_goals), 4),
    "board by category": (_board(boards.by_category), 3),
    "history": (_board(boards.in_time), 2),
    "score board": (_board(boards.of_scores), 3),
    "updated board": (_updated_board, 2),
    "simulated battles": (_simulated_battles, 3),
    "consensus": (_consensus, 10),
    "profile": (_profile, 2),
    "axioms": (_axioms, 2),
    "distances": (_distances, 6),
    "Mallows": (_mallows, 6),
    "aggregator": (_aggregator, 5),
    "loss": (_loss, 6),
    "ranker": (_ranker, 8),
    "trainer": (_trainer, 4),
    "system": (_system, 2),
    "reranker": (_reranker, 2),
    "blend": (_blend, 2),
    "cross-fitting": (_cross_fit, 1),
    "comparison": (_comparison, 1),
    "metrics": (_evaluation, 10),
    "difference of models": (_difference, 5),
    "examination": (_examination, 8),
    "policy": (_policy, 5),
    "interleaving": (_interleaving, 5),
    "reception": (_reception, 8),
    "track": (_followed, 3),
}
"""What makes a problem, and how often it is drawn among the others."""


def draw(rng: Rng) -> tuple[str, Call]:
    """A family and a call that answers, says or refuses."""
    weights = np.array([weight for _, weight in FAMILIES.values()], dtype=float)
    name = list(FAMILIES)[rng.choice(len(weights), p=weights / weights.sum())]
    make = FAMILIES[name][0]
    return name, lambda: make(rng)()


class Verdict(NamedTuple):
    """How a problem ended: "finite", "said" or "refused", or None and what is wrong."""

    ended: str | None
    fault: str = ""
    where: str = ""


def judged(call: Call) -> Verdict:
    """Solve a problem, and look at every number of the answer."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("error")
        warnings.simplefilter("always", LuceWarning)
        try:
            found = call()
            shown = [_shown(part) for part in _results(found)]
        except LuceError as refusal:
            text = str(refusal)
            whole = "\n" not in text and text.endswith((".", "?")) and len(text) < 4000
            return Verdict("refused") if whole else Verdict(None, f"no one sentence: {text[:300]!r}", _place(refusal))
        except Exception as fault:  # noqa: BLE001 (whatever it is, it is what is looked for)
            return Verdict(None, f"{type(fault).__name__}: {str(fault)[:300]}", _place(fault))
    said = bool(heard) or any(shown)
    open_ends = [path for path, value in _numbers(found) if not np.isfinite(value).all()]
    if open_ends and not said:
        return Verdict(None, f"not finite, and nothing said: {', '.join(open_ends[:5])}", open_ends[0])
    return Verdict("said" if open_ends else "finite")


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/luce/" in frame.filename]
    return f"{frames[-1].filename.rpartition('/luce/')[2]}:{frames[-1].lineno}" if frames else "?"


def _results(found: Any) -> Iterator[Any]:
    """What has notes or tables, wherever it stands in an answer."""
    if isinstance(found, Mapping):
        found = list(found.values())
    if isinstance(found, list | tuple):
        for part in found:
            yield from _results(part)
    if isinstance(found, Result) or hasattr(found, "notes") or hasattr(found, "remarks"):
        yield found


def _shown(found: Any) -> list[str]:
    """What a result says; its tables and its record can be made."""
    if isinstance(found, Result):
        found.as_dict()
        found.to_markdown()
    return [*getattr(found, "notes", ()), *getattr(found, "remarks", ())]


_SKIPPED = ("counts", "influence", "signals", "sources", "build", "options", "read_ids", "mode")
"""Fields that hold what was given, or what no user sees."""


def _numbers(found: Any, path: str = "answer") -> Iterator[tuple[str, np.ndarray]]:
    """Every number of an answer, with where it stands."""
    if isinstance(found, float | np.floating):
        yield path, np.asarray(found)
    elif isinstance(found, np.ndarray):
        if found.dtype.kind == "f":
            yield path, found
    elif isinstance(found, _Never):
        values = found.values if isinstance(found.values, np.ndarray) else [v for v in found.values if type(v) is float]
        yield path, np.nan_to_num(np.asarray(values, dtype=float), nan=np.nan)
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from _numbers(value, f"{path}[{key!r}]")
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        for field in dataclasses.fields(found):
            if field.name not in _SKIPPED and not field.name.startswith("_"):
                yield from _numbers(getattr(found, field.name), f"{path}.{field.name}")
    elif hasattr(found, "_asdict"):
        for key, value in found._asdict().items():
            yield from _numbers(value, f"{path}.{key}")
    elif isinstance(found, list | tuple):
        for i, value in enumerate(found):
            yield from _numbers(value, f"{path}[{i}]")


def run(count: int, seed: int = 0, families: tuple[str, ...] = ()) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Judge problems seed, seed + 1, ...: how they ended by family, and a line for every new place of a fault."""
    ended: dict[str, dict[str, int]] = {}
    faults: dict[str, list[int]] = {}
    told: dict[str, str] = {}
    for number in range(seed, seed + count):
        rng = np.random.default_rng(number)
        name, call = draw(rng)
        if families and not name.startswith(families):
            continue
        verdict = judged(call)
        of_family = ended.setdefault(name, {"finite": 0, "said": 0, "refused": 0, "faults": 0})
        of_family[verdict.ended or "faults"] += 1
        if verdict.ended is None:
            key = f"{name}: {verdict.where}"
            faults.setdefault(key, []).append(number)
            told.setdefault(key, verdict.fault)
    lines = [f"{len(seeds)} x {key} (seed {seeds[0]}): {told[key]}" for key, seeds in faults.items()]
    return ended, lines
