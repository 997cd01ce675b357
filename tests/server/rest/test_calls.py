"""``/v1/sessions/{id}/calls``: whole and as events (spec 5, P9; spec 4, G1, G4)."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from capset.wire.calls import CallShape
from tests.server.support import Site, call, make_session, problem, site

SSE = {"Accept": "text/event-stream"}


async def events(client: httpx2.AsyncClient, session: str, tool: str, **arguments: Any) -> list[tuple[str, Any]]:
    """Call a tool as a stream, and return every event with its data."""
    body = {"tool": tool, "arguments": arguments}
    found: list[tuple[str, Any]] = []
    async with client.stream("POST", f"/v1/sessions/{session}/calls", json=body, headers=SSE) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        text = "".join([part async for part in response.aiter_text()])
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            found.append((fields.get("event", "message"), json.loads(fields["data"])))
    return found


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
    shared: Site, asker: httpx2.AsyncClient, tool: str, arguments: dict[str, Any], data: Any
) -> None:
    session = await make_session(asker, "kit")
    response = await call(asker, session, tool, **arguments)
    assert response.status_code == 200
    said = response.json()
    record = await shared.record(session=session)
    expected = {"success": True, "data": data, "record": record.id, "session": session}
    assert said == {**expected, "runtime_hash": record.runtime_hash, "prompt_hash": record.prompt_hash}
    CallShape.model_validate(said)
    ((kind, streamed),) = [one for one in await events(asker, session, tool, **arguments) if one[0] == "result"]
    assert (kind, {**streamed, "record": ""}) == ("result", {**said, "record": ""}), "a stream ends in the same object"


@pytest.mark.spec("G4", "P9")
@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code", "begins"),
    [
        ("unlock", {}, 403, "permission_denied", "Permission denied"),
        ("ecko", {}, 404, "not_found", ""),
        ("other.echo", {}, 404, "not_found", ""),
        ("echo", {"text": 5}, 422, "invalid_arguments", ""),
        ("echo", {"txt": "x"}, 422, "invalid_arguments", ""),
    ],
)
async def test_a_refused_call_has_its_status_and_its_record(
    shared: Site, asker: httpx2.AsyncClient, tool: str, arguments: dict[str, Any], status: int, code: str, begins: str
) -> None:
    session = await make_session(asker, "kit")
    response = await call(asker, session, tool, **arguments)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    said = response.json()
    assert (said["success"], said["error"]["code"], said["error"]["status"]) == (False, code, status)
    assert said["error"]["message"].startswith(begins)
    record = await shared.record(session=session)
    assert (said["record"], record.code) == (record.id, code)
    assert said["error"]["correlation"] == response.headers["x-correlation-id"] == record.correlation
    streamed = await events(asker, session, tool, **arguments)
    assert [name for name, _ in streamed] == ["result"]
    assert streamed[0][1]["error"]["code"] == code


@pytest.mark.spec("G1", "P9")
async def test_fields_that_do_not_fit_are_named(asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker, "kit")
    fields = (await call(asker, session, "echo", txt="x")).json()["error"]["fields"]
    assert fields == [{"path": "txt", "expected": "no such parameter", "did_you_mean": "text"}]


@pytest.mark.spec("G4", "P9")
@pytest.mark.parametrize(
    ("tool", "arguments", "code", "status"),
    [("refuse", {"text": "the shelf is empty"}, "refused_politely", 409), ("crash", {}, "internal_error", 500)],
)
async def test_a_tools_own_failure_was_let_through(
    shared: Site, asker: httpx2.AsyncClient, tool: str, arguments: dict[str, Any], code: str, status: int
) -> None:
    session = await make_session(asker, "kit")
    response = await call(asker, session, tool, **arguments)
    assert response.status_code == 200
    error = response.json()["error"]
    assert (error["code"], error["status"]) == (code, status)
    assert "hunter2" not in response.text
    assert (await shared.record(session=session)).code == code


@pytest.mark.spec("P9")
async def test_progress_comes_as_it_is_made(asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker, "kit")
    *progress, last = await events(asker, session, "steps", count=3)
    assert [(name, one["type"], one["data"]["fraction"]) for name, one in progress] == [
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
    shared: Site, asker: httpx2.AsyncClient, body: dict[str, Any], path: str
) -> None:
    session = await make_session(asker, "kit")
    said = problem(await asker.post(f"/v1/sessions/{session}/calls", json=body), 422, "invalid_arguments")
    assert [field["path"] for field in said["fields"]] == [path]
    assert await shared.records(session=session) == []


@pytest.mark.spec("P9", "G21")
async def test_a_call_keeps_the_correlation_of_its_client(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker, "kit")
    body = {"tool": "echo"}
    for given, kept in (
        ("order-7.a_B", True),
        ("a" * 100, True),
        ("a" * 101, False),
        ("two words", False),
        ("", False),
    ):
        headers = {"X-Correlation-Id": given}
        response = await asker.post(f"/v1/sessions/{session}/calls", json=body, headers=headers)
        own = response.headers["x-correlation-id"]
        assert (own == given) is kept
        assert (await shared.record(correlation=own)).session == session


@pytest.mark.spec("G4")
async def test_without_its_store_a_call_is_refused_and_says_so() -> None:
    async with site() as here, here.client() as client:
        session = await make_session(client, "kit")
        assert (await call(client, session, "note", text="x")).status_code == 200
        await here.kernel.store.close()
        try:
            response = await call(client, session, "note", text="x")
            assert response.status_code == 503
            assert (response.json().get("error") or response.json())["code"] == "store_unavailable"
        finally:
            await here.kernel.store.open()
