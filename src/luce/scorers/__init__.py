"""Scorers by name. A scorer turns the items of a query into scores; it never sees labels."""

from __future__ import annotations

from importlib import import_module
from inspect import isclass
from typing import TYPE_CHECKING, Any

from luce.errors import SettingError
from luce.registry import Registry, make, settings_of

__all__ = [
    "LearnedKernel",
    "Scorer",
    "decompose",
    "defaults",
    "fitted_class",
    "get",
    "names",
    "of",
    "register",
    "registry",
]

if TYPE_CHECKING:
    from luce.scorers.kernel_sums import LearnedKernel
    from luce.scorers.own_scorer import Scorer
    from luce.scorers.symmetric_sums import decompose

registry = Registry(
    "scorer",
    {
        "gradient_trees": "luce.scorers.list_functions:GradientTrees",
        "linear": "luce.scorers.linear:LinearScorer",
        "list_functions": "luce.scorers.list_functions:ListFunctions",
        "list_terms": "luce.scorers.symmetric_sums:ListTerms",
        "listwise": "luce.scorers.listwise:ListwiseScorer",
        "mlp": "luce.scorers.mlp:MLPScorer",
        "nadaraya_watson": "luce.scorers.nadaraya_watson:NadarayaWatsonScorer",
        "second_order": "luce.scorers.second_order:SecondOrderScorer",
        "single_feature": "luce.scorers.list_functions:SingleFeature",
        "single_stump": "luce.scorers.list_functions:SingleStump",
        "trees": "luce.scorers.trees:TreesScorer",
    },
    "luce.scorers",
)
register = registry.register

_FITTED = {
    "blend": "trees:FittedBlend",
    "ccrf": "rerankers:FittedCCRF",
    "cps": "cps:FittedCPS",
    "greedy": "rerankers:FittedGreedy",
    "latent": "rerankers:FittedLatent",
    "linear": "linear:FittedLinear",
    "list_functions": "list_functions:FittedListFunctions",
    "listwise": "listwise:FittedListwise",
    "mlp": "mlp:FittedMLP",
    "nadaraya_watson": "nadaraya_watson:FittedNadarayaWatson",
    "second_order": "second_order:FittedSecondOrder",
    "stumps": "stumps:FittedStumps",
    "trees": "trees:FittedTrees",
}
"""What algorithms and trained scorers leave behind, by the name in a model file."""


def names() -> list[str]:
    """All scorers; each goes with any loss.

    >>> "linear" in names()
    True
    """
    return registry.names()


def get(name: str, **parameters: Any) -> Any:
    """A scorer of that name, to be trained."""
    return of(make("scorer", name, registry.get(name), parameters))


def of(part: Any) -> Any:
    """The scorer of what a user gives: a name or a scorer."""
    if isinstance(part, str):
        return get(part)
    if isclass(part):
        raise SettingError(f"The scorer is the class {part.__name__}; give an object: {part.__name__}().")
    if not isinstance(getattr(part, "name", None), str) or not (hasattr(part, "bind") or hasattr(part, "trainer")):
        raise SettingError(
            f"The scorer is {part!r:.100}; give a name or an object with a name and the methods of luce.scorers.Scorer."
        )
    return part


def defaults(name: str) -> dict[str, Any]:
    """The parameters of a scorer of that name, with their defaults.

    >>> defaults("mlp")
    {'hidden': (32,), 'activation': 'tanh'}
    """
    return settings_of(get(name))


def fitted_class(name: str) -> Any:
    """What reads a fitted scorer of that name from a model file: it has `from_state`."""
    if name in _FITTED:
        module, _, attribute = _FITTED[name].partition(":")
        return getattr(import_module(f"luce.scorers.{module}"), attribute)
    factory = registry.get(name)
    if not hasattr(factory, "from_state"):
        raise SettingError(f"The scorer {name!r} has no from_state, so that no model file can bring it back.")
    return factory


def __getattr__(name: str) -> Any:
    module = {"LearnedKernel": "kernel_sums", "Scorer": "own_scorer", "decompose": "symmetric_sums"}.get(name)
    if module is None:
        raise AttributeError(f"module 'luce.scorers' has no attribute {name!r}")
    return getattr(import_module(f"luce.scorers.{module}"), name)
