"""Rules by positions, by rounds and by pairs, beside those of `rules`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from luce.aggregate.ballots import Ballots
from luce.aggregate.result import Consensus, by_scores
from luce.checks import fits_in_memory, is_whole
from luce.errors import DataError, SettingError
from luce.registry import canonical
from luce.types import FloatArray, IntArray


def before_weights(ballots: Ballots, unranked: str = "last") -> FloatArray:
    """(items, items): the weight of the ballots that put x strictly before y.

    >>> before_weights(Ballots.from_orders([["a", "b"], ["b", "a"]], weights=[2, 1])).tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    tiers = ballots.filled(unranked)
    ranked = tiers >= 0
    n = tiers.shape[1]
    fits_in_memory(8.0 * n**2, f"Pairs of {n:,} items", "take a rule of positions, such as borda, or fewer items")
    weights = np.zeros((n, n))
    for x in range(n):
        before = (tiers[:, x, None] < tiers) & ranked[:, x, None] & ranked
        weights[x] = ballots.weights @ before
    return weights


def compared(ballots: Ballots, unranked: str = "last") -> FloatArray:
    """(items, items): the weight of the ballots that rank both x and y."""
    ranked = ballots.filled(unranked) >= 0
    return np.asarray((ranked * ballots.weights[:, None]).T @ ranked)


def support(ballots: Ballots, unranked: str = "last") -> FloatArray:
    """(items, items): P(x before y), a tie counting half; 1/2 where no ballot compares the two, and on the diagonal."""
    weights, both = before_weights(ballots, unranked), compared(ballots, unranked)
    with np.errstate(invalid="ignore"):
        share = 0.5 + 0.5 * (weights - weights.T) / both
    return np.where(both > 0, share, 0.5)


def margins(weights: FloatArray) -> FloatArray:
    """W - W', with differences that are only rounding set to 0."""
    margin = weights - weights.T
    margin[np.abs(margin) <= 1e-10 * float(weights.max(initial=0.0))] = 0.0
    return margin


def ordered_components(edges: NDArray[np.bool_]) -> list[IntArray]:
    """Strongly connected components of a digraph, sources first: no edge leads from a later to an earlier one."""
    count, labels = connected_components(csr_array(edges), directed=True, connection="strong")
    between = np.zeros((count, count), dtype=bool)
    rows, columns = np.nonzero(edges)
    between[labels[rows], labels[columns]] = True
    np.fill_diagonal(between, False)
    incoming = between.sum(axis=0)
    ready = sorted(np.flatnonzero(incoming == 0).tolist(), reverse=True)
    order = []
    while ready:
        component = ready.pop()
        order.append(component)
        targets = np.flatnonzero(between[component])
        incoming[targets] -= 1
        ready.extend(sorted((t for t in targets.tolist() if incoming[t] == 0), reverse=True))
    return [np.flatnonzero(labels == component).astype(np.int64) for component in order]


def shortest_cycle(edges: NDArray[np.bool_], nodes: IntArray) -> list[int]:
    """A shortest cycle through the first node of a strongly connected component, by breadth-first search."""
    inside = edges[np.ix_(nodes, nodes)]
    reached, parent = breadth_first_order(csr_array(inside), 0)
    cycle = [next(node for node in reached if inside[node, 0])]
    while cycle[-1] != 0:
        cycle.append(parent[cycle[-1]])
    found: list[int] = nodes[cycle[::-1]].tolist()
    return found


PositionRule: TypeAlias = str | Sequence[float] | FloatArray | Callable[[FloatArray, int], Any]
"""A name, an expression in `i` and `n` such as `"1/i"`, a vector of n values, or a function of (positions, n)."""

POSITIONAL: dict[str, Callable[[FloatArray, int], FloatArray]] = {
    "borda": lambda i, n: n - i,
    "plurality": lambda i, n: (i == 1).astype(np.float64),
    "antiplurality": lambda i, n: (i < n).astype(np.float64),
    "log": lambda i, n: -np.log(i),
    "squared": lambda i, n: -(i**2),
}
"""The rules of Table 4.1, h of the positions i = 1, ..., n."""

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"log": np.log, "sqrt": np.sqrt, "exp": np.exp, "abs": np.abs}
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}


