"""Trailers: fields after a body, which are no headers (spec 5, P42)."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.helpers.server.support import Site, checked_problem, make_session
from tests.helpers.server.wire import Answer, line

pytestmark = pytest.mark.spec("P42", "T34")


async def send(site: Site, path: str, body: bytes, headers: dict[str, str], trailers: dict[str, str]) -> Answer:
    """Send a chunked POST with trailers, the head and the rest apart, and return the answer."""
    sent = {
        "Host": f"127.0.0.1:{site.port}",
        "Content-Type": "application/json",
        "Transfer-Encoding": "chunked",
        "Trailer": ", ".join(trailers),
        **headers,
    }
    async with line(site) as connection:
        rest = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, fields(trailers))
        await connection.send(f"POST {path} HTTP/1.1\r\n".encode() + fields(sent) + b"\r\n" + rest)
        return await connection.answer()


def fields(named: dict[str, str]) -> bytes:
    """Return fields as they are sent."""
    return "".join(f"{name}: {value}\r\n" for name, value in named.items()).encode()


BODY = json.dumps({"tool": "echo", "arguments": {}}).encode()


async def test_credentials_in_a_trailer_identify_nobody(here: Site) -> None:
    key = {"Authorization": f"Bearer {here.keys['ada']}"}
    async with here.client() as client:
        path = f"/v1/sessions/{await make_session(client)}/calls"
    answer = await send(here, path, BODY, {}, key)
    checked_problem(answer.body, answer.headers, 401, "unauthenticated")
    assert (await send(here, path, BODY, key, {"Authorization": "Bearer nobody"})).status == 200


async def test_no_field_in_a_trailer_has_an_effect(here: Site) -> None:
    key = {"Authorization": f"Bearer {here.keys['ada']}"}
    late = {
        "Host": "elsewhere.example",
        "Origin": "https://elsewhere.example",
        "X-Correlation-Id": "from-a-trailer",
        "Idempotency-Key": "from-a-trailer",
        "Accept": "text/event-stream",
        "Content-Type": "text/plain",
        "Expect": "100-continue",
    }
    async with here.client() as client:
        path = f"/v1/sessions/{await make_session(client)}/calls"
    first = await send(here, path, BODY, key, late)
    repeated = await send(here, path, BODY, key, late)
    for answer in (first, repeated):
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-correlation-id"] != "from-a-trailer"
        assert "idempotent-replayed" not in answer.headers
    assert json.loads(first.body)["record"] != json.loads(repeated.body)["record"]


async def test_the_next_request_of_the_connection_has_its_own_headers(here: Site) -> None:
    host, key = {"Host": f"127.0.0.1:{here.port}"}, {"Authorization": f"Bearer {here.keys['ada']}"}
    chunked = {**host, "Transfer-Encoding": "chunked"}
    body = b"0\r\n" + fields(key) + b"\r\n"
    async with line(here) as connection:
        await connection.send(b"GET /v1/agents HTTP/1.1\r\n" + fields(chunked) + b"\r\n" + body)
        assert (await connection.answer()).status == 401
        await connection.send(b"GET /v1/agents HTTP/1.1\r\n" + fields(host) + b"\r\n")
        assert (await connection.answer()).status == 401
        await connection.send(b"GET /v1/agents HTTP/1.1\r\n" + fields({**host, **key}) + b"\r\n")
        assert (await connection.answer()).status == 200


@pytest.mark.parametrize("end", [b"X-More: a\r\n", b"a"])
async def test_trailers_have_the_bound_of_a_head(here: Site, end: bytes) -> None:
    head = {
        "Host": f"127.0.0.1:{here.port}",
        "Authorization": f"Bearer {here.keys['ada']}",
        "Content-Type": "application/json",
        "Transfer-Encoding": "chunked",
    }
    start = b"" if end.endswith(b"\n") else b"X-Endless: "
    async with line(here) as connection:
        await connection.send(b"POST /v1/agents HTTP/1.1\r\n" + fields(head) + b"\r\n2\r\n{}\r\n0\r\n" + start)
        for _ in range(40):
            await connection.send(end * (1_000 // len(end)))
            await asyncio.sleep(0)
        answer = await connection.answer()
        checked_problem(answer.body, answer.headers, 431, "headers_too_large")
        assert await connection.closed()
