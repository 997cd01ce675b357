"""Capability graphs to be composed: who uses whom and how, what each contributes, and an oracle of choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from capset import Agent, Capability, CapabilityRef, Policy, Preset, Request, Resource, Tool, tool
from capset.definitions.model_context import ContextValue


class Counters(BaseModel):
    count: int = 0


class Names(BaseModel):
    names: list[str] = []


class CountersAgain(BaseModel):
    count: int = 5
    other: str = ""


def _gate(request: Request) -> bool:
    return True


def _tool(name: str, *policies: Policy) -> Tool[..., Any]:
    @tool(name=name, policies=policies)
    def handler(a: int) -> int:
        """Do."""
        return a

    return handler


POLICIES = tuple(Policy(f"gate-{number}", _gate) for number in range(3))
TOOLS = tuple(_tool(f"shared_{number}", *POLICIES[:number]) for number in range(3))
RESOURCES = (
    Resource("notes", list[str], scope="session", default=list),
    Resource("notes", list[str], scope="user", default=list),
    Resource("total", int, scope="session", default=0),
)
STATES: tuple[type[BaseModel], ...] = (Counters, Names, CountersAgain)
CONTEXTS: tuple[ContextValue, ...] = (
    "A plain < text & more",
    {"user_preferences": "likes <tea> & cake"},
    {"userPreferences": ["likes\nmilk", None]},
    {"places": {"home": "A > B", "work": None}},
    {"places": {"work": "C"}},
    {"empty": None, "later": "x"},
)
PRESETS = ("p0", "p1")


@dataclass(frozen=True)
class Surfaces:
    """What one capability or one preset contributes, by index, so that several can share."""

    tools: tuple[int, ...] = ()
    resources: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()
    file: int | None = None
    says: str = ""
    is_gated: bool = False

    def given(self) -> dict[str, Any]:
        """Return the arguments of ``Capability``, ``Preset`` or ``Agent``."""
        arguments: dict[str, Any] = {
            "tools": [TOOLS[index] for index in self.tools],
            "resources": [RESOURCES[index] for index in self.resources],
            "context": [CONTEXTS[index] for index in self.contexts],
            "files": {} if self.file is None else {f"/shared/{self.file}": f"file {self.file}"},
            "instructions": self.says,
            "policies": POLICIES[:1] if self.is_gated and self.tools else (),
        }
        if self.states:
            arguments["state"] = dict(
                zip(("session", "user", "org"), (STATES[index] for index in self.states), strict=False)
            )
        return arguments


@dataclass(frozen=True)
class Edge:
    """One entry of ``uses``: the number of a capability, and what is said of its presets."""

    to: int
    choices: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class Node:
    """One capability: it uses only those with a lower number, so there is no cycle."""

    own: Surfaces
    presets: tuple[Surfaces, ...]
    default: tuple[int, ...] | None
    uses: tuple[Edge, ...]


@dataclass(frozen=True)
class Graph:
    """Some capabilities, and what an agent uses of them."""

    nodes: tuple[Node, ...]
    roots: tuple[Edge, ...]
    own: Surfaces

    def capabilities(self) -> list[Capability[Any, Any]]:
        """Build every capability, lowest number first."""
        built: list[Capability[Any, Any]] = []
        for number, node in enumerate(self.nodes):
            presets = {PRESETS[at]: Preset(**preset.given()) for at, preset in enumerate(node.presets)}
            default = (
                None if node.default is None else [PRESETS[index] for index in node.default if index < len(presets)]
            )
            built.append(
                Capability(
                    f"c{number}",
                    uses=[referred(built, edge) for edge in node.uses],
                    presets=presets,
                    default=default,
                    **node.own.given(),
                )
            )
        return built

    def agent(
        self, capabilities: Sequence[Capability[Any, Any]] | None = None, roots: Sequence[Edge] | None = None
    ) -> Agent:
        """Build the agent, of capabilities that are there already or of new ones."""
        available = self.capabilities() if capabilities is None else capabilities
        edges = self.roots if roots is None else roots
        return Agent("agent", uses=[referred(available, edge) for edge in edges], **self.own.given())

    def paths(self) -> Iterator[tuple[tuple[int, ...], Edge]]:
        """Yield every way from the agent to every reference: the numbers on it, and the reference at its end."""

        def walk(edges: Sequence[Edge], way: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Edge]]:
            for edge in edges:
                yield (*way, edge.to), edge
                yield from walk(self.nodes[edge.to].uses, (*way, edge.to))

        return walk(self.roots, ())

    def reached(self) -> set[int]:
        """Return the numbers of the capabilities that the agent has by any way."""
        return {edge.to for _, edge in self.paths()}

    def oracle(self) -> Mapping[int, tuple[str, ...]] | None:
        """Return the presets that are on, by capability; ``None`` where two choices at one depth disagree (C6)."""
        switches: dict[tuple[int, str], dict[int, set[bool]]] = {}
        for way, edge in self.paths():
            for name, is_on in edge.choices:
                switches.setdefault((edge.to, name), {}).setdefault(len(way), set()).add(is_on)
        nearest = {key: by_depth[min(by_depth)] for key, by_depth in switches.items()}
        if any(len(values) > 1 for values in nearest.values()):
            return None
        on: dict[int, tuple[str, ...]] = {}
        for number in self.reached():
            node = self.nodes[number]
            names = PRESETS[: len(node.presets)]
            default = names if node.default is None else [PRESETS[index] for index in node.default]
            on[number] = tuple(
                name
                for name in names
                if (next(iter(nearest[number, name])) if (number, name) in nearest else name in default)
            )
        return on


def referred(
    capabilities: Sequence[Capability[Any, Any]], edge: Edge
) -> Capability[Any, Any] | CapabilityRef[Any, Any]:
    """Return the entry of ``uses`` that an edge stands for."""
    base = capabilities[edge.to]
    choices = {name: is_on for name, is_on in edge.choices if name in base.presets}
    return base.with_presets(**choices) if choices else base


def _some(count: int, at_most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, count - 1), max_size=at_most, unique=True).map(tuple)


def surfaces() -> st.SearchStrategy[Surfaces]:
    """Anything that may be contributed without a conflict, wherever it is."""
    return st.builds(
        Surfaces,
        tools=_some(len(TOOLS), 2),
        resources=_some(len(RESOURCES), 2),
        states=_some(len(STATES), 2),
        contexts=_some(len(CONTEXTS), 2),
        file=st.none() | st.integers(0, 2),
        says=st.sampled_from(["", "Do this.", "Do that.\nAnd <more>."]),
        is_gated=st.booleans(),
    )


@st.composite
def graphs(draw: st.DrawFn, *, nodes: int = 6, chooses: bool = True) -> Graph:
    """Return an acyclic graph with shared capabilities; ``chooses`` where references may switch presets."""
    count = draw(st.integers(1, nodes))
    built_nodes: list[Node] = []
    for number in range(count):
        presets = tuple(draw(st.lists(surfaces(), max_size=len(PRESETS))))
        default = draw(st.none() | _some(len(presets), 2)) if presets else None
        built_nodes.append(Node(draw(surfaces()), presets, default, draw(_edges(built_nodes, min(number, 3), chooses))))
    roots = draw(_edges(built_nodes, 3, chooses, at_least=1))
    return Graph(tuple(built_nodes), roots, draw(surfaces()))


def _edges(
    nodes: Sequence[Node], at_most: int, chooses: bool, *, at_least: int = 0
) -> st.SearchStrategy[tuple[Edge, ...]]:
    if not nodes:
        return st.just(())

    def edge(to: int) -> st.SearchStrategy[Edge]:
        names = PRESETS[: len(nodes[to].presets)] if chooses else ()
        choices = st.dictionaries(st.sampled_from(names), st.booleans()) if names else st.just(dict[str, bool]())
        return choices.map(lambda chosen: Edge(to, tuple(sorted(chosen.items()))))

    numbers = st.lists(st.integers(0, len(nodes) - 1), min_size=at_least, max_size=at_most, unique=True)
    return numbers.flatmap(lambda chosen: st.tuples(*map(edge, chosen)))
