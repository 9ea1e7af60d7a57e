"""PyTorch: a loss as a differentiable function of scores, on ragged batches."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from luce import losses
from luce.checks import one_of
from luce.errors import DataError, MissingExtraError
from luce.losses.base import Loss, Risk, check_scores
from luce.numerics.segments import check_offsets
from luce.types import FloatArray, IntArray

REDUCTIONS = ("mean", "sum", "none")


class TorchLoss:
    """A loss that autograd can go through; queries of a batch lie one after the other, without padding.

    Values and gradients are computed in float64 on the CPU and come back in the type and on the device of the scores.
    There are first derivatives only.

    Parameters
    ----------
    loss
        A loss or the name of one.
    reduction
        "mean" over queries, "sum", or "none" for one value a query.
    """

    def __init__(self, loss: Loss | str, *, reduction: str = "mean") -> None:
        one_of("reduction", reduction, REDUCTIONS)
        _torch()
        self.loss, self.reduction = losses.of(loss), reduction

    def initial_parameters(self) -> Any:
        """The start values of the loss's own parameters (a tie parameter) as a tensor, to be learned beside a model."""
        return _torch().tensor(self.loss.parameters, dtype=_torch().float64)

    def __call__(self, scores: Any, labels: Any, offsets: Any = None, parameters: Any = None) -> Any:
        """Loss of a batch: scores and labels of all its documents, and its q + 1 query boundaries (None: one query).

        `parameters` is a tensor with the loss's own parameters, which then get a gradient too.
        """
        torch = _torch()
        if scores.ndim != 1:
            raise DataError(f"Scores must be a vector, one a document; got shape {tuple(scores.shape)}.")
        boundaries = [0, len(scores)] if offsets is None else offsets
        cut = check_offsets(torch.as_tensor(boundaries).cpu().numpy(), len(scores))
        target = torch.as_tensor(labels).detach().cpu().numpy().astype(np.float64)
        own = self.initial_parameters() if parameters is None else parameters
        values = _function().apply(scores, own, self.loss, target, cut)
        return values if self.reduction == "none" else getattr(values, self.reduction)()


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("A loss for PyTorch", "torch") from error
    return torch


@lru_cache(maxsize=1)
def _function() -> Any:
    """The autograd function, made on first use: its base class lives in PyTorch."""
    torch = _torch()

    class QueryLosses(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Scores and parameters to one loss a query."""

        @staticmethod
        def forward(ctx: Any, scores: Any, parameters: Any, loss: Loss, target: FloatArray, offsets: IntArray) -> Any:
            """Values, and the gradients that `backward` will need."""
            own = parameters.detach().cpu().numpy().astype(np.float64)
            plain = check_scores(scores.detach().cpu().numpy())
            grad = np.zeros_like(plain)
            values, slopes = Risk(loss.with_parameters(own), target, offsets).each(plain, grad, own=True)
            ctx.sizes = torch.as_tensor(np.diff(offsets)).to(scores.device)
            ctx.save_for_backward(torch.as_tensor(grad).to(scores), torch.as_tensor(slopes).to(parameters))
            return torch.as_tensor(values).to(scores)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, upstream: Any) -> tuple[Any, ...]:
            """The chain rule, query by query."""
            grad, slopes = ctx.saved_tensors
            by_row = torch.repeat_interleave(upstream, ctx.sizes)
            return grad * by_row, upstream.to(slopes) @ slopes, None, None, None

    return QueryLosses
