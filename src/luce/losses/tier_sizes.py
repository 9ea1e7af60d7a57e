"""How many documents a tier has: a distribution fitted to the tiers of training data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln, log_expit

from luce.errors import DataError, SettingError
from luce.numerics.segments import Tiers, check_offsets, tiers
from luce.types import FloatArray, IntArray

STAGES = 5
"""Stages with parameters of their own; all later ones share those of the last."""
PRIOR = np.array([3.0, 1.0, 2.0, 2.0])
"""Standard deviations of the normal prior on the four parameters: weak, and yet the fit stays finite
where every tier, or none, is all that is left."""


class Stages(NamedTuple):
    """One entry a stage: the size of its tier, the documents left before it, and its number in the query, from 0."""

    size: IntArray
    remaining: IntArray
    number: IntArray


def stages(cut: Tiers) -> Stages:
    """All stages of all queries.

    >>> [x.tolist() for x in stages(tiers(np.array([0.0, 2, 0, 1]), np.array([0, 4])))]
    [[1, 1, 2], [4, 3, 2], [0, 1, 2]]
    """
    per_query = np.diff(cut.queries)
    ends = np.repeat(cut.starts[cut.queries[1:]], per_query)
    number = np.arange(len(ends)) - np.repeat(cut.queries[:-1], per_query)
    return Stages(np.diff(cut.starts), ends - cut.starts[:-1], number)


@dataclass(frozen=True, eq=False)
class SizeModel:
    r"""$P_k(m \mid n)$: the chance that stage k, with n documents left, takes m of them.

    With chance $\pi = \operatorname{logit}^{-1}(a_k + b_k \log(n/16))$ it takes all that is left; else m - 1 is
    beta-binomial of n - 2 trials with parameters $\alpha_k, \beta_k$. That is a proper distribution over 1..n for
    every n. Stages beyond the last fitted one share its parameters.

    `parameters` has a row a stage: $a, b, \log\alpha, \log\beta$. A model is made by `SizeModel.fit`.
    """

    parameters: FloatArray
    direction: str = "forward"
    _table: list[FloatArray] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.parameters, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != 4 or len(values) == 0 or not np.isfinite(values).all():
            raise DataError(f"A size model has four finite parameters a stage; got shape {values.shape}.")
        object.__setattr__(self, "parameters", values)

    @classmethod
    def fit(cls, labels: ArrayLike, offsets: ArrayLike | None = None, direction: str = "forward") -> SizeModel:
        """The model that makes the tiers of these queries most probable (with a weak prior).

        `direction="backward"` counts stages from the worst tier up, as `pmop(direction="backward")` does.

        >>> model = SizeModel.fit([2, 1, 1, 0, 0, 0, 1, 0, 0, 0], [0, 6, 10])
        >>> float(np.exp(model.log_table(6)).sum().round(12))
        1.0
        """
        y = np.ascontiguousarray(labels, dtype=np.float64)
        if y.ndim != 1 or not np.isfinite(y).all():
            raise DataError(f"Sizes are fitted to a vector of finite labels; got shape {y.shape}.")
        cut = tiers(orient(direction) * y, check_offsets([0, len(y)] if offsets is None else offsets, len(y)))
        size, remaining, number = stages(cut)
        rows = []
        for stage in range(min(STAGES, int(number.max()) + 1)):
            here = number == stage if stage < STAGES - 1 else number >= stage
            rows.append(_fit_stage(size[here].astype(float), remaining[here].astype(float)))
        return cls(np.array(rows), direction)

    def log_prob(self, stage: Stages) -> FloatArray:
        """Log-probability of the size of every stage."""
        row = self.parameters[np.minimum(stage.number, len(self.parameters) - 1)]
        return _log_prob(row.T, stage.size.astype(float), stage.remaining.astype(float))

    def log_table(self, n: int, stage: int = 0) -> FloatArray:
        """Log-probabilities of the sizes 1 to n."""
        return self.log_prob(Stages(np.arange(1, n + 1), np.full(n, n), np.full(n, stage)))

    def cumulative(self, n: int) -> FloatArray:
        """`[k, r, m]`: the chance that stage k, with r documents left, takes at most m; r and m from 0 to n or more.

        The largest table asked for is kept, since it serves all shorter queries.
        """
        for table in self._table:
            if table.shape[1] > n:
                return table
        table = np.zeros((len(self.parameters), n + 1, n + 1))
        left, size = np.tril_indices(n)
        left, size = left + 1, size + 1
        for k in range(len(table)):
            table[k, left, size] = np.exp(self.log_prob(Stages(size, left, np.full(len(size), k))))
        table = np.cumsum(table, axis=2)
        self._table[:] = [table]  # another thread may put a smaller one in its place: return ours
        return table

    def sample(self, n: int, rng: np.random.Generator, stage: int = 0) -> int:
        """Draw the size of a tier."""
        return 1 + int(rng.choice(n, p=np.exp(self.log_table(n, stage))))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a model file keeps: settings and arrays."""
        return {"direction": self.direction}, {"parameters": self.parameters}

    @classmethod
    def from_state(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SizeModel:
        """The model that `state` was taken from."""
        orient(settings["direction"])
        return cls(arrays["parameters"], settings["direction"])


def orient(direction: str) -> float:
    """1 for stages from the best tier down, -1 for stages from the worst tier up."""
    if direction not in ("forward", "backward"):
        raise SettingError(f"The direction is {direction!r}; it must be 'forward' or 'backward'.")
    return 1.0 if direction == "forward" else -1.0


def _log_prob(parameters: FloatArray, size: FloatArray, n: FloatArray) -> FloatArray:
    a, b, log_alpha, log_beta = parameters
    alpha, beta = np.exp(log_alpha), np.exp(log_beta)
    logit = a + b * np.log(n / 16)
    taken, trials = size - 1, np.maximum(n - 2, 0)
    others = np.maximum(trials - taken, 0)
    part = (
        log_expit(-logit)
        + log_choices(taken + others, taken)
        + betaln(taken + alpha, others + beta)
        - betaln(alpha, beta)
    )
    return np.where(n == 1, 0.0, np.where(size == n, log_expit(logit), part))


def log_choices(n: Any, m: Any) -> FloatArray:
    """Log of the number of subsets of m of n."""
    return np.asarray(gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0))


def _fit_stage(size: FloatArray, n: FloatArray) -> FloatArray:
    """Maximum a posteriori, at most four parameters and a concave start: quasi-Newton with numeric slopes will do."""
    from scipy.optimize import minimize  # here, since it takes longer to load than most trainings to begin

    start = np.array([np.log((1 + np.sum(size == n)) / (1 + np.sum(size < n))), 0.0, 0.0, 0.0])
    # Few pairs (size, n) are different, however many queries there are.
    (size, n), times = np.unique(np.stack([size, n]), axis=1, return_counts=True)

    def cost(parameters: FloatArray) -> float:
        penalty = 0.5 * float(np.sum((parameters / PRIOR) ** 2))
        return penalty - float(times @ _log_prob(parameters, size, n))

    bounds = [(-20.0, 20.0), (-8.0, 8.0), (-8.0, 8.0), (-8.0, 8.0)]
    found = minimize(cost, start, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x, dtype=np.float64)
