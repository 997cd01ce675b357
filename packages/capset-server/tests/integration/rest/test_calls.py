"""``/v1/sessions/{id}/calls``: whole and as events (spec 5, P9; spec 4, G1, G4)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Capability, ToolError, tool
from capset.ext import Governance
from capset.wire.calls import CallProblem, CallShape
from capset_server import app
from tests.helpers.server.approving import again, approved, till
from tests.helpers.server.rest.calls import events
from tests.helpers.server.support import Site, call, make_session, problem, site


@pytest.fixture
async def session(asker: httpx2.AsyncClient) -> str:
    return await make_session(asker, "kit")


@pytest.mark.spec("P9")
@pytest.mark.parametrize(
    ("tool", "arguments", "data"),
    [
        ("echo", {"text": "hi"}, "hi"),
        ("kit.echo", {}, "hello"),
        ("note", {"text": "x"}, {"kept": "x"}),
        ("nothing", {}, None),
        ("steps", {"count": 2}, 2),
        ("echo", {"text": "<b>\u2028 😀"}, "<b>\u2028 😀"),
    ],
)
async def test_a_call_answers_with_what_the_tool_gave(
    shared: Site, asker: httpx2.AsyncClient, session: str, tool: str, arguments: dict[str, Any], data: Any
) -> None:
    response = await call(asker, session, tool, **arguments)
    assert response.status_code == 200
    body = response.json()
    record = await shared.record(session=session)
    expected = {"success": True, "data": data, "record": record.id, "session": session}
    assert body == {**expected, "runtime_hash": record.runtime_hash, "prompt_hash": record.prompt_hash}
    CallShape.model_validate(body)
    *_, (kind, streamed) = await events(asker, session, tool, **arguments)
    assert (kind, {**streamed, "record": ""}) == ("result", {**body, "record": ""}), "a stream ends in the same object"


def refused(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Return the answer to a call that was refused in its session, after checking that it is whole and this one."""
    body = problem(response, status, code)
    shape = CallProblem.model_validate(body)
    error = shape.error
    assert (error.code, error.status, error.message) == (code, status, shape.detail)
    assert (shape.success, error.correlation) == (False, shape.correlation)
    return body


@pytest.mark.spec("G4", "P9", "P31")
@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code"),
    [
        ("unlock", {}, 403, "permission_denied"),
        ("ecko", {}, 404, "not_found"),
        ("other.echo", {}, 404, "not_found"),
        ("echo", {"text": 5}, 422, "invalid_arguments"),
        ("echo", {"txt": "x"}, 422, "invalid_arguments"),
    ],
)
async def test_a_refused_call_has_its_status_and_its_record(
    shared: Site, asker: httpx2.AsyncClient, session: str, tool: str, arguments: dict[str, Any], status: int, code: str
) -> None:
    refusal = refused(await call(asker, session, tool, **arguments), status, code)
    record = await shared.record(session=session)
    assert (refusal["record"], record.code, record.correlation) == (record.id, code, refusal["correlation"])
    ((name, streamed),) = await events(asker, session, tool, **arguments)
    assert (name, streamed["error"]["code"]) == ("result", code)
    CallShape.model_validate(streamed)  # which has no member of a problem


@tool(effect="read", limits="1/1h")
async def ring() -> str:
    """Ring once an hour."""
    return "rung"


