"""The best surrogate: weights of a mixture of convex functions, chosen by the metric on other queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.errors import DataError
from luce.losses.ndcg_mix import NDCGMix
from luce.metrics.catalog import get
from luce.metrics.evaluate import evaluate
from luce.training.checkpoint import Checkpoints
from luce.training.pattern_search import pattern_search, starts
from luce.training.train import Options, Trained, data_digest, digest_of, train
from luce.types import FloatArray

__all__ = ["fit"]

HELD_OUT = 0.3
"""Share of the training queries on which weights are judged where there are no validation data."""


def fit(
    scorer: Any, loss: NDCGMix, data: Groups, valid: Groups | None, options: Options, target: Any = None
) -> Trained:
    r"""Maximise the metric of $\hat h_\alpha$ over $\alpha \ge 0$: [Pareek] (3.25), each fit [Pareek] (3.26).

    With validation data, every $\hat h_\alpha$ is fitted on the training data and judged on the validation data, as in
    [Pareek] section 3.6. Without, three tenths of the training queries are held out to judge; the chosen weights are
    fitted again on all of them, for as many iterations as were best. A pattern search from near zeros, ones and each
    unit vector takes `loss.evaluations` fits, shared among the starts; all that it visited is in the history. A
    checkpoint holds what was visited, so that a search that is taken up again fits none of it twice.
    """
    search = _Search(scorer, loss, data, valid, options)
    alpha = search.run()
    chosen = loss.with_alpha(alpha)
    last = replace(options, checkpoint=None)
    if valid is None:
        last = replace(last, max_iter=max(1, search.iterations[search.key(alpha)]))
    trained = train(scorer, chosen, data, valid, last)
    trained.history.surface = search.surface
    return trained


class _Search:
    """What was visited, and what a visit takes."""

    def __init__(self, scorer: Any, loss: NDCGMix, data: Groups, valid: Groups | None, options: Options) -> None:
        self.scorer, self.loss, self.progress = scorer, loss, options.progress
        self.metric = get(options.metric)
        self.sign = 1.0 if self.metric.greater_is_better else -1.0
        quiet = replace(options, checkpoint=None, progress=None)
        self.parts = (data, valid, quiet) if valid is not None else _split(data, quiet)
        # Boosting follows the direction of alpha alone: its line search undoes the scale.
        self.scale_free = getattr(scorer, "training", "") == "listwise_boosting"
        self.surface: list[dict[str, Any]] = []
        self.known: dict[tuple[float, ...], float] = {}
        self.iterations: dict[tuple[float, ...], int] = {}
        self.seed = options.seed
        self.checkpoints = None
        if options.checkpoint is not None:
            fingerprint = {"data": data_digest(data), "scorer": repr(scorer), "loss": repr(loss), "seed": options.seed}
            fingerprint |= {"valid": None if valid is None else data_digest(valid), "metric": options.metric}
            fingerprint |= {"l2": options.l2, "max_iter": options.max_iter, "patience": options.patience}
            fingerprint |= {"base": [digest_of(options.base), digest_of(options.valid_base)]}
            self.checkpoints = Checkpoints(options.checkpoint, fingerprint)
            saved = self.checkpoints.load()
            for visit in [] if saved is None else saved.state["surface"]:
                self._note(np.array(visit["alpha"]), visit["value"], visit["iterations"])

    def run(self) -> FloatArray:
        """The best weights."""
        begin = starts(len(self.loss.functions), np.random.default_rng(self.seed))
        begin = begin[: max(1, min(len(begin), self.loss.evaluations))]
        unit = np.array([psi.unit for psi in self.loss.functions])
        share = -(-self.loss.evaluations // len(begin))
        left = dict.fromkeys(range(len(begin)), share)
        current = -1
        asked: set[tuple[float, ...]] = set()

        def value(alpha: FloatArray) -> float | None:
            nonlocal current
            if current + 1 < len(begin) and alpha is begin[current + 1]:
                current += 1
            if self.key(alpha) not in asked and (left[current] == 0 or len(asked) == self.loss.evaluations):
                return None
            if self.key(alpha) not in asked:
                asked.add(self.key(alpha))
                left[current] -= 1
            return self.sign * self._visit(alpha)

        return pattern_search(value, begin, unit)

    def key(self, alpha: FloatArray) -> tuple[float, ...]:
        """What makes two weights the same."""
        scaled = alpha / alpha.sum() if self.scale_free else alpha
        return tuple(round(float(a), 12) for a in scaled)

    def _visit(self, alpha: FloatArray) -> float:
        if self.key(alpha) in self.known:
            return self.known[self.key(alpha)]
        data, valid, options = self.parts
        trained = train(self.scorer, self.loss.with_alpha(alpha), data, valid, options)
        scores = trained.scorer.score(valid.X, valid.offsets)
        scores = scores if options.valid_base is None else scores + options.valid_base
        found = evaluate(scores, valid, [self.metric]).means[self.metric.name]
        best = trained.history.best_iteration
        self._note(alpha, found, len(trained.history.objective) if best is None else best)
        if self.progress:
            self.progress(len(self.surface), self.loss.evaluations, {"validation": found})
        if self.checkpoints:
            self.checkpoints.save(len(self.surface), {"surface": self.surface}, {"alpha": alpha})
        return found

    def _note(self, alpha: FloatArray, value: float, iterations: int) -> None:
        self.surface.append({"alpha": [float(a) for a in alpha], "value": float(value), "iterations": int(iterations)})
        self.known[self.key(alpha)], self.iterations[self.key(alpha)] = float(value), int(iterations)


def _split(data: Groups, options: Options) -> tuple[Groups, Groups, Options]:
    """Queries to fit on and queries to judge on, drawn with the seed."""
    if data.n_queries < 2:
        raise DataError("One query cannot be split to choose alpha; give more, or validation data, or alpha itself.")
    held = np.zeros(data.n_queries, dtype=bool)
    count = max(1, round(HELD_OUT * data.n_queries))
    held[np.random.default_rng(options.seed).permutation(data.n_queries)[:count]] = True
    if options.base is not None:
        by_row = np.repeat(held, data.sizes)
        options = replace(options, base=options.base[~by_row], valid_base=options.base[by_row])
    return data.take(~held), data.take(held), options
