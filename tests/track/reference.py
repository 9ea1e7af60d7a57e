"""Slow, obvious forms: every matching written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.stats import norm


def matchings(s, n):
    """All label vectors (source number or -1 for clutter) in which no source makes two signals."""
    for labels in itertools.product(range(-1, s), repeat=n):
        genuine = [i for i in labels if i >= 0]
        if len(set(genuine)) == len(genuine):
            yield labels


def weights(
    times, position, sources, *, sigma, speed=1.0, detection=1.0, clutter_rate=0.0, window=None, r=None, early="kept",
    offsets=None, confidence=None, ranked=True,
):  # fmt: skip
    """{labels: weight} of one position, the constant of a proper density included."""
    times, sources = np.sort(np.asarray(times, float)), np.asarray(sources, float)
    s, n = len(sources), len(times)
    distance = np.sqrt(((sources - position) ** 2).sum(axis=1))
    sigma = np.broadcast_to(sigma(distance) if callable(sigma) else sigma, s)
    detection = np.broadcast_to(detection(distance) if callable(detection) else detection, s)
    mean = (0 if offsets is None else np.asarray(offsets)) + distance / speed
    a, b = window or (-math.inf, math.inf)
    tau = times[-1] if n and (r is None or n >= r) else b
    share = 0.0 if window is None else min(max((tau - a) / (b - a), 0), 1)
    density = 0.0 if window is None else 1 / (b - a)
    u = 1 - detection
    if ranked:
        u = u + detection * norm.sf(tau, mean, sigma)
        if early == "lost":
            u = u + detection * norm.cdf(a, mean, sigma)
    p_clutter = np.full(n, clutter_rate / (1 + clutter_rate))
    if confidence is not None:
        p_clutter = 1 - np.asarray(confidence)
    density_of = norm.pdf(times[:, None], mean, sigma)
    result = {}
    for labels in matchings(s, n):
        value = math.exp(-clutter_rate * share) * (1 + clutter_rate) ** n
        for j, i in enumerate(labels):
            if i < 0:
                value *= p_clutter[j] * density
            else:
                value *= (1 - p_clutter[j]) * detection[i] * density_of[j, i]
        for i in range(s):
            if i not in labels:
                value *= u[i]
        result[labels] = value
    return result


def likelihood(*args, **settings):
    return math.fsum(weights(*args, **settings).values())


def posteriors(times, position, sources, **settings):
    table = weights(times, position, sources, **settings)
    total = math.fsum(table.values())
    result = np.zeros((len(times), len(sources) + 1))
    for labels, weight in table.items():
        for j, i in enumerate(labels):
            result[j, i] += weight / total
    return result
