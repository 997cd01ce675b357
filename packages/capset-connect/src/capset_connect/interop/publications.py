"""Agents as registries and other agents find them: MCP's ``server.json``, and A2A's agent card (spec 8, W25, W26)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from capset.definitions.names import checked_text
from capset.errors import DefinitionError, ToolError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.net.urls import read_url
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
"""A version by Semantic Versioning: registries refuse ranges."""


def export_server_json(
    snapshot: Snapshot, *, name: str, version: str, url: str, description: str | None = None, has_keys: bool = True
) -> Export:
    """Return a ``server.json`` for MCP registries, of an agent that capset serves at a URL.

    Args:
        snapshot: the agent, as ``evaluate`` sees it.
        name: the server's name in the registry, whose namespace is yours: ``io.github.you/weather``.
        version: the server's version, such as ``1.0.0``.
        url: where the agent is served: ``https://tools.example.com/mcp``.
        description: 1 to 100 characters; the agent's own, if left out.
        has_keys: whether clients send an API key. A server with OAuth tells them itself how to get a token.

    Raises ``DefinitionError``.
    """
    if not _SERVER.fullmatch(name) or len(name) > _MAX_NAME:
        raise DefinitionError(
            f"a server's name is a namespace of yours and a name, at most {_MAX_NAME} characters; got {name!r:.80}",
            hint="such as io.github.you/weather, or com.example/weather",
        )
    summary = description_of(snapshot, description)
    if len(summary) > _MAX_DESCRIPTION:
        raise DefinitionError(
            f"a registry takes a description of at most {_MAX_DESCRIPTION} characters; it has {len(summary)}",
            hint="give a shorter one beside the agent's own",
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
    """Return an agent card of A2A 1.0, with a skill for each tool in play.

    Args:
        snapshot: the agent, as ``evaluate`` sees it.
        version: the agent's version, such as ``1.0.0``.
        url: the endpoint of A2A over JSON-RPC at which a host of yours runs the agent; capset serves none.
        description: what the agent is for; its own, if left out.

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
    """Return a description, or that of the agent. Raises ``DefinitionError`` if neither says anything."""
    block = snapshot.composition.block
    text = checked_text("the description", block.description if description is None else description).strip()
    if not text:
        raise DefinitionError(f"the agent {block.name!r} has no description, which is needed: give one")
    return text


def checked_version(version: str) -> str:
    """Return a version by Semantic Versioning. Raises ``DefinitionError`` for anything else."""
    if not VERSION.fullmatch(checked_text("a version", version)):
        raise DefinitionError(
            f"a version of three numbers was expected, by Semantic Versioning; got {version!r:.80}",
            hint="such as 1.0.0, or 1.0.0-rc.1",
        )
    return version


def checked_url(url: str) -> str:
    """Return a URL as it was given. Raises ``DefinitionError`` for one that cannot be requested."""
    try:
        read_url(url)
    except ToolError as error:
        raise DefinitionError(error.message) from None
    return url


def _unpublished(snapshot: Snapshot, why: str) -> Iterator[str]:
    names = ", ".join(entry.name for entry in in_order(snapshot))
    if names:
        yield f"the tools, {why}: {names}"
