"""The JSON Schema of configuration files: what it takes is what is taken (spec 5, P4)."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, create_model

from capset import Capability, Preset, Registry, tool
from capset.definitions.capabilities import AnyCapability
from capset.errors import DefinitionError
from capset_connect.agents.definitions import build_agent
from capset_connect.config_file import configuration_schema


class Node(BaseModel):
    name: str
    next: Node | None = None


class Tree(BaseModel):
    root: Node | None = None
    depth: int = 3


Leaf = create_model("Leaf", node=(create_model("Node", colour=(str, "green")), ...))
"""Refers to another model of a name that there is already."""


@tool(effect="read")
async def climb() -> int:
    """Climb."""
    return 3


KNOWN: list[AnyCapability] = [
    Capability("tree", aliases=["oak"], tools=[climb], presets={"tall": Preset()}, config=Tree),
    Capability("leaf", config=Leaf),
    Capability("stone"),
]
FITS: list[Any] = [
    "stone",
    "oak",
    {"id": "tree", "presets": {"tall": False}, "prefix": "t_", "rename": {"climb": "go_up"}},
    {"id": "tree", "config": {"root": {"name": "a", "next": {"name": "b"}}}},
    {"id": "leaf", "config": {"node": {"colour": "red"}}},
]
FITS_NOT: list[Any] = [
    "ston",
    5,
    {},
    {"id": "stone", "config": {}},
    {"id": "stone", "presets": {"tall": True}},
    {"id": "tree", "presets": {"tal": True}},
    {"id": "tree", "presets": {"tall": "yes"}},
    {"id": "tree", "rename": {"clim": "x"}},
    {"id": "tree", "rename": {"climb": "a b"}},
    {"id": "tree", "config": {"root": {"name": "a", "nxt": None}}},
    {"id": "leaf", "config": {"node": {"name": "a"}}},
    {"id": "tree", "more": 1},
]


def takes(entry: Any, capabilities: list[AnyCapability] | None) -> bool:
    schema = configuration_schema(capabilities)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema).is_valid({"name": "a", "capabilities": [entry]})


@pytest.mark.parametrize("entry", FITS)
def test_what_fits_is_taken_by_both(entry: Any) -> None:
    assert takes(entry, KNOWN)
    assert takes(entry, None), "the schema of all files takes whatever might be installed"
    build_agent({"name": "a", "capabilities": [entry]}, Registry.of(KNOWN), "here")


@pytest.mark.parametrize("entry", FITS_NOT)
def test_what_does_not_is_refused_by_both(entry: Any) -> None:
    assert not takes(entry, KNOWN)
    with pytest.raises(DefinitionError):
        build_agent({"name": "a", "capabilities": [entry]}, Registry.of(KNOWN), "here")


@pytest.mark.parametrize(
    "file", [{"name": "a/b"}, {"name": "a", "nme": 1}, {"name": "a", "instructions": "x"}, {"name": 5}, []]
)
def test_what_defines_no_agent_fits_neither_schema(file: Any) -> None:
    for capabilities in (None, KNOWN):
        assert not Draft202012Validator(configuration_schema(capabilities)).is_valid(file)
    with pytest.raises(DefinitionError):
        build_agent(file, Registry.of(KNOWN), "here")


def test_where_nothing_is_installed_there_is_nothing_to_use() -> None:
    assert not takes("stone", [])
    assert Draft202012Validator(configuration_schema([])).is_valid({"name": "a", "capabilities": []})
