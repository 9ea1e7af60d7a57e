"""Axioms of a rule as numbers: how large a majority must be before the rule is bound to respect it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import factorial
from typing import Any

import numpy as np
from scipy.optimize import linprog

from luce.aggregate.positional import PositionRule, is_positional, position_values, rule_label
from luce.checks import is_whole
from luce.errors import SettingError
from luce.registry import canonical, unknown_name
from luce.types import FloatArray, IntArray

MAX_PLACES = 16
"""Items up to which the programs take a few seconds."""


def least(objective: FloatArray, **program: Any) -> float:
    """The least value of a linear program; the programs of axioms always have one, since some distribution fits."""
    result = linprog(objective, method="highs", **program)
    if result.status != 0:
        raise RuntimeError(f"HiGHS ended with: {result.message}")
    return float(result.fun)


def greatest_bound(rows: FloatArray, equal: FloatArray, right: list[float]) -> float:
    """The greatest t, the last variable, with rows of at most 0, over probabilities with these equations."""
    count = rows.shape[1] - 1
    aim, bounds = np.append(np.zeros(count), -1.0), [(0, None)] * count + [(None, None)]
    return -least(aim, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=equal, b_eq=right, bounds=bounds)


def footrule_margins(n: int) -> AxiomMargins:
    r"""The largest shares at which an optimum of the footrule still goes against x, minus 1/2.

    From four items on not even all votes for x over y bind it, and from three on it is neither monotonic nor
    consistent: what fails for some items fails for more, with the others at the end of every vote.

    >>> found = footrule_margins(4)
    >>> round(found.condorcet, 3), round(found.winner, 3), round(found.majority, 3)
    (0.5, 0.25, 0.121)
    """
    if n > MAX_PLACES:
        raise SettingError(
            f"n is {n}; the margins of the footrule come from programs in n^3 numbers, up to n = {MAX_PLACES}."
        )
    places = _Places(n)

    def optimum(*named: int) -> list[int]:
        """Places of x, y and the others, who have no names."""
        return [*named, *(place for place in range(n) if place not in named)]

    every = np.stack([places.row(places.before(y), (places.t, -1.0)) for y in range(n - 1)])
    winner = max(places.largest(places.row((places.t, 1.0)), optimum(x), every) for x in range(1, n))
    majority = max(places.largest(places.row((0, 1.0)), optimum(x)) for x in range(1, n))
    strong = 1.0
    if n < 4:
        pair = places.row(places.before(0))
        strong = max(places.largest(pair, optimum(x, y)) for x in range(1, n) for y in range(x))
    margins = (strong - 0.5, strong - 0.5, winner - 0.5, majority - 0.5)
    return AxiomMargins("footrule", n, *margins, pareto=n < 4, monotonic=n < 3, consistent=n < 3)


class _Places:
    """The shares of places as variables of a program: those of x, joint ones, the dual's potentials, and a share t."""

    def __init__(self, n: int) -> None:
        self.n, self.x = n, np.arange(n)
        self.joint = n + np.arange(n * (n - 1) * n).reshape(n, n - 1, n)
        self.items, self.places = n + self.joint.size + np.arange(2 * n).reshape(2, n)
        self.t = n + self.joint.size + 2 * n
        rows = [self.row((self.x[i], -1.0), (self.joint[i, y], 1.0)) for i in range(n) for y in range(n - 1)]
        for i in range(n):
            # At x's own place there is no other item.
            rows += [self.row((self.x[i], -1.0 * (i != j)), (self.joint[i, :, j], 1.0)) for j in range(n)]
        self.distribution = np.stack([*rows, self.row((self.x, 1.0))])

    def row(self, *terms: tuple[Any, Any]) -> FloatArray:
        """One line of a program: numbers for some variables, 0 for the others."""
        line = np.zeros(self.t + 1)
        for variables, numbers in terms:
            line[variables] = numbers
        return line

    def before(self, y: int) -> tuple[IntArray, float]:
        """Picks the joint shares with x before the other item y."""
        return self.joint[:, y][np.triu_indices(self.n, 1)], 1.0

    def largest(self, objective: FloatArray, optimum: list[int], shares: FloatArray | None = None) -> float:
        """The largest objective over all shares for which the ranking is optimal, and t at most each of `shares`."""
        n, costs = self.n, []
        for item in range(n):
            own = self.x if item == 0 else self.joint[:, item - 1]
            for place in range(n):
                apart = -np.abs(np.arange(n) - place)
                costs.append(self.row((own, apart), (self.items[item], 1.0), (self.places[place], 1.0)))
        met = np.zeros(n * n, dtype=bool)
        met[np.arange(n) * n + optimum] = True
        dual = np.stack(costs)
        lower = dual[~met] if shares is None else np.vstack([dual[~met], -shares])
        equal = np.vstack([self.distribution, dual[met]])
        right = np.zeros(len(equal))
        right[len(self.distribution) - 1] = 1.0
        bounds = [(0, None)] * (self.t - 2 * n) + [(None, None)] * (2 * n) + [(0, 1)]
        return -least(-objective, A_ub=lower, b_ub=np.zeros(len(lower)), A_eq=equal, b_eq=right, bounds=bounds)


