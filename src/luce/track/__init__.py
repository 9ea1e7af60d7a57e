"""Tracking with ranked signals: a target that hears unlabelled signals from known places, earliest first."""

from luce.track.files import read_signals, read_sources, read_track, write_signals, write_sources
from luce.track.follow import Tuning, follow, tune
from luce.track.geometry import WGS84, Plane
from luce.track.likelihood import best_labels, engine_names, label_posteriors, log_likelihood, min_messages
from luce.track.min_factor import MinMessages
from luce.track.motion import OrnsteinUhlenbeck, RandomWalk
from luce.track.plots import plot_arrivals, plot_track
from luce.track.reception import Reception
from luce.track.result import Track
from luce.track.signals import Receiver, Signals, Sources
from luce.track.simulated_worlds import World, draw_arrivals, draw_signals, drift_path, simulate
from luce.track.sound_speed import SpeedGrid, read_speed
from luce.track.trust import Mode, Trust

__all__ = [
    "WGS84",
    "MinMessages",
    "Mode",
    "OrnsteinUhlenbeck",
    "Plane",
    "RandomWalk",
    "Receiver",
    "Reception",
    "Signals",
    "Sources",
    "SpeedGrid",
    "Track",
    "Trust",
    "Tuning",
    "World",
    "best_labels",
    "draw_arrivals",
    "draw_signals",
    "drift_path",
    "engine_names",
    "follow",
    "label_posteriors",
    "log_likelihood",
    "min_messages",
    "plot_arrivals",
    "plot_track",
    "read_signals",
    "read_sources",
    "read_speed",
    "read_track",
    "simulate",
    "tune",
    "write_signals",
    "write_sources",
]
