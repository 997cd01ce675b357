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

from capset import Record
from capset_server.http.request_rules import RequestLimits
from tests.helpers.server.support import Fountain, Site, Sleeper, call, make_session, site
from tests.helpers.server.wire import line, request
from tests.waiting import until

pytestmark = pytest.mark.realtime

SLEEP = json.dumps({"tool": "sleep"}).encode()
FLOW = json.dumps({"tool": "flow"}).encode()


async def sleeping(server: Site, stream: bool) -> bytes:
    """Return the request for a call that sleeps."""
    async with server.client() as client:
        session = await make_session(client, "bed")
    accept = {"accept": "text/event-stream"} if stream else {}
    return request(server, "POST", f"/v1/sessions/{session}/calls", SLEEP, content_type="application/json", **accept)


@pytest.mark.gate
@pytest.mark.spec("P9")
@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_client_that_leaves_cancels_its_call(stream: bool) -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability()) as server:
        async with line(server) as connection:
            await connection.send(await sleeping(server, stream))
            await sleeper.started.wait()
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        record = await wait_for_record(server)
        assert (record.tool, record.outcome) == ("sleep", "cancelled")
        async with server.client() as client:
            assert (await client.get("/v1/healthz")).status_code == 200


@pytest.mark.spec("P9")
async def test_a_client_that_resets_its_connection_cancels_its_call() -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability()) as server:
        async with line(server) as connection:
            await connection.send(await sleeping(server, stream=False))
            await sleeper.started.wait()
            connection.writer.transport.abort()
            await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        assert (await wait_for_record(server)).outcome == "cancelled"


@pytest.mark.spec("P9")
async def test_a_client_that_gives_up_waiting_cancels_its_call() -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability()) as server, server.client() as client:
        session = await make_session(client, "bed")
        calling = asyncio.create_task(client.post(f"/v1/sessions/{session}/calls", json={"tool": "sleep"}))
        await sleeper.started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        assert (await wait_for_record(server)).outcome == "cancelled"


@pytest.mark.spec("P9")
async def test_a_client_that_leaves_a_stream_that_flows_ends_it() -> None:
    fountain = Fountain()
    async with site(fountain.capability()) as server, server.client() as client:
        session = await make_session(client, "fountain")
        async with client.stream(
            "POST", f"/v1/sessions/{session}/calls", json={"tool": "flow"}, headers={"Accept": "text/event-stream"}
        ) as response:
            async for _ in response.aiter_lines():
                break
        await asyncio.wait_for(fountain.cleaned.wait(), 60)
        assert (await wait_for_record(server)).outcome == "cancelled"


@pytest.mark.spec("P9", "P15")
async def test_a_client_that_does_not_read_holds_the_tool_back_and_is_given_up() -> None:
    fountain = Fountain()
    async with site(fountain.capability(), limits=RequestLimits(send_seconds=0.5)) as server:
        async with server.client() as client:
            session = await make_session(client, "fountain")
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(silent, ("127.0.0.1", server.port))
            headers = {"content_type": "application/json", "accept": "text/event-stream"}
            await loop.sock_sendall(silent, request(server, "POST", f"/v1/sessions/{session}/calls", FLOW, **headers))
            await until(lambda: fountain.flowed > 1)
            # Until buffers are full, the tool goes on; a tool that is not held back then would never end.
            await asyncio.wait_for(fountain.cleaned.wait(), 60)
            assert (await wait_for_record(server)).outcome == "cancelled"
            async with server.client() as client:
                assert (await client.get("/v1/healthz")).status_code == 200
            await until(lambda: server.connections() == 0)  # nor is its connection kept


@pytest.mark.spec("P46", "T32")
@pytest.mark.parametrize("more", [b"", b"connection: close\r\n"], ids=["many", "last"])
async def test_a_client_that_reads_none_of_its_short_answers_is_given_up(more: bytes) -> None:
    async with site(limits=RequestLimits(send_seconds=1)) as server, unread(server) as (silent, get):
        (connection,) = server.server.server_state.connections
        waiting = connection.transport.get_write_buffer_size
        loop = asyncio.get_running_loop()
        while not waiting():  # until the buffers of the system are full
            await loop.sock_sendall(silent, get)
            await asyncio.sleep(0.02)
        last = request(server, "GET", "/v1/healthz", key=None).replace(b"\r\n\r\n", b"\r\n%b\r\n" % more)
        await loop.sock_sendall(silent, last if more else get * 10)
        await until(lambda: server.connections() == 0)


