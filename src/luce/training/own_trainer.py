"""A trainer that a user wrote as any object with a method `train(task)`, as a full member of the family."""

from __future__ import annotations

from typing import Any

from luce.errors import of_user
from luce.losses.base import Loss
from luce.registry import make, settings_of
from luce.training.task import Task, Trained, Trainer


class OwnTrainer(Trainer):
    """Calls `train(task)` of an object; `own_criterion`, `takes_missing` and `check` are asked for if it has them."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.name = str(getattr(given, "name", type(given).__name__))  # type: ignore[misc]  # of a class elsewhere
        self.own_criterion = bool(getattr(given, "own_criterion", False))  # type: ignore[misc]
        self.takes_missing = bool(getattr(given, "takes_missing", False))  # type: ignore[misc]

    @property
    def factory(self) -> Any:
        """What a registry has under the name of this trainer."""
        return type(self.given)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the object."""
        return settings_of(self.given)

    def with_settings(self, **settings: Any) -> OwnTrainer:
        """The same trainer with these settings."""
        return OwnTrainer(make("trainer", self.name, type(self.given), settings))

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse what the object refuses."""
        if callable(getattr(self.given, "check", None)):
            with of_user(f"check of the trainer {self.name!r}"):
                self.given.check(scorer, loss)

    def train(self, task: Task) -> Trained:
        """What the object gives: a fitted scorer, or `Trained`."""
        with of_user(f"The trainer {self.name!r}"):
            found: Trained = self.given.train(task)
        return found
