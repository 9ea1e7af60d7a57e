"""Trees as other formats ask their questions: thresholds in float32, ways of missing values, nested nodes, steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.scorers.forest import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_ZERO, Forest

_MAX = float(np.finfo(np.float32).max)
_MOST_LEVELS = 200


def at_most(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """d(t): `x <= t` is `x <= d(t)` for float32 x; thresholds beyond all float32 become the outermost ones.

    >>> at_most(np.array([0.1, 0.5])).astype(float).tolist()
    [0.09999999403953552, 0.5]
    """
    clipped = np.clip(threshold, -_MAX, _MAX)
    rounded = clipped.astype(np.float32)
    too_high = rounded.astype(np.float64) > clipped
    with np.errstate(over="ignore"):
        below = np.nextafter(rounded, np.float32(-np.inf))
    return np.where(too_high, below, rounded).astype(np.float32)


def above(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """u(t): `x <= t` is `x < u(t)` for float32 x.

    >>> above(np.array([0.1])).astype(float).tolist()
    [0.10000000149011612]
    """
    with np.errstate(over="ignore"):
        result = np.nextafter(at_most(threshold), np.float32(np.inf))
    beyond = np.asarray(threshold) < -_MAX
    return np.where(beyond, np.float32(-_MAX), np.minimum(result, np.float32(_MAX))).astype(np.float32)


def number(value: Any) -> float:
    """A float32 as a float64 whose digits give back that float32, however a reader rounds them."""
    return float(np.float32(value))


def missing_goes_left(forest: Forest) -> NDArray[np.bool_]:
    """For every node, whether it sends a missing value to the left."""
    own = (forest.kind & (MISSING_NAN | MISSING_ZERO)) > 0
    default = (forest.kind & DEFAULT_LEFT) > 0
    return np.where(own, default, forest.threshold >= 0)


def missing_is_zero(forest: Forest) -> bool:
    """Whether a missing value goes everywhere where 0 goes."""
    return bool(np.all(missing_goes_left(forest) == (forest.threshold >= 0)))


def check_plain(forest: Forest, names: tuple[str, ...], target: str) -> None:
    """Refuse what cannot be asked with one threshold and one way for missing values."""
    chosen = np.flatnonzero(forest.kind & CATEGORICAL)
    if len(chosen):
        raise SettingError(
            f"The trees split the feature {names[forest.feature[chosen[0]]]!r} by categories, which {target} cannot "
            "express; export to lightgbm or python, or train without categorical features."
        )
    zero = (forest.kind & MISSING_ZERO) > 0
    bad = np.flatnonzero(zero & (((forest.kind & DEFAULT_LEFT) > 0) != (forest.threshold >= 0)))
    if len(bad):
        raise SettingError(
            f"The trees take a zero of the feature {names[forest.feature[bad[0]]]!r} for a missing value "
            f"(zero_as_missing), which {target} cannot express; export to lightgbm or python."
        )


class Split(NamedTuple):
    """An inner node as a target sees it, with its children already written."""

    node: int
    """Its number in the tree; leaves are counted on after all nodes."""
    position: int
    """Its number in the forest."""
    depth: int
    left: Any
    right: Any
    left_node: int
    right_node: int


def nested(
    forest: Forest, tree: int, split: Callable[[Split], Any], leaf: Callable[[int, float], Any], target: str
) -> Any:
    """One tree, written from the leaves up: `leaf(number, value)` and `split(Split)` give what stands for a node."""
    start, end = int(forest.nodes[tree]), int(forest.nodes[tree + 1])
    values = forest.value[forest.leaves[tree] : forest.leaves[tree + 1]].tolist()
    count = end - start
    leaves = [leaf(count + i, value) for i, value in enumerate(values)]
    if count == 0:
        return leaves[0]
    left, right = forest.left[start:end].tolist(), forest.right[start:end].tolist()
    depth = [0] * count
    for i in range(count):  # children come after their parents
        for child in (left[i], right[i]):
            if child >= 0:
                depth[child] = depth[i] + 1
    if max(depth) > _MOST_LEVELS:
        raise SettingError(
            f"Tree {tree} is {max(depth)} levels deep, and {target} is written for at most {_MOST_LEVELS}, since "
            "parsers limit how deep a text may nest; train with fewer leaves or the engine's max_depth."
        )
    written: list[Any] = [None] * count

    def place(child: int) -> tuple[Any, int]:
        return (written[child], child) if child >= 0 else (leaves[-child - 1], count - child - 1)

    for i in reversed(range(count)):
        (below_left, left_node), (below_right, right_node) = place(left[i]), place(right[i])
        written[i] = split(Split(i, start + i, depth[i], below_left, below_right, left_node, right_node))
    return written[0]
