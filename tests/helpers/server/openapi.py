"""The OpenAPI document, explored."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.server.support import Site


@pytest.fixture
async def document(shared: Site) -> dict[str, Any]:
    async with shared.client() as client:
        return (await client.get("/openapi.json")).json()


async def known(server: Site, key: str) -> dict[str, Any]:
    """Return the document as schemathesis needs it: with the capabilities that there are, and an event's schema."""
    async with server.client(key) as client:
        document = (await client.get("/openapi.json")).json()
    available = [
        capability for capability in server.registry.capabilities.values() if capability.status != "coming_soon"
    ]
    ids = {"enum": sorted(name for capability in available for name in (capability.name, *capability.aliases))}
    schemas = document["components"]["schemas"]
    schemas["CapabilityEntry"]["properties"]["id"] |= ids
    patched = schemas["AgentPatch"]["properties"]["capabilities"]["anyOf"][0]
    for schema in (schemas["AgentInput"]["properties"]["capabilities"], patched):
        schema["items"]["oneOf"][0] |= ids
    event = {"type": "object", "properties": {name: {"type": "string"} for name in ("id", "event", "data")}}
    for name, method in (("messages", "post"), ("events", "get")):
        operation = document["paths"][f"/v1/sessions/{{id}}/{name}"][method]
        # In a stream, it holds each event to the schema of all.
        operation["responses"]["200"]["content"]["text/event-stream"]["schema"] = event
    return document


async def explore(server: Site, folder: Path, config: str, *more: str, key: str = "stranger") -> str:
    """Let schemathesis loose by a key, fail with what it finds, and return what it says."""
    (folder / "schemathesis.toml").write_text(config)
    (folder / "openapi.json").write_text(json.dumps(await known(server, key)))
    command = Path(sys.executable).with_name("schemathesis")
    process = await asyncio.create_subprocess_exec(
        *(str(command), "--config-file", "schemathesis.toml", "run", "openapi.json", "--url", server.url),
        *("--checks", "all", "--no-color", "--continue-on-failure", "--warnings", "off", "--request-timeout", "60"),
        *("--header", f"Authorization: Bearer {server.keys[key]}", *more),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-10_000:]
    return output.decode()
