"""PMOP with the general potential: normalised exactly in polynomial time, or its gradient estimated by short chains."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, field
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import fits_in_memory
from luce.losses.base import NOT_WANTED, Filled, Outputs, Target
from luce.losses.stages import PartitionLikelihood, Races
from luce.losses.tier_sizes import SizeModel, Stages
from luce.numerics.compiled import kernel, part
from luce.numerics.rows import clear
from luce.numerics.symmetric import forward, log_choices, partition_functions, pull_back
from luce.sampling import GIBBS, METROPOLIS, METROPOLIS_AS_PRINTED, draw_exponential, seed_from, step, stream
from luce.spec import option
from luce.types import FloatArray, IntArray


class PMOPExact(PartitionLikelihood):
    r"""Stagewise choice of a tier with the potential $\Phi(S) = \exp\{\frac{1}{|S|}\sum_{i \in S} f_i\}$, [PMOP] (16).

    $$-\log p = \sum_k \log Z_k - \frac{1}{|X_k|}\sum_{i \in X_k} f_i, \qquad
      Z_k = \sum_{\emptyset \ne S \subseteq R_k} \Phi(S) = \sum_{m=1}^{N_k} e_m\big(e^{f/m}\big).$$

    [PMOP] holds $Z_k$ to be intractable and samples. Grouped by size its $2^{N_k} - 1$ terms are elementary
    symmetric polynomials $e_m$ (see `luce.numerics.symmetric`), and the stages of a query, nested as they are, share
    one sweep: value and gradient take about $N^3/2$ operations.

    The value is convex in the scores and has no constant to drop: `log_prob` is its negative.

    Parameters
    ----------
    sizes
        `"model"` is the model above. `"given"` is the likelihood of the tiers given how large they are, with
        $e_{|X_k|}$ in place of $Z_k$: what the scores have to explain where sizes are fitted apart (`SizeModel`). It
        takes about $N^2$ operations. Its `log_prob` and draws, without a fitted model, hold all sizes equally likely.
        `"printed"` is the model whose tiers weigh $\Phi(S) / \binom{N_k}{|S|}$: the one that the acceptance ratio which
        [PMOP] prints for Metropolis-Hastings leaves stationary (`pmop_mh(paper_rule=True)`). Sizes then count by the
        mean of $\Phi$ over their subsets, not by its sum.

    >>> loss = PMOPExact()
    >>> round(float(np.exp(loss.log_prob([0.0, 0.0], [1, 1]))), 12)
    0.333333333333
    """

    name = "pmop_exact"

    sizes: Literal["model", "given", "printed"] = "model"

    def _check(self) -> None:
        super()._check()
        self.learns_from_ties = self.sizes != "given" and self.tier_gain is None

    def prepare(self, target: Target, offsets: IntArray) -> Races:
        """Tiers of equal label; refuses queries whose sums over sizes would not fit in memory."""
        made = super().prepare(target, offsets)
        if getattr(self, "value", "exact") == "exact":  # who samples need not ask for it
            self._check_fits(made)
        return made

    def _check_fits(self, made: Races) -> None:
        """The longest query has a number for each of its documents and sizes of tiers."""
        ends = made.starts[made.races]
        n = int(np.diff(ends).max(initial=0))
        # Of given sizes there is only that of a tier, among what is left when its turn comes.
        left = np.repeat(ends[1:], np.diff(made.races)) - made.starts[:-1]
        widest = int((left * (np.diff(made.starts) + 1)).max(initial=0))
        fits_in_memory(
            8.0 * (widest if self.sizes == "given" else n * (n + 1)),
            f"{self.name} of a query of {n:,} documents",
            "cut queries into pieces (cut=1000), or take loss='pmop'",
        )

    def fill(self, prepared: Races, scores: FloatArray, out: Outputs) -> None:
        r"""One value a query.

        The diagonal of the Hessian is $\sum_k E_k[1_i/|S|^2] - E_k[1_i/|S|]^2$. With given sizes it is the curvature.
        Else the second part would need the gradient of every stage by itself; in its place stands the least it can be,
        the square of the sum over the number of stages (of their weights): the curvature lies above, and is exact with
        one stage.
        """
        self._exactly(prepared, scores, out.arrays)

    def _exactly(self, races: Races, scores: FloatArray, out: Filled, given: bool = False) -> None:
        if given or self.sizes == "given":
            _stages(scores, races, None, out)
        else:
            _queries(scores, races, self.sizes == "printed", out)

    def _log_prob(self, scores: FloatArray, cut: Races, stage: Stages, given: bool) -> float:
        constant, value = 0.0, np.empty(1)
        if not given:
            self._check_fits(cut)
            constant = float(np.sum(np.log(stage.remaining))) if self.sizes == "given" else 0.0
        self._exactly(cut, scores, Filled(0, value, NOT_WANTED, NOT_WANTED), given)
        return -float(value[0]) - constant

    def _draw(self, scores: FloatArray, rng: np.random.Generator, tier: IntArray, sizes: SizeModel | None) -> None:
        n = len(scores)
        if sizes is not None:
            table = sizes.cumulative(n)
        elif self.sizes == "given":
            table = np.minimum(np.arange(n + 1.0) / np.maximum(np.arange(n + 1.0), 1)[:, None], 1)[None]
        else:
            table = np.empty((0, 0, 0))
        draw_exponential(seed_from(rng), scores, table, self.sizes == "printed", tier)


class SampledPMOP(PMOPExact):
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

    steps: int = option(default=1, least=1)
    samples: int = option(default=1, least=1)
    value: Literal["exact", "surrogate"] = "exact"
    sizes: Literal["model", "given", "printed"] = field(default="model", init=False)

    def _check(self) -> None:
        super()._check()
        if self._chain == METROPOLIS_AS_PRINTED:
            self.sizes = "printed"  # type: ignore[misc]

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

    def fill(self, prepared: Races, scores: FloatArray, out: Outputs) -> None:
        """One value a query, the gradient estimated."""
        _stages(scores, prepared, (np.uint64(self.seed), self._chain, self.steps, self.samples), out.arrays)
        if self.value == "exact":
            self._exactly(prepared, scores, Filled(out.chunk[0], out.values, NOT_WANTED, NOT_WANTED))


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
    pmop_mh(paper_rule=True)
    """

    name = "pmop_mh"

    _: KW_ONLY
    paper_rule: bool = False

    @property
    def _chain(self) -> int:
        return METROPOLIS_AS_PRINTED if self.paper_rule else METROPOLIS


