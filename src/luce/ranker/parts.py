"""The parts of a ranker as they were chosen: from names, objects and settings to loss, scorer, trainer and metric.

A setting belongs to the part that uses it. `trainer__max_iter` names part and setting; the short forms (`l2`,
`max_iter`, ...) go to the one part that takes them. A setting that no part takes is refused, and so are parts that do
not go together, before any data are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isclass
from typing import Any

from luce import losses, scorers, training
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.metrics import catalog as metrics
from luce.metrics.catalog import Metric
from luce.registry import all_settings_of, settings_of, unknown_setting, with_settings
from luce.settings import ShortForms
from luce.training.task import OwnTrainer, Trainer

PARTS = ("loss", "scorer", "trainer", "metric")
SHORT = tuple(ShortForms.__dataclass_fields__)
"""Settings that need not name their part."""
_HEARS_SHORT = ("trainer", "scorer", "loss")


@dataclass(frozen=True)
class Parts:
    """What a ranker is made of; loss and scorer are None where the trainer brings its own."""

    loss: Loss | None
    scorer: Any
    trainer: Any
    metric: Metric

    @property
    def takes_missing(self) -> bool:
        """Whether NaN may stand for what is missing."""
        return bool(getattr(self.trainer if self.scorer is None else self.scorer, "takes_missing", False))

    @property
    def title(self) -> str:
        """What is trained, in a few words.

        >>> choose({"loss": "pmop", "scorer": "trees"}, {}).title
        'pmop on trees'
        """
        if self.scorer is None:
            return str(self.trainer.name)
        own = getattr(self.scorer, "objective", None)
        return f"{own if self.loss is None else self.loss.name} on {self.scorer.name}"

    def settings(self, part: str) -> dict[str, Any]:
        """The settings of a part, none where there is no such part."""
        found = getattr(self, part)
        return {} if found is None else settings_of(found)


def inner(part: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings of a part as settings of a ranker.

    >>> inner("loss", {"k": 5})
    {'loss__k': 5}
    """
    return {f"{part}__{name}": value for name, value in (settings or {}).items()}


def choose(given: Mapping[str, Any], short: Mapping[str, Any]) -> Parts:
    """The parts that names, objects and short forms stand for.

    >>> choose({"scorer": "trees"}, {"learning_rate": 0.3}).scorer.learning_rate
    0.3
    >>> choose({"scorer": "trees"}, {"l2": 100.0})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    luce.errors.SettingError: l2 is a setting of no part of this ranker: trainer 'boosting' takes max_iter, ...
    """
    trainer = _trainer(given.get("trainer"))
    loss = None if given.get("loss") is None else losses.of(_placed("loss", given["loss"]))
    scorer = None if given.get("scorer") is None else _scorer(given["scorer"])
    metric = metrics.of(given.get("metric", "ndcg@10"))
    if trainer is None or not trainer.own_criterion:
        scorer = scorers.get("linear") if scorer is None else scorer
        loss = _with_loss(scorer, loss)
        if trainer is None:  # that of the scorer
            name = getattr(scorer, "trainer", "lbfgs")
            trainer = training.get("sgd" if name == "lbfgs" and loss is not None and loss.stochastic else name)
    found: dict[str, Any] = {"loss": loss, "scorer": scorer, "trainer": trainer, "metric": metric}
    for name, value in short.items():
        part = _owner(name, found)
        found[part] = with_settings(part, found[part], {name: value})
    found["trainer"].check(found["scorer"], found["loss"])
    return Parts(**found)


def _trainer(given: Any) -> Any:
    """A trainer, or None where it is left to the scorer and the loss."""
    if given is None or (isinstance(given, str) and given == "auto"):
        return None
    if isclass(given):
        raise SettingError(f"The trainer is the class {given.__name__}; give an object: {given.__name__}().")
    made = training.get(_placed("trainer", given)) if isinstance(given, str) else given
    if not callable(getattr(made, "train", None)):
        raise SettingError(f"The trainer is {given!r:.100}; give a name or an object with a method train(task).")
    return made if isinstance(made, Trainer) else OwnTrainer(made)


