"""Clients that leave, or that do not read: nothing of their calls goes on (spec 5, P9; spec 3, K14)."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from capset_server.http.request_rules import RequestLimits
from tests.helpers.server.support import Fountain, Site, Sleeper, make_session, site
from tests.helpers.server.wire import line, request
from tests.waiting import until

pytestmark = pytest.mark.realtime

JSON = "application/json"
EVENTS = "text/event-stream"


def call_of(server: Site, session: str, tool: str, accept: str = JSON) -> bytes:
    """Return the request for a call of a tool."""
    body = json.dumps({"tool": tool}).encode()
    return request(server, "POST", f"/v1/sessions/{session}/calls", body, content_type=JSON, accept=accept)


@asynccontextmanager
async def bedroom(accept: str = JSON, **options: Any) -> AsyncGenerator[tuple[Site, Sleeper, bytes]]:
    """Give a server with a tool that sleeps, what becomes of its call, and the request for one."""
    sleeper = Sleeper()
    async with site(sleeper.capability(), **options) as server:
        async with server.client() as client:
            session = await make_session(client, "bed")
        yield server, sleeper, call_of(server, session, "sleep", accept)


async def assert_cancelled(server: Site) -> None:
    """Wait until there is a record, and check that it is of a call that was cancelled."""
    (record,) = await until(server.records, "a record")
    assert record.outcome == "cancelled"


async def is_well(server: Site) -> bool:
    async with server.client() as client:
        return (await client.get("/v1/healthz")).status_code == 200


@asynccontextmanager
async def unread(server: Site) -> AsyncGenerator[socket.socket]:
    """Connect to a site without reading what comes."""
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.setblocking(False)
        await asyncio.get_running_loop().sock_connect(silent, ("127.0.0.1", server.port))
        yield silent


@pytest.mark.gate
@pytest.mark.spec("P9")
@pytest.mark.parametrize(("accept", "resets"), [(JSON, False), (EVENTS, False), (JSON, True)])
async def test_a_client_that_leaves_cancels_its_call(accept: str, resets: bool) -> None:
    async with bedroom(accept) as (server, sleeper, sleep):
        async with line(server) as connection:
            await connection.send(sleep)
            await sleeper.started.wait()
            if resets:
                connection.writer.transport.abort()
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        await assert_cancelled(server)
        assert await is_well(server)


@pytest.mark.spec("P9")
async def test_a_client_that_leaves_a_stream_that_flows_ends_it() -> None:
    fountain = Fountain()
    async with site(fountain.capability()) as server, server.client(headers={"Accept": EVENTS}) as client:
        session = await make_session(client, "fountain")
        async with client.stream("POST", f"/v1/sessions/{session}/calls", json={"tool": "flow"}) as response:
            async for _ in response.aiter_lines():
                break
        await asyncio.wait_for(fountain.cleaned.wait(), 60)
        await assert_cancelled(server)


@pytest.mark.spec("P9", "P15")
async def test_a_client_that_does_not_read_holds_the_tool_back_and_is_given_up() -> None:
    fountain = Fountain()
    async with site(fountain.capability(), limits=RequestLimits(send_seconds=0.5)) as server:
        async with server.client() as client:
            session = await make_session(client, "fountain")
        async with unread(server) as silent:
            await asyncio.get_running_loop().sock_sendall(silent, call_of(server, session, "flow", EVENTS))
            await until(lambda: fountain.flowed > 1)
            # Until buffers are full, the tool goes on; a tool that is not held back then would never end.
            await asyncio.wait_for(fountain.cleaned.wait(), 60)
            await assert_cancelled(server)
            assert await is_well(server)
            await until(lambda: server.connections() == 0)  # nor is its connection kept


@pytest.mark.spec("P46", "T32")
@pytest.mark.parametrize("more", [b"", b"connection: close\r\n"], ids=["many", "last"])
async def test_a_client_that_reads_none_of_its_short_answers_is_given_up(more: bytes) -> None:
    async with site(limits=RequestLimits(send_seconds=1)) as server:
        async with server.client() as client:
            url = f"/v1/sessions/{await make_session(client)}/files/a.bin"
            assert (await client.put(url, content=b"a" * 50_000)).status_code == 200
        async with unread(server) as silent:
            await until(lambda: server.connections() == 1)
            (connection,) = server.server.server_state.connections
            get, loop = request(server, "GET", url), asyncio.get_running_loop()
            while not connection.transport.get_write_buffer_size():  # until the buffers of the system are full
                await loop.sock_sendall(silent, get)
                await asyncio.sleep(0.02)
            last = request(server, "GET", "/v1/healthz", key=None).replace(b"\r\n\r\n", b"\r\n%b\r\n" % more)
            await loop.sock_sendall(silent, last if more else get * 10)
            await until(lambda: server.connections() == 0)


@pytest.mark.spec("P15")
async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing(shared: Site) -> None:
    before = len(await shared.records())
    for body in (b"", b'{"name"'):
        async with line(shared) as connection:
            head = request(shared, "POST", "/v1/agents", content_type="application/json")
            await connection.send(head.replace(b"content-length: 0", b"content-length: 100") + body)
            await asyncio.sleep(0.05)
    async with shared.client() as client:
        assert (await client.get("/v1/agents")).json()["total"] == 1
    assert len(await shared.records()) == before


@pytest.mark.spec("P9")
async def test_a_client_that_leaves_disturbs_no_other() -> None:
    async with bedroom() as (server, sleeper, sleep), line(server) as staying:
        await staying.send(sleep)
        await sleeper.started.wait()
        sleeper.started.clear()
        async with line(server) as leaving:
            await leaving.send(sleep)
            await sleeper.started.wait()
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        sleeper.woken.set()
        assert json.loads((await staying.answer()).body)["data"] == "awake"
        assert {record.outcome for record in await server.records(tool="sleep")} == {"cancelled", "succeeded"}


async def logged(log: io.BytesIO) -> dict[str, Any]:
    """Return the line of the log about a call, once it is there."""

    def lines() -> list[dict[str, Any]]:
        return [entry for entry in map(json.loads, log.getvalue().splitlines()) if entry["path"].endswith("/calls")]

    return (await until(lines))[0]


@pytest.mark.spec("P13", "P9")
@pytest.mark.parametrize("when", ["in its body", "in its call"])
async def test_a_client_that_left_unanswered_is_499_in_the_log_and_the_metrics(when: str) -> None:
    log = io.BytesIO()
    async with bedroom(log=log) as (server, sleeper, sleep):
        await server.key("operator", org=None)
        async with line(server) as connection:
            await connection.send(sleep[:-1] if when == "in its body" else sleep)
            if when == "in its call":
                await sleeper.started.wait()
        entry = await logged(log)
        assert (entry["status"], entry["method"], entry["principal"]) == (499, "POST", "ada")
        async with server.client("operator") as client:
            metrics = (await client.get("/v1/metrics")).text.splitlines()
        route = 'method="POST",route="/v1/sessions/{id}/calls"'
        assert f'capset_http_requests_total{{{route},status="499"}} 1.0' in metrics
        assert not [metric for metric in metrics if route in metric and 'status="' in metric and "499" not in metric]
        assert "capset_http_requests_running 1.0" in metrics, "the one that asks"


@pytest.mark.spec("P13", "P9")
async def test_a_client_that_left_a_stream_was_answered() -> None:
    log = io.BytesIO()
    async with bedroom(EVENTS, log=log) as (server, sleeper, sleep):
        async with line(server) as connection:
            await connection.send(sleep)
            await sleeper.started.wait()
            await connection.reader.readuntil(b"\r\n\r\n")
        assert (await logged(log))["status"] == 200


@pytest.mark.spec("P41")
async def test_the_head_of_a_stream_is_a_whole_answer(here: Site, ada: httpx2.AsyncClient) -> None:
    path = f"/v1/sessions/{await make_session(ada)}/events"
    async with line(here) as connection:
        await connection.send(request(here, "HEAD", path))
        assert b"200 OK" in await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 60)
        await connection.send(request(here, "GET", "/v1/healthz", key=None))
        assert (await connection.answer()).status == 200
        await until(lambda: here.service.turns.followers.count == 0)