CLOSED_RULES = frozenset({"copeland", "instant_runoff", "kemeny", "minimax", "mode", "ranked_pairs", "schulze"})
MAX_MONOTONIC = {"kemeny": 5, "ranked_pairs": 5}
"""Items up to which raising x in a vote never gives it a worse place; beyond, profiles in the tests show that it may.

Going through all cases shows the former: raising x over z changes one margin, and Kemeny's answer then moves along an
edge of the polytope of all rankings, that of ranked pairs where two majorities change places in their order.
"""


def winner_threshold(h: FloatArray) -> float:
    r"""The least eps of the plain Condorcet rule ([Pareek] Definition 12) for a positional rule with scores h.

    The largest t such that x is before every other item in a share t of the votes, while some z has at least its
    score: a program in the probabilities that x and z have places i and j.

    >>> round(winner_threshold(np.array([1.0, 0.0, 0.0, 0.0])), 6)  # plurality: a quarter of the first places each
    0.25
    """
    n = len(h)
    place = np.array([(i, j) for i in range(n) for j in range(n) if i != j])
    x, z = place.T
    before_z = (x < z).astype(np.float64)
    shares = [before_z]
    if n > 2:
        shares.append((n - 1.0 - x - before_z) / (n - 2.0))  # the mean over the others, of whom none differs
    rows = [*(np.append(-share, 1.0) for share in shares), np.append(h[x] - h[z], 0.0)]
    count = len(place)
    return greatest_bound(np.stack(rows), np.append(np.ones(count), 0.0)[None, :], [1.0]) - 0.5


def top_threshold(h: FloatArray, k: int) -> float:
    r"""The least eps such that an item among the first k of a share above 1/2 + eps is among the first k of the answer.

    Where x has place i, k others have at most the mean of the k best scores but h(i): their lead d(i). With a the
    greatest lead for places up to k and b that beyond, x may stay outside up to the share b / (b - a). For k = 1 that
    is the majority rule, [Pareek] Definition 11.

    >>> round(top_threshold(np.array([2.0, 1.0, 0.0]), 1), 6)
    0.166667
    """
    n = len(h)
    leads = np.array([np.sort(np.delete(h, i))[::-1][:k].mean() - h[i] for i in range(n)])
    inside, outside = float(leads[:k].max()), float(leads[k:].max())
    if inside >= 0:
        return 0.5
    # Without a lead anywhere, x is always inside.
    return max(outside, 0.0) / (max(outside, 0.0) - inside) - 0.5


