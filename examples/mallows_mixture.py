"""When does a majority become a consensus? Positional rules on a mixture of two Mallows models (section 4.6).

A share w of the voters is drawn around a centre that puts A before B, the rest around one that puts B first and A last.
For each rule the figure shows how often A ends up before B in 500 sampled votes, and the exact weight w* at which A
overtakes B in the population. In the first experiment A and B stand at the bottom of the first centre, where concave
rules (squared, anti-plurality) look; in the second at the top, where convex rules (log, plurality) look. Borda is never
the last of the five to let A overtake.

    python examples/mallows_mixture.py [figure.png]
"""

from __future__ import annotations

import sys

import numpy as np

from luce.aggregate import Mallows, MallowsMixture, consensus
from luce.aggregate.positional import position_values
from luce.display import finished

RULES = ("antiplurality", "squared", "borda", "log", "plurality")
EXPERIMENTS = (("DEABC", "BCDEA"), ("ABCDE", "BCDEA"))
PHI, VOTERS, TRIALS = 0.8, 500, 200


def overtaking_weight(rule: str, first: str, second: str) -> float:
    """The weight of the first component at which A and B have the same expected score: exact, without sampling."""
    h = position_values(rule, len(first))

    def lead(centre: str) -> float:
        score = Mallows(centre, PHI).position_probabilities() @ h
        return float(score[centre.index("A")] - score[centre.index("B")])

    one, two = lead(first), lead(second)
    return two / (two - one)


def success_rates(first: str, second: str, weights: np.ndarray, trials: int, rng: np.random.Generator) -> np.ndarray:
    """(rules, weights): how often A is above B."""
    rates = np.zeros((len(RULES), len(weights)))
    for column, w in enumerate(weights):
        mixture = MallowsMixture(np.array([w, 1 - w]), (Mallows(first, PHI), Mallows(second, PHI)))
        for _ in range(trials):
            votes = mixture.ballots(VOTERS, rng)
            for row, rule in enumerate(RULES):
                ranks = consensus(votes, rule).ranks
                rates[row, column] += (ranks["A"] < ranks["B"]) / trials
    return rates


def draw(path: str, trials: int = TRIALS) -> dict[str, dict[str, float]]:
    """Write the figure; the exact weights by experiment and rule."""
    from matplotlib.figure import Figure

    weights = np.arange(0.51, 1.0, 0.035)
    figure = Figure(figsize=(10, 4), layout="constrained")
    exact: dict[str, dict[str, float]] = {}
    for axes, (first, second) in zip(figure.subplots(1, 2, sharey=True), EXPERIMENTS, strict=True):
        rates = success_rates(first, second, weights, trials, np.random.default_rng(0))
        exact[first] = {rule: overtaking_weight(rule, first, second) for rule in RULES}
        for k, rule in enumerate(RULES):
            axes.plot(
                weights, rates[k], "-o", color=f"C{k}", markersize=3, label=f"{rule}, w* = {exact[first][rule]:.3f}"
            )
            axes.axvline(exact[first][rule], color=f"C{k}", linewidth=0.8, linestyle=":")
        axes.set(title=f"centres {first} and {second}", xlabel="weight w of the first centre", ylim=(-0.02, 1.02))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    figure.axes[0].set_ylabel("share of samples with A above B")
    finished(figure, path)
    return exact


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else "mallows_mixture.png"
    for centre, values in draw(target).items():
        print(centre, "  ".join(f"{rule} {value:.3f}" for rule, value in sorted(values.items(), key=lambda kv: kv[1])))
