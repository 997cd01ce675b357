"""The dependency graph of a capability, laid out in layers for an SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 190
HEIGHT: Final = 34
_BESIDE: Final = 60
_BELOW: Final = 14
_MARGIN: Final = 8
_LETTERS: Final = 24
"""Maximum characters of a name that fit into its box."""


@dataclass(frozen=True, slots=True)
class Box:
    """A capability in the graph: ``label`` is its id, cut to fit; ``x`` and ``y`` are its upper left corner."""

    id: str
    label: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line from a capability to one that it needs."""

    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, slots=True)
class DependencyGraph:
    """The boxes and arrows of a drawing, and its size; ``needs`` has the dependencies of each id."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int
    needs: Mapping[str, Sequence[str]]


def draw_graph(root: str, needs: Mapping[str, Sequence[str]]) -> DependencyGraph:
    """Return the dependency graph of a capability. Each capability is in a layer after all that need it.

    ``needs`` has the ids that each capability needs. One that is not among its keys has no known dependencies.
    """
    layers = _layers(root, needs)
    columns: dict[int, list[str]] = {}
    for name, layer in layers.items():
        columns.setdefault(layer, []).append(name)
    rows = max(map(len, columns.values()))
    height = rows * (HEIGHT + _BELOW) - _BELOW + 2 * _MARGIN
    boxes: dict[str, Box] = {}
    for layer, ids in columns.items():
        first = (height - (len(ids) * (HEIGHT + _BELOW) - _BELOW)) // 2
        for row, name in enumerate(ids):
            label = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
            boxes[name] = Box(name, label, _MARGIN + layer * (WIDTH + _BESIDE), first + row * (HEIGHT + _BELOW))
    arrows = tuple(
        Arrow(boxes[name].x + WIDTH, boxes[name].y + HEIGHT // 2, boxes[needed].x, boxes[needed].y + HEIGHT // 2)
        for name in layers
        for needed in needs.get(name, ())
        if layers[needed] > layers[name]
    )
    width = (max(columns) + 1) * (WIDTH + _BESIDE) - _BESIDE + 2 * _MARGIN
    return DependencyGraph(tuple(boxes.values()), arrows, width, height, needs)


def _layers(root: str, needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the layer of each capability: the length of the longest path to it without a cycle."""
    layers = {root: 0}

    def visit(id: str, way: tuple[str, ...]) -> None:
        for needed in needs.get(id, ()):
            if needed not in way and layers.get(needed, 0) <= layers[id]:
                layers[needed] = layers[id] + 1
                visit(needed, (*way, needed))

    visit(root, (root,))
    return layers
