"""The trainer `blend`: cross-fit what the budget allows, learn the blend, and say what it will be worth."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from luce import scorers, training
from luce.auto import weights as weighing
from luce.auto.crossfit import MEMBERS, CrossFit, Fitted, Walked, failures, informative, joined, stated_target, summed
from luce.auto.plan import Clock, ExportTarget, Job, OutOfTime, Plan, for_target, make_plan
from luce.data.comparisons import Comparisons
from luce.data.filling import Filling
from luce.data.groups import Groups
from luce.data.order_files import judged_lists
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.grades_and_statements import BothTargets, says_something
from luce.metrics.catalog import Metric
from luce.metrics.evaluate import evaluate_rows
from luce.scorers.linear import FittedLinear
from luce.scorers.trees import FittedBlend
from luce.settings import Budget
from luce.spec import Range, option
from luce.training.held_out import USUAL
from luce.training.run import History
from luce.training.task import Algorithm, Task, Trained, data_digest, digest_of
from luce.types import FloatArray

__all__ = ["Blend"]

Walking = Callable[[Job, Callable[[float], None]], Walked]
"""Fits a member on all folds, and tells how far it is."""
Start = Callable[[CrossFit, Sequence[Job]], Walking]

_ONE_QUERY_PENALTY = 1.0
_FEW = 10
"""Queries with two grades below which weights are not learned."""


class Blend(Budget, Algorithm):
    """Fit several learners on folds of the queries and blend them by what they are worth on queries they did not see.

    Parameters
    ----------
    folds
        Parts of the queries; None is 5, or 3 for large data.
    members
        Names of the members to take; None takes all that the data tell apart.
    use_valid
        What validation data are: "more" queries to learn from, or a "yardstick" that is only reported on.
    plan
        Jobs to carry out in place of a budget, as a fitted model names them.
    export_to
        A target of `luce.export` that the model must fit: members that it could not hold are left out.
    """

    folds: int | None = option(default=None, least=2, tune=Range(4, 10, whole=True))
    members: Sequence[str] | str | None = None
    use_valid: Literal["more", "yardstick"] = "more"
    plan: Sequence[str] | str | None = None
    export_to: ExportTarget | None = None

    name: ClassVar[str] = "blend"
    takes_missing: ClassVar[bool] = True
    takes_categories: ClassVar[bool] = True

    def judge(self, metric: Metric, stated: Comparisons) -> Metric:
        """What judges lists and preferences: the likelihood under Luce's model unless another metric was named."""
        if metric.name in (USUAL, "log_likelihood"):
            return weighing.race_likelihood()
        if stated.holds_pairs and metric.name != "pairwise_accuracy":
            raise SettingError(
                f"{metric.name} judges rankings; preferences are judged by log_likelihood or pairwise_accuracy."
            )
        return metric

    def train(self, task: Task, start: Start | None = None) -> Trained:
        """Members, weights, scale, in this order; `start` begins jobs elsewhere and gives what waits for one."""
        task = self._of_statements(task)
        self.check_task(replace(task, checkpoint=None))  # it keeps checkpoints of its own, a folder a member
        data, trainer = task.data, self
        if task.valid is not None and data.judges is not None:
            trainer = replace(self, use_valid="yardstick")  # lists that judge are no more rows to learn from
        elif task.valid is not None and self.use_valid == "more":
            data = joined(data, task.valid)
        if not len(informative(data)):
            raise DataError(
                "All labels of every query are equal, so that there is no order to learn; give grades that differ "
                "within a query."
            )
        members = for_target(self.export_to, _names(self.members), data)
        plan = make_plan(self.budget, self.folds, members, _names(self.plan), data)
        return _Work(trainer, task, data, plan, start).trained()

    def _of_statements(self, task: Task) -> Task:
        """A task that learns from what is stated in place of grades: it goes with the queries, and judges the held."""
        target = task.target
        if not isinstance(target, BothTargets):
            return task
        if says_something(target.labels):
            raise SettingError(
                "'blend' learns from grades, or from lists and preferences where there are none; leave the grades out "
                "(--ignore-grades), or the comparisons."
            )
        stated = replace(task.data, y=target.labels, stated=target.comparisons)
        return replace(task, data=stated, target=None, metric=self.judge(task.metric, target.comparisons))


