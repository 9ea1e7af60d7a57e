"""What the parts of the tracking page share: errors of a track, a table, a picture, a line about progress."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from luce.track import Track

__all__ = ["markdown", "mean_step", "save", "say", "squared_error"]


def mean_step(truth: np.ndarray) -> float:
    return float(np.mean(np.linalg.norm(np.diff(truth, axis=0), axis=1)))


def squared_error(track: Track, truth: np.ndarray) -> tuple[float, float]:
    """Smoothed and filtered mean squared error."""
    filtered = ((track.filtered_positions - truth) ** 2).sum(axis=1)
    return float(np.mean(track.errors(truth) ** 2)), float(np.mean(filtered))


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=80)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def markdown(header: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows])
