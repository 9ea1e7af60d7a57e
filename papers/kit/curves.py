"""Pictures of NDCG@1 to NDCG@10 as curves: a panel a data set, a line a ranker, the same colours in every panel."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import ceil, floor

from . import ROOT

sys.path.append(str(ROOT / "docs"))
from drawing import Chart, line, text

__all__ = ["curves"]

COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#d68910", "#7d3c98", "#17a2a2", "#8d6e63", "#444444")
PANEL, GAP, TOP, HEIGHT = 200, 45, 34, 190
Lines = Mapping[str, Sequence[float]]


def curves(panels: Mapping[str, Lines], columns: int = 3, dashed: Sequence[str] = ()) -> str:
    """A picture (SVG): the k-th number of a line is its height at place k; `dashed` names lines that stand beside.

    Black on white, so that it can be read as a file of its own whatever the colours of the page around it.
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    colour = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    rows, columns = ceil(len(panels) / columns), min(columns, len(panels))
    width, drawn = GAP + columns * (PANEL + GAP), []
    for place, (title, lines) in enumerate(panels.items()):
        left, top = GAP + place % columns * (PANEL + GAP), TOP + place // columns * (HEIGHT + 70)
        drawn.append(text(left + PANEL / 2, top - 14, title, "middle"))
        drawn += _panel(left, top, lines, colour, dashed)
    entry = 40 + 6 * max(map(len, names))
    below, across = TOP + rows * (HEIGHT + 70), max(1, (width - GAP) // entry)
    for place, name in enumerate(names):
        x, y = GAP + place % across * entry, below + 18 * (place // across)
        drawn += [line((x, y - 4), (x + 16, y - 4), colour[name], 2), text(x + 21, y, name, size=11)]
    height = below + 18 * ceil(len(names) / across)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    return f'{head}<rect width="{width}" height="{height}" fill="white"/>{"".join(drawn)}</svg>\n'


def _panel(left: float, top: float, lines: Lines, colour: Mapping[str, str], dashed: Sequence[str]) -> list[str]:
    values = [value for heights in lines.values() for value in heights]
    # Whole steps of 0.05 around all lines, so that the ticks are round numbers.
    low, high = floor(20 * min(values)), max(ceil(20 * max(values)), floor(20 * min(values)) + 1)
    every = 1 if high - low <= 5 else 2 if high - low <= 10 else 4
    last = max(len(heights) for heights in lines.values())
    chart = Chart(left, top, PANEL, HEIGHT, (1, last), (low / 20, high / 20))
    ticks = [step / 20 for step in range(low, high + 1, every)]
    drawn = chart.axes(range(1, last + 1), ticks, "place")
    for name, heights in lines.items():
        drawn.append(chart.curve(range(1, len(heights) + 1), heights, colour[name], dashed=name in dashed, width=1.4))
    return drawn