def _placed(part: str, given: Any) -> Any:
    """The same, unless it is the name of a part of another kind."""
    families = {"loss": losses.registry, "scorer": scorers.registry, "trainer": training.registry}
    if isinstance(given, str) and given not in families[part]:
        other = next((kind for kind, names in families.items() if given in names), None)
        if other is not None:
            raise SettingError(f"{given!r} is a {other}, not a {part}; give it as the {other}.")
    return given


def _scorer(given: Any) -> Any:
    if isinstance(given, str) and given not in scorers.registry and given in training.registry:
        raise SettingError(
            f"{given!r} is no scorer but an algorithm with a scorer and a criterion of its own; give it as the "
            "trainer, without scorer and loss, or take the complete system of that name."
        )
    return scorers.of(_placed("scorer", given))


def _with_loss(scorer: Any, loss: Loss | None) -> Loss | None:
    """The loss that trains a scorer; none where the scorer follows an objective of its own."""
    own = getattr(scorer, "objective", None)
    if own is None:
        return losses.get("pmop") if loss is None else loss
    if loss is not None:
        raise SettingError(
            f"{scorer.name!r} with objective={own!r} follow LightGBM's own criterion, so that the loss {loss.name!r} "
            "would not be used; leave out the loss, or the objective."
        )
    return None


def _owner(name: str, found: Mapping[str, Any]) -> str:
    """The one part that takes a short form."""
    there = [part for part in _HEARS_SHORT if found[part] is not None]
    owners = [part for part in there if name in settings_of(found[part])]
    if len(owners) == 1:
        return owners[0]
    if owners:
        both = " and ".join(f"{part} {found[part].name!r}" for part in owners)
        raise SettingError(f"{name} is a setting of {both}; say which: {' or '.join(f'{p}__{name}' for p in owners)}.")
    taken = {part: list(all_settings_of(found[part])) for part in there}
    close = [f"{part}__{option}" for part in there for option in taken[part] if name in option]
    makers: dict[str, Any] = {"trainer": training, "scorer": scorers}
    known = [f"{kind} {n!r}" for kind, of in makers.items() for n in of.names() if name in all_settings_of(of.get(n))]
    hint = f" It is a setting of {', '.join(known[:3])}{' and others' if len(known) > 3 else ''}." if known else ""
    hint = f" Did you mean {close[0]}?" if close else hint
    lists = "; ".join(f"{part} {found[part].name!r} takes {', '.join(taken[part]) or 'none'}" for part in there)
    raise SettingError(f"{name} is a setting of no part of this ranker: {lists}.{hint}")


def unknown_parameter(names: Sequence[str], own: Iterable[str], given: Mapping[str, Any]) -> SettingError:
    """The error for what a ranker does not take: with how to write it where one of its parts does."""
    name = names[0]
    parts = choose(given, {})
    there = {part: getattr(parts, part) for part in PARTS if getattr(parts, part) is not None}
    owners = [f"{part}__{name}" for part in there if name in all_settings_of(there[part])]
    if not owners:
        return unknown_setting("A ranker", names, [*own, *(f"{part}__NAME" for part in PARTS)])
    return SettingError(f"{name} is a setting of a part of the ranker; write {' or '.join(owners)}.")


def refuse_both_forms(settings: Mapping[str, Any]) -> None:
    """A setting in both of its forms, `l2` and `trainer__l2`: only one of them would be heard."""
    for name in settings:
        part, _, setting = name.partition("__")
        if part in _HEARS_SHORT and setting in SHORT and setting in settings:
            raise SettingError(
                f"{setting}={settings[setting]!r} and {name}={settings[name]!r} are the same setting; give one of them."
            )