def position_values(rule: PositionRule, n: int) -> FloatArray:
    """The vector h(1), ..., h(n) of a positional rule.

    >>> position_values("borda", 4).tolist(), position_values("1/i", 4).tolist()[:2]
    ([3.0, 2.0, 1.0, 0.0], [1.0, 0.5])
    """
    if n < 1:
        raise SettingError(f"The number of items is {n}; it must be at least 1.")
    i = np.arange(1, n + 1, dtype=np.float64)
    if isinstance(rule, str):
        name = named(rule)
        values: Any = POSITIONAL[name](i, n) if name else _evaluate(rule, i, n)
    else:
        values = rule(i, n) if callable(rule) else rule
    h = np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), n) if np.ndim(values) == 0 else values)
    if h.shape != (n,):
        raise SettingError(f"A positional rule for {n} items needs {n} values, best position first; got {h.size}.")
    h = h.astype(np.float64)
    if not np.isfinite(h).all():
        raise SettingError(f"The rule {rule_label(rule)!r} is not finite at position {np.argmin(np.isfinite(h)) + 1}.")
    return h


def named(rule: str) -> str | None:
    """The registered spelling of a positional rule's name (`anti-plurality` too), or None."""
    name = canonical(rule).replace("_", "")
    return name if name in POSITIONAL else None


def rule_label(rule: PositionRule) -> str:
    """What to call a rule in a report."""
    if isinstance(rule, str):
        return named(rule) or rule
    return getattr(rule, "__name__", "positional") if callable(rule) else "positional"


def is_positional(rule: PositionRule) -> bool:
    """True for a positional rule in any form, also an expression in `i` (and `n`); not for the names of others."""
    if not isinstance(rule, str) or named(rule):
        return True
    try:
        tree = ast.parse(rule, mode="eval")
    except SyntaxError:
        return False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return "i" in names and names <= {"i", "n", *_FUNCTIONS}


def _evaluate(rule: str, i: FloatArray, n: int) -> Any:
    try:
        tree = ast.parse(rule, mode="eval")
    except SyntaxError as error:
        raise SettingError(f"The rule {rule!r} is neither a name nor an expression in i and n.") from error

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Expression():
                return value(node.body)
            case ast.Constant(value=int() | float()):
                return float(node.value)  # type: ignore[arg-type]
            case ast.Name(id="i"):
                return i
            case ast.Name(id="n"):
                return float(n)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](value(node.left), value(node.right))
            case ast.UnaryOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](value(node.operand))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](value(argument))
        raise SettingError(
            f"The rule {rule!r} holds {ast.unparse(node)!r}; an expression may use i (the position, from 1), n, "
            f"numbers, + - * / ** and {', '.join(_FUNCTIONS)}."
        )

    with np.errstate(all="ignore"):
        return value(tree)


def positional_scores(ballots: Ballots, rule: PositionRule, unranked: str = "last") -> FloatArray:
    """f(x) = E[h(position of x)] for every item, the f_P of [Pareek] (4.5).

    In a tier that spans the positions a to b, each item gets the mean of h(a), ..., h(b); so do the open items over
    the open positions (`unranked="last"`). Under `ignore` the mean runs over the ballots that rank x.
    """
    n = ballots.n_items
    h = position_values(rule, n)
    first, size = ballots.spans(unranked)
    spans, inverse = np.unique(first * (n + 1) + size, return_inverse=True)
    # fsum, not a difference of running sums: equal tiers must give equal scores to the last bit.
    mean = np.array([math.fsum(h[a : a + s]) / max(s, 1) for a, s in zip(*divmod(spans, n + 1), strict=True)])
    counted = ballots.weights @ (size > 0)
    if (counted == 0).any():
        name = ballots.items[int(np.argmin(counted))]
        raise DataError(f"No ballot ranks {name!r}, so unranked='ignore' gives it no score; use unranked='last'.")
    totals: FloatArray = ballots.weights @ mean[inverse.reshape(first.shape)]
    return totals / counted


def minimax(ballots: Ballots, unranked: str) -> Consensus:
    """Sort by the worst majority against an item, by margins (Simpson and Kramer): the smaller, the better."""
    margin = margins(before_weights(ballots, unranked))
    np.fill_diagonal(margin, np.inf)
    return by_scores("minimax", ballots.items, margin.min(axis=1) if len(margin) > 1 else np.zeros(1))


def approval(ballots: Ballots, unranked: str) -> Consensus:
    """Sort by the weight of ballots that list an item at all; a ballot that ranks everything approves of everything."""
    ballots.filled(unranked)  # refuses open items where that was asked for
    scores = ballots.weights @ (ballots.tiers >= 0)
    notes: tuple[str, ...] = ()
    if np.ptp(scores) == 0 and ballots.n_items > 1:
        notes = ("Every ballot lists every item, so that approval tells nothing; leave out what is not approved.",)
    return by_scores("approval", ballots.items, scores, notes=notes)


