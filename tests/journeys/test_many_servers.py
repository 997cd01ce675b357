"""Several servers on one database: any of them can take any request (spec 5, P39)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from itertools import cycle
from pathlib import Path

import httpx2
import pytest

from capset.clock import SystemClock
from capset_server.auth import signing_keys
from tests.databases import require_scheme
from tests.helpers.server.approving import approved, asked
from tests.helpers.server.killed import serving
from tests.helpers.server.many_servers import ask_mcp
from tests.helpers.server.rest.turns import events, send, turn
from tests.helpers.server.sse import following
from tests.helpers.server.support import call, make_agent, make_session, site

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Alternating(httpx2.AsyncBaseTransport):
    """Sends each request to the next of several servers."""

    def __init__(self, *urls: str) -> None:
        self._urls = cycle(map(httpx2.URL, urls))
        self._transport = httpx2.AsyncHTTPTransport()
        self.asked: list[int | None] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on."""
        url = next(self._urls)
        request.url = request.url.copy_with(host=url.host, port=url.port)
        request.headers["Host"] = url.netloc.decode()
        self.asked.append(url.port)
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a new database on each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/capset.db"
    require_scheme()
    return request.getfixturevalue("postgres_url")


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("P39")
async def test_consecutive_requests_may_each_go_to_another_server(url: str) -> None:
    async with AsyncExitStack() as stack:
        first = stack.enter_context(serving(url))
        two = stack.enter_context(serving(url))
        between = Alternating(first.url, two.url)

        async def client(key: str) -> httpx2.AsyncClient:
            headers = {"Authorization": f"Bearer {key}"}
            http_client = httpx2.AsyncClient(base_url="http://servers", headers=headers, transport=between, timeout=30)
            return await stack.enter_async_context(http_client)

        ada, approver = await client(first.key), await client(two.approver)
        session = await make_session(ada, "kit", "till", "session_file_system")
        for number in range(4):
            assert (await call(ada, session, "note", text=str(number))).json()["data"] == {"kept": str(number)}
            response = await ada.put(f"/v1/sessions/{session}/files/{number}.txt", content=str(number).encode())
            assert response.status_code in (200, 201), response.text
            assert (await ada.get(f"/v1/sessions/{session}/files/{number}.txt")).text == str(number)
            assert (await ada.get(f"/v1/sessions/{session}/snapshot")).status_code == 200
        for _ in range(3):  # odd, so that each step is taken by each server
            approval = await asked(ada, session)
            assert (await ada.get(f"/v1/approvals/{approval}")).json()["status"] == "pending"
            assert (await approved(approver, approval)).status_code == 200
            paid = await call(ada, session, "pay", to="bob")
            assert (paid.status_code, paid.json()["data"]) == (200, "bob has 5")
        for number in range(3):
            turn_events = await turn(ada, session, {"call": "echo"})
            assert [event.type for event in turn_events] == ["turn.started", "tool.executed", "turn.ended"]
            assert [event.id for event in await events(ada, session)][-3:] == [event.id for event in turn_events]
            async with following(ada, f"/v1/sessions/{session}/events?after={turn_events[-1].id}") as stream:
                assert (await send(ada, session, number)).status_code == 202, "a turn that the other server runs"
                assert [(await anext(stream)).type for _ in range(2)] == ["turn.started", "turn.ended"]
        assert len({*between.asked}) == 2


@pytest.mark.realtime
@pytest.mark.spec("P39")
async def test_an_mcp_session_is_known_to_every_server_and_after_a_restart(url: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(serving(url))
        headers = {"Authorization": f"Bearer {first.key}"}
        with serving(url) as two:
            between = Alternating(first.url, two.url)
            async with httpx2.AsyncClient(
                base_url="http://servers", headers=headers, transport=between, timeout=30
            ) as client:
                path = f"/mcp/agents/{(await make_agent(client, 'kit'))['id']}"
                ticket = ""
                for _ in range(3):
                    opened = await ask_mcp(client, path, "initialize", params=HELLO)
                    ticket = opened.headers["mcp-session-id"]
                    for _ in range(2):
                        response = await ask_mcp(client, path, "tools/list", session=ticket)
                        assert response.status_code == 200, response.text
                        params = {"name": "note", "arguments": {"text": "x"}}
                        called = await ask_mcp(client, path, "tools/call", session=ticket, params=params)
                        assert called.status_code == 200, called.text
                    strange = await ask_mcp(client, path, "tools/list", session=ticket[:-1] + "x")
                    assert strange.status_code == 404
        restarted = stack.enter_context(serving(url))
        async with httpx2.AsyncClient(base_url=restarted.url, headers=headers, timeout=30) as client:
            assert (await ask_mcp(client, path, "tools/list", session=ticket)).status_code == 200


@pytest.mark.spec("P39")
async def test_sessions_that_begin_at_once_on_a_new_server_all_begin(url: str) -> None:
    async with site(store=url) as server, server.client() as client:
        path = f"/mcp/agents/{(await make_agent(client, 'kit'))['id']}"
        opened = await asyncio.gather(*(ask_mcp(client, path, "initialize", params=HELLO) for _ in range(20)))
        assert {response.status_code for response in opened} == {200}


class Clock(SystemClock):
    """A clock that can be set ahead."""

    def __init__(self) -> None:
        self.days = 0

    def time_ns(self) -> int:
        """Return the time then."""
        return super().time_ns() + self.days * 86_400 * 1_000_000_000


@pytest.mark.nightly
@pytest.mark.spec("P39")
@pytest.mark.parametrize("servers", [1, 2])
async def test_the_key_is_replaced_and_verifies_for_a_time(
    servers: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing_keys, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(signing_keys, "AGAIN_SECONDS", 0.0)
    clock = Clock()
    async with AsyncExitStack() as stack:
        sites = [await stack.enter_async_context(site(store=url, clock=clock)) for _ in range(servers)]
        first = sites[0].client()
        last = httpx2.AsyncClient(base_url=sites[-1].url, headers=first.headers, timeout=30)
        path = f"/mcp/agents/{(await make_agent(first, 'kit'))['id']}"

        async def opened() -> str:
            return (await ask_mcp(first, path, "initialize", params=HELLO)).headers["mcp-session-id"]

        async def is_known(ticket: str) -> bool:
            return (await ask_mcp(last, path, "tools/list", session=ticket)).status_code == 200

        before = await opened()
        clock.days = signing_keys.RENEW_DAYS + 1
        after = await opened()
        assert [await is_known(ticket) for ticket in (before, after)] == [True, True]
        clock.days = signing_keys.RENEW_DAYS + signing_keys.VALID_DAYS + 2
        assert await is_known(await opened())
        assert [await is_known(ticket) for ticket in (before, after)] == [False, True]
        await first.aclose()
        await last.aclose()
