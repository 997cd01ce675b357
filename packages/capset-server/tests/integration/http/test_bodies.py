"""Bodies that are broken, too large, too slow or too deep (spec 5, P15)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx2
import pytest

from capset import Capability, tool
from capset_server.http.request_rules import RequestLimits
from tests.helpers.server.support import Site, call, checked_problem, make_agent, make_session, problem, site
from tests.helpers.server.wire import Line, ask, line, request
from tests.waiting import moment, until

JSON = "application/json"
SMALL = RequestLimits(body=100_000, large_body=100_000, file=200_000, body_seconds=0.3)


@pytest.fixture(params=["POST /v1/agents", "POST /v1/sessions", "POST /v1/sessions/ID/calls", "PATCH /v1/agents/ID"])
async def endpoint(request: pytest.FixtureRequest, asker: httpx2.AsyncClient) -> tuple[str, str]:
    """Give the method and the path of an operation that takes JSON."""
    method, path = request.param.split()
    made = await make_session(asker) if "calls" in path else (await make_agent(asker))["id"]
    return method, path.replace("ID", made)


NO_JSON = (b"", b"{", b"{'a': 1}", b'{"a": NaN}', b'{"a": "\xff"}', b'{"a": "\\ud800"}', b"{} {}", b"\xef\xbb\xbf{}")
NO_OBJECT = (b"[]", b"null", b"1", b'"text"', b"true")
DEEP = (b"[" * 15_000, b'{"a":' * 10_000, b"[" * 1_000 + b"]" * 1_000)
OTHER_TYPES = ("text/plain", "application/xml", "application/x-www-form-urlencoded", "", "json")


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    ("body", "content_type", "status", "code", "detail"),
    [
        *((body, JSON, 400, "invalid_json", "") for body in NO_JSON),
        *((body, JSON, 422, "invalid_arguments", "must be a JSON object") for body in NO_OBJECT),
        *((body, JSON, 422, "invalid_arguments", "deep") for body in DEEP),
        *((b'{"name": "a"}', content_type, 415, "unsupported_media_type", "") for content_type in OTHER_TYPES),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_body_that_is_no_json_object_is_refused_and_reaches_no_tool(
    shared: Site,
    asker: httpx2.AsyncClient,
    endpoint: tuple[str, str],
    body: bytes,
    content_type: str,
    status: int,
    code: str,
    detail: str,
) -> None:
    before = await shared.records()
    response = await asker.request(*endpoint, content=body, headers={"Content-Type": content_type})
    assert detail in problem(response, status, code)["detail"]
    assert await shared.records() == before


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
async def test_json_may_say_more_of_itself(asker: httpx2.AsyncClient, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    assert (await asker.post("/v1/agents", content=b'{"name": "a"}', headers=headers)).status_code == 201


@pytest.mark.spec("P15")
async def test_a_body_has_a_bound_declared_or_not() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"a" * 10_000

    async with site(limits=SMALL) as server, server.client() as client:
        session = await make_session(client)
        assert (await call(client, session, "echo", text="a" * 90_000)).status_code == 200
        for body in (b"a" * 100_001, b"a" * 5_000_000, None):
            for path in (f"/v1/sessions/{session}/calls", "/v1/agents", f"/mcp/sessions/{session}"):
                response = await client.post(path, content=body or chunks(), headers={"Content-Type": JSON})
                problem(response, 413, "body_too_large")
                assert response.headers["connection"] == "close"
        assert len(await server.records()) == 1, "what is too large reaches no tool"


@pytest.mark.spec("P15", "P25")
async def test_a_file_has_a_bound_of_its_own() -> None:
    async with site(limits=SMALL) as server, server.client() as client:
        url = f"/v1/sessions/{await make_session(client)}/files/a.bin"
        assert (await client.put(url, content=b"a" * 200_000)).status_code == 200
        problem(await client.put(url, content=b"b" * 200_001), 413, "body_too_large")
        assert (await client.get(url)).content == b"a" * 200_000


def begun(server: Site, method: str, path: str, size: int, key: str | None = "ada") -> bytes:
    """Return the beginning of a request whose body is to have a size."""
    return request(server, method, path, key=key, content_type=JSON, content_length=str(size)) + b"{"


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    ("size", "parts", "status", "code"),
    [
        (9_000_000, [b"a" * 100_000] * 90, 413, "body_too_large"),
        (50, [b'"name":'], 408, "request_timeout"),
    ],
)
async def test_a_client_whose_body_does_not_end_reads_why_it_was_refused(
    size: int, parts: list[bytes], status: int, code: str
) -> None:
    async with site(limits=SMALL) as server, line(server) as connection:
        await connection.send(begun(server, "POST", "/v1/agents", size))
        for part in parts:
            await connection.send(part)
        answer = await connection.answer()
        checked_problem(answer.body, answer.headers, status, code)
        assert await connection.closed()


@pytest.mark.spec("P15")
async def test_a_body_that_nobody_reads_does_not_hold_the_connection_for_ever() -> None:
    async with site(limits=SMALL) as server, line(server) as connection:
        await connection.send(begun(server, "POST", "/v1/agents", 5_000, key=None))
        assert (await connection.answer()).status == 401
        await connection.send(b"a")
        assert await connection.closed()


@pytest.mark.spec("P15")
@pytest.mark.parametrize("late", [0, 2_000])
async def test_a_connection_goes_on_once_all_of_a_refused_body_has_come(late: int) -> None:
    async with site(limits=SMALL) as server, line(server) as connection:
        refused = request(server, "POST", "/v1/agents", b"a" * 50_000, key=None, content_type=JSON)
        await connection.send(refused[: len(refused) - late])
        assert (await connection.answer()).status == 401
        await connection.send(refused[len(refused) - late :])
        await moment(0.5)
        await connection.send(request(server, "GET", "/v1/agents"))
        assert (await connection.answer()).status == 200


async def test_a_client_waits_with_its_body_until_it_is_asked_for(shared: Site) -> None:
    async with line(shared) as connection:
        body = b'{"name": "a"}'
        full_request = request(shared, "POST", "/v1/agents", body, content_type=JSON, expect="100-continue")
        await connection.send(full_request.removesuffix(body))
        assert (await connection.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await connection.send(body)
        assert (await connection.answer()).status == 201
    answer = await ask(shared, "POST", "/v1/agents", key=None, expect="100-continue", content_length="13")
    assert answer.status == 401, "without a key nothing is asked for"


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/agents", "GET, POST"),
        ("POST", "/v1/agents/some", "DELETE, GET, PATCH"),
        ("GET", "/v1/sessions/some/calls", "POST"),
        ("POST", "/v1/sessions/some/files/a/b/c", "DELETE, GET, PUT"),
        ("POST", "/v1/sessions/some/files/", "DELETE, GET, PUT"),
        ("POST", "/v1/healthz", "GET"),
        ("POST", "/openapi.json", "GET"),
    ],
)
async def test_a_method_that_there_is_not_is_told_with_those_there_are(
    asker: httpx2.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await asker.request(method, path)
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/agents/", "/v2/agents", "/v1/agents/a/b", "/mcp", "/mcp/agents/"])
async def test_a_path_that_there_is_not_is_told_so(asker: httpx2.AsyncClient, path: str) -> None:
    problem(await asker.get(path), 404, "not_found")


@pytest.mark.spec("P34")
async def test_a_body_of_a_megabyte_is_for_tools_that_say_so(ada: httpx2.AsyncClient, here: Site) -> None:
    session = await make_session(ada)
    text = "é" * 600_000  # 1.2 MB in UTF-8
    saved = await call(ada, session, "session_file_system.write_file", path="/a.txt", content=text)
    assert saved.json()["success"], saved.text
    refused = await call(ada, session, "echo", text=text)
    assert "at most 1048576 bytes" in problem(refused, 413, "arguments_too_large")["detail"]
    (record,) = [row for row in await here.records() if row.tool == "echo"]
    assert (record.outcome, record.code) == ("invalid", "arguments_too_large")
    url = f"/v1/sessions/{session}/calls"
    problem(await ada.post(url, content=b" " * (16 * 2**20 + 1), headers={"Content-Type": JSON}), 413, "body_too_large")
    large_agent = {"name": "a", "description": "d" * 2**20}
    problem(await ada.post("/v1/agents", json=large_agent), 413, "body_too_large")


@pytest.mark.spec("P34")
@pytest.mark.parametrize(
    "path", ["/v1/agents", "/v1/sessions/ID/calls", "/mcp/sessions/ID", "/v1/sessions/ID/messages"]
)
async def test_a_body_of_too_many_values_is_refused_unread(shared: Site, asker: httpx2.AsyncClient, path: str) -> None:
    path = path.replace("ID", await make_session(asker))
    few = b'{"a":[' + b"1," * 19_000 + b"1]}"
    assert "too_many" not in (await asker.post(path, content=few, headers={"Content-Type": JSON})).text
    async with line(shared) as connection:
        await connection.send(begun(shared, "POST", path, 1_000_000) + b'"a":[' + b"[]," * 10_000)
        answer = await connection.answer()  # though most of the body is still to come
        refusal = json.loads(answer.body)
        assert (answer.status, refusal["code"]) == (413, "too_many_values")
        assert "at most 20000 values" in refusal["detail"]


@dataclass
class WaitingRoom:
    """A capability ``room`` whose tool ``wait`` waits until all may go on, and how many calls do."""

    inside: int = 0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def capability(self) -> Capability:
        """Return the capability."""

        @tool(effect="read")
        async def wait(text: str) -> int:
            """Wait."""
            self.inside += 1
            await self.go_on.wait()
            return len(text)

        return Capability("room", tools=[wait])


UPLOAD = "/v1/sessions/ID/files/a.bin"


async def gives(status: int, client: httpx2.AsyncClient, method: str, path: str, size: int = 0) -> bool:
    """Return whether a request with a body of a size is answered with a status."""
    return (await client.request(method, path, content=b"a" * size)).status_code == status


@pytest.mark.realtime
@pytest.mark.spec("P46", "T32")
async def test_large_bodies_that_do_not_come_hold_up_only_their_principal() -> None:
    async with (
        site(limits=RequestLimits(share_seconds=0.3)) as server,
        server.client() as ada,
        AsyncExitStack() as slow,
    ):
        await server.key("bob")
        await server.key("eve", org="other")
        path = UPLOAD.replace("ID", await make_session(ada))
        for _ in range(2):
            connection = await slow.enter_async_context(line(server))
            await connection.send(begun(server, "PUT", path, 50_000_000))
        await until(lambda: gives(429, ada, "PUT", path, 100_000), "both bodies to be under way")
        problem(await ada.put(path, content=b"a" * 100_000), 429, "too_many_transfers")
        assert await gives(200, ada, "PUT", path, 60_000), "small ones are none"
        for name in ("bob", "eve"):
            async with server.client(name) as client:
                assert await gives(200, client, "PUT", UPLOAD.replace("ID", await make_session(client)), 10_000_000)
        await slow.aclose()
        await until(lambda: gives(200, ada, "PUT", path, 100_000), "the bodies that were left to be over")


@pytest.mark.spec("P46", "T32")
@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("PUT", UPLOAD, "metrics", 403),
        ("PUT", UPLOAD.replace("ID", "none"), "ada", 404),
        ("PUT", UPLOAD, "bob", 404),
        ("PUT", UPLOAD, "reader", 403),
        ("POST", "/v1/sessions/ID/calls", "metrics", 403),
        ("POST", "/v1/sessions/ID/calls", "bob", 404),
        ("POST", "/v1/sessions/ID/messages", "metrics", 403),
        ("POST", "/v1/sessions/ID/messages", "bob", 404),
        ("POST", "/v1/agents", "metrics", 403),
        ("POST", "/v1/responses", "metrics", 403),
        ("POST", "/v1/agents/none/ag-ui", "metrics", 403),
        ("POST", "/mcp/sessions/ID", "metrics", 403),
        ("POST", "/mcp/sessions/ID", "bob", 404),
        ("POST", "/mcp/agents/none", "ada", 404),
        ("POST", "/v1/nothing", "ada", 404),
        ("PUT", "/v1/sessions/ID/messages", "ada", 405),
    ],
)
async def test_who_may_not_send_a_large_body_is_told_before_it_comes(
    shared: Site, asker: httpx2.AsyncClient, method: str, path: str, key: str, status: int
) -> None:
    await shared.key("metrics", scopes=["capset:metrics"])
    await shared.key("bob")
    await shared.key("reader", principal="ada", permissions=["session_files:read"])
    path = path.replace("ID", await make_session(asker))
    async with line(shared) as connection:
        await connection.send(begun(shared, method, path, 1_000_000, key))
        assert (await connection.answer()).status == status


@pytest.mark.spec("P46", "T32")
async def test_large_json_that_is_handled_leaves_memory_to_others() -> None:
    room = WaitingRoom()
    limits = RequestLimits(memory=8 * 2**20, share_seconds=0.3)
    async with site(room.capability(), limits=limits) as server, server.client() as ada:
        await server.key("eve", org="other")
        session = await make_session(ada, "kit", "room")
        text = "a" * 900_000  # which counts four times: one call has all that is given to one caller
        async with asyncio.TaskGroup() as calls:
            waiting = calls.create_task(call(ada, session, "wait", text=text))
            await until(lambda: room.inside == 1, "the first call to hold its memory")
            problem(await call(ada, session, "echo", text=text), 503, "overloaded")
            async with server.client("eve") as eve:
                own_session = await make_session(eve)
                await until(lambda: echoes(eve, own_session, "a" * 200_000), "memory for another caller")
            room.go_on.set()
        assert waiting.result().status_code == 200
        await until(lambda: echoes(ada, session, text), "the memory of the first call")


async def echoes(client: httpx2.AsyncClient, session: str, text: str) -> bool:
    """Return whether a call of ``echo`` is answered; on a busy machine, one can wait for longer than it may."""
    return (await call(client, session, "echo", text=text)).status_code == 200


@pytest.mark.realtime
@pytest.mark.spec("P46", "T32")
async def test_a_body_that_trickles_ends_though_each_part_is_in_time() -> None:
    async with (
        site(limits=RequestLimits(body_seconds=0.4)) as server,
        server.client() as ada,
        line(server) as connection,
    ):
        path = f"/v1/sessions/{await make_session(ada)}/calls"
        await connection.send(begun(server, "POST", path, 70_000))
        for _ in range(20):
            await connection.send(b" ")
            await asyncio.sleep(0.1)
        assert (await connection.answer()).status == 408


@pytest.mark.realtime
@pytest.mark.spec("P46", "T32")
async def test_downloads_that_are_not_read_are_cut_off() -> None:
    async with site(limits=RequestLimits(send_seconds=2, share_seconds=0.2)) as server, server.client() as ada:
        url = f"/v1/sessions/{await make_session(ada)}/files/a.bin"
        size = 40_000_000  # more than sockets on the way take
        assert (await ada.put(url, content=b"a" * size)).status_code == 200
        async with line(server) as first, line(server) as two:
            for connection in (first, two):
                await connection.send(request(server, "GET", url))
            await until(lambda: gives(429, ada, "GET", url), "both downloads to begin")
            await until(lambda: gives(200, ada, "GET", url), "a download to be cut off")
            for connection in (first, two):
                with contextlib.suppress(ConnectionError):
                    assert len(await connection.rest()) < size


@pytest.mark.spec("P25", "P46")
async def test_a_download_is_broken_off_if_its_file_is_changed() -> None:
    async with site() as server, server.client() as ada, line(server) as connection:
        url = f"/v1/sessions/{await make_session(ada)}/files/a.bin"
        size = 40_000_000
        assert (await ada.put(url, content=b"a" * size)).status_code == 200
        await connection.send(request(server, "GET", url))
        assert (await connection.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert (await ada.put(url, content=b"b" * size)).status_code == 200
        content = await connection.rest()
        assert len(content) < size
        assert set(content) == set(b"a")


@pytest.mark.spec("P46", "T32")
async def test_idle_connections_make_room_for_new_ones() -> None:
    async with AsyncExitStack() as lines:
        server = await lines.enter_async_context(site(limits=RequestLimits(connections=3)))
        health = request(server, "GET", "/v1/healthz", key=None)
        connections: list[Line] = []
        for _ in range(4):
            connections.append(await lines.enter_async_context(line(server)))
            await connections[-1].send(health)
            assert (await connections[-1].answer()).status == 200
        first, two, *_ = connections
        assert await first.closed(), "it was idle for the longest time"
        await two.send(health)
        assert (await two.answer()).status == 200


@pytest.mark.spec("P46", "T32")
async def test_requests_without_a_credential_leave_connections_to_others() -> None:
    async with AsyncExitStack() as lines:
        server = await lines.enter_async_context(site(limits=RequestLimits(connections=10)))
        for _ in range(5):
            connection = await lines.enter_async_context(line(server))
            await connection.send(begun(server, "POST", "/approve/none", 5_000, key=None))
        async with line(server) as connection:
            await connection.send(request(server, "POST", "/approve/none", key=None))
            assert (await connection.answer()).status == 429
        async with server.client() as ada:
            for path in ("/v1/agents", "/v1/healthz"):
                assert await gives(200, ada, "GET", path)


@pytest.mark.spec("P46", "T32")
async def test_requests_of_an_organisation_leave_connections_to_others() -> None:
    room = WaitingRoom()
    async with site(room.capability(), limits=RequestLimits(connections=10)) as server, server.client() as ada:
        await server.key("eve", org="other")
        session = await make_session(ada, "kit", "room")
        async with asyncio.TaskGroup() as calls:
            waiting = [calls.create_task(call(ada, session, "wait", text="a")) for _ in range(5)]
            await until(lambda: room.inside == 5, "as many calls as a principal may have under way")
            refused = await call(ada, session, "echo", text="a")
            problem(refused, 429, "too_many_requests")
            assert refused.headers["retry-after"] == "1"
            async with server.client("eve") as eve:
                assert (await eve.get("/v1/agents")).status_code == 200
            room.go_on.set()
        assert [answer.result().status_code for answer in waiting] == [200] * 5
