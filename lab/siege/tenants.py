"""Tenants of a server under load: principals of several organisations, each with a key and an agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.siege.connection import Answer, request
from lab.siege.host import FILES, SCOPES
from lab.siege.pace import Connections

CAPABILITIES = ("siege_tools", "session_file_system")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A principal's key, and the id of its agent."""

    key: str
    agent: str


class UnexpectedAnswer(Exception):
    """An answer that should not have come: its status, and the beginning of its body."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status or 'closed'} {answer.body[:300].decode(errors='replace')}")


def expect(answer: Answer, *statuses: int) -> Any:  # any JSON
    """Return the JSON of an answer with one of these statuses. Raises ``UnexpectedAnswer``."""
    if answer.status not in statuses:
        raise UnexpectedAnswer(answer)
    return answer.json if answer.body[:1] in (b"{", b"[") else None


def post(path: str, key: str, body: object, **headers: str) -> bytes:
    """Return a POST of JSON; headers have their names in Python's spelling."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return request("POST", path, key, json.dumps(body).encode(), named)


def call(session: str, key: str, tool: str, **arguments: Any) -> bytes:  # any JSON
    """Return a call of a tool."""
    return post(f"/v1/sessions/{session}/calls", key, {"tool": tool, "arguments": arguments})


async def make_tenants(connections: Connections, admin: str, count: int, *, orgs: int) -> list[Tenant]:
    """Create keys and agents over REST by the key of an administrator of all organisations."""
    return [await _make_tenant(connections, admin, number, f"org{number % orgs}") for number in range(count)]


async def _make_tenant(connections: Connections, admin: str, number: int, org: str) -> Tenant:
    async def create(path: str, key: str, body: object) -> Any:  # any JSON
        return expect(await connections.ask(post(path, key, body)), 201)

    about = {"org": org, "permissions": FILES, "scopes": SCOPES}
    key = (await create("/v1/keys", admin, {"name": "load", "principal": f"caller{number}", **about}))["key"]
    agent = await create("/v1/agents", key, {"name": f"worker {number}", "capabilities": CAPABILITIES})
    return Tenant(key, agent["id"])


async def make_sessions(
    connections: Connections, tenants: Sequence[Tenant], count: int, *, concurrency: int = 16
) -> list[tuple[Tenant, str]]:
    """Create sessions over REST, each tenant's in turn; return them with their owners."""
    owners = iter([tenants[number % len(tenants)] for number in range(count)])
    owned_sessions: list[tuple[Tenant, str]] = []

    async def work() -> None:
        for owner in owners:
            answer = await connections.ask(post("/v1/sessions", owner.key, {"agent_id": owner.agent}))
            owned_sessions.append((owner, expect(answer, 201)["id"]))

    await asyncio.gather(*(work() for _ in range(concurrency)))
    return owned_sessions
