"""A real server in the test's own event loop, tools of every kind behind it, and ways to speak with it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, BinaryIO

import httpx2
import structlog
import uvicorn
from starlette.types import ASGIApp

from capset import Agent, Capability, Context, Kernel, Principal, Progress, Record, Reply, ToolError, tool
from capset.definitions.capabilities import AnyCapability
from capset.definitions.tools.definition import AnyTool
from capset.kernel.registry import Registry
from capset_connect.agents.server_allowances import ServerAllowances
from capset_connect.declared_sources import DeclaredSources
from capset_connect.vault.user_vault import UserVault
from capset_server.app import open_app
from capset_server.auth.callers import Caller, Identifies
from capset_server.auth.keys import create_key
from capset_server.auth.open_id import OpenIdSignIn
from capset_server.http.request_rules import AllowedHosts, RequestLimits
from capset_server.http.uvicorn_server import bind, make_server
from capset_server.service import Service
from tests.helpers.kernel.support import records_of
from tests.helpers.server.declared import Declared

ALL_SCOPES = ("capset:read", "capset:call", "capset:write", "capset:audit", "capset:approve", "capset:metrics")
FILES = ("session_files:read", "session_files:write")


@tool(effect="read")
async def echo(text: str = "hello") -> str:
    """Give back what was given."""
    return text


@tool(effect="write")
async def note(ctx: Context, text: str) -> dict[str, str]:
    """Keep a note as a file."""
    await ctx.files.write("/note.txt", text.encode())
    return {"kept": text}


@tool(effect="write", permissions={"vault:open"})
async def unlock() -> str:
    """Open the vault."""
    return "open"


@tool(effect="read")
async def refuse(text: str) -> str:
    """Fail on purpose."""
    raise ToolError(text, code="refused_politely", status=409)


@tool(effect="read")
async def crash() -> str:
    """Fail by mistake."""
    raise RuntimeError("the password is hunter2")


@tool(effect="read")
async def nothing() -> None:
    """Give nothing."""


@tool(effect="read")
async def steps(count: int) -> AsyncIterator[Progress | Reply[int]]:
    """Go step by step."""
    for number in range(count):
        yield Progress(number / count, f"step {number}")
    yield Reply(count)


kit = Capability(
    "kit",
    title="The kit",
    description="Tools to try.",
    category="tests",
    tools=[echo, note, unlock, refuse, crash, nothing, steps],
)
soon = Capability("soon", description="Not here yet.", status="coming_soon")
old = Capability("old", description="On its way out.", status="deprecated", instructions="Old.")
foreman = Agent("foreman", system_prompt="You run the workshop.", uses=[kit])


@dataclass
class Sleeper:
    """A capability ``bed`` whose tool ``sleep`` waits until it is woken, and what became of it."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    cleaned: asyncio.Event = field(default_factory=asyncio.Event)

    def capability(self) -> Capability:
        """Return the capability."""

        @tool(effect="write")
        async def sleep() -> str:
            """Sleep."""
            self.started.set()
            try:
                await self.woken.wait()
            finally:
                self.cleaned.set()
            return "awake"

        return Capability("bed", tools=[sleep])


@dataclass
class Fountain:
    """A capability ``fountain`` whose tool ``flow`` reports for ever, and how often it has."""

    flowed: int = 0
    cleaned: asyncio.Event = field(default_factory=asyncio.Event)

    def capability(self) -> Capability:
        """Return the capability."""

        @tool(effect="read")
        async def flow() -> AsyncIterator[Progress | Reply[int]]:
            """Flow."""
            try:
                while True:
                    self.flowed += 1
                    yield Progress(0.5, "water " * 1000)
                    await asyncio.sleep(0)
            finally:
                self.cleaned.set()

        return Capability("fountain", tools=[flow])


@dataclass
class Site:
    """A server that runs, and the keys to it by name."""

    kernel: Kernel
    service: Service
    registry: Registry
    port: int
    server: uvicorn.Server
    keys: dict[str, str] = field(default_factory=dict[str, str])

    def connections(self) -> int:
        """Return how many connections are open."""
        return len(self.server.server_state.connections)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def key(
        self,
        name: str,
        *,
        principal: str | None = None,
        org: str | None = "acme",
        scopes: Iterable[str] = ALL_SCOPES,
        permissions: Iterable[str] = FILES,
        attributes: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> str:
        """Make a key, and keep it under a name."""
        owner = Principal(principal or name, org=org, permissions=permissions, attributes=attributes)
        _, self.keys[name] = await create_key(self.kernel, name, owner, scopes=scopes, **more)
        return self.keys[name]

    def client(self, name: str | None = "ada", **options: Any) -> httpx2.AsyncClient:
        """Return a client that shows a key, or none."""
        headers = {"Authorization": f"Bearer {self.keys[name]}"} if name else {}
        headers |= options.pop("headers", {})
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=60, trust_env=False, **options)

    async def records(self, **filters: Any) -> list[Record]:
        """Return the outcome records that fit, oldest first."""
        return await records_of(self.kernel.audit, **filters)

    async def record(self, **filters: Any) -> Record:
        """Return the one outcome record that fits."""
        (single_record,) = await self.records(**filters)
        return single_record


