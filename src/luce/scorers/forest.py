"""Trees as flat arrays: validated when they come from a file, scored by a kernel of our own.

LightGBM's reader of its own text aborts, hangs or crashes on damaged files, so that a model of luce never holds that
text. It holds these arrays, and whatever is wrong with them is found before the first row is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.errors import ModelFormatError, SettingError
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk, map_chunks
from luce.types import Features, FloatArray, IntArray

CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, MISSING_NAN = 1, 2, 4, 8
"""Bits of `Forest.kind`: what a node asks, and where it sends what is missing."""
_ALL_BITS = CATEGORICAL | DEFAULT_LEFT | MISSING_ZERO | MISSING_NAN
_ZERO = float(np.float32(1e-35))
"""What LightGBM takes for zero."""
_BLOCK_ROWS, _LANES = 4096, 512
"""Rows that a thread takes at once, and rows that go through a tree together."""
_FEW_ROWS = 16
"""Rows below which each walks down the trees by itself."""
_HASHES = {np.uint32: (0x077CB531, 27), np.uint64: (0x03F79D71B4CB0A89, 58)}
"""By which a number that is a power of 2 finds its exponent: a factor whose high bits all differ (de Bruijn)."""


@dataclass(frozen=True, eq=False)
class Forest:
    """The inner nodes and leaves of all trees, tree after tree.

    Tree t owns the nodes `nodes[t]:nodes[t + 1]` and the leaves `leaves[t]:leaves[t + 1]`, one more than nodes. A child
    that is not negative is a node of the same tree, counted from its first and after its parent; a negative one, c, is
    leaf `-c - 1`. A node sends a row to the left where `x[feature] <= threshold`; a categorical one where
    the bit `x[feature]` of set `threshold` is on, `bits[sets[s]:sets[s + 1]]`, 32 categories a number.
    """

    nodes: IntArray = field(metadata={"dtype": np.int64})
    leaves: IntArray = field(metadata={"dtype": np.int64})
    feature: NDArray[np.int32] = field(metadata={"dtype": np.int32})
    threshold: FloatArray = field(metadata={"dtype": np.float64})
    left: NDArray[np.int32] = field(metadata={"dtype": np.int32})
    right: NDArray[np.int32] = field(metadata={"dtype": np.int32})
    kind: NDArray[np.uint8] = field(metadata={"dtype": np.uint8})
    gain: FloatArray = field(metadata={"dtype": np.float64})
    value: FloatArray = field(metadata={"dtype": np.float64})
    sets: IntArray = field(metadata={"dtype": np.int64})
    bits: NDArray[np.uint32] = field(metadata={"dtype": np.uint32})
    count: IntArray = field(default_factory=lambda: np.zeros(0, np.int64), metadata={"dtype": np.int64})
    """Training documents in every leaf; empty where they are not known."""

    @classmethod
    def empty(cls) -> Forest:
        """No tree at all: every score is 0.

        >>> Forest.empty().score(np.zeros((2, 3), dtype=np.float32)).tolist()
        [0.0, 0.0]
        """
        return cls(**{name: np.zeros(1 if _is_boundary(name) else 0, dtype) for name, dtype in _DTYPES.items()})

    @classmethod
    def constant(cls, value: float) -> Forest:
        """One tree of one leaf."""
        return cls.tree(value=[value], count=[1])

    @classmethod
    def tree(cls, **parts: ArrayLike) -> Forest:
        """One tree of these arrays; what is not given of its nodes is 0, and it has no category sets."""
        n = np.size(parts.get("left", ()))
        given = {"nodes": [0, n], "leaves": [0, n + 1], "kind": np.zeros(n), "gain": np.zeros(n), **parts}
        arrays = {name: np.asarray(given[name], dtype) for name, dtype in _DTYPES.items() if name in given}
        return replace(cls.empty(), **arrays)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes) - 1

    @classmethod
    def joined(cls, forests: Sequence[Forest]) -> Forest:
        """The trees of several forests, one after the other."""
        forests = [forest for forest in forests if forest.n_trees] or [cls.empty()]
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _DTYPES}
        n_sets = 0
        for forest in forests:
            for name, columns in parts.items():
                array = getattr(forest, name)
                if name == "threshold":
                    array = np.where(forest.kind & CATEGORICAL, array + n_sets, array)
                columns.append(np.diff(array) if _is_boundary(name) else array)
            n_sets += len(forest.sets) - 1
        whole: dict[str, Any] = {name: np.concatenate(columns) for name, columns in parts.items()}
        for name in filter(_is_boundary, whole):
            whole[name] = np.concatenate([[0], np.cumsum(whole[name])]).astype(np.int64)
        if len(whole["count"]) < len(whole["value"]):
            whole["count"] = np.zeros(0, np.int64)  # those of some trees say nothing of all
        return cls(**whole)

    def first(self, n_trees: int) -> Forest:
        """The first trees only; category sets that they do not use stay."""
        node, leaf = int(self.nodes[n_trees]), int(self.leaves[n_trees])
        cut: dict[str, Any] = {"nodes": n_trees + 1, "leaves": n_trees + 1, "value": leaf, "count": leaf}
        cut |= dict.fromkeys(("feature", "threshold", "left", "right", "kind", "gain"), node)
        return Forest(**{name: getattr(self, name)[: cut.get(name)] for name in _DTYPES})

    def scaled(self, factor: float) -> Forest:
        """The same trees with all leaves times a factor.

        >>> Forest.constant(3.0).scaled(0.5).value.tolist()
        [1.5]
        """
        return replace(self, value=self.value * factor, gain=self.gain * factor)

    def node_counts(self, tree: int) -> list[int]:
        """Documents in every node of a tree: those of the leaves below it."""
        leaves = self.count[self.leaves[tree] : self.leaves[tree + 1]].tolist()
        own = slice(int(self.nodes[tree]), int(self.nodes[tree + 1]))
        left, right = self.left[own].tolist(), self.right[own].tolist()
        found = [0] * len(left)
        for i in reversed(range(len(left))):  # children come after their parents
            found[i] = sum(found[c] if c >= 0 else leaves[-c - 1] for c in (left[i], right[i]))
        return found

    def on(self, places: NDArray[np.int32]) -> Forest:
        """The same trees where feature j is column `places[j]`."""
        return replace(self, feature=places[self.feature].astype(np.int32)) if len(self.feature) else self

    def codes(self, node: int) -> list[int]:
        """The categories that a categorical node sends to the left."""
        s = int(self.threshold[node])
        words = self.bits[self.sets[s] : self.sets[s + 1]].astype("<u4")
        return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()

    def score(self, X: Features) -> FloatArray:
        """The sum of the leaves that every row falls into, in the order of the trees."""
        scores = np.zeros(len(X))
        self.add_scores(X, scores)
        return scores

    def add_scores(self, X: Features, scores: FloatArray) -> None:
        """Add the leaves of every row to `scores`, one tree after the other, on threads over blocks of rows."""
        masked = self._masked if len(X) >= _FEW_ROWS and X.dtype == np.float32 else None

        def block(_: int, rows: Chunk) -> None:
            own = X[rows[0] : rows[1]], scores[rows[0] : rows[1]]
            if masked is None:
                _walk(*own, *self._children, *(getattr(self, name) for name in _WALKED))
            else:
                _add(*own, *masked, *(getattr(self, name) for name in _MASKED))

        map_chunks(block, [(a, min(a + _BLOCK_ROWS, len(X))) for a in range(0, len(X), _BLOCK_ROWS)])

    @cached_property
    def _children(self) -> tuple[bool, NDArray[np.int32]]:
        """Whether nodes only compare numbers, and their children, the right one first."""
        plain = not np.any(self.kind & (CATEGORICAL | MISSING_ZERO | MISSING_NAN))
        return plain, np.stack([self.right, self.left], axis=1)

    @cached_property
    def _masked(self) -> tuple[Any, ...] | None:
        """What `_add` reads beside the nodes; None where a tree has more than 64 leaves.

        Leaves are numbered from left to right, a bit each. A node that sends a row to the right strikes out the leaves
        below its left child, and the lowest bit that is left when all nodes were asked, in any order, is the leaf of
        the row. No node waits for another, so that many rows are compared by one instruction.
        """
        most = int(np.diff(self.leaves).max(initial=1))
        if most > 64:
            return None
        kind: Any = np.uint32 if most <= 32 else np.uint64
        factor, shift = map(kind, _HASHES[kind])
        exponents = np.zeros(64, np.int64)
        with np.errstate(over="ignore"):
            powers = np.left_shift(kind(1), np.arange(8 * kind(0).itemsize, dtype=kind))
            exponents[np.right_shift(powers * factor, shift).astype(np.int64)] = np.arange(len(powers))
            single = self.threshold.astype(np.float32)
        # A number of 32 bits is at most the threshold where it is at most the next such number below it.
        single = np.where(single > self.threshold, np.nextafter(single, np.float32(-np.inf)), single)
        used, column = np.unique(self.feature, return_inverse=True)
        masks, values = np.empty(len(self.left), dtype=kind), self.value.copy()
        _strike_out(self.nodes, self.leaves, self.left, self.right, self.value, masks, values)
        return used, column.astype(np.int64), single, masks, values, exponents, factor, shift

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for a file."""
        return {name: np.ascontiguousarray(getattr(self, name)) for name in _DTYPES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_features: int) -> Forest:
        """Trees of a file; whatever could send a row astray raises `ModelFormatError`."""
        arrays = {"count": np.zeros(0, np.int64), **arrays}  # older files have none
        for name, dtype in _DTYPES.items():
            array = arrays.get(name)
            if array is None or array.dtype != dtype or array.ndim != 1:
                raise ModelFormatError(f"Trees need a vector of {np.dtype(dtype).name} as {name!r}.")
        forest = cls(**{name: arrays[name] for name in _DTYPES})
        _check_sizes(forest)
        _check_nodes(forest, n_features)
        _check_links(forest)
        return forest


