"""Protocols and type aliases: the four independent choices, data -> scorer -> loss -> trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
Features: TypeAlias = NDArray[np.float32]
"""Rows of documents, a column a feature."""


@runtime_checkable
class FittedScorer(Protocol):
    """Turns the items of whole queries into one score each."""

    name: str
    needs_queries: bool
    """True where a score depends on the other items of its query, so that prediction needs query ids."""

    @property
    def n_features(self) -> int:
        """Features that a row must have."""

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row, higher is better."""

    def importance(self) -> FloatArray:
        """How much each feature matters to the score; what it measures is the scorer's own."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a model file keeps: JSON-able settings and arrays."""


class DifferentiableScorer(Protocol):
    """A scorer with a flat parameter vector; trained by any gradient method.

    `forward` and `backward` are called for one block of whole queries after the other, so that the features of a
    block are still in cache when the gradient comes back: one read of X gives value and gradient.
    """

    name: str

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Where training starts."""

    def forward(self, parameters: FloatArray, X: Features, offsets: IntArray) -> FloatArray:
        """Scores of a block of whole queries."""

    def backward(self, parameters: FloatArray, X: Features, offsets: IntArray, d_scores: FloatArray) -> FloatArray:
        """Gradient in the parameters, given the gradient in the scores of the same block."""

    def fitted(self, parameters: FloatArray) -> FittedScorer:
        """The scorer for prediction, with everything about the training set folded in."""


class Progress(Protocol):
    """Receives what a long training has to tell; the command line shows it."""

    def __call__(self, step: int, total: int | None, info: Mapping[str, float]) -> bool | None:
        """Called once an iteration; True ends the training with what it has."""
