"""Descriptions of agents for registries and other agents: MCP ``server.json`` and A2A agent card (spec 8, W25, W26)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from capset.definitions.names import checked_text
from capset.errors import DefinitionError, ToolError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.net.urls import parse_url
from capset_connect.interop.exports import Export, absent, in_order

SERVER_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
A2A_VERSION: Final = "1.0"
_SERVER: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_MAX_NAME: Final = 200
_MAX_DESCRIPTION: Final = 100
_NUMBER: Final = "(?:0|[1-9][0-9]*)"
_LABEL: Final = f"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_LABEL}(?:\.{_LABEL})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""A semantic version. Registries refuse version ranges."""


def export_server_json(
    snapshot: Snapshot, *, name: str, version: str, url: str, description: str | None = None, has_keys: bool = True
) -> Export:
    """Return a ``server.json`` for MCP registries that describes an agent served by capset.

    Args:
        snapshot: the agent, as returned by ``evaluate``.
        name: the server's name in the registry, in a namespace that you own: ``io.github.you/weather``.
        version: the server's version, such as ``1.0.0``.
        url: the URL at which the agent is served: ``https://tools.example.com/mcp``.
        description: 1 to 100 characters; the agent's description, if left out.
        has_keys: whether clients send an API key. Servers with OAuth tell clients themselves how to get a token.

    Raises ``DefinitionError``.
    """
    if not _SERVER.fullmatch(name) or len(name) > _MAX_NAME:
        raise DefinitionError(
            f"a server's name must be NAMESPACE/NAME, with at most {_MAX_NAME} characters; got {name!r:.80}",
            hint="use a namespace that you own: io.github.you/weather, or com.example/weather",
        )
    summary = description_of(snapshot, description)
    if len(summary) > _MAX_DESCRIPTION:
        raise DefinitionError(
            f"a registry accepts a description of at most {_MAX_DESCRIPTION} characters; this one has {len(summary)}",
            hint="give a shorter description instead of the agent's",
        )
    remote: dict[str, Any] = {"type": "streamable-http", "url": checked_url(url)}
    if has_keys:
        key = {"description": "An API key of this server.", "isRequired": True, "isSecret": True}
        header = {"name": "Authorization", "description": "The API key, as a bearer token.", "isRequired": True}
        remote["headers"] = [{**header, "isSecret": True, "value": "Bearer {key}", "variables": {"key": key}}]
    content = {
        "$schema": SERVER_SCHEMA,
        "name": name,
        "title": snapshot.composition.block.name,
        "description": summary,
        "version": checked_version(version),
        "remotes": [remote],
    }
    return Export(content, tuple(_unpublished(snapshot, "which clients ask the server for")))


def export_agent_card(snapshot: Snapshot, *, version: str, url: str, description: str | None = None) -> Export:
    """Return an A2A 1.0 agent card with a skill for each tool in play.

    Args:
        snapshot: the agent, as returned by ``evaluate``.
        version: the agent's version, such as ``1.0.0``.
        url: the A2A JSON-RPC endpoint where you run the agent. capset itself serves no such endpoint.
        description: the agent's purpose; its own description, if left out.

    Raises ``DefinitionError``.
    """
    skills = [
        {
            "id": entry.name,
            "name": entry.tool.title or entry.name,
            "description": entry.tool.description,
            "tags": [entry.owner, entry.tool.effect],
        }
        for entry in in_order(snapshot)
    ]
    content: dict[str, Any] = {
        "name": snapshot.composition.block.name,
        "description": description_of(snapshot, description),
        "supportedInterfaces": [
            {"url": checked_url(url), "protocolBinding": "JSONRPC", "protocolVersion": A2A_VERSION}
        ],
        "version": checked_version(version),
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": skills,
    }
    schemas = ("schemas of arguments and results, for which a skill has no place",) if skills else ()
    return Export(content, (*schemas, "how clients authenticate: add securitySchemes", *absent(snapshot)))


def description_of(snapshot: Snapshot, description: str | None) -> str:
    """Return the description, or by default the agent's. Raises ``DefinitionError`` if it is blank."""
    block = snapshot.composition.block
    text = checked_text("the description", block.description if description is None else description).strip()
    if not text:
        raise DefinitionError(f"the agent {block.name!r} has no description, but one is required")
    return text


def checked_version(version: str) -> str:
    """Return the version. Raises ``DefinitionError`` if it is not a semantic version."""
    if not VERSION.fullmatch(checked_text("a version", version)):
        raise DefinitionError(
            f"a version of three numbers was expected, by Semantic Versioning; got {version!r:.80}",
            hint="such as 1.0.0, or 1.0.0-rc.1",
        )
    return version


def checked_url(url: str) -> str:
    """Return the URL unchanged. Raises ``DefinitionError`` if it cannot be requested."""
    try:
        parse_url(url)
    except ToolError as error:
        raise DefinitionError(error.message) from None
    return url


def _unpublished(snapshot: Snapshot, why: str) -> Iterator[str]:
    names = ", ".join(entry.name for entry in in_order(snapshot))
    if names:
        yield f"the tools, {why}: {names}"
