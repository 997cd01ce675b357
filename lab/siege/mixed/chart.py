"""The chart of a soak: times of calls, memory, and descriptors and threads, over the minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, Final

Points = Sequence[tuple[float, float]]

_INK: Final = "#767676"
_COLOURS: Final = ("#4f7cff", "#c07f2c", "#2f9e6e", "#b5527d")
"""Colours that are readable on white and on black."""
_LEFT, _WIDTH, _PANEL, _GAP, _TOP = 64, 820, 150, 46, 26
"""Pixels: before the axis, the whole, the height of a panel, between two, and above the first."""
_BUCKETS: Final = 120
"""So many points a line at most: each is the largest value of its part of the time."""


def chart(report: dict[str, Any]) -> str:
    """Return the chart of a report as SVG."""
    samples = report["samples"]
    panels: tuple[tuple[str, dict[str, Points]], ...] = (
        ("milliseconds, 99th percentile of each sample", _times(samples)),
        ("memory, MB", {"RSS": [(sample["at"], sample["rss"] / 1e6) for sample in samples]}),
        (
            "descriptors and threads",
            {name: [(sample["at"], sample[name]) for sample in samples] for name in ("descriptors", "threads")},
        ),
    )
    height = _TOP + len(panels) * (_PANEL + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="{_INK}">',
        f"<title>A soak of {report['seconds'] / 60:.0f} minutes: times, memory, descriptors and threads</title>",
    ]
    for place, (title, series) in enumerate(panels):
        lines += _panel(_TOP + place * (_PANEL + _GAP), title, series, report["seconds"])
    return "\n".join([*lines, "</svg>", ""])


def _times(samples: Sequence[dict[str, Any]]) -> dict[str, Points]:
    kinds = ("read call", "call with an effect", "agent's turn", "console page")
    return {
        kind: [(sample["at"], sample["p99"][kind]) for sample in samples if kind in sample["p99"]] for kind in kinds
    }


def _panel(top: int, title: str, series: dict[str, Points], seconds: float) -> Iterator[str]:
    maximum = max((value for points in series.values() for _, value in points), default=1) * 1.05 or 1
    end = max(seconds, *(at for points in series.values() for at, _ in points), 1)

    def x(at: float) -> float:
        return _LEFT + at / end * (_WIDTH - _LEFT - 16)

    def y(value: float) -> float:
        return top + _PANEL - value / maximum * (_PANEL - 12)

    yield f'<text x="{_LEFT}" y="{top - 6}" font-weight="bold">{escape(title)}</text>'
    yield from _axes(top, maximum, end, x, y)
    for place, (name, points) in enumerate(series.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        drawn = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in _thinned(points, end))
        yield f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        at = _WIDTH - 16 - 130 * (len(series) - place) + 130
        yield f'<text x="{at}" y="{top - 6}" text-anchor="end" fill="{colour}">{escape(name)}</text>'


def _axes(
    top: int, maximum: float, end: float, x: Callable[[float], float], y: Callable[[float], float]
) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        value = share * maximum / 1.05
        at = f"{y(value):.1f}"
        yield f'<line x1="{_LEFT}" y1="{at}" x2="{_WIDTH - 16}" y2="{at}" stroke="{_INK}" stroke-opacity="0.3"/>'
        yield f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>'
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at, anchor = f"{x(share * end):.1f}", "end" if share == 1 else "middle"
        label = f"{share * end / 60:.3g} min"
        yield f'<text x="{at}" y="{top + _PANEL + 16}" text-anchor="{anchor}">{label}</text>'


def _thinned(points: Points, end: float) -> Points:
    """Return at most one point for each part of the time, the highest."""
    highest: dict[int, tuple[float, float]] = {}
    for at, value in points:
        part = int(at / end * _BUCKETS)
        if part not in highest or value > highest[part][1]:
            highest[part] = at, value
    return [*highest.values()]