def registry_of(*capabilities: AnyCapability, agents: Iterable[Agent] = (foreman,)) -> Registry:
    """Return a registry of what is installed, of the kit, and of these."""
    return Registry.of([*_installed().capabilities.values(), kit, soon, old, *capabilities], agents)


@cache
def _installed() -> Registry:
    return Registry.installed()


@asynccontextmanager
async def site(
    *capabilities: AnyCapability,
    store: str = "memory://",
    agents: Iterable[Agent] = (foreman,),
    limits: RequestLimits | None = None,
    names: AllowedHosts | None = None,
    anyone: Caller | None = None,
    tokens: Callable[[Kernel], Identifies] | None = None,
    log: BinaryIO | None = None,
    around: Callable[[ASGIApp], ASGIApp] | None = None,
    bound: socket.socket | None = None,
    public_url: str | None = None,
    root_path: str | None = None,
    takes_system_texts: bool = True,
    server_allowances: ServerAllowances | None = None,
    open_id: Callable[[Kernel], OpenIdSignIn] | None = None,
    sources: Callable[[Kernel], DeclaredSources] | None = None,
    vault: UserVault | None = None,
    **kernel_options: Any,
) -> AsyncGenerator[Site]:
    """Serve the kit and these capabilities; ``ada`` of ``acme`` has a key for everything but administration.

    In the end every answer must be one that the OpenAPI document declares.
    """
    registry = registry_of(*capabilities, agents=agents)
    with structlog.testing.capture_logs():
        credentials = None if vault is None else vault.open
        async with Kernel(store=store, credentials=credentials, **kernel_options) as kernel:
            token_reader = None if tokens is None else tokens(kernel)
            service = Service(
                kernel,
                registry,
                limits=limits,
                anyone=anyone,
                tokens=token_reader,
                public_url=public_url,
                root_path=root_path,
                takes_system_texts=takes_system_texts,
                server_allowances=server_allowances,
                open_id=None if open_id is None else open_id(kernel),
                sources=None if sources is None else sources(kernel),
                connections=None if vault is None else vault.connections(kernel),
            )
            async with open_app(service, names or AllowedHosts.of("127.0.0.1"), log=log) as app:
                bound = bound or bind("127.0.0.1", 0)
                declared = Declared(app)
                served = around(declared) if around else declared
                server = make_server(served, service.limits, lambda: None, service.turns.bell.close)
                open_site = Site(kernel, service, registry, bound.getsockname()[1], server)
                serving = asyncio.ensure_future(server.serve([bound]))
                try:
                    await open_site.key("ada")
                    yield open_site
                finally:
                    server.should_exit = True
                    await serving
                assert declared.missing == set(), (
                    f"the OpenAPI document says all that an operation may answer: {declared.missing}"
                )


async def make_agent(client: httpx2.AsyncClient, *capabilities: str, **more: Any) -> dict[str, Any]:
    """Make an agent and return it."""
    body = {"name": "helper", "capabilities": list(capabilities) or ["kit", "session_file_system"], **more}
    response = await client.post("/v1/agents", json=body)
    assert response.status_code == 201, response.text
    return response.json()


async def make_session(client: httpx2.AsyncClient, *capabilities: str) -> str:
    """Make an agent and a session of it, and return the session's id."""
    agent = await make_agent(client, *capabilities)
    response = await client.post("/v1/sessions", json={"agent_id": agent["id"]})
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def call(client: httpx2.AsyncClient, session: str, tool: str, **arguments: Any) -> httpx2.Response:
    """Call a tool."""
    return await client.post(f"/v1/sessions/{session}/calls", json={"tool": tool, "arguments": arguments})


def problem(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Return problem details, after checking that they are whole and these."""
    assert response.status_code == status, response.text
    return checked_problem(response.content, dict(response.headers), status, code)


def checked_problem(body: bytes, headers: dict[str, str], status: int, code: str) -> dict[str, Any]:
    """Return the problem details that a body holds, after checking them (RFC 9457, spec 5, P14)."""
    assert headers["content-type"] == "application/problem+json"
    details = json.loads(body)
    assert (details["status"], details["code"], details["type"]) == (status, code, f"urn:capset:error:{code}"), details
    assert details["title"]
    assert details["detail"]
    assert details["correlation"] == headers["x-correlation-id"]
    for trace in ("Traceback", "site-packages", "sqlite", "SELECT", os.sep + "src" + os.sep):
        assert trace not in body.decode()
    return details


def tools_of(registry: Registry) -> dict[str, AnyTool]:
    """Return every tool that is installed, by name."""
    return {tool.name: tool for capability in registry.capabilities.values() for tool in capability.every_tool}
