"""Checks of requests that need several approvals, escalate, and are counted by their age (spec 4, G45–G50)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Final

from capset.definitions.governance.approvals import ApprovalRow
from capset.stores.base import PendingSummary
from capset_testing.store_suite.support import EARLIER, LATER, NOW, Make, approval_row, entry, expect, open_store

_NEEDS: Final = '{"approvals":2}'


async def a_request_is_moved_only_as_it_was_seen(make: Make) -> None:
    """Check that a move succeeds and writes its act only if approvals and escalation time are still as seen."""
    async with open_store(make) as store:
        approvals, row = store.approvals, replace(approval_row("id-1"), needs=_NEEDS, escalates_at=LATER)
        row = replace(row, makers='["user:boss"]')
        await approvals.open(row, max_pending=9)
        approved = replace(row, approvals="[1]")
        for stale in (replace(row, approvals="[]"), replace(row, escalates_at=None), replace(row, escalates_at=NOW)):
            expect(
                await approvals.move(approved, "pending", previous=stale, act=entry("no")),
                False,
                f"moving it from {stale}",
            )
        expect(await approvals.move(approved, "pending", previous=row, act=entry("yes")), True, "the first approval")
        expect(
            await approvals.move(approved, "pending", previous=row), False, "a second one that has not seen the first"
        )
        noticed = replace(approved, escalates_at=None, escalated_at=NOW)
        expect(await approvals.move(noticed, "pending", previous=approved), True, "an escalation")
        expect(
            await approvals.move(replace(noticed, status="approved"), "pending", previous=approved),
            False,
            "an approval that has not seen the escalation",
        )
        expect(
            await approvals.move(replace(noticed, status="approved"), "pending", previous=noticed), True, "the last one"
        )
        expect(await approvals.get("acme", "id-1"), replace(noticed, status="approved"), "the request")
        expect([record.id for record in await store.audit.read()], ["yes"], "the acts on record")


async def of_approvals_at_once_none_is_lost(make: Make) -> None:
    """Check that concurrent approvals are all stored if each refused one is retried."""
    async with open_store(make) as store:
        approvals, row = store.approvals, replace(approval_row("id-1"), needs=_NEEDS)
        await approvals.open(row, max_pending=9)

        async def add(number: int) -> int:
            for tried in range(1_000):
                current = await approvals.get("acme", "id-1")
                if current is None:
                    raise AssertionError("the request is gone")
                more = json.dumps([*json.loads(current.approvals or "[]"), number])
                if await approvals.move(replace(current, approvals=more), "pending", previous=current):
                    return tried
            raise AssertionError("an approval was never taken")

        await asyncio.gather(*[add(number) for number in range(20)])
        request = await approvals.get("acme", "id-1")
        expect(sorted(json.loads((request and request.approvals) or "[]")), [*range(20)], "the approvals")


async def calls_with_other_needs_are_not_equal(make: Make) -> None:
    """Check that a request stands only for calls with the same needs, or with none if it has none."""
    async with open_store(make) as store:
        approvals = store.approvals
        rows = [replace(approval_row(f"id-{needs}"), needs=needs) for needs in (None, _NEEDS, '{"approvals":3}')]
        for row in rows:
            expect(
                await approvals.standing(row.call_key, NOW), None, "the standing request for a call with other needs"
            )
            expect(await approvals.open(row, max_pending=9), row, "the request of a call with other needs")
        for row in rows:
            expect(await approvals.standing(row.call_key, NOW), row, "the standing request")
            expect(await approvals.open(replace(row, id="other"), max_pending=9), row, "the request for an equal call")


async def requests_escalate_once_their_time_has_come(make: Make) -> None:
    """Check that due pending requests of every org are found, oldest first, and no decided ones."""
    async with open_store(make) as store:
        rows = [
            replace(approval_row(f"id-{number}"), org=org, digest=f"{number}" * 64, escalates_at=at)
            for number, (org, at) in enumerate(((None, NOW), ("acme", EARLIER), ("acme", LATER), ("acme", None)))
        ]
        for row in rows:
            await store.approvals.open(row, max_pending=9)
        expect(await store.approvals.escalating(NOW), [rows[1], rows[0]], "the requests that escalate")
        expect(await store.approvals.escalating(NOW, 1), [rows[1]], "the oldest")
        noticed = replace(rows[1], escalates_at=LATER, escalated_at=NOW)
        await store.approvals.move(noticed, "pending", previous=rows[1])
        await store.approvals.move(replace(rows[0], status="approved"), "pending")
        expect(await store.approvals.escalating(NOW), [], "the requests that escalate then")
        expect(await store.approvals.escalating(LATER), [noticed, rows[2]], "the requests that escalate later")


async def pending_requests_are_counted_by_age(make: Make) -> None:
    """Check the requests of one org, in total and since each time; decided ones do not count."""
    async with open_store(make) as store:

        async def ask(id: str, created_at: str, org: str | None = "acme") -> ApprovalRow:
            row = replace(approval_row(id), org=org, digest=id * 8, created_at=created_at, principal=f"user:{id}")
            await store.approvals.open(row, max_pending=9)
            return row

        expect(await store.approvals.summary("acme", (NOW,)), PendingSummary(0, None, (0,)), "none")
        old = await ask("a", EARLIER)
        await ask("b", NOW)
        await ask("c", NOW)
        await ask("d", NOW, None)
        expect(await store.approvals.summary("acme", (NOW, EARLIER)), PendingSummary(3, EARLIER, (2, 3)), "three")
        expect(await store.approvals.summary(None, (LATER,)), PendingSummary(1, NOW, (0,)), "the requests of no org")
        await store.approvals.move(replace(old, status="rejected"), "pending")
        expect(await store.approvals.summary("acme", (NOW,)), PendingSummary(2, NOW, (2,)), "the remaining requests")
