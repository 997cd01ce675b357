"""``/v1/runs``: what is queued, listed, cancelled and refused, without a worker."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from capset.stores.base import NewEvent, RunRow, TurnRow
from capset_server.runs import submission
from tests.helpers.server.rest.turns import turn
from tests.helpers.server.runners import Parrot
from tests.helpers.server.sse import events_of, following
from tests.helpers.server.support import Site, make_agent, make_session, problem, site
from tests.waiting import until


@pytest.mark.spec("D10")
async def test_runs_are_queued_listed_and_cancelled(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker)
    turn = await asker.post("/v1/runs", json={"agent_id": agent["id"], "content": {"say": "hi"}, "queue": "mail"})
    assert turn.status_code == 202, turn.text
    run = turn.json()
    assert turn.headers["location"] == f"/v1/runs/{run['id']}"
    assert (run["kind"], run["state"], run["queue"], run["attempts"]) == ("turn", "queued", "mail", 0)
    assert (await asker.get(f"/v1/sessions/{run['session']}")).status_code == 200
    body = {"session_id": run["session"], "tool": "echo", "arguments": {"text": "hi"}}
    call = (await asker.post("/v1/runs", json=body)).json()
    assert (call["kind"], call["queue"]) == ("call", "default")
    runs = (await asker.get("/v1/runs", params={"queue": "mail", "limit": 1})).json()["items"]
    assert runs == [run]
    cancelled = (await asker.post(f"/v1/runs/{run['id']}/cancel")).json()
    assert (cancelled["state"], cancelled["outcome"]) == ("cancelled", {"by": "ada"})
    assert (await asker.post(f"/v1/runs/{run['id']}/cancel")).json() == cancelled
    assert (await asker.get("/v1/runs", params={"state": "cancelled"})).json()["items"] == [cancelled]


@pytest.mark.spec("D10")
@pytest.mark.parametrize(
    "fields",
    [
        {"content": "hi"},
        {"content": "hi", "session_id": "SESSION", "agent_id": "kit"},
        {"session_id": "SESSION"},
        {"session_id": "SESSION", "content": "hi", "tool": "echo"},
        {"session_id": "SESSION", "content": "hi", "arguments": {}},
        {"agent_id": "kit", "tool": "echo"},
        {"session_id": "SESSION", "content": "hi", "queue": "A B"},
    ],
)
async def test_what_is_no_run_is_refused(asker: httpx2.AsyncClient, fields: dict[str, object]) -> None:
    session = await make_session(asker)
    body = {name: session if value == "SESSION" else value for name, value in fields.items()}
    problem(await asker.post("/v1/runs", json=body), 422, "invalid_arguments")


@pytest.mark.spec("D10")
async def test_keys_for_one_tool_queue_calls_of_that_alone(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker)
    await shared.key("ada-echoes", principal="ada", scopes=["capset:call:kit.echo"])
    async with shared.client("ada-echoes") as client:
        call = {"session_id": session, "tool": "echo", "arguments": {"text": "hi"}}
        assert (await client.post("/v1/runs", json=call)).status_code == 202
        problem(await client.post("/v1/runs", json={**call, "tool": "other"}), 403, "permission_denied")
        problem(await client.post("/v1/runs", json={"session_id": session, "content": "hi"}), 403, "permission_denied")


@pytest.mark.spec("D10")
async def test_an_organisation_has_no_more_unfinished_runs_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "UNFINISHED_RUNS", 1)
    async with site() as server, server.client() as client:
        session = await make_session(client)
        body = {"session_id": session, "content": "hi"}
        first = (await client.post("/v1/runs", json=body)).json()
        problem(await client.post("/v1/runs", json=body), 429, "limit_exceeded")
        await client.post(f"/v1/runs/{first['id']}/cancel")
        assert (await client.post("/v1/runs", json=body)).status_code == 202


@pytest.mark.spec("D10", "D13")
async def test_a_run_that_is_a_turn_begins_once_and_follows_it() -> None:
    """As a worker begins it; its server cancels it like any turn."""
    from capset_server.runs.worker import Worker

    parrot = Parrot()
    async with site(generator=parrot) as server, server.client() as client:
        worker = Worker(server.service, "w-1", ["default"])
        session = await make_session(client)
        done = (await client.post("/v1/runs", json={"session_id": session, "content": {"say": "hi"}})).json()
        await worker.work(done["id"])
        await worker.work(done["id"])
        run = (await client.get(f"/v1/runs/{done['id']}")).json()
        assert (run["state"], run["outcome"]["output"], parrot.ran) == ("succeeded", "hi", 1)
        failing = (await client.post("/v1/runs", json={"session_id": session, "content": {"fail": "why"}})).json()
        await worker.work(failing["id"])
        run = (await client.get(f"/v1/runs/{failing['id']}")).json()
        assert (run["state"], run["outcome"]["error"]["code"]) == ("failed", "failed_politely")
        events = (await client.get(f"/v1/sessions/{session}/events", params={"follow": False})).text
        assert done["id"] in events


@pytest.mark.spec("D10")
@pytest.mark.parametrize("fields", [{"content": {"say": "hi"}}, {"tool": "echo", "arguments": {"text": "hi"}}])
async def test_a_run_of_a_revoked_key_fails(fields: dict[str, object]) -> None:
    from capset_server.runs.worker import Worker

    async with site(generator=Parrot()) as server, server.client() as client:
        worker = Worker(server.service, "w-1", ["default"])
        session = await make_session(client)
        run = (await client.post("/v1/runs", json={"session_id": session, **fields})).json()
        run_row = await server.kernel.store.runs.get(run["id"])
        assert run_row is not None
        keys = await server.kernel.store.keys.list()
        for key in keys:
            await server.kernel.store.keys.revoke(key.id, server.kernel.now())
        await worker.work(run["id"])
        ended = await server.kernel.store.runs.get(run["id"])
        assert ended is not None
        assert (ended.state, "revoked" in str(ended.outcome)) == ("failed", True)


@pytest.mark.spec("D10", "D41")
async def test_a_request_that_is_sent_again_under_its_key_queues_one_run(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker)
    body, headers = {"agent_id": agent["id"], "content": "hi", "queue": "once"}, {"Idempotency-Key": "k-1"}
    first, repeated = [await asker.post("/v1/runs", json=body, headers=headers) for _ in range(2)]
    assert (first.status_code, repeated.status_code, repeated.text) == (202, 202, first.text)
    assert first.headers["location"] == repeated.headers["location"] == f"/v1/runs/{first.json()['id']}"
    assert (first.headers.get("idempotent-replayed"), repeated.headers["idempotent-replayed"]) == (None, "true")
    problem(await asker.post("/v1/runs", json={**body, "content": "ho"}, headers=headers), 422, "invalid_arguments")
    assert (await asker.get("/v1/runs", params={"queue": "once"})).json()["items"] == [first.json()]
    headers["Idempotency-Key"] = "k-2"
    problem(await asker.post("/v1/runs", json={**body, "agent_id": "none"}, headers=headers), 404, "not_found")
    body["content"] = "ho"
    assert (await asker.post("/v1/runs", json=body, headers=headers)).status_code == 202, "nothing was queued before"


@pytest.mark.spec("P99")
async def test_a_queued_turn_is_followed_from_its_beginning_and_a_call_is_not() -> None:
    from capset_server.runs.worker import Worker

    async with site(generator=Parrot()) as server, server.client() as client:
        session = await make_session(client, "kit")
        await turn(client, session, "before")
        run, other = [
            (await client.post("/v1/runs", json={"session_id": session, "content": {"say": "hi"}})).json()["id"]
            for _ in range(2)
        ]
        assert (await client.get(f"/v1/runs/{run}/events", params={"follow": False})).text == "retry: 2000\n\n"
        async with following(client, f"/v1/runs/{run}/events") as events, asyncio.timeout(60):
            await until(lambda: server.service.turns.followers.count)
            await Worker(server.service, "w-1", ["default"]).work(run)
            assert [event.type async for event in events] == ["turn.started", "turn.ended"]
        async with following(client, f"/v1/runs/{other}/events") as events, asyncio.timeout(60):
            await client.post(f"/v1/runs/{other}/cancel")
            assert [event async for event in events] == []
        body = {"session_id": session, "tool": "echo", "arguments": {"text": "hi"}}
        call = (await client.post("/v1/runs", json=body)).json()
        problem(await client.get(f"/v1/runs/{call['id']}/events"), 422, "invalid_arguments")


@pytest.mark.spec("P99")
async def test_the_events_of_a_run_are_its_own_up_to_its_last_end() -> None:
    async with site(generator=Parrot()) as server, server.client() as client:
        session = await make_session(client, "kit")
        await turn(client, session, "before")
        events, now = server.kernel.store.events, server.kernel.now()
        run = RunRow(
            id=server.kernel.new_id(),
            org="acme",
            principal="ada",
            principal_kind="user",
            kind="turn",
            session=session,
            agent="kit",
            correlation="c-1",
            created_at=now,
        )
        held = TurnRow(session, run.id, "here", "9999-12-31T00:00:00.000000Z")
        started, failed, retried, ended = [
            NewEvent(f"turn.{name}", "{}") for name in ("started", "failed", "retried", "ended")
        ]
        await events.begin(held, started, now=now, interrupted=failed, run=run)
        await events.append(held, [failed], now=now, then=None)
        await events.begin(held, retried, now=now, interrupted=failed)
        await events.append(held, [ended], now=now, then=None)
        await turn(client, session, "after")

        async def ids(last: str | None = None) -> list[str]:
            headers = {} if last is None else {"Last-Event-ID": last}
            answer = await client.get(f"/v1/runs/{run.id}/events", headers=headers)
            assert answer.status_code == (200 if last != "6" else 204), answer.text
            return [event.id for event in events_of(answer.text)]

        assert [await ids(last) for last in (None, "4", "6")] == [["3", "4", "5", "6"], ["5", "6"], []]
