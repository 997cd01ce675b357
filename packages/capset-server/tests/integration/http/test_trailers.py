"""Trailers: fields after a body, which are no headers (spec 5, P42)."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from tests.helpers.server.support import Site, checked_problem, make_session
from tests.helpers.server.wire import Answer, line

pytestmark = pytest.mark.spec("P42", "T34")
CHUNKED = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
BODY = json.dumps({"tool": "echo", "arguments": {}}).encode()


@pytest.fixture
async def path(ada: httpx2.AsyncClient) -> str:
    """Give the path of the calls of a session."""
    return f"/v1/sessions/{await make_session(ada)}/calls"


@pytest.fixture
def key(here: Site) -> dict[str, str]:
    """Give the field that identifies ``ada``."""
    return {"Authorization": f"Bearer {here.keys['ada']}"}


def fields(named: dict[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in named.items()).encode()


def head(site: Site, request: str, headers: dict[str, str]) -> bytes:
    return f"{request} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n".encode() + fields(headers) + b"\r\n"


async def send(site: Site, path: str, headers: dict[str, str], trailers: dict[str, str]) -> Answer:
    """Make a call with trailers behind its body, and return the answer."""
    async with line(site) as connection:
        rest = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(BODY), BODY, fields(trailers))
        announced = {**CHUNKED, "Trailer": ", ".join(trailers), **headers}
        await connection.send(head(site, f"POST {path}", announced) + rest)
        return await connection.answer()


async def test_credentials_in_a_trailer_identify_nobody(here: Site, path: str, key: dict[str, str]) -> None:
    answer = await send(here, path, {}, key)
    checked_problem(answer.body, answer.headers, 401, "unauthenticated")
    assert (await send(here, path, key, {"Authorization": "Bearer nobody"})).status == 200


async def test_no_field_in_a_trailer_has_an_effect(here: Site, path: str, key: dict[str, str]) -> None:
    late = {
        "Host": "elsewhere.example",
        "Origin": "https://elsewhere.example",
        "X-Correlation-Id": "from-a-trailer",
        "Idempotency-Key": "from-a-trailer",
        "Accept": "text/event-stream",
        "Content-Type": "text/plain",
        "Expect": "100-continue",
    }
    answers = [await send(here, path, key, late) for _ in range(2)]
    for answer in answers:
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.headers["x-correlation-id"] != "from-a-trailer"
        assert "idempotent-replayed" not in answer.headers
    assert len({json.loads(answer.body)["record"] for answer in answers}) == 2


async def test_the_next_request_of_the_connection_has_its_own_headers(here: Site, key: dict[str, str]) -> None:
    trailing = head(here, "GET /v1/agents", CHUNKED) + b"0\r\n" + fields(key) + b"\r\n"
    async with line(here) as connection:
        for request, status in (
            (trailing, 401),
            (head(here, "GET /v1/agents", {}), 401),
            (head(here, "GET /v1/agents", key), 200),
        ):
            await connection.send(request)
            assert (await connection.answer()).status == status


@pytest.mark.parametrize(("start", "more"), [(b"", b"X-More: a\r\n" * 90), (b"X-Endless: ", b"a" * 1_000)])
async def test_trailers_have_the_bound_of_a_head(here: Site, key: dict[str, str], start: bytes, more: bytes) -> None:
    async with line(here) as connection:
        await connection.send(head(here, "POST /v1/agents", CHUNKED | key) + b"2\r\n{}\r\n0\r\n" + start)
        for _ in range(40):
            await connection.send(more)
            await asyncio.sleep(0)
        answer = await connection.answer()
        checked_problem(answer.body, answer.headers, 431, "headers_too_large")
        assert await connection.closed()
