"""A server whose tools are used in every way at once, so that tests can take back what they are used by."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from capset import Capability, Kernel, Principal, Progress, Reply, tool
from capset.definitions.capabilities import AnyCapability
from capset.ext import Answer
from capset.kernel.blocks.generation import Turn
from capset_connect.agents.server_allowances import ServerAllowances
from tests.helpers.connect.mcp.urls import There, serving
from tests.helpers.server.support import ALL_SCOPES, FILES, Site, call, registry_of, site
from tests.waiting import until

REQUESTS: Final = 12
"""How many requests wait for an approval when it is withdrawn."""
OPEN: Final = "vault:open"
BOSS: Final = Principal("boss", org="acme")

Way = Callable[[], Awaitable[bool]]
"""Tries once to use something, and returns whether that was used."""


@dataclass(frozen=True)
class Grant:
    """Something that was given: the ways in which it is used, and what takes it back."""

    ways: Mapping[str, Way]
    revoke: Callable[[], Awaitable[object]]


@dataclass
class Looper:
    """A model that calls one tool again and again."""

    is_over: bool = False

    async def run(self, turn: Turn) -> Any:
        """Take a turn that ends only with the test."""
        while not self.is_over:
            await (await turn.step()).call("desk_tick", {"place": "turn"})
            await asyncio.sleep(0.05)
        return "over"


@dataclass
class Bench:
    """A server with the tools ``desk_tick``, ``desk_flow`` and ``desk_pay`` of some source, and how often each ran."""

    store: str
    stack: AsyncExitStack
    uses: Counter[str] = field(default_factory=Counter[str])
    looper: Looper = field(default_factory=Looper)
    clients: dict[str, httpx2.AsyncClient] = field(default_factory=dict[str, httpx2.AsyncClient])

    async def open(self) -> Site:
        """Serve, with keys of ``ada``, who uses the tools, and of ``root``, who gives them."""
        server = await self.stack.enter_async_context(
            site(
                self.local(),
                store=self.store,
                generator=self.looper,
                server_allowances=ServerAllowances(["acme=127.0.0.1"]),
            )
        )
        self.here = server
        self.stack.callback(setattr, self.looper, "is_over", True)
        await self.sign_in("root", OPEN, *FILES, scopes=("capset:admin",))
        await self.sign_in("ada", OPEN, *FILES)
        return server

    async def sign_in(self, name: str, *permissions: str, scopes: Iterable[str] = ALL_SCOPES) -> None:
        """Give somebody a new key, with which their requests are sent from now on."""
        await self.here.key(name, permissions=permissions, scopes=scopes)
        self.clients[name] = await self.stack.enter_async_context(self.here.client(name))

    @asynccontextmanager
    async def elsewhere(self) -> AsyncGenerator[Kernel]:
        """Open the database as another process does."""
        async with Kernel(store=self.store) as kernel:
            yield kernel

    def local(self) -> Capability:
        """Return the tools as this server's own."""

        @tool(effect="read", permissions={OPEN})
        async def desk_tick(place: str) -> str:
            """Count."""
            self.uses[place] += 1
            return place

        @tool(effect="external", permissions={OPEN})
        async def desk_flow(place: str) -> AsyncIterator[Progress | Reply[str]]:
            """Count for ever."""
            while True:
                self.uses[place] += 1
                yield Progress(0.5, place)
                await asyncio.sleep(0.03)

        @tool(effect="write", approval="ask", permissions={OPEN})
        async def desk_pay(place: str) -> str:
            """Count once somebody agrees."""
            self.uses[place] += 1
            return place

        return Capability("desk", tools=[desk_tick, desk_flow, desk_pay])

    async def mcp(self) -> There:
        """Serve the tools by MCP."""
        server = MCPServer("desk")

        def tick(place: str) -> str:
            self.uses[place] += 1
            return place

        async def flow(place: str) -> str:
            self.uses[place] += 1
            await asyncio.sleep(20)
            return place

        for function, name in ((tick, "tick"), (flow, "flow"), (tick, "pay")):
            server.add_tool(function, name=name, description="Count.", structured_output=False)
        return await self.stack.enter_async_context(serving(server.streamable_http_app()))

    async def api(self) -> There:
        """Serve the tools as operations of an API."""

        async def tick(request: Request) -> Response:
            self.uses[request.query_params["place"]] += 1
            return PlainTextResponse("counted")

        async def flow(request: Request) -> Response:
            self.uses[request.query_params["place"]] += 1
            await asyncio.sleep(20)
            return PlainTextResponse("counted")

        app = Starlette(routes=[Route("/tick", tick), Route("/flow", flow), Route("/pay", tick)])
        return await self.stack.enter_async_context(serving(app))

    async def agent(self, *capabilities: str, **more: Any) -> str:
        """Make an agent, and return its id."""
        body = {"name": "clerk", "capabilities": list(capabilities), **more}
        response = await self.clients["root"].post("/v1/agents", json=body)
        assert response.status_code == 201, response.text
        return response.json()["id"]

    async def use(self, *capabilities: AnyCapability) -> str:
        """Have the server take up capabilities, and return the id of an agent with them."""
        self.here.service.adopt(registry_of(self.local(), *capabilities))
        return await self.agent(*(capability.name for capability in capabilities))

    async def session(self, agent: str) -> str:
        response = await self.clients["ada"].post("/v1/sessions", json={"agent_id": agent})
        assert response.status_code == 201, response.text
        return response.json()["id"]

    async def ways(self, agent: str) -> dict[str, Way]:
        """Return the ways in which a session uses its tools, all of them under way."""
        return {
            "an open session": await self._calls(agent),
            "an open stream": await self._stream(agent),
            "a running turn": await self._turn(agent),
            "pending approvals": await self._approvals(agent),
        }

    async def _calls(self, agent: str) -> Way:
        session = await self.session(agent)

        async def way() -> bool:
            answer = await call(self.clients["ada"], session, "desk_tick", place="session")
            return answer.status_code == 200 and answer.json()["success"]

        return way

    async def _stream(self, agent: str) -> Way:
        path = f"/v1/sessions/{await self.session(agent)}/calls"
        body = {"tool": "desk_flow", "arguments": {"place": "stream"}}

        async def read() -> None:
            headers = {"Accept": "text/event-stream"}
            with suppress(httpx2.TransportError):
                async with self.clients["ada"].stream("POST", path, json=body, headers=headers) as answer:
                    async for _ in answer.aiter_bytes():
                        pass

        reading = asyncio.create_task(read())

        async def end() -> None:
            reading.cancel()
            await asyncio.wait([reading])

        self.stack.push_async_callback(end)

        async def way() -> bool:
            return not reading.done()

        await until(lambda: self.uses["stream"], "the stream to begin")
        return way

    async def _turn(self, agent: str) -> Way:
        session = await self.session(agent)
        begun = await self.clients["ada"].post(f"/v1/sessions/{session}/messages", json={"content": "go on"})
        assert begun.status_code == 202, begun.text
        await until(lambda: self.uses["turn"], "the turn to call its tool")

        async def way() -> bool:
            before = self.uses["turn"]
            await asyncio.sleep(0.15)
            return self.uses["turn"] > before

        return way

    async def _approvals(self, agent: str) -> Way:
        session = await self.session(agent)
        pending: list[tuple[str, str]] = []
        for number in range(REQUESTS):
            place = f"approval {number}"
            answer = await call(self.clients["ada"], session, "desk_pay", place=place)
            assert answer.status_code == 202, answer.text
            pending.append((answer.json()["approval"], place))

        async def way() -> bool:
            if not pending:
                return False
            request, place = pending.pop()
            await self.here.kernel.approvals.decide(request, Answer(approved=True), by=BOSS)
            body = {"tool": "desk_pay", "arguments": {"place": place}, "approval": request}
            await self.clients["ada"].post(f"/v1/sessions/{session}/calls", json=body)
            return self.uses[place] > 0

        return way
