r"""Maximum likelihood of continuous conditional random fields.

In the eigenvectors of the Laplacian $D - S$ of a query, with eigenvalues $\lambda$, the field falls apart into
independent Gaussians with precision $2 d$, $d = \alpha'e + \beta \lambda$, and mean $u / d$, $u = B \alpha + \beta h$:
$B$ are the features in these coordinates and $h = \frac12 (D_r - D_c) e$ in topic distillation, where $\lambda = 0$. So
the eigenvectors are found once, and minus the log-likelihood is $\sum d y^2 - 2 y u + u^2 / d - \frac12 \log d$ over
all documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.checks import number, one_of, patience, whole
from luce.data.filling import normalise_within_queries
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.numerics.blas import one_blas_thread
from luce.scorers.ccrf import FORMS, FittedCCRF, net_degrees, similarities
from luce.scorers.listwise import refuse_missing
from luce.training.run import search_by_scipy
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray


class Field(NamedTuple):
    """All documents in the coordinates in which they are independent."""

    labels: FloatArray
    features: NDArray[np.float64]
    eigenvalues: FloatArray
    pull: FloatArray
    weight: FloatArray

    def value_and_grad(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Weighted mean of minus the log-likelihood, up to a constant, at (log alpha, beta)."""
        alpha, beta = np.exp(vector[:-1]), vector[-1]
        d = alpha.sum() + beta * self.eigenvalues
        u = self.features @ alpha + beta * self.pull
        y, mean = self.labels, u / d
        value = d * y**2 - 2 * y * u + u * mean - 0.5 * np.log(d)
        d_d = (y**2 - mean**2 - 0.5 / d) * self.weight
        d_u = 2 * (mean - y) * self.weight
        d_alpha = d_d.sum() + self.features.T @ d_u
        d_beta = d_d @ self.eigenvalues + d_u @ self.pull
        return float(value @ self.weight), np.append(alpha * d_alpha, d_beta)


def make_field(data: Groups, form: str, relation: str | None) -> Field:
    """Labels on [0, 1] and query-normalised features, in the eigenvectors of every query."""
    X = normalise_within_queries(data.X, data.offsets, "minmax").astype(np.float64)
    low, high = data.y.min(), data.y.max()
    y = (data.y - low) / (high - low or 1.0)
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    by_row = np.repeat(weight, data.sizes)
    eigenvalues, pull = np.zeros(data.n_rows), np.zeros(data.n_rows)
    if form == "distillation":
        pull = 0.5 * net_degrees(data, relation)
    else:
        assert relation is not None
        for S, (a, b) in zip(similarities(data, relation), pairwise(data.offsets), strict=True):
            values, vectors = np.linalg.eigh(np.diag(S.sum(axis=1)) - S)
            eigenvalues[a:b] = np.maximum(values, 0.0)
            X[a:b], y[a:b] = vectors.T @ X[a:b], vectors.T @ y[a:b]
    return Field(y, X, eigenvalues, pull, by_row / by_row.sum())


@dataclass(frozen=True)
class CCRF(Algorithm):
    r"""A continuous conditional random field of documents (Qin et al., 2008).

    The most probable alpha and beta; the iterate that is best on validation data is kept.

    Parameters
    ----------
    form
        "feedback": similar documents have similar relevance. "distillation": parents are better than children.
    relation
        A relation of the data, or "cosine" of the features (for feedback). None: the only relation that the data have;
        where there is none, the cosine for feedback, and for distillation nothing, which is the linear case.
    max_iter, tol, early_stopping
        When L-BFGS ends, as for the trainer `lbfgs`.
    """

    form: str = "feedback"
    relation: str | None = None
    max_iter: int = 100
    tol: float = 1e-5
    early_stopping: int | None = 20

    name: ClassVar[str] = "ccrf"

    def __post_init__(self) -> None:
        one_of("form", self.form, FORMS)
        if not (self.relation is None or isinstance(self.relation, str)):
            raise SettingError(f"relation is {self.relation!r}; it must be None or the name of a relation of the data.")
        number("tol", self.tol, above=True)
        whole("max_iter", self.max_iter, 0)
        patience(self.early_stopping)

    def _chosen(self, data: Groups) -> str | None:
        """The relation to take of the data."""
        if self.relation is not None:
            return self.relation
        if len(data.relations) > 1:
            raise SettingError(f"The data have the relations {', '.join(data.relations)}; name one with relation=.")
        return next(iter(data.relations), "cosine" if self.form == "feedback" else None)

    def train(self, task: Task) -> Trained:
        """L-BFGS."""
        self.check_task(task)
        data, valid = task.data, task.valid
        refuse_missing(data)
        relation = self._chosen(data)
        feedback = self.form == "feedback"

        def fitted(vector: FloatArray) -> FittedCCRF:
            return FittedCCRF(np.exp(vector[:-1]), float(vector[-1]), self.form, relation)

        def validate(vector: FloatArray) -> float:
            assert valid is not None
            return task.judged(fitted(vector).score_groups(valid, None))

        run = task.start_run(self.max_iter, self.early_stopping, validate)
        with one_blas_thread():
            field = make_field(data, self.form, relation)
            start = np.append(np.full(data.n_features, -np.log(data.n_features)), 0.01 if feedback else 0.0)
            bounds = [(-20.0, 10.0)] * data.n_features + [(0.0 if feedback else -1e6, 1e6)]
            search_by_scipy(run, field.value_and_grad, start, self.tol * 1e-2, bounds)
        return Trained(fitted(run.result), None, run.history)
