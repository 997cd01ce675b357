"""``Idempotency-Key``: a call that is sent again is answered again, and made once (spec 5, P9)."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Capability, Request, tool
from tests.helpers.server.support import Site, Sleeper, make_session, problem, site
from tests.waiting import until


async def call(
    client: httpx2.AsyncClient, session: str, key: str, name: str, accept: str = "*/*", **arguments: Any
) -> httpx2.Response:
    body = {"tool": name, "arguments": arguments}
    headers = [(b"Idempotency-Key", key.encode()), (b"Accept", accept.encode())]
    return await client.post(f"/v1/sessions/{session}/calls", json=body, headers=headers)


@pytest.mark.spec("P9")
async def test_a_call_that_is_sent_again_is_made_once(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    first, repeated = [await call(ada, session, "k-1", "note", text="once") for _ in range(2)]
    assert (first.status_code, repeated.status_code, first.json()) == (200, 200, repeated.json())
    assert "Idempotent-Replayed" not in first.headers
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert len(await here.records(tool="note")) == 1
    other = await call(ada, session, "k-2", "note", text="once")
    assert other.json()["record"] != first.json()["record"]
    assert len(await here.records(tool="note")) == 2


async def test_a_tools_own_failure_is_kept_and_a_refusal_is_not(ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    for name, arguments, status, records in (("refuse", {"text": "no"}, 200, 1), ("unlock", {}, 403, 2)):
        answers = [await call(ada, session, name, name, **arguments) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [status, status]
        assert len({answer.json()["record"] for answer in answers}) == records


async def test_one_key_is_for_one_request_in_one_session(here: Site, ada: httpx2.AsyncClient) -> None:
    session, other = await make_session(ada), await make_session(ada)
    assert (await call(ada, session, "k-1", "echo", text="a")).status_code == 200
    changed = await call(ada, session, "k-1", "echo", text="b")
    assert "another request" in problem(changed, 422, "invalid_arguments")["detail"]
    assert (await call(ada, other, "k-1", "echo", text="b")).json()["data"] == "b"
    assert len(await here.records(tool="echo")) == 2


async def leave(server: Site, sending: asyncio.Task[httpx2.Response], tool: str) -> None:
    """Break a request off, and wait until the record says that its call was cancelled."""
    sending.cancel()
    await asyncio.wait({sending})
    (record,) = await until(lambda: server.records(tool=tool), "the record of the call")
    assert record.outcome == "cancelled"


@pytest.mark.spec("D41")
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_the_key_of_a_call_that_its_client_left_before_it_began_is_free(accept: str) -> None:
    started, is_open, paid = asyncio.Event(), asyncio.Event(), list[str]()

    async def needs_approval(request: Request) -> bool:
        started.set()
        await is_open.wait()
        return False

    @tool(effect="write", approval=needs_approval)
    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return f"{to} has it"

    async with site(Capability("till", tools=[pay])) as server, server.client() as ada:
        session = await make_session(ada, "till")
        sending = asyncio.create_task(call(ada, session, "k-1", "pay", accept, to="bob"))
        await asyncio.wait_for(started.wait(), 60)
        await leave(server, sending, "pay")
        is_open.set()

        async def answers() -> list[httpx2.Response]:
            answer = await call(ada, session, "k-1", "pay", to="bob")
            return [] if answer.status_code == 409 else [answer]

        (repeated,) = await until(answers, "the key to be free just after the record is there")
        assert (repeated.status_code, repeated.json()["data"]) == (200, "bob has it")
        assert paid == ["bob"]


@pytest.mark.spec("D41")
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_the_key_of_a_call_that_its_client_left_while_it_ran_is_not(accept: str) -> None:
    sleeper, log = Sleeper(), io.BytesIO()
    async with site(sleeper.capability(), log=log) as server, server.client() as ada:
        session = await make_session(ada, "bed")
        sending = asyncio.create_task(call(ada, session, "k-1", "sleep", accept))
        await asyncio.wait_for(sleeper.started.wait(), 60)
        await leave(server, sending, "sleep")
        await until(lambda: b"/calls" in log.getvalue(), "the request to be over")
        repeated = await call(ada, session, "k-1", "sleep")
        assert "was interrupted" in problem(repeated, 409, "conflict")["detail"]


@pytest.mark.parametrize("store", ["memory://", "sqlite:///{folder}/a.db"])
async def test_while_the_first_is_under_way_the_second_waits_for_nothing(store: str, tmp_path: Path) -> None:
    sleeper = Sleeper()
    store = store.format(folder=tmp_path)
    async with site(sleeper.capability(), store=store) as server, server.client() as client:
        session = await make_session(client, "bed")
        first = asyncio.create_task(call(client, session, "k-1", "sleep"))
        await sleeper.started.wait()
        problem(await call(client, session, "k-1", "sleep"), 409, "conflict")
        sleeper.woken.set()
        assert (await first).json()["data"] == "awake"
        assert (await call(client, session, "k-1", "sleep")).json() == (await first).json()
        assert len(await server.records(tool="sleep")) == 1


async def test_many_at_once_are_one(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    answers = await asyncio.gather(*(call(ada, session, "k-1", "note", text="x") for _ in range(16)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert len(await here.records(tool="note")) == 1


async def test_a_stream_that_is_asked_for_again_tells_its_result(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    first, repeated = [await call(ada, session, "k-1", "steps", "text/event-stream", count=2) for _ in range(2)]
    assert first.text.count("data: ") == 3
    assert repeated.text == first.text[first.text.index("event: result") :]
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert len(await here.records(tool="steps")) == 1


@pytest.mark.parametrize("key", ["x" * 256, "a b", "é"])
async def test_a_key_that_is_none_is_refused(key: str, ada: httpx2.AsyncClient) -> None:
    problem(await call(ada, await make_session(ada), key, "echo"), 400, "invalid_header")
