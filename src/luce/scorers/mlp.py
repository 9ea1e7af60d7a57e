"""The network: a small multilayer perceptron, trained by the same objective as every differentiable scorer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from luce.checks import is_whole
from luce.errors import ModelFormatError, SettingError
from luce.numerics.compiled import kernel
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.numerics.threads import one_blas_thread
from luce.scorers.linear import OnStandardised, reciprocal
from luce.scorers.saved import Fitted, array, finite
from luce.spec import Choice, option
from luce.types import Features, FloatArray, IntArray

_BLOCK = 8192
_WIDEST, _DEEPEST = 4096, 8


class Activation(NamedTuple):
    """A function, its slope as a function of its own value, and the variance gain that keeps signals of one size."""

    value: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]
    gain: float


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(lambda a: np.maximum(a, 0.0), lambda h: (h > 0).astype(np.float64), 2.0),
    "tanh": Activation(np.tanh, lambda h: 1.0 - h * h, 1.0),
    "sigmoid": Activation(expit, lambda h: h * (1.0 - h), 1.0),
}


class Layer(NamedTuple):
    """`inputs @ weights + bias`."""

    weights: FloatArray
    bias: FloatArray


def _activations(layers: Sequence[Layer], activation: str, Z: FloatArray, product: Product) -> list[FloatArray]:
    """Inputs of every layer, then the scores."""
    found = [Z]
    for layer in layers[:-1]:
        found.append(ACTIVATIONS[activation].value(product(found[-1], layer.weights) + layer.bias))
    found.append((product(found[-1], layers[-1].weights) + layers[-1].bias)[:, 0])
    return found


Product = Callable[[FloatArray, FloatArray], FloatArray]


@kernel
def _row_by_row(H: FloatArray, weights: FloatArray) -> FloatArray:
    """`H @ weights` with the sums of a row in one order, so that equal rows give equal bits wherever they stand."""
    result = np.zeros((H.shape[0], weights.shape[1]))
    for row in range(H.shape[0]):
        for i in range(H.shape[1]):
            for j in range(weights.shape[1]):
                result[row, j] += H[row, i] * weights[i, j]
    return result


def _widths(name: str, hidden: Any) -> tuple[int, ...]:
    widths = [hidden] if isinstance(hidden, Integral) else hidden
    if isinstance(widths, str | bytes) or not isinstance(widths, Sequence) or not 1 <= len(widths) <= _DEEPEST:
        raise SettingError(f"{name} is {hidden!r}; give the units of 1 to {_DEEPEST} layers, as in (32,) or (64, 32).")
    if not all(is_whole(width, 1, _WIDEST) for width in widths):
        raise SettingError(f"{name} is {hidden!r}; a layer has a whole number of units from 1 to {_WIDEST}.")
    return tuple(int(width) for width in widths)


class MLPScorer(OnStandardised):
    r"""Scores $f(x) = W_L\, h_{L-1} + b_L$ with $h_l = \phi(W_l h_{l-1} + b_l)$ and $h_0 = (x - \mu) / \sigma$.

    The neural network of [PMOP] and of RankNet. Weights start normal with variance gain / fan-in (2 for
    "relu", 1 for the others), biases at 0. The penalty sees all parameters.

    Parameters
    ----------
    hidden
        Units of each hidden layer, as in `(32,)` or `(64, 32)`.
    activation
        "relu", "tanh" or "sigmoid".
    """

    hidden: Any = option(default=(32,), convert=_widths, tune=Choice((8, 16, 32, 64)))
    activation: Literal["relu", "tanh", "sigmoid"] = option(default="tanh", tune=Choice(("tanh", "relu")))

    name = "mlp"

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        return list(pairwise([len(self.scale.mean), *self.hidden, 1]))

    @property
    def n_parameters(self) -> int:
        """Weights and biases of all layers."""
        return sum(inputs * outputs + outputs for inputs, outputs in self._shapes)

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Random weights, no biases."""
        gain = ACTIVATIONS[self.activation].gain
        parts = []
        for inputs, outputs in self._shapes:
            parts += [rng.normal(0.0, np.sqrt(gain / max(inputs, 1)), inputs * outputs), np.zeros(outputs)]
        return np.concatenate(parts)

    def parameter_units(self, score_unit: float) -> FloatArray:
        """How large a change of each parameter is one, where that of scores is `score_unit`: the last layer scales."""
        units = np.ones(self.n_parameters)
        inputs, outputs = self._shapes[-1]
        units[-(inputs + 1) * outputs :] = score_unit
        return units

    def forward(self, parameters: FloatArray, X: Features, offsets: IntArray) -> FloatArray:
        """Scores of a block of rows."""
        with one_blas_thread():
            return _activations(self._layers(parameters), self.activation, self.scale(X), np.matmul)[-1]

    def backward(self, parameters: FloatArray, X: Features, offsets: IntArray, d_scores: FloatArray) -> FloatArray:
        """Gradient in the parameters, by back-propagation."""
        layers = self._layers(parameters)
        slope = ACTIVATIONS[self.activation].slope
        parts: list[FloatArray] = []
        with one_blas_thread():
            found = _activations(layers, self.activation, self.scale(X), np.matmul)
            d_out = d_scores[:, None]
            for i in reversed(range(len(layers))):
                parts = [(found[i].T @ d_out).ravel(), d_out.sum(axis=0), *parts]
                if i:
                    d_out = (d_out @ layers[i].weights.T) * slope(found[i])
        return np.concatenate(parts)

    def fitted(self, parameters: FloatArray) -> FittedMLP:
        """Fold the standardisation into the first layer."""
        first, *others = self._layers(parameters)
        weights = first.weights * self.scale.inverse_sd[:, None]
        folded = Layer(weights, first.bias - self.scale.mean @ weights)
        return FittedMLP((folded, *others), self.activation, self.scale.inverse_sd)

    def parameters_of(self, fitted: FittedMLP) -> FloatArray:
        """The parameters of a fitted network on this scorer's standardised features, for a warm start."""
        if fitted.hidden != self.hidden or fitted.activation != self.activation:
            raise SettingError(
                f"A network with {fitted.hidden} {fitted.activation} units cannot go on as one with "
                f"{self.hidden} {self.activation} units; give the same settings, or train without warm start."
            )
        first, *others = fitted.layers
        unfolded = Layer(first.weights * self.scale.sd[:, None], first.bias + self.scale.mean @ first.weights)
        return np.concatenate([part.ravel() for layer in (unfolded, *others) for part in layer])

    def _layers(self, parameters: FloatArray) -> list[Layer]:
        layers, start = [], 0
        for inputs, outputs in self._shapes:
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            layers.append(Layer(parameters[start:middle].reshape(inputs, outputs), parameters[middle:end]))
            start = end
        return layers


