"""ListMLE: the Plackett-Luce likelihood of one total order that agrees with the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Likelihood, Target, as_labels, check_scores
from luce.losses.pmop import run_queries
from luce.numerics.segments import Chunk, Tiers, query_index
from luce.types import FloatArray, IntArray

__all__ = ["ListMLE"]


class ListMLE(Likelihood):
    r"""Likelihood of the order $\sigma$ of a query under Plackett-Luce.

    $$-\log p(\sigma) = \sum_i \log\sum_{j \ge i} e^{f_{\sigma(j)}} - f_{\sigma(i)}$$

    Labels with ties do not name one order. `ties="stable"` keeps tied documents in input order, which rewards whatever
    order the file has; `ties="random"` draws one order per data set from `seed`. The loss `pmop` models ties
    instead of breaking them.

    >>> round(float(np.exp(ListMLE().log_prob([0.0, 0.0, 0.0], [3, 1, 2]))), 12)
    0.166666666667
    """

    name = "listmle"
    outcome = "order"

    def __init__(self, ties: str = "stable", seed: int = 0) -> None:
        if ties not in ("stable", "random"):
            raise SettingError(f"listmle(ties={ties!r}): ties must be 'stable' or 'random'.")
        self.ties = ties
        self.seed = seed
        self.permutation_invariant = False  # on tied labels; on untied ones it is

    @property
    def settings(self) -> dict[str, Any]:
        """How ties are broken."""
        return {"ties": self.ties, "seed": self.seed}

    def prepare(self, target: Target, offsets: IntArray) -> Tiers:
        """Tiers of one document each."""
        labels = as_labels(self, target, offsets)
        tie_break = np.arange(len(labels))
        if self.ties == "random":
            tie_break = np.random.default_rng(self.seed).permutation(len(labels))
        order = np.lexsort((tie_break, -labels, query_index(offsets))).astype(np.int64)
        return Tiers(order, np.arange(len(labels) + 1), offsets)

    def evaluate(
        self,
        prepared: Tiers,
        scores: FloatArray,
        chunk: Chunk,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        d_parameters: FloatArray = NOT_WANTED,
    ) -> FloatArray:
        """PMOP with tiers of one document is Plackett-Luce."""
        values = np.empty(chunk[1] - chunk[0])
        run_queries(scores, *prepared, chunk[0], values, grad, curvature)
        return values

    def log_prob(self, scores: ArrayLike, target: Target) -> float:
        """Log-probability of the order that the labels of one query name."""
        return -self.value_and_grad(scores, target)[0]

    def sample(self, scores: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Draw an order: sorting scores plus Gumbel noise draws from Plackett-Luce."""
        noisy = check_scores(scores) + rng.gumbel(size=np.shape(scores))
        labels = np.empty(len(noisy))
        labels[np.argsort(-noisy)] = np.arange(len(noisy), 0, -1)
        return labels