def hodge(ballots: Ballots, unranked: str) -> Consensus:
    r"""Least squares on the margins of pairs (Jiang, Lim, Yao and Ye, 2011), each by the ballots that compare it.

    The strengths s minimise $\sum_{x<y} c_{xy} (s_x - s_y - m_{xy})^2$ with the mean margin $m_{xy}$ of the $c_{xy}$
    votes that rank both. What is left is a flow in circles; its share of the squares is said. Where every ballot ranks
    everything, the order is Borda's.
    """
    weights, both = before_weights(ballots, unranked), compared(ballots, unranked)
    np.fill_diagonal(both, 0.0)
    flow = weights - weights.T
    laplacian = np.diag(both.sum(axis=1)) - both
    scores: FloatArray = np.linalg.lstsq(laplacian, flow.sum(axis=1), rcond=1e-12)[0]
    scores = np.round(scores - scores.mean(), 12)
    with np.errstate(invalid="ignore"):
        margin = np.where(both > 0, flow / both, 0.0)
    residual = np.where(both > 0, margin - (scores[:, None] - scores[None, :]), 0.0)
    whole = float(np.sum(both * margin**2))
    notes = []
    if whole > 0:
        cyclic = float(np.sum(both * residual**2)) / whole
        notes.append(f"{100 * cyclic:.1f}% of the squared margins run in circles, which no ranking explains.")
    parts = len(ordered_components(both > 0))
    if parts > 1:
        notes.append(f"No ballot compares items of {parts} groups with each other; their order means nothing.")
    return by_scores("hodge", ballots.items, scores, notes=tuple(notes))


def stv(ballots: Ballots, unranked: str, *, seats: int = 1) -> Consensus:
    r"""Single transferable vote, the weighted inclusive Gregory method with Droop's quota.

    Quota $\lfloor V / (s + 1) \rfloor + 1$ of V votes for s seats. Who reaches it is elected, the surplus passes on
    with every ballot of it at the same fraction; where nobody does, whoever has the fewest votes is struck out. Votes
    tied on a ballot are split evenly. Items with equally few votes are struck out together unless too few would be
    left, and are then tied. Elected items come first, in the order of their election; the others by how late they left.
    """
    if not is_whole(seats, 1, max(ballots.n_items - 1, 1)):
        raise SettingError(f"seats is {seats!r}; it must be a whole number from 1 to one less than the items.")
    value = ballots.weights.astype(np.float64).copy()
    tiers = ballots.filled(unranked)
    quota = float(np.floor(value.sum() / (seats + 1)) + 1)
    left = np.ones(ballots.n_items, dtype=bool)
    elected: list[list[int]] = []
    struck: list[list[int]] = []
    while left.any():
        open_seats = seats - sum(map(len, elected))
        if open_seats <= 0:
            struck.append(np.flatnonzero(left).tolist())
            break
        share = first_shares(tiers, left)
        votes = value @ share
        if left.sum() <= open_seats:
            elected.append(np.flatnonzero(left).tolist())
            break
        over = left & (votes >= quota - 1e-9)
        if over.any():
            winner = left & (votes >= votes[left].max() - 1e-9)
            elected.append(np.flatnonzero(winner).tolist())
            for i in np.flatnonzero(winner):
                keep = max(votes[i] - quota, 0.0) / votes[i]
                value = value * (1.0 - share[:, i] * (1.0 - keep))
            left &= ~winner
            continue
        out = left & (votes <= votes[left].min() + 1e-9)
        if left.sum() - out.sum() < open_seats:
            struck.append(np.flatnonzero(left).tolist())
            break
        struck.append(np.flatnonzero(out).tolist())
        left &= ~out
    groups = [*elected, *struck[::-1]]
    names = [[ballots.items[i] for i in group] for group in groups]
    scores = {name: float(len(groups) - k) for k, group in enumerate(names) for name in group}
    seated = sum(map(len, elected))
    notes = [f"{seats} seats, quota {quota:g}: elected {', '.join(n for g in names[: len(elected)] for n in g)}."]
    if seated != seats:
        notes.append(f"{seated} of {seats} seats could be filled without breaking a tie.")
    return Consensus("stv", names, scores, notes=tuple(notes))


def first_shares(tiers: NDArray[np.int32], left: NDArray[np.bool_]) -> FloatArray:
    """(ballots, items): how each ballot's vote is split over the best of its items that are left."""
    far = np.iinfo(np.int32).max
    standing = np.where(left & (tiers >= 0), tiers, far)
    best = standing.min(axis=1)
    first = (standing == best[:, None]) & (best < far)[:, None]
    return np.asarray(first / np.maximum(first.sum(axis=1), 1)[:, None])
