"""How times and sizes grow, as the page Benchmarks shows it: a table and a chart, of saved runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any, Final

from lab.siege.load.replicas import SHARE

Found = dict[str, Any]
"""JSON data of a saved run."""
Curve = dict[str, Any]
"""A curve as ``lab.benchmarks.curves`` saves it: its name, of what, the unit, and lines of pairs."""
Scale = Callable[[float], float]
"""Where a number stands, in pixels."""

_INK, _COLOURS = "#767676", ("#4f7cff", "#c07f2c", "#3f9d6a")
"""Colours that are readable on white and on black."""
_WIDTH, _HEIGHT, _COLUMNS = 410, 230, 2
"""Pixels: of a panel, with its title and its axes; and how many stand side by side."""
_LEFT, _RIGHT, _TOP, _FOOT = 62, 18, 46, 40
"""Pixels around the lines of a panel."""

_HEAD: Final = """\
## Growth

Each row is measured in one process while its count grows by factors of ten. The axes of the chart are logarithmic: a
flat line does not grow. Servers and workers are those of `make lab-load`, with a quarter of a core each, so that
none takes CPU from the others ([Scale](scale.md#how-many-replicas)).
"""


def curves(grown: Found, load: Found) -> list[Curve]:
    """Return all curves: those of ``lab.benchmarks.curves``, and those of servers and workers."""
    all_curves = [curve for part in grown.values() for curve in part["curves"]]
    several = (("replicas", "servers", "calls a second"), ("workers", "workers", "runs a second"))
    for part, of, unit in several:
        rows = [row for row in load[part]["rows"] if row["cores_each"] == SHARE]
        points = [[row[of], row["rate"]] for row in rows]
        all_curves.append({"name": f"Throughput of {of}", "of": of, "unit": "a second", "lines": {unit: points}})
    return all_curves


def section(grown: Found, load: Found) -> str:
    """Return the part of the page."""
    lines = ["| what | | measured |", "|---|---|---|"]
    for curve in curves(grown, load):
        for label, points in curve["lines"].items():
            readings = ", ".join(f"{y:,g} at {x:,}" for x, y in points)
            lines.append(f"| {curve['name']}: {label} | {curve['unit']}, by {curve['of']} | {readings} |")
    chart = "![Times and sizes by numbers of tools, sessions, records, servers and workers](growth.svg)\n"
    return "\n".join([_HEAD, chart, *lines, "", _loads(grown)])


def _loads(grown: Found) -> str:
    loads = ", ".join(f"{name} {part['machine']['load']:g}" for name, part in grown.items())
    return (
        f"The load of the machine at the start of each part: {loads}. The open sessions of a process use the store "
        "`memory://`, which also keeps their records in memory.\n"
    )


def chart(grown: Found, load: Found) -> str:
    """Return the chart: a panel for each curve."""
    panels = curves(grown, load)
    rows = math.ceil(len(panels) / _COLUMNS)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH * _COLUMNS} {_HEIGHT * rows}" role="img" '
            f'font-family="sans-serif" font-size="12" fill="{_INK}">',
            "<title>Times and sizes by numbers of tools, sessions, records, servers and workers</title>",
            *(line for place, curve in enumerate(panels) for line in _panel(place, curve)),
            "</svg>",
            "",
        ]
    )


def _panel(place: int, curve: Curve) -> Iterator[str]:
    lines: dict[str, list[list[float]]] = curve["lines"]
    xs = sorted({x for points in lines.values() for x, _ in points})
    ys = [y for points in lines.values() for _, y in points]
    x, y = _scale(xs, _LEFT, _WIDTH - _RIGHT), _scale(_decades(ys), _HEIGHT - _FOOT, _TOP)
    across, down = place % _COLUMNS * _WIDTH, place // _COLUMNS * _HEIGHT
    yield f'<g transform="translate({across} {down})">'
    yield f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(curve["name"])}, {escape(curve["unit"])}</text>'
    for mark in _decades(ys):
        at = f"{y(mark):.1f}"
        yield f'<line x1="{_LEFT}" y1="{at}" x2="{_WIDTH - _RIGHT}" y2="{at}" stroke="{_INK}" stroke-opacity="0.3"/>'
        yield f'<text x="{_LEFT - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:,g}</text>'
    for mark in xs:
        yield f'<text x="{x(mark):.1f}" y="{_HEIGHT - 22}" text-anchor="middle">{mark:,g}</text>'
    yield f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 7}" text-anchor="middle">{curve["of"]}</text>'
    at = float(_LEFT)
    for colour, (label, points) in zip(_COLOURS, lines.items(), strict=False):
        yield f'<rect x="{at:.0f}" y="24" width="10" height="10" rx="2" fill="{colour}"/>'
        yield f'<text x="{at + 14:.0f}" y="33">{escape(label)}</text>'
        at += 24 + 6.4 * len(label)
        yield from _line(points, colour, x, y)
    yield "</g>"


def _line(points: Iterable[Sequence[float]], colour: str, x: Scale, y: Scale) -> Iterator[str]:
    placed = [(f"{x(position):.1f}", f"{y(value):.1f}") for position, value in points]
    path = " ".join(f"{across},{down}" for across, down in placed)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{across}" cy="{down}" r="3" fill="{colour}"/>' for across, down in placed)


def _decades(values: Sequence[float]) -> list[float]:
    """Return the powers of ten around values, two at least."""
    lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(lowest, max(highest, lowest + 1) + 1)]


def _scale(values: Sequence[float], begin: float, end: float) -> Scale:
    """Return a logarithmic scale from the least value to the most."""
    lowest, highest = math.log10(min(values)), math.log10(max(values))
    return lambda value: begin + (math.log10(value) - lowest) / (highest - lowest) * (end - begin)
