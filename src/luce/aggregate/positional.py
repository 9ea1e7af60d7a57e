"""Positional scoring rules: any h, sorted by f(x) = E[h(position of x)] (Proposition 12)."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from luce.aggregate.ballots import Ballots
from luce.errors import DataError, SettingError
from luce.registry import canonical
from luce.types import FloatArray

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


def is_expression(rule: str) -> bool:
    """True for an expression in `i` (and `n`), not for a name."""
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
