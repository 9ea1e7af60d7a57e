"""What a scorer of one's own starts from: two methods on standardised features, and everything else follows."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from luce.checks import whole
from luce.data.groups import Groups
from luce.errors import SettingError, of_user
from luce.registry import make, settings_of
from luce.scorers.linear import Standardisation, standardise_blocks
from luce.scorers.saved import finite
from luce.types import Features, FloatArray, IntArray


class Scorer(ABC):
    """A scorer with a flat vector of parameters, for any loss and every trainer that follows gradients.

    A subclass has a `name`, says how many parameters `size` features need, and gives `scores` and `gradient` of rows of
    standardised features. What its class takes (the fields, if it is a dataclass) are its settings. Registered with
    `luce.scorers.register`, it works by name, and its fitted models can be saved.

    A score may depend on the other documents of its query: `scores(parameters, Z, offsets)` and
    `gradient(parameters, Z, offsets, d_scores)` get several queries at once, query q in the rows `offsets[q]` to
    `offsets[q + 1]`. The signature says which of the two it is.
    """

    name: ClassVar[str]
    trainer: ClassVar[str] = "lbfgs"
    takes_missing: ClassVar[bool] = False
    scale = Standardisation(np.empty(0), np.empty(0))

    @abstractmethod
    def size(self, n_features: int) -> int:
        """Number of parameters."""

    scores: Callable[..., FloatArray]
    """`scores(parameters, Z)`, or with offsets: one score a row of standardised features."""
    gradient: Callable[..., FloatArray]
    """`gradient(parameters, Z, d_scores)`, or with offsets: that in the parameters, given that in the scores."""

    @property
    def needs_queries(self) -> bool:
        """Whether a score may depend on the other documents of its query: `scores` takes their boundaries."""
        return len(signature(self.scores).parameters) > 2

    def _queries(self, offsets: IntArray) -> tuple[IntArray, ...]:
        """The boundaries of a block of queries, for a scorer that takes them."""
        return (np.asarray(offsets, dtype=np.int64) - offsets[0],) if self.needs_queries else ()

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Where training starts; zeros unless a scorer wants something else."""
        return np.zeros(self.n_parameters)

    def bind(self, data: Groups) -> Self:
        """The same scorer with the moments of a training set."""
        for method in ("scores", "gradient"):
            if not callable(getattr(self, method, None)):
                raise SettingError(f"The scorer {self.name!r} has no method {method}; it gives scores and gradient.")
        bound = self._with(standardise_blocks(data))
        with of_user(f"initial of the scorer {self.name!r}"):
            start = np.asarray(bound.initial(np.random.default_rng(0)), dtype=np.float64)
        self._checked("initial", start, (bound.n_parameters,))
        return bound

    def _with(self, scale: Standardisation) -> Self:
        bound = copy.copy(self)
        object.__setattr__(bound, "scale", scale)  # also where a subclass is a frozen dataclass
        return bound

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return whole(f"size of the scorer {self.name!r}", self.size(len(self.scale.mean)), 1)

    def forward(self, parameters: FloatArray, X: Features, offsets: IntArray) -> FloatArray:
        """Scores of a block of whole queries."""
        with of_user(f"scores of the scorer {self.name!r}"):
            found = np.asarray(self.scores(parameters.copy(), self.scale(X), *self._queries(offsets)), dtype=np.float64)
        return self._checked("scores", found, (len(X),))

    def backward(self, parameters: FloatArray, X: Features, offsets: IntArray, d_scores: FloatArray) -> FloatArray:
        """Gradient in the parameters of a block of whole queries."""
        Z = self.scale(X)
        with of_user(f"gradient of the scorer {self.name!r}"):
            found = np.asarray(
                self.gradient(parameters.copy(), Z, *self._queries(offsets), d_scores.copy()), dtype=np.float64
            )
        return self._checked("gradient", found, (self.n_parameters,))

    def _checked(self, what: str, found: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if found.shape != shape or not np.isfinite(found).all():
            wrong = f"shape {found.shape}" if found.shape != shape else "NaN or infinity"
            raise SettingError(f"{what} of the scorer {self.name!r} gave {wrong}; it needs {shape[0]} finite numbers.")
        return found

    def fitted(self, parameters: FloatArray) -> FittedOwn:
        """The scorer for prediction."""
        return FittedOwn(self, parameters.copy())

    def parameters_of(self, fitted: FittedOwn) -> FloatArray:
        """Where a warm start begins."""
        return fitted.parameters

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedOwn:
        """The fitted scorer of a model file."""
        mean = finite(cls.name, arrays, "mean", (None,))
        scale = Standardisation(mean, finite(cls.name, arrays, "inverse_sd", mean.shape))
        scorer = make("scorer", cls.name, cls, settings)._with(scale)
        return FittedOwn(scorer, finite(cls.name, arrays, "parameters", (scorer.n_parameters,)))


@dataclass(frozen=True, eq=False)
class FittedOwn:
    """A scorer of one's own with the parameters that were learned."""

    scorer: Scorer
    parameters: FloatArray

    @property
    def needs_queries(self) -> bool:
        """As the scorer."""
        return self.scorer.needs_queries

    @property
    def name(self) -> str:
        """That of the scorer."""
        return self.scorer.name

    @property
    def n_features(self) -> int:
        """Features that a row must have."""
        return len(self.scorer.scale.mean)

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row."""
        return self.scorer.forward(self.parameters, X, offsets)

    def importance(self) -> FloatArray:
        """Effect of one standard deviation of each feature on the score of a mean document, alone in its query."""
        Z = np.concatenate([np.zeros((1, self.n_features)), np.eye(self.n_features)])
        alone = self.scorer._queries(np.arange(len(Z) + 1))
        scores = np.asarray(self.scorer.scores(self.parameters, Z, *alone), dtype=np.float64)
        return np.asarray(scores[1:] - scores[0])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        scale = self.scorer.scale
        arrays = {"mean": scale.mean, "inverse_sd": scale.inverse_sd, "parameters": self.parameters}
        return settings_of(self.scorer), arrays
