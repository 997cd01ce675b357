"""``client.approvals``, and calls that have to be approved (spec 4, G16–G18; spec 5, P12)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from capset.definitions.governance.approvers import ApproverRule
from capset.errors import ApprovalRequired, ApprovalVoid, Conflict, InvalidArguments, NotFound, PermissionDenied
from capset.ext import Governance
from capset_server.client import Client, data_of
from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, make_session, site
from tests.waiting import until


@asynccontextmanager
async def shop(**options: Any) -> AsyncGenerator[tuple[Site, Client, Client, str]]:
    """Give a server with the till, clients of who calls there and of who may approve, and a session of the former."""
    async with site(till, **options) as server:
        boss_key = await server.key("boss", scopes=["capset:approve"])
        key = await server.key("caller", scopes=["capset:call", "capset:write"])
        async with (
            server.client("caller") as plain,
            Client(server.url, key=key) as caller,
            Client(server.url, key=boss_key) as boss,
        ):
            yield server, caller, boss, await make_session(plain, "till")


@pytest.mark.spec("G18", "P12")
async def test_a_call_is_approved_and_made_again() -> None:
    async with shop() as (_, caller, boss, session):
        with pytest.raises(ApprovalRequired) as caught:
            data_of(await caller.call(session, "pay", {"to": "bob"}))
        request = caught.value.approval or ""
        assert (await caller.approvals.get(request)).status == "pending"
        with pytest.raises(PermissionDenied):
            await caller.approvals.approve(request)
        done = await boss.approvals.approve(request, note="fine")
        assert (done.status, done.decided_by, done.note) == ("approved", "user:boss", "fine")
        assert data_of(await caller.call(session, "pay", {"to": "bob"}, approval=request)) == "bob has 5"
        with pytest.raises(ApprovalVoid):
            data_of(await caller.call(session, "pay", {"to": "bob"}, approval=request))
        with pytest.raises(Conflict):
            await boss.approvals.reject(request)


@pytest.mark.spec("G17", "G18")
async def test_a_stream_waits_for_its_approval() -> None:
    async with shop() as (_, caller, boss, session), caller.stream(session, "pay", {"to": "bob"}) as events:
        event = await anext(events)
        assert event.type == "approval.requested"
        await boss.approvals.approve(event.data["id"], arguments={"to": "bob", "amount": 4})
        assert [later_event async for later_event in events] == []
        assert events.result.data == "bob has 4"


@pytest.mark.spec("P12", "P15")
async def test_requests_are_listed_and_decided() -> None:
    async with shop() as (_, caller, boss, session):
        requests = [(await caller.call(session, "pay", {"to": "bob", "amount": n})).approval or "" for n in range(3)]
        page = await boss.approvals.list(limit=2)
        rest = await boss.approvals.list(limit=2, cursor=page.next)
        pending = [request async for request in boss.approvals.all(status="pending", session=session)]
        for listed in ([*page.items, *rest.items], pending, (await caller.approvals.list(session=session)).items):
            assert [request.id for request in listed] == requests[::-1]
        assert (len(page.items), rest.next) == (2, None)
        with pytest.raises(PermissionDenied, match="capset:approve"):
            await caller.approvals.list()
        assert (await boss.approvals.reject(requests[0], note="no")).status == "rejected"
        assert (await boss.approvals.approve(requests[1], scope="session")).scope == "session"
        assert data_of(await caller.call(session, "pay", {"to": "bob", "amount": 1})) == "bob has 1"
        with pytest.raises(NotFound):
            await boss.approvals.get("nowhere")
        with pytest.raises(InvalidArguments):
            await boss.approvals.approve(requests[2], note="x" * 2000)


@pytest.mark.spec("P9")
async def test_a_request_outlives_a_stream_that_is_left() -> None:
    async with shop() as (server, caller, boss, session):
        async with caller.stream(session, "pay", {"to": "bob"}) as events:
            request = (await anext(events)).data["id"]
        await until(lambda: server.records(outcome="cancelled"), "the call to be cancelled")
        await boss.approvals.approve(request)
        assert data_of(await caller.call(session, "pay", {"to": "bob"})) == "bob has 5"
        assert (await boss.approvals.get(request)).status == "used"


@pytest.mark.spec("G48", "G50")
async def test_several_approvals_rounds_and_the_count() -> None:
    two = Governance(approvers=[ApproverRule(approvals=2)])
    async with shop(governance=two) as (server, caller, boss, session):
        bea_key = await server.key("bea", scopes=["capset:approve"])
        request = (await caller.call(session, "pay", {"to": "bob"})).approval or ""
        assert (await boss.approvals.summary()).pending == 1
        half = await boss.approvals.approve(request, arguments={"to": "bob", "amount": 4})
        assert (half.status, half.round, half.decidable) == ("pending", 1, False)
        assert half.needs is not None
        async with Client(server.url, key=bea_key) as bea:
            assert (await bea.approvals.get(request)).decidable
            decided = await bea.approvals.approve(request, round=1)
        approvers = [approval.by for approval in decided.approvals]
        assert (decided.status, approvers) == ("approved", ["user:boss", "user:bea"])
        assert (await boss.approvals.summary()).pending == 0
        assert data_of(await caller.call(session, "pay", {"to": "bob"})) == "bob has 4"


@pytest.mark.spec("N35", "P12")
async def test_several_requests_are_decided_at_once_and_one_bad_member_costs_itself_alone() -> None:
    async with shop() as (server, caller, boss, session):
        ids = [(await caller.call(session, "pay", {"to": "bob", "amount": n})).approval or "" for n in range(3)]
        requests = [await boss.approvals.get(request) for request in ids]
        await boss.approvals.reject(ids[1])
        gone = requests[0].model_copy(update={"id": "nowhere"})
        done = await boss.approvals.decide("approve", [requests[0], gone, *requests[1:]], note="as every month")
        assert [item.id for item in done.items] == [ids[0], "nowhere", *ids[1:]]
        assert [item.error and item.error.code for item in done.items] == [None, "not_found", "conflict", None]
        rows = [await boss.approvals.get(request) for request in ids]
        assert [row.status for row in rows] == ["approved", "rejected", "approved"]
        assert rows[0].note == rows[2].note == "as every month"
        acts = [row for row in await server.kernel.audit.read(limit=1_000) if row.act == "approval.approve"]
        assert [row.approval for row in acts] == [ids[0], ids[2]], "each decision is on record by itself"
        with pytest.raises(PermissionDenied):
            await caller.approvals.decide("reject", requests)


@pytest.mark.spec("N35")
async def test_several_requests_are_approved_as_they_were_read() -> None:
    two = Governance(approvers=[ApproverRule(approvals=2)])
    async with shop(governance=two) as (server, caller, boss, session):
        bea_key = await server.key("bea", scopes=["capset:approve"])
        request_id = (await caller.call(session, "pay", {"to": "bob"})).approval or ""
        async with Client(server.url, key=bea_key) as bea:
            request = await bea.approvals.get(request_id)
            await boss.approvals.approve(request_id, arguments={"to": "bob", "amount": 4})
            (refused,) = (await bea.approvals.decide("approve", [request])).items
            assert refused.error is not None
            assert refused.error.code == "conflict"
            (done,) = (await bea.approvals.decide("approve", [await bea.approvals.get(request_id)])).items
        assert done.approval is not None
        assert (done.approval.status, done.approval.modified) == ("approved", {"to": "bob", "amount": 4})
