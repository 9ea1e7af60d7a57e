"""What every loss gives, and how its one-query kernel is run over all queries of a data set."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from luce.data.comparisons import Comparisons
from luce.data.statements import Statements
from luce.errors import DataError, SettingError
from luce.losses.chances import PairProbabilities, pairs_of_draws
from luce.numerics.segments import Chunk, check_offsets, chunk_queries, differing, map_chunks
from luce.spec import Spec
from luce.types import FloatArray, IntArray

Target = ArrayLike | Comparisons
"""What is known of the true order: grades, one a row, or comparisons between rows."""

NOT_WANTED = np.empty(0)
"""Handed to a kernel in place of an output that the caller does not need."""


_MOST_SCORE = 1e100
"""Beyond this, sums and squares of scores leave the range of numbers."""


class Filled(NamedTuple):
    """What a kernel fills: values of the queries from `first` on, and, unless they are empty, slopes of their rows."""

    first: int
    values: FloatArray
    grad: FloatArray | None
    curvature: FloatArray | None


class Outputs(NamedTuple):
    """What a loss fills for a run of queries.

    One value a query, the exact gradient with respect to the scores of its rows; unless it is empty, `curvature`, the
    diagonal of the Hessian of a convex majoriser; and `d_parameters`, (queries of the chunk, parameters), the gradient
    in the loss's own parameters.
    """

    chunk: Chunk
    values: FloatArray
    grad: FloatArray
    curvature: FloatArray
    d_parameters: FloatArray

    @property
    def arrays(self) -> Filled:
        """For a kernel."""
        return Filled(self.chunk[0], self.values, self.grad, self.curvature)


class Loss(Spec, ABC, open_to_change=True):
    """Sum over queries of a function of the scores and the target; never sees features.

    A loss says how it sees its target (`prepare`, once a data set) and what a run of queries costs (`fill`, once an
    iteration and chunk). Its settings are fields, as those of any `Spec`. Everything else follows.
    """

    name: ClassVar[str]
    shift_invariant: ClassVar[bool] = True
    """True where adding a constant to all scores of a query changes nothing."""
    ordinal = True
    """True where only the order of the grades matters, not how far they are apart."""
    permutation_invariant = True
    """True where the order in which the documents of a query are listed does not matter."""
    takes_comparisons: ClassVar[bool] = False
    learns_from_ties = False
    """True where documents of one grade throughout a query still have a gradient: a model of ties, or of the grades."""
    smooth = True
    """False where the value has kinks, at which the gradient is one of several."""
    guides_newton = True
    """False where the curvature is far from the Hessian, so that L-BFGS finds its way better without it."""
    stochastic: ClassVar[bool] = False
    """True where the gradient is an estimate by sampling, right in expectation only."""

    @property
    def parameters(self) -> FloatArray:
        """Parameters that are learned together with the scorer (a tie parameter), on an unbounded or bounded scale."""
        return NOT_WANTED

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """Least and greatest value of each parameter while it is learned."""
        return [(-np.inf, np.inf)] * len(self.parameters)

    def with_parameters(self, values: FloatArray) -> Self:
        """The same loss with these values of its learned parameters."""
        if len(values) != len(self.parameters):
            raise SettingError(f"{self!r} has {len(self.parameters)} parameters of its own; got {len(values)}.")
        if not len(values):
            return self
        other = copy.copy(self)
        other.take(np.asarray(values, dtype=np.float64))
        return other

    def take(self, values: FloatArray) -> None:
        """Take these values of the learned parameters, of which there are as many: a fresh copy is asked to."""
        raise SettingError(f"The loss {self.name!r} says that it learns parameters, and has no method take.")

    @property
    def linear_pass(self) -> Any:
        """A kernel that sums this loss and its gradient over rows of X for linear scores, in one pass; or None.

        It takes what `prepare` gave, X, the weights of the features, the boundaries and weights of queries, the chunk,
        rows of a block, and the gradient that it fills; it gives the value and the sum of the slopes.
        """
        return None

    def reseeded(self, iteration: int) -> Self:
        """The same loss with the random draws of that iteration; itself where nothing is drawn."""
        return self

    @property
    def likelihood(self) -> Loss:
        """What has the chances of outcomes: the loss itself, or, of a sum, the term that has them."""
        return self

    @property
    def score_unit(self) -> float:
        """How large a difference in scores is one: trainers that start from nothing take steps in this unit."""
        return 1.0

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the parameters that make this loss which differ from the defaults, for model files and reports."""
        return self._unusual(super().settings)

    @abstractmethod
    def prepare(self, target: Target, offsets: IntArray) -> Any:
        """Validate a target and put it into the form that `evaluate` wants."""

    def evaluate(
        self,
        prepared: Any,
        scores: FloatArray,
        chunk: Chunk,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        d_parameters: FloatArray = NOT_WANTED,
    ) -> FloatArray:
        """One value a query of `chunk`; fills its rows of the other arrays, as `Outputs` says."""
        values = np.empty(chunk[1] - chunk[0])
        self.fill(prepared, scores, Outputs(chunk, values, grad, curvature, d_parameters))
        return values

    @abstractmethod
    def fill(self, prepared: Any, scores: FloatArray, out: Outputs) -> None:
        """Fill the outputs of a run of queries. Serial; called on several threads at once."""

    def skipped(self, target: Target, offsets: ArrayLike) -> int:
        """How many queries have documents of one grade only and teach nothing; 0 where the loss learns from ties."""
        if isinstance(target, Comparisons) or self.learns_from_ties or getattr(self, "uses_ties", False):
            return 0
        bounds = np.asarray(offsets, dtype=np.int64)
        return int(np.sum(~differing(np.asarray(target, dtype=np.float64), bounds))) if len(bounds) > 1 else 0

    def value_and_grad(
        self, scores: ArrayLike, target: Target, offsets: ArrayLike | None = None, query_weight: ArrayLike | None = None
    ) -> tuple[float, FloatArray]:
        """Value and gradient, summed over queries; without offsets all rows are one query."""
        value, grad, _, _ = self._sum(scores, target, offsets, query_weight)
        return value, grad

    def value_and_grads(
        self, scores: ArrayLike, target: Target, offsets: ArrayLike | None = None, query_weight: ArrayLike | None = None
    ) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient in the scores, and gradient in the loss's own parameters."""
        value, grad, _, d_parameters = self._sum(scores, target, offsets, query_weight)
        return value, grad, d_parameters

    def value_grad_curvature(
        self, scores: ArrayLike, target: Target, offsets: ArrayLike | None = None, query_weight: ArrayLike | None = None
    ) -> tuple[float, FloatArray, FloatArray]:
        """As `value_and_grad`, with the curvature that boosted trees use."""
        value, grad, curvature, _ = self._sum(scores, target, offsets, query_weight, want_curvature=True)
        return value, grad, curvature

    def _sum(
        self, scores: Any, target: Target, offsets: Any, query_weight: Any, want_curvature: bool = False
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        scores = check_scores(scores)
        if len(scores) and np.abs(scores).max() > _MOST_SCORE:
            raise DataError(
                f"A score is {scores[np.argmax(np.abs(scores))]:g}; a loss takes scores up to {_MOST_SCORE:g} in size: "
                "put them on a smaller scale."
            )
        offsets = check_offsets([0, len(scores)] if offsets is None else offsets, len(scores))
        n_queries = len(offsets) - 1
        weight = np.ones(n_queries) if query_weight is None else np.ascontiguousarray(query_weight, dtype=np.float64)
        if weight.shape != (n_queries,):
            raise DataError(f"{n_queries} queries need as many weights; got shape {weight.shape}.")
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if bad.size:
            raise DataError(f"The weight of query {bad[0]} is {weight[bad[0]]}; weights are finite and at least 0.")
        risk = Risk(self, target, offsets, weight)
        grad = np.zeros_like(scores)
        curvature = np.zeros_like(scores) if want_curvature else NOT_WANTED
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # said below
                values, own = risk.each(scores, grad, curvature, own=True)
                finite = bool(np.isfinite(values @ weight) and np.isfinite(grad).all())
        except OverflowError:
            finite = False
        if not finite:
            low, high = np.abs(scores).min(initial=0.0), np.abs(scores).max(initial=0.0)
            raise DataError(
                f"The loss {self.name!r} has no finite value and gradient for scores of sizes {low:g} to {high:g}; "
                "scale the scores, which are right up to 10,000."
            )
        if query_weight is not None:
            by_row = np.repeat(weight, np.diff(offsets))
            grad *= by_row
            if want_curvature:
                curvature *= by_row
        return float(values @ weight), grad, curvature, weight @ own

    __eq__, __hash__ = object.__eq__, object.__hash__  # what a loss has learned is no setting

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"{self.name}({inside})"


class Likelihood(Loss):
    """A loss that is -log p up to a constant, with p normalised over the outcomes of a query."""

    outcome: ClassVar[str] = "partition"
    """What an outcome is: an ordered "partition", an "order" of all documents, or the "top" k of them in order."""
    knows_tiers: ClassVar[bool] = False
    """True where `log_prob` and draws take fitted sizes of tiers."""
    composite = False
    """True where -log p has a normaliser that depends on the scores and that the value leaves out."""

    @abstractmethod
    def log_prob(self, scores: ArrayLike, target: Target) -> float:
        """Log-probability of the outcome of one query, constants included."""

    def sample(self, scores: ArrayLike, rng: np.random.Generator, sizes: Any = None) -> FloatArray:
        """Draw the outcome of one query as a vector of labels, higher is better: this, or `sample_many`, is given."""
        if type(self).sample_many is Likelihood.sample_many:
            raise SettingError(f"The loss {self.name!r} draws nothing; give it a sample or a sample_many.")
        return np.asarray(self.sample_many(scores, rng, 1, sizes)[0])

    def sample_many(self, scores: ArrayLike, rng: np.random.Generator, n: int, sizes: Any = None) -> FloatArray:
        """Draw n outcomes of one query, a row of labels each; `sizes` for likelihoods that know tiers."""
        return np.array([self.sample(scores, rng) for _ in range(n)])

    def pair_chances(
        self, scores: FloatArray, rng: np.random.Generator, samples: int, sizes: Any = None
    ) -> PairProbabilities:
        """Chances of ties and preferences between the documents of one query, by draws where they are not known.

        `sizes` are fitted sizes of tiers, for likelihoods that know tiers.
        """
        return pairs_of_draws(self.sample_many(scores, rng, samples, sizes))


def check_scores(scores: Any) -> FloatArray:
    """Scores as a float64 vector; NaN and infinity are refused."""
    vector: FloatArray = np.ascontiguousarray(scores, dtype=np.float64)
    if vector.ndim != 1:
        raise DataError(f"Scores must be a vector; got shape {vector.shape}.")
    if not np.isfinite(vector).all():
        row = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise DataError(f"The score of row {row} is {vector[row]}; scores must be finite.")
    return vector


def as_labels(loss: Loss, target: Target, offsets: IntArray) -> FloatArray:
    """The target as finite grades, one a row."""
    if isinstance(target, Comparisons):
        raise SettingError(f"The loss {loss.name!r} needs grades, one a document; it cannot use comparisons.")
    try:
        labels = np.ascontiguousarray(target, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("Labels that are no numbers cannot be compared; give grades, higher is better.") from error
    if labels.shape != (offsets[-1],) or not np.isfinite(labels).all():
        raise DataError(f"{offsets[-1]} scores need as many finite labels; got shape {labels.shape}.")
    return labels


def statements(loss: Loss, target: Target, offsets: IntArray, *, pairs: bool = True) -> Statements:
    """The target as chains of tiers: grades, one a row, or comparisons, without `pairs` of ordered lists alone."""
    if isinstance(target, Comparisons):
        if target.holds_pairs and not pairs:
            raise SettingError(
                f"The loss {loss.name!r} learns from ordered lists; the comparisons hold pairs: use 'ranknet'."
            )
        return Statements.of_comparisons(target, offsets)
    return Statements.of_grades(as_labels(loss, target, offsets), offsets)


class Risk:
    r"""A loss on one data set as a function of the scores alone: the one place that runs a loss over all queries.

    The mean loss a query is $R(s) = \sum_q v_q \phi(s_q, r_q) / \sum_q v_q$, [Pareek] (3.6); gradient [Pareek] (3.16).
    Chunks of queries are fixed by the data, so that the bits do not depend on the number of threads. Who has scores of
    a part of the queries asks for one chunk after the other.
    """

    def __init__(self, loss: Loss, target: Target, offsets: IntArray, query_weight: FloatArray | None = None) -> None:
        self.loss, self.offsets, self.query_weight = loss, offsets, query_weight
        self.prepared = loss.prepare(target, offsets)
        self.total_weight = float(len(offsets) - 1 if query_weight is None else query_weight.sum())
        self.chunks = chunk_queries(offsets)

    def chunk(
        self,
        scores: FloatArray,
        chunk: Chunk,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        *,
        own: bool = False,
        loss: Loss | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """A value and (`own`) a gradient in the loss's own parameters for every query of a chunk; fills its rows.

        `loss` is the same loss with other parameters or draws.
        """
        loss = self.loss if loss is None else loss
        values, slopes = np.empty(n := chunk[1] - chunk[0]), np.zeros((n, len(loss.parameters) if own else 0))
        loss.fill(self.prepared, scores, Outputs(chunk, values, grad, curvature, slopes if own else NOT_WANTED))
        return values, slopes

    def each(
        self,
        scores: FloatArray,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        *,
        own: bool = False,
        loss: Loss | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """As `chunk`, for all queries."""
        found = map_chunks(lambda _, chunk: self.chunk(scores, chunk, grad, curvature, own=own, loss=loss), self.chunks)
        none = (np.empty(0), np.empty((0, len((loss or self.loss).parameters) if own else 0)))
        values, slopes = zip(none, *found, strict=True)
        return np.concatenate(values), np.concatenate(slopes)

    def mean(self, of_queries: FloatArray) -> FloatArray:
        """The weighted mean over queries, of numbers or of rows; in chunks, which no BLAS cuts among its threads."""
        return sum((self.share[a:b] @ of_queries[a:b] for a, b in self.chunks), start=np.zeros(()))

    def __call__(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient in the scores, the weights [Pareek] (3.21), and curvature (NaN where the loss has none)."""
        grad, curvature = np.empty_like(scores), np.full_like(scores, np.nan)
        values, _ = self.each(scores, grad, curvature)
        grad *= self.by_row
        curvature *= self.by_row
        return float(self.mean(values)), grad, curvature

    def gradients(self, scores: FloatArray, loss: Loss) -> tuple[float, FloatArray, FloatArray]:
        """Value and gradients in the scores and in the loss's own parameters."""
        grad = np.zeros_like(scores)
        values, own = self.each(scores, grad, own=True, loss=loss)
        grad *= self.by_row
        return float(self.mean(values)), grad, self.mean(own)

    @cached_property
    def share(self) -> FloatArray:
        """What every query counts in the mean."""
        weight = np.ones(len(self.offsets) - 1) if self.query_weight is None else self.query_weight
        return weight / self.total_weight

    @cached_property
    def by_row(self) -> FloatArray:
        """What the query of every row counts in the mean."""
        return np.repeat(self.share, np.diff(self.offsets))