_DTYPES: dict[str, Any] = {each.name: each.metadata["dtype"] for each in fields(Forest)}
_WALKED = ("nodes", "leaves", "feature", "threshold", "kind", "value", "sets", "bits")
_MASKED = ("nodes", "leaves", "threshold", "kind", "sets", "bits")


def _is_boundary(name: str) -> bool:
    return name in ("nodes", "leaves", "sets")


def _check_sizes(forest: Forest) -> None:
    ends = {"nodes": len(forest.feature), "leaves": len(forest.value), "sets": len(forest.bits)}
    for name, end in ends.items():
        cut = getattr(forest, name)
        # Differences of hostile int64 may wrap around, so that order is compared and not subtracted.
        if len(cut) == 0 or cut[0] != 0 or cut[-1] != end or np.any(cut[1:] < cut[:-1]):
            raise ModelFormatError(f"The boundaries {name!r} of trees must rise from 0 to {end}.")
    same = {len(getattr(forest, name)) for name in ("feature", "threshold", "left", "right", "kind", "gain")}
    if len(same) != 1:
        raise ModelFormatError("The arrays of tree nodes must have the same length.")
    if len(forest.count) not in (0, len(forest.value)) or np.any(forest.count < 1) or np.any(forest.count > 2**31 - 1):
        raise ModelFormatError("Trees need a count above 0 for every leaf, or none at all.")
    if len(forest.nodes) != len(forest.leaves) or np.any(np.diff(forest.leaves) != np.diff(forest.nodes) + 1):
        raise ModelFormatError("Every tree must have one leaf more than nodes.")