def _names(given: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Names of members or jobs, which the command line writes as a text with commas between."""
    if given is None:
        return None
    return tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else tuple(given)


@dataclass(eq=False)
class _Work:
    """One training: what was fitted, what failed, and what is said of it."""

    trainer: Blend
    task: Task
    data: Groups
    plan: Plan
    start: Start | None = None
    clock: Clock = field(init=False)
    walk: Walking = field(init=False)
    fitted: dict[str, list[Fitted]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    asked_to_end: bool = False
    """Whether who watches the progress wants what there is."""

    def __post_init__(self) -> None:
        self.clock = Clock(self.plan.seconds)
        self.remarks += self.plan.remarks
        self.filling = Filling.learn(self.data, fill=True, expand=True, later=True)
        checkpoint, pace = self.task.checkpoint, self.plan.pace
        fingerprint = (
            None
            if checkpoint is None
            else {
                "data": data_digest(self.data) + ("" if self.data.stated is None else digest_of(self.data.stated)),
                "folds": self.plan.folds,
                "metric": self.task.metric.name,
                "pace": [pace.step, pace.rounds, pace.patience, pace.bins],
                "seed": self.task.seed,
            }
        )
        self.crossfit = CrossFit(
            self.data,
            self.plan.folds,
            self.task.metric,
            self.plan.pace,
            self.task.seed,
            self.filling,
            None if checkpoint is None else Path(checkpoint),
            fingerprint,
        )
        self.walk = self.crossfit.walk
        judges = self.data.judges
        judged = None if judges is None else judged_lists(self.data, judges)
        self.judged = self.data if judged is None else judged.groups(self.data)
        """What weights and probabilities are learned on: the data, or one query a list or preference of them."""
        self.rows = slice(None) if judged is None else judged.rows

    def trained(self) -> Trained:
        self._fit_all()
        rng = np.random.default_rng([self.task.seed, 1])
        members = list(self.fitted)
        scores = np.stack([np.mean([one.scores for one in self.fitted[m]], axis=0) for m in members])
        spreads = np.array([weighing.spread(row, self.data) for row in scores])
        for member, width in zip(members, spreads, strict=True):
            if not width > 0:
                self.failed[member] = "it learned nothing: all documents of a query have the same score"
        kept = [i for i, width in enumerate(spreads) if width > 0]
        if not kept:
            raise DataError(
                "No member learned anything: all documents of a query have the same score; give features that vary "
                "within a query."
            )
        members, units = [members[i] for i in kept], scores[kept] / spreads[kept, None]
        found, worth, alone = self._weights(units, rng)
        weights = found.weights
        as_race = self.data.judges is not None and not self.data.judges.holds_pairs
        scale, loss = weighing.calibrate((weights @ units)[self.rows], self.judged, rng, as_race)
        factors = scale * weights / spreads[kept]
        scorer = self._scorer(members, factors, weights)
        self._say()
        record = self._record(members, found, alone, worth, scorer)
        return Trained(scorer, loss, History(converged=True, blend=record))

    def _fit_all(self) -> None:
        """One job after the other while there is time; the first that succeeds is always carried out."""
        if self.plan.folds < 2:
            self._fit_one_query()
            return
        if self.start is not None:
            todo = [job for job in self.plan.jobs if self.crossfit.load(job) is None]
            self.walk = self.start(self.crossfit, todo)
        longest = 0.0
        for number, job in enumerate(self.plan.jobs):
            if job.member in self.failed:
                continue
            if self.fitted and (self.asked_to_end or not self.clock.allows(longest)):
                break
            begun = self.clock.spent
            self._fit(job, number)
            longest = max(longest, self.clock.spent - begun)
        if not self.fitted:
            names: dict[str, list[str]] = {}
            for name, reason in self.failed.items():
                names.setdefault(reason.rstrip("."), []).append(name)
            why = "; ".join(f"{', '.join(failed)}: {reason}" for reason, failed in names.items())
            raise DataError(f"No member of the blend could be fitted: {why}.")

    def _fit_one_query(self) -> None:
        """A linear score with a fixed penalty: there is no query to judge by, nor to choose by."""
        member = "luce-linear" if self.data.judges is None else self.plan.jobs[0].member
        seen = self.data if self.filling is None else self.filling.applied(self.data)
        target = stated_target(seen)
        loss = MEMBERS[member].make_loss(target is not None)
        task = Task(seen, scorers.get("linear"), loss, target=target, seed=self.task.seed)
        model = training.get("lbfgs", l2=_ONE_QUERY_PENALTY).train(task).scorer
        assert isinstance(model, FittedLinear)
        self.fitted[member] = [Fitted(member, model, model.score(seen.X, seen.offsets), 1, False)]
        self.done.append(member)
        self.remarks.append("one query leaves none to judge by: it is a linear model with a fixed penalty alone")

    def _tell(self, part: float) -> None:
        """What part of all is done, and the seconds that are left by it; the answer may ask for the end."""
        if self.task.progress is None:
            return
        spent, seconds = self.clock.spent, self.clock.seconds
        left = spent * (1.0 - part) / max(part, 1e-9)
        left = left if seconds is None else max(0.0, min(left, seconds - spent))
        if self.task.progress(round(100 * part), 100, {"seconds left": round(left)}):
            self.asked_to_end = True

    def _fit(self, job: Job, number: int) -> None:
        has_one = bool(self.fitted)

        def tell(part: float) -> None:
            self._tell((number + part) / len(self.plan.jobs))
            if has_one:
                self.clock.check()
                if self.asked_to_end:
                    raise OutOfTime

        walked = self.crossfit.load(job)
        if walked is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LuceWarning)  # of single folds; what the blend says of them is its own
                try:
                    walked = self.walk(job, tell)
                except OutOfTime:
                    return
                except failures() as error:
                    self.failed[job.member] = " ".join(str(error).split()) or type(error).__name__
                    return
            self.crossfit.save(job, walked)
        self._tell((number + 1) / len(self.plan.jobs))
        self.fitted.setdefault(job.member, []).append(self.crossfit.fitted(job, walked))
        self.done.append(job.name)

    def _weights(
        self, units: FloatArray, rng: np.random.Generator
    ) -> tuple[weighing.Learned, weighing.Estimate | None, list[float]]:
        """Weights of members, what the blend is worth, and what each is worth alone."""
        valued = weighing.value_blends(units[:, self.rows], self.judged, self.task.metric, rng)
        sign = 1.0 if self.task.metric.greater_is_better else -1.0
        alone = [float(sign * np.nanmean(row)) for row in valued.values[: len(units)]]
        queries = len(informative(self.data))
        if queries < _FEW:
            self.remarks.append(
                f"{queries} queries that say something of an order are too few to learn weights by (at least {_FEW}): "
                "all members count alike, and what the blend is worth is not estimated"
            )
            alike = np.full(len(units), 1.0 / len(units))
            return weighing.Learned(alike, alike, alike > 0), None, alone
        found = weighing.learned(valued, np.arange(valued.values.shape[1]), rng)
        return found, weighing.estimate(valued, rng), alone

    def _scorer(self, members: list[str], factors: FloatArray, weights: FloatArray) -> FittedBlend:
        turns = [
            (one.model, factor / len(self.fitted[member]))
            for member, factor in zip(members, factors.tolist(), strict=True)
            for one in self.fitted[member]
        ]
        forest, linear = summed(*zip(*turns, strict=True))
        share = float(min(1.0, weights[[MEMBERS[member].linear for member in members]].sum()))
        return FittedBlend(forest, None if linear is None else self.filling, self.data.n_features, share, linear)

    def _say(self) -> None:
        """What a user should know of it, as warnings."""
        for member, reason in self.failed.items():
            warnings.warn(f"The member {member!r} of the blend was left out: {reason}", LuceWarning, stacklevel=6)
        planned = dict.fromkeys(job.member for job in self.plan.jobs)
        if self.plan.seconds is not None and len(self.done) + len(self.failed) < len(planned):
            whole = "for one member alone, which is always fitted" if len(self.done) == 1 else "for some members only"
            self.remarks.append(f"a budget of {self.plan.seconds:g} s was enough {whole}: {', '.join(self.done)}")
        if self.asked_to_end:
            self.remarks.append(f"it was ended before its time, after {', '.join(self.done)}")
        limited = [member for member, turns in self.fitted.items() if any(one.at_limit for one in turns)]
        if limited:
            self.remarks.append(
                f"{', '.join(limited)} was still rising when {self.plan.pace.rounds} trees, the limit, were grown"
            )
        for remark in self.remarks:
            warnings.warn(f"The blend: {remark}.", LuceWarning, stacklevel=6)

    def _record(
        self,
        members: list[str],
        found: weighing.Learned,
        alone: list[float],
        worth: weighing.Estimate | None,
        scorer: FittedBlend,
    ) -> dict[str, Any]:
        """What was tried, what got which weight and why; plain values for a file."""
        rows = [
            {
                "member": member,
                "about": MEMBERS[member].about,
                "weight": float(weight),
                "chosen": float(chosen),
                "kept": bool(kept),
                "alone": value,
                "steps": [one.step for one in self.fitted[member]],
            }
            for member, weight, chosen, kept, value in zip(members, *found, alone, strict=True)
        ]
        record: dict[str, Any] = {
            "metric": self.task.metric.name,
            "members": rows,
            "failed": dict(self.failed),
            "plan": list(self.done),
            "folds": self.plan.folds,
            "queries": self.data.n_queries,
            "step": self.plan.pace.step,
            "remarks": list(self.remarks),
            "valid": None if self.task.valid is None else self.trainer.use_valid,
        }
        if worth is not None:
            X, rng = np.asarray(self.data.X)[self.rows], np.random.default_rng([self.task.seed, 2])
            found_beside = weighing.beside(X, self.judged, self.task.metric, rng)
            if "feature" in found_beside:
                found_beside["feature"] = self.data.feature_names[found_beside["feature"]]
            record["estimate"] = vars(worth) | found_beside
        valid, metric = self.task.valid, self.task.metric
        if valid is not None and self.trainer.use_valid == "yardstick":
            judged = evaluate_rows(scorer.score(valid.X, valid.offsets), valid, [metric])
            record["yardstick"] = judged.means[metric.name]
        return record
