"""Checks of audit queries: outcomes only, newest first, by filters and pages (spec 5, P15)."""

from __future__ import annotations

from typing import Any, Final

from capset.stores.base import AuditQuery
from capset.testing.store_suite.support import Check, Make, entry, expect, intent, opened


async def a_query_finds_outcomes_only(make: Make) -> None:
    """Intents are left out."""
    async with opened(make) as store:
        await store.audit.commit(intent("a"))
        empty = await store.audit.query(AuditQuery())
        await store.audit.commit(entry("a"))
        page = await store.audit.query(AuditQuery())
    expect((empty.items, empty.next), ((), None), "the page while there is an intent only")
    expect([(record.id, record.phase) for record in page.items], [("a", "outcome")], "the page after its outcome")


async def every_filter_of_a_query_counts(make: Make) -> None:
    """Each alone, and all together."""
    filters: dict[str, Any] = {  # as keyword arguments, they have the types of several fields
        "id": "b",
        "tool": "other",
        "outcome": "denied",
        "principal": "user-2",
        "session": "session-2",
        "correlation": "correlation-2",
        "org": "acme",
        "agent": "clerk",
        "approval": "approval-1",
        "code": "permission_denied",
    }
    async with opened(make) as store:
        await store.audit.commit(entry("a"))
        await store.audit.commit(entry(**filters))
        await store.audit.commit(entry("c"))
        for name, value in filters.items():
            page = await store.audit.query(AuditQuery(**{name: value}))
            expect([record.id for record in page.items], ["b"], f"records by {name}")
        page = await store.audit.query(AuditQuery(**filters))
        expect([record.id for record in page.items], ["b"], "records by all filters")
        page = await store.audit.query(AuditQuery(org=""))
        expect([record.id for record in page.items], ["c", "a"], "records of no organisation")
        filters["tool"] = "save_note"
        page = await store.audit.query(AuditQuery(**filters))
        expect(page.items, (), "records by filters that exclude each other")


async def a_query_by_time_counts_its_ends(make: Make) -> None:
    """Check that records at the start time are included, those at the end time are not."""
    times = [f"2026-01-0{day}T00:00:00.000000Z" for day in range(1, 5)]
    async with opened(make) as store:
        for number, time in enumerate(times):
            await store.audit.commit(entry(f"a{number}", time=time))
        for since, until, expected in ((1, None, "321"), (None, 2, "10"), (1, 3, "21"), (3, 3, "")):
            asked = AuditQuery(
                since=None if since is None else times[since], until=None if until is None else times[until]
            )
            page = await store.audit.query(asked)
            expect("".join(record.id[1:] for record in page.items), expected, f"records from {since} until {until}")


async def pages_follow_each_other(make: Make) -> None:
    """Each record is on one page, even while others are written; the last page is marked as such."""
    async with opened(make) as store:
        for number in range(7):
            await store.audit.commit(intent(f"a{number}"))
            await store.audit.commit(entry(f"a{number}", tool="odd" if number % 2 else "even"))
        seen: list[str] = []
        before: int | None = None
        sizes: list[int] = []
        while True:
            page = await store.audit.query(AuditQuery(tool="even", limit=2, before=before))
            seen += [record.id for record in page.items]
            sizes.append(len(page.items))
            await store.audit.commit(entry(f"b{len(sizes)}", tool="even"))
            if page.next is None:
                break
            before = page.next
    expect(seen, ["a6", "a4", "a2", "a0"], "the records of all pages")
    expect(sizes, [2, 2], "the sizes of the pages: a full last page says that it is the last")


CHECKS: Final[tuple[Check, ...]] = (
    a_query_finds_outcomes_only,
    every_filter_of_a_query_counts,
    a_query_by_time_counts_its_ends,
    pages_follow_each_other,
)
