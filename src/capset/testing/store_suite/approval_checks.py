"""Checks of requests for approvals: one for equal calls, bounded, moved by one caller (spec 4, G16–G18)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.definitions.approvals import ApprovalRow
from capset.stores.base import ApprovalQuery
from capset.testing.store_suite.support import LATER, NOW, Check, Make, expect, opened


def approval_row(id: str, digest: str = "4" * 64) -> ApprovalRow:
    """Return an open request of user-1 for a call."""
    return ApprovalRow(
        id=id,
        call=f"call of {id}",
        org="acme",
        session="session-1",
        agent="scribe",
        principal="user:user-1",
        on_behalf_of=None,
        tool="save_note",
        tool_hash="1" * 64,
        runtime_hash="3" * 64,
        arguments='{"text":"Grüße"}',
        digest=digest,
        reason="every call has to be approved",
        policies="[]",
        created_at=NOW,
        expires_at=LATER,
        code_hash="6" * 64,
    )


async def equal_calls_have_one_request(make: Make) -> None:
    """Even if many are opened at once; a call with any difference has its own."""
    async with opened(make) as store:
        rows = [approval_row(f"id-{number:02}") for number in range(20)]
        told = await asyncio.gather(*[store.approvals.open(row, most=9) for row in rows])
        expect(len({one.id for one in told if one}), 1, "how many requests there are")
        first = told[0]
        others = [
            replace(rows[0], id=f"other-{name}", **{name: value})
            for name, value in (
                ("org", None),
                ("session", "session-2"),
                ("principal", "agent:user-1"),
                ("on_behalf_of", "user:ada"),
                ("tool_hash", "9" * 64),
                ("digest", "9" * 64),
            )
        ]
        for other in others:
            expect(await store.approvals.open(other, most=9), other, f"the request of a call with another {other.id}")
            expect(await store.approvals.standing(other.equal, NOW), other, "what stands for it")
        expect(await store.approvals.standing(rows[0].equal, NOW), first, "what stands for the first")


async def code_counts_where_it_is_asked_for(make: Make) -> None:
    """Then a call with other code, or with code without a hash, has a request of its own."""
    async with opened(make) as store:
        approvals, row = store.approvals, approval_row("id-1")
        await approvals.open(row, most=9, by_code=True)
        other, none = replace(row, id="id-2", code_hash="7" * 64), replace(row, id="id-3", code_hash=None)
        expect(await approvals.open(other, most=9), row, "what is met where code does not count")
        for one in (other, none):
            expect(await approvals.standing(one.equal_in_code, NOW), None, "what stands for other code")
            expect(await approvals.open(one, most=9, by_code=True), one, "the request of other code")
        for one in (row, other, none):
            expect(await approvals.standing(one.equal_in_code, NOW), one, "what stands for this code")
            expect(await approvals.open(replace(one, id="id-4"), most=9, by_code=True), one, "what it meets")
        expect(await approvals.standing(row.equal, NOW), none, "the newest, where code does not count")


async def a_request_stands_until_it_is_used_or_expires(make: Make) -> None:
    """Pending, approved or rejected; afterwards an equal call opens another."""
    async with opened(make) as store:
        row = approval_row("id-1")
        await store.approvals.open(row, most=9)
        for status in ("approved", "rejected", "pending"):
            moved = replace(row, status=status)
            before = (await store.approvals.list(ApprovalQuery("acme"))).items[0]
            expect(await store.approvals.move(moved, before.status), True, f"moving it to {status}")
            expect(await store.approvals.standing(row.equal, NOW), moved, f"what stands when it is {status}")
            expect(await store.approvals.open(replace(row, id="id-2"), most=9), moved, "what an equal call meets")
        expect(await store.approvals.standing(row.equal, LATER), None, "what stands when its time is up")
        for number, status in enumerate(("used", "expired"), 2):
            last = (await store.approvals.list(ApprovalQuery("acme", status="pending"))).items[0]
            await store.approvals.move(replace(last, status=status), "pending")
            expect(await store.approvals.standing(row.equal, NOW), None, f"what stands when it is {status}")
            again = replace(row, id=f"id-{number}")
            expect(await store.approvals.open(again, most=9), again, "the next request")


async def a_principal_has_so_many_open_requests(make: Make) -> None:
    """Only pending ones count, with the same ``on_behalf_of``; decided and overdue ones do not."""
    async with opened(make) as store:
        rows = [approval_row(f"id-{number}", f"{number:064}") for number in range(5)]
        for row in rows[:3]:
            expect(await store.approvals.open(row, most=3), row, "a request")
        expect(await store.approvals.open(rows[3], most=3), None, "one too many")
        expect(await store.approvals.open(rows[0], most=3), rows[0], "one that is there")
        for name, value in (("on_behalf_of", "user:ada"), ("org", "other"), ("principal", "user:eve")):
            other = replace(rows[3], id=f"of another {name}", **{name: value})
            expect(await store.approvals.open(other, most=3), other, f"a request of another {name}")
        late = replace(rows[3], created_at=LATER, expires_at="9999-01-01T00:00:00.000000Z")
        expect(await store.approvals.open(late, most=1), late, "one when the time of the others is up")
        await store.approvals.move(replace(rows[1], status="approved"), "pending")
        expect(await store.approvals.open(rows[4], most=4), rows[4], "one in the place of a decided one")


async def of_many_who_move_a_request_one_does(make: Make) -> None:
    """Check that the stored row is that of the successful caller."""
    async with opened(make) as store:
        row = approval_row("id-1")
        await store.approvals.open(row, most=9)
        moves = [replace(row, status="approved", decided_by=f"user:{number}") for number in range(20)]
        told = await asyncio.gather(*[store.approvals.move(one, "pending") for one in moves])
        expect(told.count(True), 1, "how many moved it")
        expect(await store.approvals.get("acme", "id-1"), moves[told.index(True)], "what is kept")
        expect(await store.approvals.get("other", "id-1"), None, "the request for another org")


CHECKS: Final[tuple[Check, ...]] = (
    equal_calls_have_one_request,
    code_counts_where_it_is_asked_for,
    a_request_stands_until_it_is_used_or_expires,
    a_principal_has_so_many_open_requests,
    of_many_who_move_a_request_one_does,
)