def closed_margins(rule: str, n: int) -> AxiomMargins:
    r"""Margins of rules on majorities and of the runoff, for any number of items.

    `schulze` and `ranked_pairs` put y above x against a share $\gamma$ only where a chain of majorities of at least
    $\gamma$ leads from y to x; that closes a circle of m <= n items, of whose m pairs a vote can have m - 1, so that
    $\gamma \le 1 - 1/m$: strong Condorcet with the least eps that any rule can have, $1/2 - 1/n$. `copeland` counts a
    bare majority as much as any, and three items in a circle of shares 1/2, 1/2 and almost 1 are tied: never. All three
    put the winner of all pairs first. Raising x only adds to what `schulze` and `copeland` count for x and to nothing
    that they count for others; what `ranked_pairs` lock elsewhere may change with it (`MAX_MONOTONIC`).

    `kemeny` reaches the same least eps. Let an optimum have y before x and m - 1 items between them. Moving y behind
    them all gains nothing, nor does moving x before them all: added up, the shares of y before z, of z before x, over
    all z between, and twice that of y before x are at least half of their number, 2m. A vote with y before x adds at
    most 2m to these, one with x before y at most m - 1 (no z is both behind y and before x), so that
    $(1 - \gamma) 2m + \gamma (m - 1) \ge m$, or $\gamma \le 1 - 1/(m + 1)$. A winner that is raised stays one.

    `mode` is led by one vote that is as frequent as each other one: against it stand N = n!/2 votes with x before y, or
    N = (n - 1)! with x first, and the share is N / (N + 1). The winner of all pairs is first in (n - 1)! votes and
    behind one other item each in n - 1.

    `minimax` looks at the worst defeat alone: behind a third item that all prefer to both, x and y are tied, whatever
    all votes say of the two. It puts the winner of all pairs first, and raising x makes no defeat of x worse and none
    of another better.

    `instant_runoff` strikes out x only if none has fewer first places, so that with m items left some y has 1/m or more
    of them and x is before y in at most $1 - 1/m$: plain Condorcet with $1/2 - 1/n$. A majority of first places is
    never struck out. An item that is second everywhere goes first, whatever the share over another: strong Condorcet
    never, and two items without first places are tied, whatever all votes say.
    """
    if rule == "mode":
        pair, first = factorial(n) // 2, factorial(n - 1)
        pairs, winner, majority = (0.5 - 1 / (votes + 1) for votes in (pair, first + n - 2, first))
    else:
        # Two items have a majority and nothing else.
        never = 0.5 if n > 2 else 0.0
        pairs = never if rule in ("copeland", "minimax", "instant_runoff") else 0.5 - 1 / n
        winner, majority = 0.5 - 1 / n if rule == "instant_runoff" else 0.0, 0.0
    return AxiomMargins(
        *(rule, n, pairs, pairs, winner, majority),
        pareto=n == 2 or rule not in ("minimax", "instant_runoff"),
        monotonic=n == 2 or (rule not in ("mode", "instant_runoff") and n <= MAX_MONOTONIC.get(rule, n)),
        consistent=n == 2,
    )


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
    by programs in the shares of places (`luce.aggregate.axioms`), up to n = 16. For `kemeny`, `mode`, `copeland`,
    `schulze`, `ranked_pairs`, `minimax` and `instant_runoff` in closed form (`luce.aggregate.axioms`). `hodge`
    is Borda's rule where all items are ranked: the least-squares potential of all pairs is the mean margin of an item.

    >>> m = axiom_margins("borda", n=5)
    >>> round(m.iia, 3), round(m.majority, 3), m.pareto, m.monotonic
    (0.3, 0.3, True, True)
    >>> axiom_margins("plurality", n=5).majority
    0.0
    """
    if not is_whole(n, 2):
        raise SettingError(f"Axioms compare items, so n must be a whole number of at least 2; got {n!r}.")
    n = int(n)
    if k is not None and not is_whole(k, 1, n - 1):
        raise SettingError(f"k is {k!r}; it must be a whole number from 1 to {n - 1}, below the number of items.")
    k = None if k is None else int(k)
    if isinstance(rule, str) and not is_positional(rule):
        if k is not None:
            raise SettingError(f"The margin of the first k is known for positional rules; {rule!r} is none.")
        from luce.aggregate.rules import RULES, rule_names

        name = canonical(rule)
        if name in ("hodge", "hodgerank"):
            return replace(axiom_margins("borda", n), rule="hodge")
        if name in CLOSED_RULES:
            return closed_margins(name, n)
        if name == "footrule":
            return footrule_margins(n)
        if rule in RULES:
            known = ", ".join(sorted({"footrule", "hodge", *CLOSED_RULES}))
            raise SettingError(
                f"The axiom margins of {name} are not known: they need a positional rule, or one of {known}."
            )
        raise unknown_name("rule", rule, rule_names())
    h = position_values(rule, n)
    first, second = np.triu_indices(len(h), 1)
    differences = h[first] - h[second]
    largest, least = float(differences.max()), float(differences.min())
    least_first = float((h[0] - h[1:]).min())
    bar = max(largest, -least)
    pairs = _threshold(largest, least)
    return AxiomMargins(
        rule=rule_label(rule),
        n=n,
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
        top=None if k is None else top_threshold(h, k),
        k=k,
    )


def _threshold(high: float, low: float) -> float:
    """(1/2) (high - low) / (high + low), [Pareek] (4.16); infinite where no share of the votes is enough."""
    if high + low <= 0:
        return float("inf")
    return 0.5 * (high - low) / (high + low)
