r"""Continuous conditional random fields of documents (Qin et al., 2008): the rival of the listwise reranker.

The relevances of a query are jointly Gaussian, near the features and tied to each other by a relation. Their mean is

- pseudo relevance feedback: $\hat y = (\alpha'e\, I + \beta D - \beta S)^{-1} X \alpha$ with similarities $S$ and
  their row sums $D$, [Pareek] (2.22). Cosines are $S = U U'$ off the diagonal, so that the matrix is a diagonal one
  minus $\beta U U'$: where a query has more documents than features, it is solved by a system in the features;
- topic distillation: $\hat y = (2 X \alpha + \beta (D_r - D_c) e) / (2 \alpha'e)$ with row and column sums of a
  directed relation, parent to child ([Pareek] (2.23) prints twice that).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from luce.data.filling import normalise_within_queries
from luce.data.groups import Groups
from luce.errors import DataError, ModelFormatError
from luce.scorers.kernel_sums import FittedLists, unit_rows
from luce.scorers.listwise import refuse_missing
from luce.scorers.saved import array
from luce.spec import option
from luce.types import FloatArray


def similarities(data: Groups, relation: str) -> Iterator[NDArray[np.float64]]:
    """The symmetric matrix of similarities of each query in turn, at least 0, with a diagonal of 0."""
    cosine = relation == "cosine"
    whole: Any = unit_rows(data.X, data.offsets, "minmax") if cosine else _relation(data, relation)
    for q, (a, b) in enumerate(pairwise(data.offsets)):
        matrix = whole[a:b] @ whole[a:b].T if cosine else whole[a:b][:, a:b].toarray()
        matrix = 0.5 * (matrix + matrix.T)
        np.fill_diagonal(matrix, 0.0)
        if not (matrix >= -1e-12).all():
            raise DataError(
                f"The relation {relation!r} of query {str(data.query_ids[q])!r} has values below 0; similarities must "
                "be at least 0."
            )
        yield matrix


def dense_mean(S: NDArray[np.float64], pull: FloatArray, total: float, beta: float) -> FloatArray:
    r"""$(c I + \beta D - \beta S)^{-1} p$ with $c$ = `total` and $p$ = `pull`, [Pareek] (2.22), by an m x m system."""
    return np.asarray(np.linalg.solve(np.diag(total + beta * S.sum(axis=1)) - beta * S, pull), dtype=np.float64)


def cosine_mean(unit: NDArray[np.float64], pull: FloatArray, total: float, beta: float) -> FloatArray:
    r"""`dense_mean` with cosines of the m rows of $U$ = `unit`, by a system in its F columns where m > F.

    The squared lengths on the diagonal of $U U'$ are in $D$ and in $S$ alike and cancel, so that the matrix is
    $\Lambda - \beta U U'$ with $\Lambda = c I + \beta\, \mathrm{diag}(U U' e)$, and by the Woodbury identity

    $$\hat y = \Lambda^{-1} (p + \beta U (I - \beta U' \Lambda^{-1} U)^{-1} U' \Lambda^{-1} p).$$
    """
    if len(unit) <= unit.shape[1]:
        S = unit @ unit.T
        np.fill_diagonal(S, 0.0)
        return dense_mean(S, pull, total, beta)
    diagonal = total + beta * (unit @ unit.sum(axis=0))
    scaled = unit / diagonal[:, None]
    inner = np.eye(unit.shape[1]) - beta * (unit.T @ scaled)
    mean: FloatArray = (pull + beta * (unit @ np.linalg.solve(inner, scaled.T @ pull))) / diagonal
    return mean


def net_degrees(data: Groups, relation: str | None) -> FloatArray:
    """Row sum minus column sum of a relation for every document: how much more it is parent than child."""
    if relation is None:
        return np.zeros(data.n_rows)
    matrix = _relation(data, relation)
    return np.asarray(matrix.sum(axis=1) - matrix.sum(axis=0), dtype=np.float64).ravel()


def _relation(data: Groups, name: str) -> Any:
    if name not in data.relations:
        known = ", ".join(data.relations) or "none"
        raise DataError(f"The relation {name!r} is needed; the data have {known}: add it to them.")
    return data.relations[name]


class FittedCCRF(FittedLists):
    """`alpha` has a weight above 0 for every feature, normalised within queries; `beta` is that of the relation."""

    alpha: FloatArray = array("features")
    beta: float
    form: Literal["feedback", "distillation"]
    relation: str | None = option()

    name = "ccrf"

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """The mean of the field; feedback solves a system of equations for every query.

        Cubic in its documents, or with cosines in the fewer of documents and features.
        """
        refuse_missing(data)
        pull = normalise_within_queries(data.X, data.offsets, "minmax") @ self.alpha
        total = float(self.alpha.sum())
        if self.form == "distillation":
            distilled: FloatArray = (2 * pull + self.beta * net_degrees(data, self.relation)) / (2 * total)
            return distilled
        try:
            return self._feedback(data, pull, total)
        except np.linalg.LinAlgError as error:
            raise DataError(f"The random field of this model has no mean for these documents: {error}.") from error

    def _feedback(self, data: Groups, pull: FloatArray, total: float) -> FloatArray:
        scores = np.empty(data.n_rows)
        assert self.relation is not None
        if self.relation == "cosine":
            unit = unit_rows(data.X, data.offsets, "minmax")
            for a, b in pairwise(data.offsets):
                scores[a:b] = cosine_mean(unit[a:b], pull[a:b], total, self.beta)
            return scores
        for S, (a, b) in zip(similarities(data, self.relation), pairwise(data.offsets), strict=True):
            scores[a:b] = dense_mean(S, pull[a:b], total, self.beta)
        return scores

    def importance(self) -> FloatArray:
        """The share of each feature."""
        result: FloatArray = self.alpha / self.alpha.sum()
        return result

    def _check(self) -> None:
        if not len(self.alpha) or not (self.alpha > 0).all():
            raise ModelFormatError("A random field needs weights above 0.")
        if self.form == "feedback" and self.beta < 0:
            raise ModelFormatError(f"A random field for feedback needs a beta of at least 0; the file has {self.beta}.")
        if self.form == "feedback" and self.relation is None:
            raise ModelFormatError("A random field for feedback needs a relation.")
