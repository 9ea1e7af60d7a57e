"""Tracking with ranked signals: a target that hears unlabelled signals from known places, earliest first."""

from luce.track.geometry import WGS84, Plane
from luce.track.likelihood import best_labels, engine_names, label_posteriors, log_likelihood
from luce.track.reception import Reception
from luce.track.signals import Signals
from luce.track.sources import Receiver, Sources

__all__ = [
    "WGS84",
    "Plane",
    "Receiver",
    "Reception",
    "Signals",
    "Sources",
    "best_labels",
    "engine_names",
    "label_posteriors",
    "log_likelihood",
]
