"""Every operation of the REST API and of MCP, with what belongs to somebody put in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import httpx2

MCP_HEADERS: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
_LIST: Final = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


@dataclass(frozen=True)
class Belongings:
    """What somebody has: an agent, a session of it with ``/secret.txt``, and a record of a call."""

    agent: str
    session: str
    record: str


@dataclass(frozen=True)
class Step:
    """One request. ``of`` says whose it is about: nobody's, an ``agent`` or a ``session``."""

    name: str
    method: str
    path: str
    of: str
    options: dict[str, Any]

    async def take(self, client: httpx2.AsyncClient) -> httpx2.Response:
        """Send it."""
        return await client.request(self.method, self.path, **self.options)


def steps(document: dict[str, Any], whose: Belongings) -> list[Step]:
    """Return a request for every operation of the document, as its owner could make it; and for MCP.

    An operation that this does not know fails: whoever adds one says here whose it is.
    """
    bodies: dict[str, dict[str, Any]] = {
        "create_agent": {"json": {"name": "mine", "capabilities": ["kit"]}},
        "change_agent": {"json": {"description": "changed"}},
        "create_session": {"json": {"agent_id": whose.agent}},
        "call_tool": {"json": {"tool": "echo", "arguments": {"text": "hi"}}},
        "write_file": {"content": b"overwritten"},
    }
    known = {
        "create_agent": "",
        "list_agents": "",
        "get_agent": "agent",
        "change_agent": "agent",
        "archive_agent": "agent",
        "create_session": "agent",
        "list_sessions": "",
        "get_session": "session",
        "delete_session": "session",
        "get_snapshot": "session",
        "call_tool": "session",
        "read_file": "session",
        "write_file": "session",
        "delete_file": "session",
        "list_records": "",
        "list_capabilities": "",
        "get_capability": "",
        "healthz": "",
        "readyz": "",
    }
    found: list[Step] = []
    for template, operations in document["paths"].items():
        for method, operation in operations.items():
            name = operation["operationId"]
            of = known[name]
            target = {"agent": whose.agent, "session": whose.session, "": "kit"}[of]
            path = template.replace("{id}", target).replace("{path}", "secret.txt")
            found.append(Step(name, method.upper(), path, of, bodies.get(name, {})))
    assert len(found) == len(known), "an operation has gone, or two share a name"
    last = ("delete_file", "delete_session", "archive_agent")  # what ends what the others are about
    found.sort(key=lambda step: last.index(step.name) if step.name in last else -1)
    return [*_mcp(whose), *found]


def _mcp(whose: Belongings) -> list[Step]:
    found: list[Step] = []
    for of, path in (("agent", f"/mcp/agents/{whose.agent}"), ("session", f"/mcp/sessions/{whose.session}")):
        found.extend(
            Step(f"mcp {message['method']}", "POST", path, of, {"json": message, "headers": MCP_HEADERS})
            for message in (_INITIALIZE, _LIST)
        )
        found.append(Step("mcp GET", "GET", path, of, {"headers": MCP_HEADERS}))
        found.append(Step("mcp DELETE", "DELETE", path, of, {"headers": MCP_HEADERS}))
    return found
