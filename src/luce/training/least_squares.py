"""Least squares in closed form: grades, or the target of NDCG, as a linear function of the features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from luce.checks import number
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.losses.ndcg import NDCGMix, NDCGSquare
from luce.numerics.segments import Chunk, chunk_queries, map_chunks, query_index
from luce.scorers.linear import FittedLinear, LinearScorer
from luce.training.task import Algorithm, Task, Trained, Trainer
from luce.types import FloatArray

_BLOCK_ROWS = 8192


@dataclass(frozen=True)
class LinearRegression(Algorithm):
    r"""A linear scorer by least squares: grades are the target, whatever the query.

    The minimum of $\frac{1}{2 \sum_i v_i} \sum_i v_i (y_i - b - w \cdot z_i)^2 + \frac{l2}{2} \|w\|^2$.

    $z$ are the standardised features and $v_i$ the weight of the document's query; solved in closed form. Where the
    features depend on each other and `l2` is 0, $w$ is the shortest solution.

    Parameters
    ----------
    l2
        Strength of the penalty.
    """

    l2: float = 1e-2

    name: ClassVar[str] = "linear_regression"

    def __post_init__(self) -> None:
        number("l2", self.l2)

    def train(self, task: Task) -> Trained:
        """In closed form."""
        self.check_task(task)
        data = task.data
        bound = LinearScorer().bind(data)
        weight = np.ones(data.n_rows) if data.query_weight is None else data.query_weight[query_index(data.offsets)]
        weight = weight / weight.sum()
        moments = _moments(bound, data, weight)
        means, gram = moments[-1, :-2], moments[:-2, :-2]
        mean_y = moments[-1, -2]
        covariance = gram - np.outer(means, means)
        slope = moments[-2, :-2] - mean_y * means
        w = np.linalg.lstsq(covariance + self.l2 * np.eye(len(means)), slope, rcond=1e-10)[0]
        plain = bound.fitted(w)
        fitted = FittedLinear(plain.weights, float(plain.intercept + mean_y - means @ w), plain.inverse_sd)
        run = task.start_run(1, None, lambda _: task.judged_scorer(fitted))
        residual = moments[-2, -2] - mean_y**2 - 2 * w @ slope + w @ covariance @ w
        run.step(w, float(residual + self.l2 * w @ w) / 2)
        run.history.converged = True
        return Trained(fitted, None, run.history)


@dataclass(frozen=True)
class ClosedForm(Trainer):
    r"""The minimum of `ndcg_square` on the linear scorer, where [Pareek] (3.26) has a closed form.

    $\phi = \|s\|^2 / (4 \alpha) - \langle \tilde r, s \rangle$ with $s = Z w + b$ is a square in w and the offset b, so
    that $(Z^\top C Z / 2 \alpha + l2\, I) w = Z^\top C (\tilde r - b / 2 \alpha)$ with the weights C of the queries.

    Parameters
    ----------
    l2
        Strength of the penalty.
    """

    l2: float = 1e-2

    name: ClassVar[str] = "closed_form"

    def __post_init__(self) -> None:
        number("l2", self.l2)

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse what has no closed form."""
        alone = isinstance(loss, NDCGSquare) or (
            isinstance(loss, NDCGMix) and not loss.chooses_alpha and _square_alone(loss)
        )
        if not alone or getattr(loss, "link", None) is not None or scorer.name != "linear":
            raise SettingError(
                f"The trainer {self.name!r} solves the loss 'ndcg_square', or 'ndcg_mix' of the square alone, without "
                f"a link, for the scorer 'linear'; {getattr(loss, 'name', loss)!r} on {scorer.name!r} needs another."
            )

    def train(self, task: Task) -> Trained:
        """One system of equations."""
        for what, given in (("comparisons", task.target), ("base", task.base), ("checkpoints", task.checkpoint)):
            if given is not None:
                raise SettingError(f"The trainer {self.name!r} takes grades alone, and no {what}; use 'lbfgs'.")
        loss: Any = task.given_loss
        alpha = 1.0 if isinstance(loss, NDCGSquare) else float(loss.alpha.sum())
        gains = loss.prepare(task.data.y, task.data.offsets)
        weight = np.ones(task.data.n_queries) if task.data.query_weight is None else task.data.query_weight
        share = np.repeat(weight / weight.sum() * gains.counted, task.data.sizes)
        bound = LinearScorer().bind(task.data)
        moments = _moments(bound, replace(task.data, y=gains.target), share)
        square, right = np.delete(np.delete(moments, -2, 0), -2, 1) / (2 * alpha), np.delete(moments[-2], -2)
        n = len(right) - 1
        square[:n, :n] += self.l2 * np.eye(n)
        if loss.learns_offset:
            found = np.linalg.lstsq(square, right, rcond=1e-12)[0]
            w, loss = found[:n], loss.with_parameters(found[n:] / loss.score_unit)
        else:
            w = np.linalg.lstsq(square[:n, :n], right[:n] - square[:n, n] * loss.offset, rcond=1e-12)[0]
        fitted, at = bound.fitted(w), np.append(w, loss.offset)
        run = task.start_run(1, None, lambda _: task.judged_scorer(fitted))
        run.step(w, float(0.5 * at @ square @ at - right @ at))
        run.history.converged = True
        return Trained(fitted, loss, run.history)


def _square_alone(loss: NDCGMix) -> bool:
    return all((weight > 0) == (name == "square") for weight, name in zip(loss.alpha, loss.names, strict=True))


def _moments(bound: LinearScorer, data: Groups, weight: FloatArray) -> FloatArray:
    """The matrix of weighted mean products of standardised features, label and 1, block by block of rows."""
    scale = bound.scale

    def block(_: int, chunk: Chunk) -> FloatArray:
        rows = slice(data.offsets[chunk[0]], data.offsets[chunk[1]])
        Z = (data.X[rows] - scale.mean) * scale.inverse_sd
        Z = np.column_stack([Z, data.y[rows], np.ones(len(Z))])
        product: FloatArray = (Z * weight[rows, None]).T @ Z
        return product

    result: FloatArray = np.sum(map_chunks(block, chunk_queries(data.offsets, _BLOCK_ROWS)), axis=0)
    return result