def _check_nodes(forest: Forest, n_features: int) -> None:
    if np.any(forest.feature < 0) or np.any(forest.feature >= n_features):
        raise ModelFormatError(f"A tree asks for a feature that is not among the {n_features} of the model.")
    for name in ("threshold", "value", "gain"):
        if not np.isfinite(getattr(forest, name)).all():
            raise ModelFormatError(f"Trees need finite numbers as {name!r}.")
    if np.any(forest.kind & ~np.uint8(_ALL_BITS)):
        raise ModelFormatError("A tree node is of an unknown kind.")
    chosen = forest.threshold[(forest.kind & CATEGORICAL) > 0]
    if np.any((chosen < 0) | (chosen >= len(forest.sets) - 1) | (chosen != np.floor(chosen))):
        raise ModelFormatError("A categorical tree node names a set of categories that does not exist.")


def _check_links(forest: Forest) -> None:
    """Every node but the root and every leaf has exactly one parent, before it: no loop, nothing out of reach."""
    counts = np.diff(forest.nodes)
    tree = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(tree)) - forest.nodes[tree]
    n_nodes, n_leaves = counts[tree], counts[tree] + 1
    reached_nodes, reached_leaves = np.zeros(len(tree), np.int64), np.zeros(len(forest.value), np.int64)
    for side in (forest.left, forest.right):
        child = side.astype(np.int64)
        inner = child >= 0
        if np.any(inner & ((child >= n_nodes) | (child <= place))) or np.any(~inner & (-child - 1 >= n_leaves)):
            raise ModelFormatError("A tree node has a child that is out of range or not after it.")
        reached_nodes += np.bincount((forest.nodes[tree] + child)[inner], minlength=len(tree))
        reached_leaves += np.bincount((forest.leaves[tree] - child - 1)[~inner], minlength=len(forest.value))
    is_root = place == 0
    has_nodes = np.repeat(counts > 0, np.diff(forest.leaves))
    if np.any(reached_nodes != ~is_root) or np.any(reached_leaves != has_nodes):
        raise ModelFormatError("A tree has a node or leaf that is reached more than once, or never.")


