"""The places where a target may be: a posterior of several modes is told as such, not as one wide covariance.

Two ranges fix a position up to its mirror image at the line through the sources; draws from such a posterior fall into
groups with next to nothing between them. A group is cut in two where its density along one of a dozen directions has a
valley: a place that is a tenth as dense as the lower of the peaks on its two sides, with a twentieth of the draws or
more on each. Normal, uniform and heavy-tailed clouds and rings have none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.track.geometry import Geometry
from luce.types import FloatArray, IntArray

_VALLEY = 0.1
_BINS = 100
_LEAST = 0.05
"""A group of less than this share is no place of its own."""
_DIRECTIONS = 12
_LOOKED_AT = 400


class Mode(NamedTuple):
    """One place: its share of the probability, the mean position there and the covariance of displacements."""

    weight: float
    position: FloatArray
    covariance: FloatArray


def mean_and_covariance(geometry: Geometry, x: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted mean position and covariance of displacements, right across the antimeridian."""
    weight = weight / weight.sum()
    centre = x[int(np.argmax(weight))][None, :]
    for _ in range(3):
        offsets = geometry.displacement(np.repeat(centre, len(x), axis=0), x)
        centre = geometry.move(centre, (weight @ offsets)[None, :])
    offsets = geometry.displacement(np.repeat(centre, len(x), axis=0), x)
    return centre[0], (offsets * weight[:, None]).T @ offsets


def find_modes(geometry: Geometry, x: FloatArray, weight: FloatArray) -> list[Mode]:
    """The modes of weighted draws, the weightiest first; one where they hang together.

    >>> from luce.track import Plane
    >>> draws = np.random.default_rng(0).normal(size=(400, 2)) + np.repeat([[0, 0], [0, 9]], [300, 100], axis=0)
    >>> [(round(mode.weight, 6), mode.position.round().tolist()) for mode in find_modes(Plane(), draws, np.ones(400))]
    [(0.75, [-0.0, 0.0]), (0.25, [-0.0, 9.0])]
    """
    weight = weight / weight.sum()
    offsets = geometry.displacement(np.repeat(x[:1], len(x), axis=0), x)
    groups = _split(offsets, weight, np.arange(len(x)))
    modes = [
        Mode(min(float(weight[rows].sum()), 1.0), *mean_and_covariance(geometry, x[rows], weight[rows]))
        for rows in groups
    ]
    return sorted(modes, key=lambda mode: -mode.weight)


def _split(offsets: FloatArray, weight: FloatArray, rows: IntArray) -> list[IntArray]:
    """Groups of rows, by cutting in two again and again."""
    here, share = offsets[rows], weight[rows]
    # A few hundred evenly chosen draws tell whether there is a gap; all are given to the side they are on.
    order = np.linspace(0, len(rows) - 1, min(len(rows), _LOOKED_AT)).astype(np.int64)
    if np.ptp(share) > 0:
        cumulative = np.cumsum(share)
        points = (np.arange(_LOOKED_AT) + 0.5) / _LOOKED_AT * cumulative[-1]
        order = np.minimum(np.searchsorted(cumulative, points), len(rows) - 1)
    cut = _best_cut(here[order])
    if cut is None:
        return [rows]
    direction, place = cut
    below = here @ direction < place
    parts = (rows[below], rows[~below])
    if min(weight[part].sum() for part in parts) < _LEAST:
        return [rows]
    return [group for part in parts for group in _split(offsets, weight, part)]


def _best_cut(here: FloatArray) -> tuple[FloatArray, float] | None:
    """The direction and place of the deepest valley, if it is deep enough."""
    deepest, found = _VALLEY, None
    for direction in _directions(here.shape[1]):
        along = here @ direction
        density, edges = _density(along)
        left = np.maximum.accumulate(density)
        right = np.maximum.accumulate(density[::-1])[::-1]
        share = np.searchsorted(np.sort(along), edges) / len(along)
        allowed = (share >= _LEAST) & (share <= 1 - _LEAST)
        depth = np.where(allowed, density / np.maximum(np.minimum(left, right), 1e-300), np.inf)
        k = int(np.argmin(depth))
        if depth[k] < deepest:
            deepest, found = float(depth[k]), (direction, float(edges[k]))
    return found


def _density(along: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A smooth density of draws and where it is taken: half the usual bandwidth, which would fill valleys."""
    # Backward draws share particles: only different ones say how fine the density may be.
    width = 0.53 * float(np.std(along)) * len(np.unique(along)) ** -0.2
    low, high = float(along.min()), float(along.max())
    if width <= 1e-12 * max(abs(low), abs(high)):
        return np.ones(1), np.array([low])
    edges = np.linspace(low, high, _BINS + 1)
    counts = np.histogram(along, edges)[0]
    middle = 0.5 * (edges[1:] + edges[:-1])
    return np.exp(-0.5 * ((middle[:, None] - middle) / width) ** 2) @ counts, middle


def _directions(dimensions: int) -> FloatArray:
    """Unit vectors: evenly round the half circle in the plane, the axes and fixed random ones elsewhere."""
    if dimensions == 2:
        angle = np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        return np.column_stack([np.cos(angle), np.sin(angle)])
    drawn = np.random.default_rng(0).standard_normal((_DIRECTIONS, dimensions))
    drawn = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.vstack([np.eye(dimensions), drawn]) if dimensions > 1 else np.eye(1)
