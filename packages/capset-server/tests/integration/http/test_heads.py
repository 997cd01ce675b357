"""What comes before a body: too much, too slow, or no HTTP at all (spec 5, P15)."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from capset_server.http.request_rules import RequestLimits
from tests.helpers.server.support import Site, Sleeper, checked_problem, make_session, site
from tests.helpers.server.wire import ask, line, request

pytestmark = pytest.mark.realtime


@pytest.mark.spec("P15")
async def test_headers_have_a_bound_whether_they_are_long_or_many(shared: Site) -> None:
    many = {f"x_{number}": "a" for number in range(5_000)}
    long_query = "/v1/agents?name=" + "a" * 40_000
    for path, headers in (("/v1/agents", {"x_big": "a" * 40_000}), (long_query, {}), ("/v1/agents", many)):
        answer = await ask(shared, "GET", path, **headers)
        checked_problem(answer.body, answer.headers, 431, "headers_too_large")
        assert answer.headers["connection"] == "close"
    assert (await ask(shared, "GET", "/v1/agents", x_big="a" * 30_000)).status == 200


@pytest.mark.spec("P15")
@pytest.mark.parametrize("start", [b"GET /v1/agents HTTP/1.1\r\nx-endless: ", b"GET /", b"GET /v1/agents HTTP/1.1\r\n"])
async def test_a_head_without_end_is_cut_off(shared: Site, start: bytes) -> None:
    filler = b"x-more: 1\r\n" * 100 if start.endswith(b"1\r\n") else b"a" * 1_000
    async with line(shared) as connection:
        await connection.send(start)
        with contextlib.suppress(ConnectionError):
            for _ in range(1_000):
                await connection.send(filler)
                await asyncio.sleep(0)
            await connection.rest()  # which ends, since the server has closed
    assert (await ask(shared, "GET", "/v1/healthz")).status == 200


@pytest.mark.spec("P15")
async def test_a_head_that_is_too_large_is_told_so_before_it_ends(shared: Site) -> None:
    async with line(shared) as connection:
        await connection.send(b"GET /v1/agents HTTP/1.1\r\nx-endless: " + b"a" * 33_000)
        answer = await connection.answer()
        checked_problem(answer.body, answer.headers, 431, "headers_too_large")
        assert await connection.closed()


@pytest.mark.spec("P15")
async def test_a_head_that_comes_too_slowly_is_refused() -> None:
    async with site(limits=RequestLimits(head_seconds=0.2)) as server, line(server) as connection:
        await connection.send(b"GET /v1/agents HTTP/1.1\r\nhost: ")
        for _ in range(4):
            await asyncio.sleep(0.03)
            await connection.send(b"a")
        answer = await connection.answer()
        checked_problem(answer.body, answer.headers, 408, "request_timeout")
        assert await connection.closed()


@pytest.mark.spec("P15")
async def test_a_client_that_says_nothing_is_let_go() -> None:
    async with site(limits=RequestLimits(head_seconds=0.2)) as server, line(server) as connection:
        assert await connection.closed()


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/agents\r\n\r\n",
        b"GET /v1/agents HTTP/9.9\r\n\r\n",
        b"GET /v1/\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/agents HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /v1/agents HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://localhost HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"CONNECT localhost:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"CONNECT / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_told_so_and_let_go(shared: Site, garbage: bytes) -> None:
    async with line(shared) as connection:
        await connection.send(garbage)
        answer = await connection.answer()
        codes = {400: "invalid_http", 401: "unauthenticated", 405: "method_not_allowed", 421: "wrong_host"}
        checked_problem(answer.body, answer.headers, answer.status, codes[answer.status])
        if answer.status == 400:
            assert await connection.closed()
    assert (await ask(shared, "GET", "/v1/healthz")).status == 200


@pytest.mark.spec("P15")
async def test_an_upgrade_is_not_taken(shared: Site) -> None:
    for upgrade in ("websocket", "h2c"):
        answer = await ask(shared, "GET", "/v1/agents", connection="Upgrade", upgrade=upgrade)
        assert answer.status == 200, "the request itself is answered"


@pytest.mark.spec("P15")
async def test_a_connection_serves_one_request_after_another(shared: Site) -> None:
    get = request(shared, "GET", "/v1/agents")
    broken = request(shared, "POST", "/v1/agents", b"{", content_type="application/json")
    last = request(shared, "GET", "/v1/agents", connection="close")
    async with line(shared) as connection:
        for sent, status in ((get, 200), (get, 200), (broken, 400), (last, 200)):
            await connection.send(sent)
            assert (await connection.answer()).status == status
        assert await connection.closed()


@pytest.mark.spec("P15")
async def test_requests_in_a_row_are_answered_in_their_order(shared: Site) -> None:
    async with line(shared) as connection:
        paths = ["/v1/agents", "/v1/nothing", "/v1/healthz", "/v1/capabilities/kit"]
        await connection.send(b"".join(request(shared, "GET", path) for path in paths))
        assert [(await connection.answer()).status for _ in paths] == [200, 404, 200, 200]


@pytest.mark.spec("P15")
async def test_a_head_behind_a_large_body_is_not_taken_for_large(shared: Site) -> None:
    async with shared.client() as client:
        path = f"/v1/sessions/{await make_session(client)}/files/a"
    head = request(shared, "GET", "/v1/healthz")
    async with line(shared) as connection:
        for part in (request(shared, "PUT", path, b"x" * 60_000) + head[:20], head[20:]):
            await connection.send(part)
            assert (await connection.answer()).status == 200


@pytest.mark.spec("P15")
@pytest.mark.parametrize("behind", [b"\0\0garbage\r\n\r\n", b"GET /v1/agents HTTP/1.1\r\nx-endless: " + b"a" * 33_000])
async def test_what_comes_behind_a_request_does_not_cut_off_its_answer(behind: bytes) -> None:
    async with site(limits=RequestLimits(head_seconds=0.3)) as server, line(server) as connection:
        await connection.send(request(server, "GET", "/v1/agents") + behind)
        answer = await connection.answer()
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        await connection.rest()


@pytest.mark.spec("P15")
async def test_half_a_head_behind_a_running_request_does_not_cut_off_its_answer() -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability(), limits=RequestLimits(head_seconds=0.2)) as server:
        async with server.client() as client:
            path = f"/v1/sessions/{await make_session(client, 'bed')}/calls"
        async with line(server) as connection:
            call = request(server, "POST", path, b'{"tool": "sleep"}', content_type="application/json")
            await connection.send(call + b"GET /v1/ag")
            await sleeper.started.wait()
            await asyncio.sleep(0.4)
            sleeper.woken.set()
            answer = await connection.answer()
            assert (answer.status, b'"awake"' in answer.body) == (200, True)
            await connection.rest()
