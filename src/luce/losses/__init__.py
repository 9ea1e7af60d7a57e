"""Losses by name. A loss sees scores, a target and query boundaries; never features.

Four drivers, a file each, know targets, weights, chunks and probabilities; a loss is a thin class beside its equation,
which gives its driver one function:

- `pairs`, sums over pairs of documents: what a pair costs. The smooth links are in `pairwise`, margins in `margins`.
- `stages`, tier after tier from what is left: what a stage costs. Races are in `plackett_luce`, choices of whole tiers
  in `pmop` and `pmop_general`, tops of lists, which are races too, in `topk`.
- `segments`, functions of all scores of a query: what a run of queries costs, or a conjugate. They are in `listwise`,
  `ndcg`, `retargeting`.
- `cdn`, networks over the edges of an order graph: a function of two edges.
"""

from __future__ import annotations

from typing import Any

from luce.losses.base import Likelihood, Loss
from luce.registry import Registry

__all__ = ["Likelihood", "Loss", "get", "names", "of", "register", "registry"]

registry = Registry(
    "loss",
    {
        "bradley_terry": "luce.losses.pairwise:BradleyTerry",
        "cdn": "luce.losses.cdn.loss:CDN",
        "click_choice": "luce.losses.listwise:ClickChoice",
        "cosine": "luce.losses.listwise:Cosine",
        "davidson": "luce.losses.pairwise:Davidson",
        "hom_gg": "luce.losses.topk:HomGG",
        "hom_og": "luce.losses.topk:HomOG",
        "hom_oo": "luce.losses.topk:HomOO",
        "listmle": "luce.losses.plackett_luce:ListMLE",
        "listnet": "luce.losses.listwise:ListNet",
        "monotone_retargeting": "luce.losses.retargeting:MonotoneRetargeting",
        "ndcg_cross_entropy": "luce.losses.ndcg:NDCGCrossEntropy",
        "ndcg_mix": "luce.losses.ndcg:NDCGMix",
        "ndcg_qnorm": "luce.losses.ndcg:NDCGQNorm",
        "ndcg_square": "luce.losses.ndcg:NDCGSquare",
        "order_and_size": "luce.losses.order_and_size:OrderAndSize",
        "paired": "luce.losses.pairwise:Paired",
        "plackett_luce": "luce.losses.plackett_luce:PlackettLuce",
        "pmop": "luce.losses.pmop:PMOP",
        "pmop_exact": "luce.losses.pmop_general:PMOPExact",
        "pmop_gibbs": "luce.losses.pmop_general:PMOPGibbs",
        "pmop_mh": "luce.losses.pmop_general:PMOPMetropolis",
        "ranknet": "luce.losses.pairwise:RankNet",
        "rank_regress": "luce.losses.margins:RankRegress",
        "ranksvm": "luce.losses.margins:RankSVM",
        "rao_kupper": "luce.losses.pairwise:RaoKupper",
        "thurstone_mosteller": "luce.losses.pairwise:ThurstoneMosteller",
        "topk_listmle": "luce.losses.topk:TopKListMLE",
    },
    "luce.losses",
)
register = registry.register


def names() -> list[str]:
    """All losses.

    >>> "pmop" in names()
    True
    """
    return registry.names()


def get(name: str, **parameters: Any) -> Loss:
    """The loss of that name.

    >>> get("listmle", ties="random", seed=3)
    listmle(ties='random', seed=3)
    """
    from luce.losses.function_loss import from_factory

    return from_factory(registry.resolve(name), registry.get(name), parameters)


def of(part: Any) -> Loss:
    """The loss of what a user gives: a name, a loss, or a function of one query."""
    if isinstance(part, str):
        return get(part)
    from luce.losses.function_loss import as_loss

    return as_loss(part)
