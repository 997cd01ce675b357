"""Requests that others may approve, too, once they have waited for so long (spec 4, G49)."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta

import pytest

from capset import Kernel, Principal
from capset.clock import iso_of
from capset.definitions.governance.approvers import ApproverRule
from capset.errors import PermissionDenied
from capset.ext import ApprovalRow, Governance
from capset.stores.base import AuditQuery
from tests.helpers.kernel.governance.approving import Till, till
from tests.waiting import until

RULES = [
    ApproverRule(
        tools=["pay"],
        permission="payments:approve",
        attributes={"department": "finance"},
        escalate_after=60,
        escalate_to="payments:lead",
    ),
    ApproverRule(tools=["pay"], permission="payments:see", escalate_after=600, escalate_to="payments:lead"),
]
LEAD = Principal("lead", org="acme", permissions=["payments:lead"])
SEEING = Principal("lead", org="acme", permissions=["payments:lead", "payments:see"])


def later(row: ApprovalRow, seconds: float) -> str:
    return iso_of(datetime.fromisoformat(row.created_at) + timedelta(seconds=seconds))


async def escalations(harness: Till) -> list[str]:
    acts = (await harness.kernel.audit.query(AuditQuery(act="approval.escalate"))).items
    assert {(act.principal, act.org, act.tool) for act in acts} <= {("host", "acme", "pay")}
    return [json.loads(act.arguments)["id"] for act in acts]


@pytest.mark.spec("G49")
async def test_others_may_approve_after_a_time_in_the_place_of_permission_and_attributes(store: str) -> None:
    async with till(store=store, kernel={"governance": Governance(approvers=RULES)}) as harness:
        request = await harness.asked(await harness.session())
        approvals = harness.kernel.approvals
        row = await approvals.get(request, org="acme")
        assert (row.escalates_at, row.escalated_at) == (later(row, 60), None)
        harness.clock.advance(59)
        with pytest.raises(PermissionDenied, match="and the department finance; you have payments:lead, payments:see"):
            await harness.decided(request, by=SEEING)
        assert await escalations(harness) == []
        harness.clock.advance(1)
        refusal = approvals.refusal(await approvals.get(request, org="acme"), Principal("eve", org="acme"))
        assert refusal is not None
        assert "the department finance (or the permission payments:lead); you have no permissions" in refusal
        assert approvals.refusal(row, LEAD), "the other rule has not escalated"
        assert approvals.refusal(row, SEEING) is None
        noticed = await approvals.get(request, org="acme")
        assert (noticed.escalates_at, noticed.escalated_at) == (later(row, 600), later(row, 60))
        assert await escalations(harness) == [request]
        harness.clock.advance(540)
        assert (await harness.decided(request, by=LEAD)).status == "approved"
        assert await escalations(harness) == [request, request]
        assert (await approvals.get(request, org="acme")).escalates_at is None
        assert await escalations(harness) == [request, request]


@pytest.mark.spec("G49")
async def test_an_escalation_is_noticed_once_by_any_of_many_servers(store: str) -> None:
    async with till(store=store, kernel={"governance": Governance(approvers=RULES)}) as harness:
        session = await harness.session()
        request_ids = {await harness.asked(session, amount=number) for number in range(20)}
        harness.clock.advance(60)
        async with Kernel(store, clock=harness.clock) as other:
            several = [harness.kernel] if store == "memory://" else [harness.kernel, other]
            await asyncio.gather(*[kernel.approvals.sweep() for kernel in several for _ in range(4)])
        escalated_ids = await escalations(harness)
        assert (len(escalated_ids), set(escalated_ids)) == (20, request_ids)


@pytest.mark.spec("G49")
async def test_a_waiting_call_notices_the_escalation_of_its_request() -> None:
    async with till(kernel={"governance": Governance(approvers=RULES)}) as harness:
        waits = asyncio.ensure_future((await harness.session()).call(harness.pay, to="bob", amount=5))
        row = await harness.waiting()
        harness.clock.advance(60)
        await until(lambda: escalations(harness))
        await harness.decided(row.id, by=SEEING)
        assert await waits == "bob has 5"


@pytest.mark.spec("G50")
async def test_pending_requests_are_counted_by_their_age() -> None:
    long = Governance(approval_seconds=2 * 86_400)
    async with till(kernel={"governance": long}) as harness:
        session = await harness.session()
        first = await harness.asked(session, amount=0)
        for number, seconds in enumerate((86_400 - 3_600, 3_600 - 300, 300, 1), 1):
            harness.clock.advance(seconds)
            await harness.asked(session, amount=number)
        summary = await harness.kernel.approvals.summary("acme")
        oldest = await harness.kernel.approvals.get(first, org="acme")
        assert (summary.pending, summary.oldest_at, summary.since) == (5, oldest.created_at, (2, 3, 4))
        assert (await harness.kernel.approvals.summary(None)).pending == 0
        harness.clock.advance(86_400)
        assert (await harness.kernel.approvals.summary("acme")).pending == 4, "overdue ones do not count"
