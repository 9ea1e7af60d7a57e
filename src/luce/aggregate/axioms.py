"""Axioms of a rule as numbers: how large a majority must be before the rule is bound to respect it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from luce.aggregate.positional import PositionRule, is_expression, named, position_values, rule_label
from luce.checks import is_whole
from luce.errors import SettingError
from luce.registry import canonical, unknown_name


@dataclass(frozen=True)
class AxiomMargins:
    r"""What a rule guarantees over all distributions of rankings of n items.

    `iia`, `condorcet`, `winner`, `majority` and `top` are thresholds $\epsilon$: the relaxed axiom holds for every
    margin above it, that is, for shares above $1/2 + \epsilon$. A threshold of 1/2 or more means never.

    Parameters
    ----------
    iia
        Independence of irrelevant alternatives: with a share of votes for x over y beyond $1/2 \pm \epsilon$, the
        order of x and y depends on that share alone, [Pareek] (4.1).
    condorcet
        Strong Condorcet: a share above $1/2 + \epsilon$ for x over y puts x above y ([Pareek] Definition 13).
    winner
        Plain Condorcet: such shares for x over every other item make x the winner ([Pareek] Definition 12).
    majority
        A share of first places above $1/2 + \epsilon$ makes x the winner ([Pareek] Definition 11).
    pareto
        Unanimous votes for x over y put x above y.
    monotonic
        Raising x in a vote never lowers it in the answer; None where it is not known for the rule.
    consistent
        What wins in two groups of voters wins in both together; None where it is not known.
    top, k
        A share above $1/2 + \epsilon$ of votes with x among their first k puts x among the first k of the answer; of
        positional rules, where k was asked for.
    Omega, omega, omega1
        $\max_{i<j} h(i) - h(j)$, $\min_{i<j} h(i) - h(j)$ and $\min_{j>1} h(1) - h(j)$ of a positional rule:
        [Pareek] (4.17), [Pareek] (4.18) and [Pareek] (4.19).
    """

    rule: str
    n: int
    iia: float
    condorcet: float
    winner: float
    majority: float
    pareto: bool
    monotonic: bool | None
    consistent: bool | None
    Omega: float | None = None
    omega: float | None = None
    omega1: float | None = None
    top: float | None = None
    k: int | None = None


def axiom_margins(rule: PositionRule, n: int, k: int | None = None) -> AxiomMargins:
    r"""The margins of a rule for n items ([Pareek] Proposition 14 to 21, [Pareek] Table 4.1).

    For a positional rule, in closed form: $\epsilon_{IIA} = \epsilon_{Condorcet} = \tfrac12(\Omega - \omega)/(\Omega
    + \omega)$ and $\epsilon_{majority} = \tfrac12(\bar\Omega - \omega^1)/(\bar\Omega + \omega^1)$ with $\bar\Omega =
    \max(\Omega, -\omega)$; plain Condorcet and the first k by programs that symmetry makes small. For `footrule`
    by programs in the shares of places (`luce.aggregate.axiom_places`), up to n = 16. For `kemeny`, `mode`, `copeland`,
    `schulze`, `ranked_pairs`, `minimax` and `instant_runoff` in closed form (`luce.aggregate.axiom_symmetry`). `hodge`
    is Borda's rule where all items are ranked: the least-squares potential of all pairs is the mean margin of an item.

    >>> m = axiom_margins("borda", n=5)
    >>> round(m.iia, 3), round(m.majority, 3), m.pareto, m.monotonic
    (0.3, 0.3, True, True)
    >>> axiom_margins("plurality", n=5).majority
    0.0
    """
    if not is_whole(n, 2):
        raise SettingError(f"Axioms compare items, so n must be a whole number of at least 2; got {n!r}.")
    if k is not None and not (is_whole(k, 1) and k < n):
        raise SettingError(f"k is {k!r}; it must be a whole number from 1 to {n - 1}, below the number of items.")
    if isinstance(rule, str) and not named(rule) and not is_expression(rule):
        if k is not None:
            raise SettingError(f"The margin of the first k is known for positional rules; {rule!r} is none.")
        return _other_rule(rule, int(n))
    from luce.aggregate.axiom_symmetry import top_threshold, winner_threshold

    h = position_values(rule, int(n))
    first, second = np.triu_indices(len(h), 1)
    differences = h[first] - h[second]
    largest, least = float(differences.max()), float(differences.min())
    least_first = float((h[0] - h[1:]).min())
    bar = max(largest, -least)
    pairs = _threshold(largest, least)
    return AxiomMargins(
        rule=rule_label(rule),
        n=int(n),
        iia=pairs,
        condorcet=pairs,
        winner=winner_threshold(h),
        majority=_threshold(bar, least_first),
        pareto=least > 0,
        monotonic=least >= 0,
        consistent=True,
        Omega=largest,
        omega=least,
        omega1=least_first,
        top=None if k is None else top_threshold(h, int(k)),
        k=k,
    )


def _threshold(high: float, low: float) -> float:
    """(1/2) (high - low) / (high + low), [Pareek] (4.16); infinite where no share of the votes is enough."""
    if high + low <= 0:
        return float("inf")
    return 0.5 * (high - low) / (high + low)


def _other_rule(rule: str, n: int) -> AxiomMargins:
    from luce.aggregate.axiom_places import footrule_margins
    from luce.aggregate.axiom_symmetry import CLOSED_RULES, closed_margins
    from luce.aggregate.rule_table import RULES, rule_names

    name = canonical(rule)
    if name in ("hodge", "hodgerank"):
        return replace(axiom_margins("borda", n), rule="hodge")
    if name in CLOSED_RULES:
        return AxiomMargins(rule=name, n=n, **closed_margins(name, n))  # type: ignore[arg-type]
    if name == "footrule":
        return AxiomMargins(rule=name, n=n, **footrule_margins(n))  # type: ignore[arg-type]
    if rule in RULES:
        known = ", ".join(sorted({"footrule", "hodge", *CLOSED_RULES}))
        raise SettingError(
            f"The axiom margins of {name} are not known: they need a positional rule, or one of {known}."
        )
    raise unknown_name("rule", rule, rule_names())
