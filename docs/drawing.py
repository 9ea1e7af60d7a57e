"""A few SVG elements and a chart, for the pictures of the pages; lines and words take the colour of the text."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, cos, sin

BLUE, ORANGE = "#3b8ec2", "#e07b39"  # both readable on white and on dark grey
Point = tuple[float, float]
Span = tuple[float, float]


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 13, fill: str = "currentColor") -> str:
    """Words at a point."""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{words}</text>'


def line(a: Point, b: Point, colour: str = "currentColor", width: float = 1) -> str:
    """A straight line."""
    return (
        f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def arrow(a: Point, b: Point, colour: str = "currentColor", width: float = 1.2) -> list[str]:
    """A line with a head at its end."""
    (x, y), angle = b, atan2(b[1] - a[1], b[0] - a[0])
    wings = [(x - 8 * cos(angle + turn), y - 8 * sin(angle + turn)) for turn in (0.45, -0.45)]
    return [line(a, b, colour, width), path([wings[0], b, wings[1]], colour, width)]


def path(points: Sequence[Point], colour: str = "currentColor", width: float = 2, dashed: bool = False) -> str:
    """A line through points."""
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'


def box(x: float, y: float, width: float, height: float, colour: str = "currentColor", fill: str = "none") -> str:
    """A rectangle with round corners."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" fill="{fill}" '
        f'stroke="{colour}" fill-opacity="0.35"/>'
    )


def disc(x: float, y: float, label: str, colour: str = "currentColor", filled: bool = False) -> list[str]:
    """A circle with a label."""
    fill = colour if filled else "none"
    return [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="14" fill="{fill}" fill-opacity="0.35" stroke="{colour}"/>',
        text(x, y + 4.5, label, "middle"),
    ]


class Chart:
    """Axes in a part of the picture, and what is drawn in their units."""

    def __init__(self, left: float, top: float, width: float, height: float, x: Span, y: Span) -> None:
        self.frame, self.x, self.y = (left, top, width, height), x, y

    def at(self, x: float, y: float) -> Point:
        """Where a point of the chart is in the picture."""
        left, top, width, height = self.frame
        (x0, x1), (y0, y1) = self.x, self.y
        return left + width * (x - x0) / (x1 - x0), top + height * (1 - (y - y0) / (y1 - y0))

    def curve(self, x: Sequence[float], y: Sequence[float], colour: str, dashed: bool = False, width: float = 2) -> str:
        """A line through points of the chart."""
        return path([self.at(a, b) for a, b in zip(x, y, strict=True)], colour, width, dashed)

    def axes(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_name: str = "", y_name: str = "") -> list[str]:
        """Both axes with ticks and names."""
        left, top, width, height = self.frame
        bottom = top + height
        drawn = [line((left, bottom), (left + width, bottom)), line((left, top), (left, bottom))]
        for tick in x_ticks:
            x = self.at(tick, self.y[0])[0]
            drawn += [line((x, bottom), (x, bottom + 4)), text(x, bottom + 17, f"{tick:g}", "middle", 11)]
        for tick in y_ticks:
            y = self.at(self.x[0], tick)[1]
            drawn += [line((left - 4, y), (left, y)), text(left - 8, y + 4, f"{tick:g}", "end", 11)]
        drawn.append(text(left + width / 2, bottom + 34, x_name, "middle", 12))
        return [*drawn, text(left - 4, top - 9, y_name, "start", 12)]
