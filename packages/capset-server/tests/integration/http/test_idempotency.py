"""``Idempotency-Key``: a call that is sent again is answered again, and made once (spec 5, P9)."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import httpx2
import pytest

from capset import Capability, Request, tool
from tests.helpers.server.support import Site, Sleeper, make_session, site
from tests.waiting import until


def headers(key: str, **more: str) -> dict[str, str]:
    return {"Idempotency-Key": key, **more}


async def call(client: httpx2.AsyncClient, session: str, key: str, tool: str, **arguments: Any) -> httpx2.Response:
    body = {"tool": tool, "arguments": arguments}
    return await client.post(f"/v1/sessions/{session}/calls", json=body, headers=headers(key))


@pytest.mark.spec("P9")
async def test_a_call_that_is_sent_again_is_made_once(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    first = await call(ada, session, "k-1", "note", text="once")
    repeated = await call(ada, session, "k-1", "note", text="once")
    assert (first.status_code, repeated.status_code) == (200, 200)
    assert first.json() == repeated.json()
    assert "Idempotent-Replayed" not in first.headers
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert len(await here.records(tool="note")) == 1
    other = await call(ada, session, "k-2", "note", text="once")
    assert other.json()["record"] != first.json()["record"]
    assert len(await here.records(tool="note")) == 2


async def test_a_tools_own_failure_is_kept_and_a_refusal_is_not(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    failures = [await call(ada, session, "k-1", "refuse", text="no") for _ in range(2)]
    assert [answer.status_code for answer in failures] == [200, 200]
    assert len({answer.json()["record"] for answer in failures}) == 1
    refusals = [await call(ada, session, "k-2", "unlock") for _ in range(2)]
    assert [answer.status_code for answer in refusals] == [403, 403]
    assert len({answer.json()["record"] for answer in refusals}) == 2


async def test_one_key_is_for_one_request_in_one_session(here: Site, ada: httpx2.AsyncClient) -> None:
    session, other = await make_session(ada), await make_session(ada)
    assert (await call(ada, session, "k-1", "echo", text="a")).status_code == 200
    changed = await call(ada, session, "k-1", "echo", text="b")
    assert changed.status_code == 422
    assert "another request" in changed.json()["detail"]
    assert (await call(ada, other, "k-1", "echo", text="b")).json()["data"] == "b"
    assert len(await here.records(tool="echo")) == 2


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
        path, body = f"/v1/sessions/{session}/calls", {"tool": "pay", "arguments": {"to": "bob"}}
        sending = asyncio.create_task(ada.post(path, json=body, headers=headers("k-1", Accept=accept)))
        await asyncio.wait_for(started.wait(), 60)
        sending.cancel()
        await asyncio.wait({sending})
        (record,) = await until(lambda: server.records(tool="pay"), "the record of the call")
        assert record.outcome == "cancelled"
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
        path, body = f"/v1/sessions/{session}/calls", {"tool": "sleep", "arguments": {}}
        sending = asyncio.create_task(ada.post(path, json=body, headers=headers("k-1", Accept=accept)))
        await asyncio.wait_for(sleeper.started.wait(), 60)
        sending.cancel()
        await asyncio.wait({sending})
        (record,) = await until(lambda: server.records(tool="sleep"), "the record of the call")
        assert record.outcome == "cancelled"
        await until(lambda: b"/calls" in log.getvalue(), "the request to be over")
        repeated = await call(ada, session, "k-1", "sleep")
        assert repeated.status_code == 409
        assert "broken off" in repeated.json()["detail"]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_while_the_first_is_under_way_the_second_waits_for_nothing(store: str, tmp_path: Any) -> None:
    sleeper = Sleeper()
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/a.db"
    async with site(sleeper.capability(), store=url) as server, server.client() as client:
        session = await make_session(client, "bed")
        first = asyncio.create_task(call(client, session, "k-1", "sleep"))
        await sleeper.started.wait()
        second = await call(client, session, "k-1", "sleep")
        assert (second.status_code, second.json()["code"]) == (409, "conflict")
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
    body = {"tool": "steps", "arguments": {"count": 2}}
    path, request_headers = f"/v1/sessions/{session}/calls", headers("k-1", Accept="text/event-stream")
    first = await ada.post(path, json=body, headers=request_headers)
    repeated = await ada.post(path, json=body, headers=request_headers)
    assert first.text.count("data: ") == 3
    assert repeated.text == first.text[first.text.index("event: result") :]
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert len(await here.records(tool="steps")) == 1


@pytest.mark.parametrize("key", ["x" * 256, "a b", "é"])
async def test_a_key_that_is_none_is_refused(key: str, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada)
    body = {"tool": "echo", "arguments": {}}
    key_header = {"Idempotency-Key": key.encode()}
    answer = await ada.post(f"/v1/sessions/{session}/calls", json=body, headers=key_header)  # pyright: ignore[reportArgumentType]  # bytes on purpose
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_header")
