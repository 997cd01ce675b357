"""``/v1/schedules``: what is made, listed, paused, deleted and refused."""

from __future__ import annotations

import httpx2
import pytest

from capset_server.runs import schedules
from tests.helpers.server.support import Site, make_agent, make_session, problem

DAILY = {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}


@pytest.mark.spec("D17")
async def test_schedules_are_made_listed_paused_and_deleted(asker: httpx2.AsyncClient) -> None:
    agent, session = await make_agent(asker), await make_session(asker)
    turn = await asker.post("/v1/schedules", json={**DAILY, "agent_id": agent["id"], "content": "Go.", "queue": "mail"})
    assert turn.status_code == 201, turn.text
    schedule = turn.json()
    assert turn.headers["location"] == f"/v1/schedules/{schedule['id']}"
    assert (schedule["kind"], schedule["queue"], schedule.get("session"), schedule["agent"]) == (
        "turn",
        "mail",
        None,
        agent["id"],
    )
    body = {"cron": "*/5 * * * *", "session_id": session, "tool": "echo", "arguments": {"text": "hi"}}
    call = (await asker.post("/v1/schedules", json=body)).json()
    assert (call["kind"], call["session"], call["timezone"]) == ("call", session, "UTC")
    assert (await asker.get("/v1/schedules", params={"limit": 2})).json()["items"] == [call, schedule]
    paused = (await asker.post(f"/v1/schedules/{schedule['id']}/pause")).json()
    assert {**paused, "next_at": schedule["next_at"]} == schedule
    assert "next_at" not in paused or paused["next_at"] is None
    assert (await asker.post(f"/v1/schedules/{schedule['id']}/resume")).json() == schedule
    assert (await asker.delete(f"/v1/schedules/{schedule['id']}")).status_code == 204
    problem(await asker.get(f"/v1/schedules/{schedule['id']}"), 404, "not_found")
    problem(await asker.delete(f"/v1/schedules/{schedule['id']}"), 404, "not_found")


@pytest.mark.spec("D17", "D41")
async def test_a_request_that_is_sent_again_under_its_key_makes_one_schedule(asker: httpx2.AsyncClient) -> None:
    body, headers = {**DAILY, "session_id": await make_session(asker), "content": "hi"}, {"Idempotency-Key": "s-1"}
    first, repeated = [await asker.post("/v1/schedules", json=body, headers=headers) for _ in range(2)]
    assert (first.status_code, repeated.status_code, repeated.text) == (201, 201, first.text)
    assert first.headers["location"] == repeated.headers["location"]
    other = (await asker.post("/v1/schedules", json=body)).json()
    assert (await asker.get("/v1/schedules", params={"limit": 2})).json()["items"] == [other, first.json()]


@pytest.mark.spec("D17")
async def test_what_is_no_schedule_is_refused(asker: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await make_session(asker)
    good = {"session_id": session, "content": "hi"}
    for bad in ({"cron": "61 * * * *"}, {"cron": "0 9 * * *", "timezone": "Nowhere"}, {}, {**DAILY, "tool": "echo"}):
        problem(await asker.post("/v1/schedules", json={**good, **bad}), 422, "invalid_arguments")
    problem(await asker.post("/v1/schedules", json={**DAILY, "agent_id": "nobody", "content": "hi"}), 404, "not_found")
    monkeypatch.setattr(schedules, "SCHEDULES", 0)
    problem(await asker.post("/v1/schedules", json={**good, **DAILY}), 429, "limit_exceeded")


@pytest.mark.spec("D17")
async def test_schedules_of_others_are_not_found(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker)
    schedule = (await asker.post("/v1/schedules", json={**DAILY, "session_id": session, "content": "hi"})).json()
    await shared.key("schedule-spy", principal="eve", scopes=["capset:call"])
    async with shared.client("schedule-spy") as spy:
        for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")):
            problem(await spy.request(method, f"/v1/schedules/{schedule['id']}{path}"), 404, "not_found")
        assert (await spy.get("/v1/schedules")).json()["items"] == []
    await shared.key("schedule-echoes", principal="ada", scopes=["capset:call:kit.echo"])
    async with shared.client("schedule-echoes") as echoes:
        body = {**DAILY, "session_id": session, "tool": "echo"}
        assert (await echoes.post("/v1/schedules", json=body)).status_code == 201
        problem(await echoes.post("/v1/schedules", json={**body, "tool": "other"}), 403, "permission_denied")