@kernel
def _queries(scores, target, evened, out):  # type: ignore[no-untyped-def]
    first, values, grad, curvature = out
    for i in range(len(values)):
        values[i] = 0.0
        for race in range(target.queries[first + i], target.queries[first + i + 1]):
            a, b = target.races[race], target.races[race + 1]
            own = target.weights[a:b] if len(target.weights) else target.weights
            values[i] += _one_query(scores, (target.order, target.starts[a : b + 1]), own, evened, grad, curvature)


@part
def _one_query(scores, tiers, weights, evened, grad, curvature):  # type: ignore[no-untyped-def]
    """Log-likelihood [PMOP] (12) and its gradient [PMOP] (13), both exact; an empty `grad` asks for the value alone."""
    order, starts = tiers
    stages, end = len(starts) - 1, starts[-1]
    n = end - starts[0]
    # Worst first: what remains before a stage is then a prefix, and all stages share one program.
    f, ends, importance = np.empty(n), np.empty(stages, dtype=np.int64), np.empty(stages)
    for i in range(n):
        f[i] = scores[order[end - 1 - i]]
    for k in range(stages):
        ends[stages - 1 - k] = end - starts[k]
        importance[stages - 1 - k] = weights[k] if len(weights) else 1.0
    log_z, value, weighed = np.empty(stages), 0.0, 0.0
    expected, squares = np.empty(n if len(grad) else 0), np.empty(n if len(curvature) else 0)
    partition_functions(f, ends, importance, evened, log_z, expected, squares)
    for k in range(stages):
        size, mean, weight = starts[k + 1] - starts[k], 0.0, importance[stages - 1 - k]
        for j in range(starts[k], starts[k + 1]):
            mean += scores[order[j]]
        mean /= size
        cost = log_z[stages - 1 - k] - mean
        if evened:
            cost += log_choices(end - starts[k], size)
        value += weight * cost
        weighed += weight
        if len(grad):
            for j in range(starts[k], starts[k + 1]):
                row, i = order[j], end - 1 - j
                grad[row] = expected[i] - weight / size
                if len(curvature):
                    curvature[row] = max(squares[i] - expected[i] ** 2 / max(weighed, 1e-300), 0.0)
    return value


@kernel
def _stages(scores, target, run, out):  # type: ignore[no-untyped-def]
    """Stage by stage: tiers of given sizes where `run` is None, and an empty `grad` then asks for the values alone.

    Else `run` is seed, number, steps and samples of the chains that estimate the gradient.
    """
    order, starts, weights, (first, values, grad, curvature) = target.order, target.starts, target.weights, out
    for i in range(len(values)):
        values[i] = 0.0
        for race in range(target.queries[first + i], target.queries[first + i + 1]):
            begin, end = target.races[race], target.races[race + 1]
            clear(order[starts[begin] : starts[end]], grad, curvature)
            if run is not None:
                seed, chain, steps, samples = run
                chained = stream(seed, race), chain, steps, samples
            for k in range(begin, end):
                rows, size = order[starts[k] : starts[end]], starts[k + 1] - starts[k]
                weight = weights[k] if len(weights) else 1.0
                if run is None:
                    values[i] += weight * _stage_of_given_size(scores[rows], size, rows, weight, grad, curvature)
                else:
                    values[i] += weight * _chained_stage(scores, rows, size, weight, chained, grad, curvature)


@part
def _stage_of_given_size(f, size, rows, weight, grad, curvature):  # type: ignore[no-untyped-def]
    """Minus log-probability that the first `size` documents are the tier, of all tiers of that size."""
    n, keep = len(f), len(grad) > 0
    log_e, stay = np.empty(n), np.empty((n if keep else 1, size + 1))
    forward(f, size, n, log_e, np.empty(size + 1), stay, keep)
    if keep:
        inside = np.zeros(n)
        pull_back(stay, size, n, np.array([n]), np.ones(1), np.empty(size + 2), inside)
        for i in range(n):
            grad[rows[i]] += weight * (inside[i] - (1.0 if i < size else 0.0)) / size
            if len(curvature):
                curvature[rows[i]] += weight * max(inside[i] * (1.0 - inside[i]), 0.0) / size**2
    return log_e[n - 1] - f[:size].mean()


@part
def _chained_stage(scores, rows, size, weight, chained, grad, curvature):  # type: ignore[no-untyped-def]
    """Estimate from one chain over `rows`, which starts at the first `size` of them, the observed tier."""
    random, chain, steps, samples = chained
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
