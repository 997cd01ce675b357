"""Checks of lists of approval requests: filters and pages."""

from __future__ import annotations

import json
from dataclasses import replace

from capset.stores.base import ApprovalQuery
from capset_testing.store_suite.support import Make, approval_row, expect, open_store


async def requests_are_found_by_what_they_ask_for(make: Make) -> None:
    """Check filters by tool, agent and principal, alone and with others, newest or oldest first."""
    async with open_store(make) as store:
        rows = [
            replace(approval_row(f"id-{number}"), digest=f"{number}" * 64, **values)
            for number, values in enumerate(({}, {"tool": "pay"}, {"agent": "clerk"}, {"principal": "user:eve"}))
        ]
        for row in rows:
            await store.approvals.open(row, max_pending=9)
        for row, name in zip(rows[1:], ("tool", "agent", "principal"), strict=True):
            filters = {name: getattr(row, name)}
            expect((await store.approvals.list(ApprovalQuery("acme", **filters))).items, (row,), f"those of one {name}")
            used = await store.approvals.list(ApprovalQuery("acme", "used", **filters))
            expect(used.items, (), f"the used requests of one {name}")
            filters = {name: getattr(rows[0], name)}
            others = (await store.approvals.list(ApprovalQuery("acme", **filters))).items
            expect(row in others, False, f"a request among those of another {name}")
            expect(len(others), 3, f"the requests of another {name}")
        expect((await store.approvals.list(ApprovalQuery("other", tool="pay"))).items, (), "another org's requests")
        first = await store.approvals.list(ApprovalQuery("acme", oldest_first=True, limit=3))
        expect((first.items, first.next), (tuple(rows[:3]), rows[2].id), "the oldest ones")
        rest = await store.approvals.list(ApprovalQuery("acme", oldest_first=True, limit=3, before=first.next))
        expect((rest.items, rest.next), ((rows[3],), None), "the others")


async def pages_of_requests_end_by_their_size(make: Make) -> None:
    """Check that a page has at least one request, and that the next pages have the rest."""
    async with open_store(make) as store:
        rows = [
            replace(approval_row(f"id-{number}", f"{number:064}"), arguments=json.dumps("x" * size))
            for number, size in enumerate((10, 9_000, 3_000, 3_000, 3_000, 10))
        ]
        for row in rows:
            await store.approvals.open(row, max_pending=9)
        page_sizes: list[int] = []
        query = ApprovalQuery("acme", max_bytes=8_000)
        while True:
            page = await store.approvals.list(query)
            expect(page.items, tuple(reversed(rows))[sum(page_sizes) :][: len(page.items)], "the next page")
            page_sizes.append(len(page.items))
            if page.next is None:
                break
            query = replace(query, before=page.next)
        expect(page_sizes, [3, 1, 1, 1], "how many requests each page has")
        full_page = await store.approvals.list(replace(query, before=None, max_bytes=None))
        expect(len(full_page.items), 6, "a page without a size limit")
