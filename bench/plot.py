"""A plot of lines as SVG, in panels side by side that have one scale. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLOURS = ("#0072b2", "#009e73", "#d55e00", "#7f7f7f")
"""Told apart by colour-blind people, too (Okabe and Ito)."""
WIDTH, HEIGHT, LEFT, TOP, GAP = 420, 300, 56, 64, 150
STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Series:
    """A line: its name, and its points (x, y), both above 0."""

    name: str
    points: Sequence[tuple[float, float]]


def plot(title: str, x_name: str, panels: Mapping[str, Sequence[Series]]) -> str:
    """Both axes are logarithmic: of what grows with the size, the line rises."""
    points = [point for lines in panels.values() for line in lines for point in line.points]
    if not points:
        raise ValueError("there is nothing to plot")
    x_range, y_range = _range([x for x, _ in points]), _range([y for _, y in points])
    width = LEFT + len(panels) * (WIDTH + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 56}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{TOP + HEIGHT + 56}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="16" font-weight="600" fill="#222">{escape(title)}</text>',
    ]
    for number, (name, lines) in enumerate(panels.items()):
        parts += _panel(LEFT + number * (WIDTH + GAP), name, x_name, lines, (x_range, y_range))
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    left: float,
    name: str,
    x_name: str,
    lines: Sequence[Series],
    ranges: tuple[tuple[float, float], tuple[float, float]],
) -> list[str]:
    x_range, y_range = ranges
    bottom = TOP + HEIGHT
    parts = [f'<text x="{left}" y="{TOP - 14}" font-weight="600" fill="#222">{escape(name)}</text>']
    for value in _ticks(y_range):
        y = bottom - HEIGHT * _part(value, y_range)
        parts.append(f'<path d="M{left:.0f} {y:.1f}h{WIDTH - 20}" stroke="#e0e0e0"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{value:g} s</text>')
    for value in sorted({x for line in lines for x, _ in line.points}):
        x = left + (WIDTH - 20) * _part(value, x_range)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle" fill="#555">{value:g}</text>')
    parts.append(f'<text x="{left}" y="{bottom + 42}" fill="#555">{escape(x_name)}</text>')
    ends = []
    for colour, line in zip(COLOURS, lines, strict=False):
        places = [
            (left + (WIDTH - 20) * _part(x, x_range), bottom - HEIGHT * _part(y, y_range))
            for x, y in sorted(line.points)
        ]
        if not places:
            continue
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        ends.append((places[-1], colour, f"{line.name}: {sorted(line.points)[-1][1]:.1f}"))
    return [*parts, *_labels(ends)]


def _labels(ends: Sequence[tuple[tuple[float, float], str, str]]) -> list[str]:
    """A name at each line's end, none over another."""
    parts, free = [], -math.inf
    for (x, y), colour, text in sorted(ends, key=lambda end: end[0][1]):
        free = max(y + 4, free + 16)
        parts.append(f'<text x="{x + 9:.1f}" y="{free:.1f}" fill="{colour}">{escape(text)}</text>')
    return parts


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return low / 1.25, high * 1.25


def _part(value: float, among: tuple[float, float]) -> float:
    low, high = among
    return math.log(value / low) / math.log(high / low)


def _ticks(among: tuple[float, float]) -> list[float]:
    low, high = among
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high))
    every = (step * 10.0**power for power in range(first, last + 1) for step in STEPS)
    return [value for value in every if low <= value <= high]
