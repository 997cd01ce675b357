"""Prompts and resources that are in play for a caller: those whose tools are in play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from capset.composition.installation import InstalledTool
from capset.definitions.tools.mcp_offers import McpPrompt, McpResource
from capset.evaluation.snapshot.snapshot import Snapshot

TTL_MS: Final = 10_000
"""How long a client may cache a list. Whether a call is allowed is decided when it is made, not by the list."""


def prompts_of(snapshot: Snapshot) -> Iterator[tuple[McpPrompt, InstalledTool]]:
    """Yield the prompts in play, each with its tool, in the order of the capabilities."""
    for offer, installed in _in_play(snapshot):
        if isinstance(offer, McpPrompt):
            yield offer, installed


def resources_of(snapshot: Snapshot) -> Iterator[tuple[McpResource, InstalledTool]]:
    """Yield the resources in play, each with its tool, in the order of the capabilities."""
    for offer, installed in _in_play(snapshot):
        if isinstance(offer, McpResource):
            yield offer, installed


def freshness(snapshot: Snapshot) -> dict[str, Any]:
    """Return how long a list may be cached, for its caller only; not at all if ``uses`` are dynamic."""
    return {"ttl_ms": 0 if snapshot.composition.dynamic else TTL_MS, "cache_scope": "private"}


def parameters_of(installed: InstalledTool) -> Mapping[str, Any]:
    """Return the JSON Schema of each parameter of a tool."""
    return installed.tool.arguments.json_schema.get("properties", {})


def _in_play(snapshot: Snapshot) -> Iterator[tuple[McpPrompt | McpResource, InstalledTool]]:
    by_tool = {play_tool.tool: play_tool for play_tool in snapshot.tools.values()}
    for capability in snapshot.composition.capabilities:
        for offer in capability.mcp:
            if (installed := by_tool.get(offer.tool)) is not None:
                yield offer, installed