def forest_of(booster: Any, first: int = 0) -> Forest:
    """All trees of a LightGBM booster of this process from number `first` on.

    The text that is read was written a moment ago by LightGBM itself, never found in a file; its numbers have 17
    digits, so that no bit is lost.
    """
    return Forest.joined(trees_of(booster, first))


def trees_of(booster: Any, first: int = 0) -> list[Forest]:
    """The same, tree by tree."""
    return trees_of_text(booster.model_to_string(start_iteration=first, num_iteration=-1))


def trees_of_text(text: str) -> list[Forest]:
    """Those of a text in LightGBM's form; what was found in a file is yet to be checked by `from_arrays`."""
    lines = [tree.splitlines()[1:] for tree in text.partition("\nend of trees")[0].split("\nTree=")[1:]]
    return [_tree(dict(line.split("=", 1) for line in tree if "=" in line)) for tree in lines]


def _tree(fields: dict[str, str]) -> Forest:
    if fields.get("is_linear", "0") != "0":
        raise SettingError("Trees with linear leaves cannot be kept in a model; leave linear_tree out.")

    def vector(name: str, dtype: Any) -> NDArray[Any]:
        return np.array(fields.get(name, "").split(), dtype=dtype)

    left = vector("left_child", np.int32)
    return Forest.tree(
        feature=vector("split_feature", np.int32),
        # A split of what is missing from all else has an infinite threshold; arrays hold finite numbers only.
        threshold=np.nan_to_num(vector("threshold", np.float64)),
        left=left,
        right=vector("right_child", np.int32),
        kind=vector("decision_type", np.uint8),
        gain=vector("split_gain", np.float64),
        value=vector("leaf_value", np.float64),
        sets=vector("cat_boundaries", np.int64) if "cat_boundaries" in fields else [0],
        bits=vector("cat_threshold", np.uint32),
        count=_counts(vector("leaf_count", np.int64), len(left) + 1),
    )


def _counts(given: IntArray, leaves: int) -> IntArray:
    """Documents a leaf; a tree that is one leaf may have none, and one that was trained by weights alone has zeros."""
    if leaves == 1:
        return np.ones(1, np.int64)
    return given if len(given) == leaves and np.all(given > 0) else np.zeros(0, np.int64)


