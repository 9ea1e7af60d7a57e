"""Weak learnability, made a number: what the edges of a boosted ranker promise, beside what its training reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Risk
from luce.losses.ndcg import NDCGSquare
from luce.result import Result, Sheet
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.ranker import Ranker


@dataclass(frozen=True)
class WeakLearning(Result):
    """Round by round, the edge, the risk, and the bound on it."""

    edges: FloatArray
    risk: FloatArray
    bound: FloatArray
    optimum: float
    """The least risk that any scores have."""

    @property
    def least_edge(self) -> float:
        """Gamma of the weak-learning condition: above 0, the rounds so far met it."""
        return float(self.edges.min())

    @property
    def lines(self) -> list[str]:
        """Whether the condition was met, and what is left above the optimum."""
        met = "met" if self.least_edge > 0 else "not met: a round had no edge"
        return [
            f"The weak-learning condition was {met} (least edge {self.least_edge:.3g} over {len(self.edges)} rounds).",
            f"The risk is {self.risk[-1] - self.optimum:.4g} above the least of any scores, at most "
            f"{self.bound[-1] - self.optimum:.4g} by the edges.",
        ]

    def sheets(self) -> list[Sheet]:
        """A line a round."""
        columns = {"edge": self.edges.tolist(), "risk": self.risk.tolist(), "bound": self.bound.tolist()}
        return [Sheet("Rounds", {"round": list(range(1, len(self.edges) + 1)), **columns}, 6)]


def weak_learning(ranker: Ranker, data: Groups) -> WeakLearning:
    r"""The bound of [Pareek] Proposition 4 from the edges that listwise boosting recorded on its training data.

    With the risk of `ndcg_square`, whose curvature lies between $\mu$ and $L$ on N documents, a round that goes to the
    minimum along h lowers the risk by at least $\langle d, h \rangle^2 / (2 L \|h\|^2)$. With the edge
    $\gamma = |\langle d, h \rangle| / (\|d\|_1 \|h\|_\infty)$, [Pareek] (3.24), $\|h\|^2 \le N \|h\|_\infty^2$,
    $\|d\|_1 \ge \|d\|_2$ and $\|d\|_2^2 \ge 2 \mu (R - R^*)$, what is left above the optimum $R^*$ shrinks at least by

    $$R_t - R^* \le (R_{t-1} - R^*) \left(1 - \frac{\mu}{L} \frac{\gamma_t^2}{N}\right).$$

    So edges above a $\gamma > 0$ in all rounds take the risk to its least. The bound is safe and far from sharp.
    """
    history = getattr(ranker, "history_", {})
    loss, edges = getattr(ranker, "loss_", None), np.asarray(history.get("edges", []), dtype=np.float64)
    if not isinstance(loss, NDCGSquare) or loss.link is not None or not len(edges):
        raise SettingError(
            "A bound by edges needs a ranker that listwise boosting has trained on ndcg_square, with a round or more; "
            "use luce.model('ndcg-boost-linear', loss='ndcg_square')."
        )
    shrunk = getattr(ranker.parts_.scorer, "learning_rate", 1.0)
    risk = Risk(loss, data.y, data.offsets, data.query_weight)
    value, d, curvature = risk(np.zeros(data.n_rows))
    felt = curvature > 0
    optimum = value - 0.5 * float(np.sum(d[felt] ** 2 / curvature[felt]))
    reached = np.asarray(history["objective"], dtype=np.float64)
    rate = shrunk * (2.0 - shrunk) * curvature[felt].min() / (curvature[felt].max() * felt.sum())
    shares = np.concatenate([[1.0], np.cumprod(1.0 - rate * edges[1:] ** 2)])
    return WeakLearning(edges, reached, optimum + (reached[0] - optimum) * shares, optimum)