@pytest.mark.realtime
@pytest.mark.spec("P9", "P31")
async def test_an_approval_a_limit_and_the_store_refuse_in_the_same_form(tmp_path: Path) -> None:
    bell, store = Capability("bell", tools=[ring]), f"sqlite:///{tmp_path}/capset.db"
    governance = Governance(own_approvals=True)
    async with site(till, bell, store=store, governance=governance) as server, server.client() as client:
        session = await make_session(client, "kit", "till", "bell")
        asking = await call(client, session, "pay", to="bob")
        assert (asking.status_code, asking.headers["content-type"]) == (202, "application/json")
        CallShape.model_validate(asking.json())
        approval = asking.json()["approval"]
        assert (await approved(client, approval)).status_code == 200
        refused(await again(client, session, approval, to="eve"), 409, "approval_void")
        assert (await call(client, session, "ring")).headers["content-type"] == "application/json"
        limited = await call(client, session, "ring")
        assert refused(limited, 429, "limit_exceeded")["retry_after"] > 0
        assert int(limited.headers["retry-after"]) > 3000
        with closing(sqlite3.connect(tmp_path / "capset.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused(await call(client, session, "note", text="x"), 503, "store_busy")


@pytest.mark.spec("G1", "P9")
async def test_fields_that_do_not_fit_are_named(asker: httpx2.AsyncClient, session: str) -> None:
    body = (await call(asker, session, "echo", txt="x")).json()
    assert body["error"]["fields"] == [{"path": "txt", "expected": "no such parameter", "did_you_mean": "text"}]
    assert body["fields"] == body["error"]["fields"]


@pytest.mark.spec("G4", "P9")
@pytest.mark.parametrize(
    ("tool", "arguments", "code", "status"),
    [("refuse", {"text": "the shelf is empty"}, "refused_politely", 409), ("crash", {}, "internal_error", 500)],
)
async def test_a_tools_own_failure_was_let_through(
    shared: Site, asker: httpx2.AsyncClient, session: str, tool: str, arguments: dict[str, Any], code: str, status: int
) -> None:
    response = await call(asker, session, tool, **arguments)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["status"]) == (200, code, status)
    assert "hunter2" not in response.text
    assert (await shared.record(session=session)).code == code


@pytest.mark.spec("P9")
async def test_progress_comes_as_it_is_made(asker: httpx2.AsyncClient, session: str) -> None:
    *progress, last = await events(asker, session, "steps", count=3)
    assert [(name, event["type"], event["data"]["fraction"]) for name, event in progress] == [
        ("message", "progress", number / 3) for number in range(3)
    ]
    assert (last[0], last[1]["data"]) == ("result", 3)


@pytest.mark.spec("P9")
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "tool"),
        ({"tool": ""}, "tool"),
        ({"tool": 5}, "tool"),
        ({"tool": "echo", "arguments": []}, "arguments"),
        ({"tool": "echo", "arguments": None}, "arguments"),
        ({"tool": "echo", "argument": {}}, "argument"),
    ],
)
async def test_a_body_that_asks_for_no_call_makes_none(
    shared: Site, asker: httpx2.AsyncClient, session: str, body: dict[str, Any], path: str
) -> None:
    refusal = problem(await asker.post(f"/v1/sessions/{session}/calls", json=body), 422, "invalid_arguments")
    assert [field["path"] for field in refusal["fields"]] == [path]
    assert await shared.records(session=session) == []


@pytest.mark.spec("P9", "G21")
@pytest.mark.parametrize(
    ("correlation", "is_kept"),
    [("order-7.a_B", True), ("a" * 100, True), ("a" * 101, False), ("two words", False), ("", False)],
)
async def test_a_call_keeps_the_correlation_of_its_client(
    shared: Site, asker: httpx2.AsyncClient, session: str, correlation: str, is_kept: bool
) -> None:
    headers = {"X-Correlation-Id": correlation}
    response = await asker.post(f"/v1/sessions/{session}/calls", json={"tool": "echo"}, headers=headers)
    effective = response.headers["x-correlation-id"]
    assert (effective == correlation) is is_kept
    assert (await shared.record(correlation=effective)).session == session


@pytest.mark.spec("G4")
async def test_without_its_store_a_call_is_refused_and_says_so() -> None:
    async with site() as server, server.client() as client:
        session = await make_session(client, "kit")
        assert (await call(client, session, "note", text="x")).status_code == 200
        await server.kernel.store.close()
        try:
            problem(await call(client, session, "note", text="x"), 503, "store_unavailable")
        finally:
            await server.kernel.store.open()


@pytest.mark.spec("P9")
async def test_the_route_that_is_documented_answers_as_the_direct_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DirectRoutes", lambda below, routes: below)
    async with site() as server, server.client() as client:
        session = await make_session(client, "kit")
        key, body = {"Idempotency-Key": "once"}, {"tool": "echo", "arguments": {"text": "hi"}}
        for replayed in (None, "true"):
            response = await client.post(f"/v1/sessions/{session}/calls", json=body, headers=key)
            assert (response.status_code, response.json()["data"]) == (200, "hi")
            assert response.headers.get("idempotent-replayed") == replayed
        assert [name for name, _ in await events(client, session, "steps", count=2)][-1] == "result"
        assert (await call(client, session, "no-such-tool")).status_code == 404
        assert (await client.post(f"/v1/sessions/{session}/calls", json={"tool": 7})).status_code == 422


@pytest.mark.spec("P9", "D41")
async def test_an_error_about_a_file_whose_name_is_no_text_is_an_answer_and_is_kept() -> None:
    @tool(effect="write")
    async def look() -> None:
        """Look for a file."""
        raise ToolError("no file " + os.fsdecode(b"a\xff.txt"))

    async with site(Capability("shelf", tools=[look])) as server, server.client() as client:
        session = await make_session(client, "shelf")
        body = {"tool": "look", "arguments": {}}
        for replayed in (None, "true"):
            answer = await client.post(f"/v1/sessions/{session}/calls", json=body, headers={"Idempotency-Key": "once"})
            assert (answer.status_code, answer.headers.get("idempotent-replayed")) == (200, replayed)
            assert answer.json()["error"]["message"] == "no file a?.txt"
        *_, (name, result) = await events(client, session, "look")
        assert (name, result["error"]["message"]) == ("result", "no file a?.txt")