@kernel
def _strike_out(nodes, leaves, left, right, value, masks, values):  # type: ignore[no-untyped-def]
    """The leaves that each node leaves to a row that it sends to the right, and values of leaves from left to right."""
    below, first = np.empty(len(left), np.int64), np.zeros(len(left), np.int64)
    for t in range(len(nodes) - 1):
        start, end, leaf = nodes[t], nodes[t + 1], leaves[t]
        for i in range(end - 1, start - 1, -1):  # children come after their parents
            below[i] = 0
            for child in (left[i], right[i]):
                below[i] += below[start + child] if child >= 0 else 1
        for i in range(start, end):
            n = below[start + left[i]] if left[i] >= 0 else 1
            masks[i] = ~(((np.uint64(1) << np.uint64(n)) - np.uint64(1)) << np.uint64(first[i]))
            for child, place in ((left[i], first[i]), (right[i], first[i] + n)):
                if child >= 0:
                    first[start + child] = place
                else:
                    values[leaf + place] = value[leaf - child - 1]


@kernel
def _add(  # type: ignore[no-untyped-def]
    X, scores, used, column, single, masks, values, exponents, factor, shift, nodes, leaves, threshold, kind, sets, bits
):
    """Tree by tree over some hundred rows, all nodes of a tree for all of them."""
    columns, alive = np.empty((len(used), _LANES), np.float32), np.empty(_LANES, masks.dtype)
    full, one = masks.dtype.type(~np.uint64(0)), masks.dtype.type(1)
    for begin in range(0, len(X), _LANES):
        n = min(_LANES, len(X) - begin)
        for row in range(n):
            for j in range(len(used)):
                columns[j, row] = X[begin + row, used[j]]
        for t in range(len(nodes) - 1):
            for row in range(n):
                alive[row] = full
            for i in range(nodes[t], nodes[t + 1]):
                x, bound, kept, asked = columns[column[i]], single[i], masks[i], kind[i]
                if asked & (CATEGORICAL | MISSING_ZERO):
                    for row in range(n):
                        if not _goes_left(np.float64(x[row]), asked, threshold[i], sets, bits):
                            alive[row] &= kept
                elif asked & DEFAULT_LEFT if asked & MISSING_NAN else bound >= 0.0:  # what is missing goes left
                    for row in range(n):
                        alive[row] &= kept if x[row] > bound else full
                else:
                    for row in range(n):
                        alive[row] &= full if x[row] <= bound else kept
            for row in range(n):
                lowest = alive[row] & masks.dtype.type(~alive[row] + one)
                leaf = exponents[np.int64(masks.dtype.type(lowest * factor) >> shift)]
                scores[begin + row] += values[leaves[t] + leaf]


@kernel
def _walk(X, scores, plain, children, nodes, leaves, feature, threshold, kind, value, sets, bits):  # type: ignore[no-untyped-def]
    """Tree by tree over a block of rows, so that the nodes stay in cache; `plain` nodes only compare numbers."""
    for t in range(len(nodes) - 1):
        start, first_leaf = nodes[t], leaves[t] - 1
        root = np.int32(0) if nodes[t + 1] > start else np.int32(-1)
        for row in range(len(X)):
            node = root
            while node >= 0:
                i = start + node
                x = np.float64(X[row, feature[i]])
                if plain:
                    # A child by its number and no jump: which way a row goes cannot be foreseen.
                    to_left = int((0.0 if x != x else x) <= threshold[i])
                else:
                    to_left = int(_goes_left(x, kind[i], threshold[i], sets, bits))
                node = children[i, to_left]
            scores[row] += value[first_leaf - node]


@part
def _goes_left(x, kind, threshold, sets, bits):  # type: ignore[no-untyped-def]
    if kind & CATEGORICAL:
        return _in_set(x, bits, sets, np.int64(threshold))
    if np.isnan(x):
        if kind & MISSING_NAN:
            return kind & DEFAULT_LEFT > 0
        x = 0.0
    if kind & MISSING_ZERO and abs(x) <= _ZERO:
        return kind & DEFAULT_LEFT > 0
    return x <= threshold


@part
def _in_set(x, bits, sets, s):  # type: ignore[no-untyped-def]
    """True where category x (cut to a whole number) is in set s; NaN, negative and unknown ones are in none."""
    first, last = sets[s], sets[s + 1]
    if not (x >= 0.0 and x < 32.0 * (last - first)):
        return x > -1.0 and x < 0.0 and last > first and bits[first] & np.uint32(1) > 0
    category = np.int64(x)
    return (bits[first + category // 32] >> np.uint32(category % 32)) & np.uint32(1) > 0