@asynccontextmanager
async def unread(server: Site) -> AsyncGenerator[tuple[socket.socket, bytes]]:
    """Connect to a site without reading what comes; yield the connection, and a request for 50 kB."""
    async with server.client() as client:
        url = f"/v1/sessions/{await make_session(client)}/files/a.bin"
        assert (await client.put(url, content=b"a" * 50_000)).status_code == 200
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.setblocking(False)
        await asyncio.get_running_loop().sock_connect(silent, ("127.0.0.1", server.port))
        await until(lambda: server.connections() == 1)
        yield silent, request(server, "GET", url)


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
async def test_one_that_leaves_disturbs_no_other() -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability()) as server, server.client() as client:
        session = await make_session(client, "bed", "kit")
        staying = asyncio.ensure_future(call(client, session, "sleep"))
        await sleeper.started.wait()
        sleeper.started.clear()
        body = request(server, "POST", f"/v1/sessions/{session}/calls", SLEEP, content_type="application/json")
        async with line(server) as connection:
            await connection.send(body)
            await sleeper.started.wait()
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)
        sleeper.woken.set()
        assert (await staying).json()["data"] == "awake"
        assert sorted(record.outcome or "" for record in await server.records(tool="sleep")) == [
            "cancelled",
            "succeeded",
        ]


async def wait_for_record(server: Site) -> Record:
    """Return the one record, once it is there."""
    (record,) = await until(server.records, "a record")
    return record


@pytest.mark.spec("P13", "P9")
@pytest.mark.parametrize("when", ["in its body", "in its call"])
async def test_a_client_that_left_unanswered_is_499_in_the_log_and_the_metrics(when: str) -> None:
    sleeper, log = Sleeper(), io.BytesIO()
    async with site(sleeper.capability(), log=log) as server:
        await server.key("operator", org=None)
        call_request = await sleeping(server, stream=False)
        async with line(server) as connection:
            if when == "in its body":
                await connection.send(call_request[:-1])
            else:
                await connection.send(call_request)
                await sleeper.started.wait()
        entry: dict[str, Any] = {}

        def is_told() -> bool:
            lines = map(json.loads, log.getvalue().splitlines())
            entry.update(next((log_line for log_line in lines if log_line["path"].endswith("/calls")), {}))
            return bool(entry)

        await until(is_told)
        assert (entry["status"], entry["method"], entry["principal"]) == (499, "POST", "ada")
        async with server.client("operator") as client:
            metrics = (await client.get("/v1/metrics")).text
        route = 'method="POST",route="/v1/sessions/{id}/calls"'
        assert f'capset_http_requests_total{{{route},status="499"}} 1.0' in metrics.splitlines()
        assert not [
            metric
            for metric in metrics.splitlines()
            if route in metric and 'status="' in metric and "499" not in metric
        ]
        assert "capset_http_requests_running 1.0" in metrics.splitlines(), "the one that asks"


@pytest.mark.spec("P13", "P9")
async def test_a_client_that_left_a_stream_was_answered() -> None:
    sleeper, log = Sleeper(), io.BytesIO()
    async with site(sleeper.capability(), log=log) as server:
        async with line(server) as connection:
            await connection.send(await sleeping(server, stream=True))
            await sleeper.started.wait()
            await connection.reader.readuntil(b"\r\n\r\n")
        await until(lambda: b"/calls" in log.getvalue())
        (entry,) = (
            log_line for log_line in map(json.loads, log.getvalue().splitlines()) if log_line["path"].endswith("/calls")
        )
        assert entry["status"] == 200


@pytest.mark.spec("P41")
async def test_the_head_of_a_stream_is_a_whole_answer(here: Site, ada: httpx2.AsyncClient) -> None:
    path = f"/v1/sessions/{await make_session(ada)}/events"
    async with line(here) as connection:
        await connection.send(request(here, "HEAD", path))
        assert b"200 OK" in await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 60)
        await connection.send(request(here, "GET", "/v1/healthz", key=None))
        assert (await connection.answer()).status == 200
        await until(lambda: here.service.turns.followers.count == 0)
