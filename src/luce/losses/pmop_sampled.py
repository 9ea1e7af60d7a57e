"""PMOP with the general potential, its gradient estimated by short Markov chains (contrastive divergence)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import is_whole
from luce.errors import SettingError
from luce.losses.base import Outputs, Target
from luce.losses.partition import PartitionLikelihood
from luce.losses.pmop_exact import PMOPExact
from luce.losses.tier_sizes import SizeModel, Stages
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Tiers
from luce.sampling import GIBBS, METROPOLIS, METROPOLIS_AS_PRINTED, seed_from, step, stream
from luce.types import FloatArray, IntArray


class SampledPMOP(PartitionLikelihood):
    r"""The model of `pmop_exact` with its gradient [PMOP] (13) estimated by short chains.

    At every stage a chain starts at the observed tier $X_k$ and gives `samples` subsets $S_1, S_2, \dots$, `steps`
    steps apart; the gradient of the value is estimated by

    $$\sum_k \frac{1}{\text{samples}} \sum_l \frac{1_{i \in S_l}}{|S_l|} - \frac{1_{i \in X_k}}{|X_k|}.$$

    It is biased for short chains and right in the limit of long ones. [PMOP] runs `steps=1` and 1 to 3 samples.

    Randomness: query q of a call draws from the stream named (seed, q), so that a call can be repeated, with any number
    of threads. A trainer takes `loss.reseeded(iteration)` for fresh draws, or passes `rng` to `value_and_grad`.

    `value="exact"` reports the exact negative log-probability (cubic in the length of a query; see `pmop_exact`),
    `value="surrogate"` the function whose gradient for given samples the estimate is: its expectation does not follow
    the likelihood, but it costs nothing. Curvature is the mean of $1_{i \in S_l}/|S_l|^2$, the first part of the
    Hessian's diagonal. Probabilities and draws are those of `pmop_exact`.
    """

    stochastic = True
    permutation_invariant = False

    def __init__(
        self,
        steps: int = 1,
        samples: int = 1,
        value: str = "exact",
        seed: int = 0,
        cut: int | None = None,
        tier_gain: float | None = None,
    ) -> None:
        if not (is_whole(steps, 1) and is_whole(samples, 1)):
            raise SettingError(f"{self.name}(steps={steps}, samples={samples}): both are whole numbers of at least 1.")
        if value not in ("exact", "surrogate"):
            raise SettingError(f"{self.name}(value={value!r}): value must be 'exact' or 'surrogate'.")
        if not 0 <= seed < 2**64:
            raise SettingError(f"{self.name}(seed={seed}): the seed must be at least 0 and below 2^64.")
        self.steps, self.samples = int(steps), int(samples)
        self.value = value
        self._set_stages(tier_gain, cut, seed, self.stochastic, "cut, whose pieces it draws")
        self.learns_from_ties = tier_gain is None
        self._exact = PMOPExact()

    @property
    def settings(self) -> dict[str, Any]:
        """Length of the chains, what value is reported, the seed, how tiers are weighed and queries cut."""
        chosen = {"steps": self.steps, "samples": self.samples, "value": self.value, "seed": self.seed}
        return chosen | self._stage_settings

    @property
    @abstractmethod
    def _chain(self) -> int | None:
        """The number of the chain in `luce.sampling`."""

    def with_seed(self, seed: int) -> Self:
        """The same loss with another seed."""
        return type(self)(**{**self.settings, "seed": seed})

    def reseeded(self, iteration: int) -> Self:
        """The same loss with the draws of that iteration; iterations of one seed never share a stream."""
        key = np.random.SeedSequence([self.seed, iteration]).generate_state(1, np.uint64)[0]
        return self.with_seed(int(key))

    def value_and_grad(
        self,
        scores: ArrayLike,
        target: Target,
        offsets: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[float, FloatArray]:
        """Value and estimated gradient, summed over queries; with `rng` the draws come from it, not from the seed."""
        loss = self if rng is None else self.with_seed(int(seed_from(rng)))
        return super(SampledPMOP, loss).value_and_grad(scores, target, offsets, query_weight)

    def _fill(self, prepared: Tiers, scores: FloatArray, weights: FloatArray, out: Outputs) -> None:
        """One value a query, the gradient estimated."""
        run = (np.uint64(self.seed), self._chain, self.steps, self.samples)
        _queries(scores, *prepared, weights, run, *out.arrays)
        if self.value == "exact":
            self._exact.fill_values(prepared, scores, weights, out.chunk[0], out.values)

    def _log_prob(self, scores: FloatArray, cut: Tiers, stage: Stages) -> float:
        return self._exact._log_prob(scores, cut, stage)

    def _log_prob_given_sizes(self, scores: FloatArray, cut: Tiers, stage: Stages) -> float:
        return self._exact._log_prob_given_sizes(scores, cut, stage)

    def _draw(self, scores: FloatArray, rng: np.random.Generator, tier: IntArray, sizes: SizeModel | None) -> None:
        self._exact._draw(scores, rng, tier, sizes)


class PMOPGibbs(SampledPMOP):
    """The general PMOP with gradients by Gibbs sampling: a step is one sweep over the documents that remain.

    Parameters and estimate as in `SampledPMOP`.

    >>> value, grad = PMOPGibbs(samples=3).value_and_grad([0.5, 0.1, -0.2], [1, 0, 0])
    >>> bool(abs(grad.sum()) < 1e-12)
    True
    """

    name = "pmop_gibbs"
    _chain = GIBBS


class PMOPMetropolis(SampledPMOP):
    """The general PMOP with gradients by Metropolis-Hastings: a step proposes a subset of uniformly drawn size.

    Parameters and estimate as in `SampledPMOP`. The acceptance ratio is the right one for that proposal;
    `paper_rule=True` keeps the ratio that [PMOP] prints, which samples another distribution: that of
    `pmop_exact(sizes="printed")`, from which its value, probabilities and draws then are.

    >>> PMOPMetropolis(paper_rule=True)
    pmop_mh(steps=1, samples=1, value='exact', seed=0, paper_rule=True)
    """

    name = "pmop_mh"

    def __init__(
        self,
        steps: int = 1,
        samples: int = 1,
        value: str = "exact",
        seed: int = 0,
        paper_rule: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(steps, samples, value, seed, **common)
        self.paper_rule = bool(paper_rule)
        self._exact = PMOPExact("printed" if paper_rule else "model")

    @property
    def settings(self) -> dict[str, Any]:
        """Length of the chains, what value is reported, the seed, and the rule of acceptance."""
        return {**super().settings, "paper_rule": self.paper_rule}

    @property
    def _chain(self) -> int:
        return METROPOLIS_AS_PRINTED if self.paper_rule else METROPOLIS


@kernel
def _queries(scores, order, starts, queries, weights, run, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    seed, chain, steps, samples = run
    for i in range(len(values)):
        q = first + i
        begin, end = queries[q], queries[q + 1]
        random = stream(seed, q)
        for j in range(starts[begin], starts[end]):
            grad[order[j]] = 0.0
            if len(curvature):
                curvature[order[j]] = 0.0
        values[i] = 0.0
        for k in range(begin, end):
            rows = order[starts[k] : starts[end]]
            size = starts[k + 1] - starts[k]
            weight = weights[k] if len(weights) else 1.0
            chained = (random, chain, steps, samples)
            values[i] += weight * _one_stage(scores, rows, size, weight, *chained, grad, curvature)


@part
def _one_stage(scores, rows, size, weight, random, chain, steps, samples, grad, curvature):  # type: ignore[no-untyped-def]
    """Estimate from one chain over `rows`, which starts at the first `size` of them, the observed tier."""
    f, member, value = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_), 0.0
    for i in range(len(rows)):
        f[i], member[i] = scores[rows[i]], i < size
    for i in range(size):
        grad[rows[i]] -= weight / size
        value -= f[i] / size
    for _ in range(samples):
        for _ in range(steps):
            member = step(chain, random, f, member)
        members = 0
        for i in range(len(f)):
            members += member[i]
        share = 1.0 / (samples * members)
        for i in range(len(f)):
            if member[i]:
                grad[rows[i]] += weight * share
                value += share * f[i]
                if len(curvature):
                    curvature[rows[i]] += weight * share * share * samples
    return value
