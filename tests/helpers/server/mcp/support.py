"""A workshop of tools, a client to use them with, and a server to find them at."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from capset import Agent, Capability, Kernel, Principal, Progress, Record, Reply, Session, ToolError, tool
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.mcp_offers import McpOffer
from capset.errors import Field
from capset_server.mcp import McpDoor
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.kernel.support import records_of
from tests.waiting import moment

Era = Literal["legacy", "auto"]
PREFIX = "dev.capset/"


class Page(BaseModel):
    """One page."""

    title: str
    after: Page | None = None


class Note(BaseModel):
    text: str
    author: str | None = None


@tool(effect="read")
async def echo(text: str) -> str:
    """Give back what was given."""
    return text


@tool(effect="write")
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="write", permissions={"notes:write"})
async def save(text: str) -> Note:
    """Save a note."""
    return Note(text=text)


@tool(effect="read")
async def pages() -> list[Page]:
    """List the pages."""
    return [Page(title="one", after=Page(title="two"))]


@tool(effect="read")
async def book() -> Page:
    """Give the first page, which refers to pages."""
    return Page(title="one", after=Page(title="two"))


@tool(effect="destructive", idempotent=True)
async def wipe() -> None:
    """Wipe the board."""


@tool(effect="external")
async def crash() -> str:
    """Fail by mistake."""
    raise RuntimeError("the password is hunter2")


@tool(effect="read")
async def refuse(text: str) -> str:
    """Fail on purpose."""
    misfit = Field("text", "something kind", "please")
    raise ToolError(text, code="refused_politely", status=409, fields=[misfit])


@tool(effect="read", timeout=0.05)
async def slow() -> str:
    """Take longer than it may."""
    await asyncio.sleep(60)
    return "late"


@tool(effect="read")
async def steps(fractions: list[float]) -> AsyncIterator[Progress | Reply[int]]:
    """Go step by step."""
    for number, fraction in enumerate(fractions):
        yield Progress(fraction, f"step {number}")
    yield Reply(len(fractions))


@tool(effect="read")
async def silent() -> AsyncIterator[Progress | Reply[Note]]:
    """End without a reply."""
    yield Progress(1.0)


KIT = (echo, add, save, pages, book, wipe, crash, refuse, slow, steps, silent)


@dataclass
class Sleeper:
    """A tool that waits for ever, and what became of it."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    cleaned: asyncio.Event = field(default_factory=asyncio.Event)

    def tool(self) -> AnyTool:
        """Return the tool, whose cleanup takes a moment."""

        @tool(effect="write")
        async def sleep() -> str:
            """Sleep."""
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await moment(0.02)
                self.cleaned.set()
            return "awake"

        return sleep


@dataclass(frozen=True)
class Bench:
    """An open kernel, a session of it, and an official client of that session."""

    kernel: Kernel
    session: Session
    client: Client

    async def records(self, **filters: Any) -> list[Record]:
        """Return the outcome records that fit, oldest first."""
        return await records_of(self.kernel.audit, **filters)


@asynccontextmanager
async def bench(
    era: Era,
    *tools: AnyTool,
    permissions: Iterable[str] = (),
    prompt: str = "",
    offers: Iterable[McpOffer] = (),
    told: str | None = None,
    **options: Any,
) -> AsyncGenerator[Bench]:
    """Open a session with the kit, or these tools, and connect a client to it in memory.

    ``offers`` are those of the capability, ``told`` its instructions; ``options`` are the client's.
    """
    kit = Capability("kit", tools=tools or KIT, mcp=offers, instructions=told)
    agent = Agent("tester", system_prompt=prompt, uses=[kit])
    principal = Principal("user-1", permissions=permissions)
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=principal) as session:
        exchange = Exchange(session)
        async with Client(make_server(lambda: exchange), mode=era, **options) as client:
            yield Bench(kernel, session, client)


def text_of(result: CallToolResult) -> str:
    """Return the one text of a result."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@dataclass
class Site:
    """A real HTTP server that authenticates by bearer token, opens a session for each request and hands over."""

    kernel: Kernel
    door: McpDoor
    agent: Agent
    tokens: dict[str, Principal] = field(default_factory=dict[str, Principal])
    url: str = ""
    open_requests: int = 0
    session: Session | None = None
    """The session of every request, if there is one for all of them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as capset's own server does."""
        assert scope["type"] == "http"
        token = dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer ")
        self.open_requests += 1
        try:
            if self.session is not None:
                await self.door.handle(scope, receive, send, self.session, f"{token} {scope['path']}")
                return
            async with self.kernel.open(self.agent, principal=self.tokens[token]) as session:
                await self.door.handle(scope, receive, send, session, f"{token} {scope['path']}")
        finally:
            self.open_requests -= 1

    @asynccontextmanager
    async def client(
        self, era: Era, token: str, path: str = "/mcp/agents/tester", **options: Any
    ) -> AsyncGenerator[Client]:
        """Connect the official client as whoever has this token."""
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(self.url + path, http_client=http)
            async with Client(transport, mode=era, **options) as client:
                yield client

    async def record(self, **filters: Any) -> Record:
        """Return the one outcome record that fits."""
        (single_record,) = await records_of(self.kernel.audit, **filters)
        return single_record


@asynccontextmanager
async def site(*tools: AnyTool, tokens: dict[str, Principal] | None = None) -> AsyncGenerator[Site]:
    """Serve the kit, or these tools, on a port of this machine."""
    agent = Agent("tester", system_prompt="Test.", uses=[Capability("kit", tools=tools or KIT)])
    principals = tokens or {"ada": Principal("ada", permissions={"notes:write"}), "bob": Principal("bob")}
    door = McpDoor()
    async with Kernel(store="memory://") as kernel:
        mcp_site = Site(kernel, door, agent, principals)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            mcp_site.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            config = uvicorn.Config(mcp_site, lifespan="off", log_config=None, timeout_graceful_shutdown=5)
            server = _Quiet(config)
            serving = asyncio.ensure_future(server.serve([listening]))
            try:
                async with door.run():
                    yield mcp_site
            finally:
                server.should_exit = True
                await serving


class _Quiet(uvicorn.Server):
    """Leaves the process's signals alone."""

    def install_signal_handlers(self) -> None:
        """Install none."""

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to end."""
        await self._serve(sockets)