class FittedMLP(Fitted):
    """A network on features as they are in the data."""

    layers: tuple[Layer, ...]
    activation: str
    inverse_sd: FloatArray = array("features")
    """Reciprocal standard deviations of the training set."""

    name = "mlp"
    importance_is = "bound on the effect of one standard deviation"

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""

        def block(_: int, chunk: Chunk) -> FloatArray:
            rows = np.ascontiguousarray(X[offsets[chunk[0]] : offsets[chunk[1]]], dtype=np.float64)
            return _activations(self.layers, self.activation, rows, _row_by_row)[-1]

        return np.concatenate(map_chunks(block, chunk_queries(offsets, _BLOCK)))

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of each hidden layer."""
        return tuple(len(layer.bias) for layer in self.layers[:-1])

    def importance(self) -> FloatArray:
        """The most by which one standard deviation of each feature can move the score: no activation is steeper."""
        reach: FloatArray = np.abs(self.layers[0].weights) * reciprocal(self.inverse_sd)[:, None]
        for layer in self.layers[1:]:
            reach = reach @ np.abs(layer.weights)
        steepest = 0.25 if self.activation == "sigmoid" else 1.0
        return reach[:, 0] * steepest ** len(self.hidden)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        arrays: dict[str, NDArray[Any]] = {"inverse_sd": self.inverse_sd}
        for i, layer in enumerate(self.layers):
            arrays |= {f"weights.{i}": layer.weights, f"bias.{i}": layer.bias}
        return {"activation": self.activation, "layers": len(self.layers)}, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedMLP:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        activation, count = settings.get("activation"), settings.get("layers")
        if activation not in ACTIVATIONS:
            raise ModelFormatError(f"The activation of a network is {activation!r}, which this luce does not know.")
        if not is_whole(count, 2, _DEEPEST + 1):
            raise ModelFormatError(f"A network has 2 to {_DEEPEST + 1} layers; the file has {count!r}.")
        inverse_sd = finite(cls.name, arrays, "inverse_sd", (None,))
        layers, inputs = [], len(inverse_sd)
        for i in range(count):
            outputs = 1 if i == count - 1 else None
            weights = finite(cls.name, arrays, f"weights.{i}", (inputs, outputs))
            inputs = weights.shape[1]
            layers.append(Layer(weights, finite(cls.name, arrays, f"bias.{i}", (inputs,))))
        return cls(tuple(layers), activation, inverse_sd)
