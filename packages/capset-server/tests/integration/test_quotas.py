"""What clients have a server keep is bounded, and every refusal names its limit (spec 5, P37)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import httpx2
import pytest

from capset import Capability, Principal, tool
from capset.definitions.governance.approvals import Answer
from capset.errors import ArgumentsTooLarge
from capset.kernel.governance.approval_arguments import MAX_ARGUMENT_BYTES
from capset.kernel.governance.approval_requests import MAX_PENDING_BYTES
from capset.stores.base import ReplyRow
from capset_server.http import idempotency
from capset_server.http.idempotency import MAX_REPLIES_BYTES, MAX_REPLY_BYTES
from capset_server.rest import links
from capset_testing import FakeClock
from capset_testing.store_suite.support import approval_row
from tests.helpers.server.support import Site, make_agent, make_session, problem, site
from tests.waiting import until

KIB: Final = 1024
MIB: Final = 1024 * KIB
FOREVER: Final = "9999-01-01T00:00:00.000000Z"


@tool(effect="write", approval="ask", argument_bytes=16 * MIB)
async def publish(text: str) -> int:
    """Publish a text."""
    return len(text)


@tool(effect="write")
async def print_out(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


press = Capability("press", tools=[publish, print_out])


async def call(client: httpx2.AsyncClient, session: str, name: str, key: str = "", **arguments: Any) -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"tool": name, "arguments": arguments}
    return await client.post(f"/v1/sessions/{session}/calls", json=body, headers=headers)


@pytest.mark.spec("P37", "T37")
async def test_arguments_that_wait_for_an_approval_are_bounded() -> None:
    async with site(press) as server, server.client() as ada:
        session = await make_session(ada, "press")
        body = problem(await call(ada, session, "publish", text="x" * MIB), 413, "arguments_too_large")
        assert f"{MAX_ARGUMENT_BYTES} bytes" in body["detail"]
        assert (await ada.get("/v1/approvals")).json()["items"] == []
        for number in range(70):
            text = str(number) + "x" * (MAX_PENDING_BYTES // 65)
            row = replace(approval_row(f"id-{number:02}", f"{number:064}"), arguments=f'"{text}"', expires_at=FOREVER)
            if number < 64:
                await server.kernel.store.approvals.open(replace(row, created_at=server.kernel.now()), max_pending=100)
        full = await call(ada, session, "publish", text="x" * (MIB - KIB))
        body = problem(full, 429, "limit_exceeded")
        assert "pending_arguments" in body["detail"]
        assert str(MAX_PENDING_BYTES) in body["detail"]
        assert (await call(ada, session, "publish", text="small")).status_code == 202
        await server.key("eve", org="other")
        async with server.client("eve") as eve:
            other = await make_session(eve, "press")
            assert (await call(eve, other, "publish", text="x" * (MIB - KIB))).status_code == 202


@pytest.mark.spec("P37", "T37")
async def test_an_approver_puts_no_larger_arguments_there(here: Site) -> None:
    """Whoever decides over HTTP has a body of a megabyte; a host decides in its own process."""
    boss, approvals = Principal("boss", org="acme"), here.kernel.approvals
    row = replace(approval_row("id-1"), expires_at=FOREVER)
    await here.kernel.store.approvals.open(row, max_pending=1)
    large = Answer(approved=True, arguments={"text": "x" * MIB})
    with pytest.raises(ArgumentsTooLarge, match="approval_arguments"):
        await approvals.decide("id-1", large, by=boss)
    assert (await approvals.get("id-1", org="acme")).status == "pending"
    fitting = Answer(approved=True, arguments={"text": "x" * (MIB - KIB)})
    assert (await approvals.decide("id-1", fitting, by=boss)).status == "approved"


@pytest.mark.spec("P37", "T37")
async def test_requests_for_approvals_go_with_their_session() -> None:
    async with site(press) as server, server.client() as ada:
        session = await make_session(ada, "press")
        body = (await call(ada, session, "publish", text="x")).json()
        assert (await ada.get(f"/v1/approvals/{body['approval']}")).status_code == 200
        assert (await ada.delete(f"/v1/sessions/{session}")).status_code == 204
        problem(await ada.get(f"/v1/approvals/{body['approval']}"), 404, "not_found")
        assert len(await server.records(tool="publish")) == 1, "the record stays"


@pytest.mark.spec("P37", "T37")
async def test_an_answer_that_is_too_large_to_be_kept_says_where_it_is_recorded() -> None:
    async with site(press) as server, server.client() as ada:
        session = await make_session(ada, "press")
        first = await call(ada, session, "print_out", "k-1", size=MAX_REPLY_BYTES)
        assert first.status_code == 200
        body = problem(await call(ada, session, "print_out", "k-1", size=MAX_REPLY_BYTES), 409, "conflict")
        assert first.json()["record"] in body["detail"]
        assert "record" in body["detail"]
        assert len(await server.records(tool="print_out")) == 1, "it is done once"
        small = [await call(ada, session, "print_out", "k-2", size=10) for _ in range(2)]
        assert small[0].json() == small[1].json()


@pytest.mark.spec("P37", "T37")
async def test_an_organisation_has_so_many_keys_within_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_KEYS", 20)  # ten thousand requests would take too long
    clock = FakeClock()
    async with site(press, clock=clock) as server, server.client() as ada:
        session = await make_session(ada, "press")
        replies = server.kernel.store.replies
        for number in range(20):
            row = ReplyRow(session, f"key-{number}", "0" * 64, server.kernel.now(), org="acme")
            assert await replies.reserve(row, expired="0000") is None
        clock.advance(3_600)
        response = await call(ada, session, "print_out", "one-more", size=1)
        assert "idempotency_keys" in problem(response, 429, "limit_exceeded")["detail"]
        assert response.headers["retry-after"] == str(23 * 3_600)
        assert await server.records(tool="print_out") == []
        assert (await call(ada, session, "print_out", size=1)).status_code == 200
        clock.advance(23 * 3_600 + 1)
        assert (await call(ada, session, "print_out", "one-more", size=1)).status_code == 200


@pytest.mark.realtime
@pytest.mark.spec("P37", "T37")
async def test_answers_make_room_and_are_swept_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "SWEEP_SECONDS", 0.01)
    clock = FakeClock()
    async with site(press, clock=clock) as server, server.client() as ada:
        session = await make_session(ada, "press")
        count = MAX_REPLIES_BYTES // MAX_REPLY_BYTES + 2
        for number in range(count):
            done = await call(ada, session, "print_out", f"k-{number}", size=MAX_REPLY_BYTES - KIB)
            assert done.status_code == 200
            clock.advance(1)
        newest = await call(ada, session, "print_out", f"k-{count - 1}", size=MAX_REPLY_BYTES - KIB)
        assert newest.headers["idempotent-replayed"] == "true"
        body = problem(await call(ada, session, "print_out", "k-0", size=MAX_REPLY_BYTES - KIB), 409, "conflict")
        assert "is not repeated" in body["detail"]
        assert len(await server.records(tool="print_out")) == count
        clock.advance(25 * 3_600)
        row = ReplyRow(session, "k-0", "0" * 64, server.kernel.now(), org="acme")  # whose reserving removes nothing

        async def is_swept() -> bool:
            return await server.kernel.store.replies.reserve(row, expired="0000") is None

        await until(is_swept, "the answer to be removed")


@pytest.mark.spec("P37", "T37")
@pytest.mark.parametrize("member", ["metadata", "context", "invocation"])
async def test_what_a_link_carries_is_bounded(here: Site, ada: httpx2.AsyncClient, member: str) -> None:
    session, size = await make_session(ada, "kit"), 64 * KIB

    async def record(length: int) -> httpx2.Response:
        data: Mapping[str, Any] = {"a": "x" * (length - len('{"a":""}'))}
        return await ada.post("/v1/links", json={"session_id": session, member: data})

    assert (await record(size)).status_code == 201
    body = problem(await record(size + 1), 422, "invalid_arguments")
    assert [field["path"] for field in body["fields"]] == [member]
    assert f"at most {size} bytes as JSON (attached_json)" in body["detail"]


@pytest.mark.spec("P37", "T37")
async def test_a_session_has_so_many_links(
    here: Site, ada: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "SESSION_LINKS", 3)
    session, other = await make_session(ada, "kit"), await make_session(ada, "kit")
    responses = await asyncio.gather(*[ada.post("/v1/links", json={"session_id": session}) for _ in range(6)])
    assert sorted(response.status_code for response in responses) == [201] * 3 + [429] * 3
    refused = next(response for response in responses if response.status_code == 429)
    assert "session_links" in problem(refused, 429, "limit_exceeded")["detail"]
    assert (await ada.post("/v1/links", json={"session_id": other})).status_code == 201


@pytest.mark.spec("P37", "T37")
async def test_an_agent_grows_no_larger_than_a_megabyte_by_its_changes(here: Site, ada: httpx2.AsyncClient) -> None:
    agent = await make_agent(ada, "kit", static_context={"a": "x" * (600 * KIB)})
    path = f"/v1/agents/{agent['id']}"
    body = problem(await ada.patch(path, json={"static_context": {"b": "x" * 600 * KIB}}), 422, "invalid_arguments")
    assert "agent_bytes" in body["detail"]
    stored = await here.kernel.store.agents.get("acme", agent["id"])
    assert stored is not None
    large = replace(stored, version=2, static_context={"a": "x" * 2 * MIB})
    assert await here.kernel.store.agents.replace(large), "as an earlier version stored it"
    assert len((await ada.get(path)).content) > 2 * MIB
    assert (await ada.patch(path, json={"status": "archived"})).status_code == 200
    smaller = {"status": "active", "static_context": {"a": "x" * (MIB - 10 * KIB)}}
    assert (await ada.patch(path, json=smaller)).status_code == 200
