"""Makes docs/papers/axioms.md: Tables 4.1 and 4.2 and Figure 4.1 of the dissertation, and what it leaves for later.

    python papers/axioms.py [--quick] [--page]

Margins are exact; the sampled curves go to papers/results/axioms.json with their settings and seed. `--quick` draws few
samples into a temporary folder; `--page` only makes the page again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, kept, write_page

sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "docs")]
from drawing import Chart, line, text
from mallows_mixture import EXPERIMENTS, PHI, RULES, VOTERS, overtaking_weight, success_rates

from luce.aggregate import axiom_margins

N = 5
TRIALS = 200
SEED = 0
WEIGHTS = np.arange(0.51, 1.0, 0.035)
COLOURS = ("#7d3c98", "#2471a3", "#1e8449", "#d68910", "#c0392b")
Formula = Callable[[int], float]
PRINTED: dict[str, tuple[Formula, Formula, Formula, Formula, Formula]] = {
    "borda": (lambda n: n - 1, lambda n: 1, lambda n: 1, lambda n: 1 / 2 - 1 / n, lambda n: 1 / 2 - 1 / n),
    "plurality": (lambda n: 1, lambda n: 0, lambda n: 1, lambda n: 1 / 2, lambda n: 0),
    "antiplurality": (lambda n: 1, lambda n: 0, lambda n: 0, lambda n: 1 / 2, lambda n: 1 / 2),
    "log": (
        log,
        lambda n: log(n / (n - 1)),
        lambda n: log(2),
        lambda n: log(n) / (2 * log(n**2 / (n - 1))),
        lambda n: log(n) / (2 * log(n**2 / (n - 1))),
    ),
    "squared": (
        lambda n: n**2 - 1,
        lambda n: 3,
        lambda n: 3,
        lambda n: (n**2 - 4) / (2 * (n**2 + 2)),
        lambda n: (n**2 - 4) / (2 * (n**2 + 2)),
    ),
}
"""As Tables 4.1 and 4.2 print them: Omega, omega, omega1, the eps of IIA and strong Condorcet, that of majority."""
OTHERS = ("hodge", "kemeny", "footrule", "mode", "schulze", "ranked_pairs", "copeland", "minimax", "instant_runoff")


def three(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.3f}"


def table1() -> str:
    lines = ["| rule | Ω | printed | ω | printed | ω¹ | printed |", "|---" * 7 + "|"]
    for rule, printed in PRINTED.items():
        margins = axiom_margins(rule, N)
        cells = []
        for value, formula in zip((margins.Omega, margins.omega, margins.omega1), printed[:3], strict=True):
            cells += [three(value or 0.0), three(formula(N))]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table2() -> str:
    heads = "| rule | IIA, strong Condorcet | printed | majority | printed | plain Condorcet |"
    lines = [heads, "|---" * 6 + "|"]
    for rule, printed in PRINTED.items():
        margins = axiom_margins(rule, N)
        cells = []
        for value, formula in ((margins.iia, printed[3]), (margins.majority, printed[4])):
            same = abs(value - formula(N)) < 1e-12
            cells += [three(value), three(formula(N)) if same else f"**{three(formula(N))}**"]
        lines.append(f"| {rule} | {' | '.join(cells)} | {three(margins.winner)} |")
    return "\n".join(lines)


def table3(n: int = 4) -> str:
    heads = f"| rule, n = {n} | IIA, strong Condorcet | plain Condorcet | majority | Pareto | monotonic | consistent |"
    lines = [heads, "|---" * 7 + "|"]
    for rule in ("borda", *OTHERS):
        margins = axiom_margins(rule, n)
        numbers = " | ".join(three(max(value, 0.0)) for value in (margins.iia, margins.winner, margins.majority))
        kept = " | ".join("yes" if value else "no" for value in (margins.pareto, margins.monotonic, margins.consistent))
        lines.append(f"| {rule} | {numbers} | {kept} |")
    return "\n".join(lines)


def top() -> str:
    found = [f"{rule} {three(axiom_margins(rule, N, k=2).top or 0.0)}" for rule in PRINTED]
    return f"at n = {N} and k = 2 the margins are {', '.join(found)}: of these only the squared rule promises anything"


def figure(numbers: dict[str, Any]) -> str:
    drawn = []
    for place, (first, second) in enumerate(EXPERIMENTS):
        found = numbers[first]
        chart = Chart(50 + 300 * place, 34, 260, 190, (0.5, 1.0), (0.0, 1.0))
        drawn.append(text(180 + 300 * place, 20, f"{first} and {second}", "middle"))
        drawn += chart.axes([0.5, 0.6, 0.7, 0.8, 0.9, 1.0], [0, 0.5, 1], "weight w")
        for rule, colour in zip(RULES, COLOURS, strict=True):
            drawn.append(chart.curve(numbers["weights"], found["rates"][rule], colour, width=1.5))
            at = numbers["exact"][first][rule]
            drawn.append(chart.curve([at, at], [0.0, 1.0], colour, dashed=True, width=0.7))
    for place, (rule, colour) in enumerate(zip(RULES, COLOURS, strict=True)):
        x = 60 + 118 * place
        drawn += [line((x, 270), (x + 16, 270), colour, 2), text(x + 21, 274, rule, size=11)]
    name = "Share of samples in which A is above B, by rule and weight"
    return f'<figure>\n<svg viewBox="0 0 640 284" role="img" aria-label="{name}">{"".join(drawn)}</svg>\n</figure>'


def weights_table(numbers: dict[str, Any]) -> str:
    lines = [f"| centres | {' | '.join(RULES)} |", "|---" * (len(RULES) + 1) + "|"]
    for first, second in EXPERIMENTS:
        exact = numbers["exact"][first]
        lines.append(f"| {first}, {second} | {' | '.join(three(exact[rule]) for rule in RULES)} |")
    return "\n".join(lines)


def measure(trials: int) -> dict[str, Any]:
    """The sampled curves and the exact weights of both experiments."""
    numbers: dict[str, Any] = {
        "phi": PHI,
        "voters": VOTERS,
        "trials": trials,
        "seed": SEED,
        "weights": WEIGHTS.tolist(),
    }
    for first, second in EXPERIMENTS:
        rates = success_rates(first, second, WEIGHTS, trials, np.random.default_rng(SEED))
        numbers[first] = {"rates": {rule: np.round(rates[k], 4).tolist() for k, rule in enumerate(RULES)}}
    return numbers | {"exact": exact_weights()}


def exact_weights() -> dict[str, dict[str, float]]:
    """The weights at which A overtakes B in the population, which are not sampled."""
    return {first: {rule: overtaking_weight(rule, first, second) for rule in RULES} for first, second in EXPERIMENTS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    quick, store = options.quick, ROOT / "papers" / "results" / "axioms.json"
    numbers = kept(store) if options.page else measure(2 if quick else TRIALS)
    if not (quick or options.page):
        add(store, numbers)
    page = (ROOT / "papers" / "axioms.md.in").read_text()
    for name, made in (
        ("TABLE1", table1()),
        ("TABLE2", table2()),
        ("TABLE3", table3()),
        ("TABLE8", table3(8)),
        ("TOP", top()),
    ):
        page = page.replace(f"@{name}@", made)
    page = page.replace("@FIGURE@", figure(numbers)).replace("@WEIGHTS@", weights_table(numbers))
    page = page.replace("@VOTERS@", str(VOTERS)).replace("@TRIALS@", str(numbers["trials"]))
    write_page("axioms", page, Path(tempfile.mkdtemp(prefix="luce-paper-")) if quick else ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
