"""A server without its shield: everything is answered, and rules for requests hold (spec 5, P35)."""

from __future__ import annotations

import asyncio

import pytest

from capset_server.http.request_rules import RequestLimits
from tests.helpers.server.support import Sleeper, call, make_session, problem, site
from tests.helpers.server.wire import line, request

pytestmark = pytest.mark.spec("P35")


async def test_no_caller_is_held_to_a_part_of_the_server() -> None:
    bed = Sleeper()
    limits = RequestLimits(shield=False, connections=2, memory=1, body=10_000)
    async with site(bed.capability(), limits=limits) as server, server.client() as ada:
        session = await make_session(ada, "kit", "bed")
        async with asyncio.TaskGroup() as calls:
            sleeping = [calls.create_task(call(ada, session, "sleep")) for _ in range(3)]
            await bed.started.wait()
            assert (await call(ada, session, "echo", text="a" * 100_000)).status_code == 200
            bed.woken.set()
        assert [task.result().json()["data"] for task in sleeping] == ["awake"] * 3
        problem(await ada.post("/v1/agents", content=b" " * 10_001), 413, "body_too_large")


async def test_what_is_no_http_gets_the_answer_of_uvicorn() -> None:
    async with site(limits=RequestLimits(shield=False)) as server:
        async with line(server) as connection:
            await connection.send(b"nonsense\r\n\r\n")
            assert (await connection.answer()).body == b"Invalid HTTP request received."
        async with line(server) as connection:
            await connection.send(request(server, "GET", "/v1/healthz", key=None))
            assert (await connection.answer()).status == 200
