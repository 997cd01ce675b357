"""Checks of the audit log: entries are kept in order, once, in one chain, and found (spec 4, G20–G23; spec 5, P15)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from capset.errors import StoreError
from capset.fingerprint.chain import GENESIS, verify
from capset.stores.base import Attempt, AuditQuery
from capset_testing.store_suite.support import BrokenEntry, Make, entry, expect, expect_error, intent, open_store

_WRITER_COLUMNS: Final = ("seq", "writer", "previous", "hash")


async def a_committed_entry_is_a_record(make: Make) -> None:
    """Every column comes back unchanged, and with the writer's own columns it is a link of a chain."""
    committed = entry("a", causation="b", org="acme", reason="a NUL: \0", code="x", duration_us=0)
    async with open_store(make) as store:
        await store.audit.commit(committed)
        page = await store.audit.query(AuditQuery())
    expect(len(page.items), 1, "records after one commit")
    columns: Mapping[str, Any] = asdict(page.items[0])  # asdict() gives values of any type
    expect(
        {name: columns[name] for name in columns if name not in _WRITER_COLUMNS},
        committed.values,
        "the record's columns",
    )
    expect((columns["seq"], columns["previous"]), (1, GENESIS), "the first link")
    expect(verify([columns]).problem, None, "the chain of this record alone")


async def an_appended_entry_is_there_after_flush(make: Make) -> None:
    """``append`` may write later; ``flush`` waits for that."""
    async with open_store(make) as store:
        for number in range(300):
            store.audit.append(entry(f"a{number}"))
        await store.audit.flush()
        page = await store.audit.query(AuditQuery(limit=1000))
        verified = await store.audit.verify()
    expect([record.id for record in page.items], [f"a{number}" for number in reversed(range(300))], "the records")
    expect((verified.problem, verified.checked), (None, 300), "the chain")


async def the_chain_keeps_the_order_of_the_calls(make: Make) -> None:
    """Buffered and durable entries are in the chain in the order of the calls."""
    async with open_store(make) as store:
        store.audit.append(entry("a"))
        await store.audit.commit(entry("b"))
        store.audit.append(entry("c"))
        await store.audit.commit(entry("d"))
        page = await store.audit.query(AuditQuery())
    expect([(record.seq, record.id) for record in page.items], [(4, "d"), (3, "c"), (2, "b"), (1, "a")], "records")


async def concurrent_commits_make_one_chain(make: Make) -> None:
    """Each entry is recorded once, in any order, and the chain is valid."""
    async with open_store(make) as store:
        await asyncio.gather(*[store.audit.commit(entry(f"a{number}")) for number in range(64)])
        verified = await store.audit.verify()
        page = await store.audit.query(AuditQuery(limit=100))
    expect((verified.problem, verified.checked), (None, 64), "the chain")
    expect({record.id for record in page.items}, {f"a{number}" for number in range(64)}, "the records")


async def an_intent_and_its_outcome_are_two_records(make: Make) -> None:
    """They share an id; ``verify`` counts both."""
    async with open_store(make) as store:
        await store.audit.commit(intent("a"))
        store.audit.append(entry("a"))
        await store.audit.flush()
        verified = await store.audit.verify()
    expect((verified.problem, verified.checked), (None, 2), "the chain")


async def a_second_record_of_an_id_and_phase_is_refused(make: Make) -> None:
    """Check that the second record alone is refused: entries written beside it stay."""
    async with open_store(make) as store:
        await store.audit.commit(intent("a"))
        await store.audit.commit(entry("a"))
        commits = [store.audit.commit(entry(name)) for name in ("b", "a", "c")]
        results = await asyncio.gather(*commits, return_exceptions=True)
        verified = await store.audit.verify()
    expect([isinstance(result, StoreError) for result in results], [False, True, False], "which were refused")
    expect((verified.problem, verified.checked), (None, 4), "the chain")


async def a_broken_entry_harms_no_other(make: Make) -> None:
    """Check that a commit raises; for an appended entry, ``append`` itself or the next ``flush`` does."""
    surrogate = entry("b", reason="\ud800")
    async with open_store(make) as store:
        commits = [store.audit.commit(new_entry) for new_entry in (entry("a"), BrokenEntry(), surrogate, entry("c"))]
        results = await asyncio.gather(*commits, return_exceptions=True)

        async def append() -> None:
            store.audit.append(BrokenEntry())
            await store.audit.flush()

        await expect_error(StoreError, append(), "appending a broken entry")
        store.audit.append(entry("d"))
        await store.audit.flush()
        verified = await store.audit.verify()
    expect([isinstance(result, StoreError) for result in results], [False, True, True, False], "which were refused")
    expect((verified.problem, verified.checked), (None, 3), "the chain")


async def a_query_finds_outcomes_only(make: Make) -> None:
    """Intents are left out."""
    async with open_store(make) as store:
        await store.audit.commit(intent("a"))
        empty = await store.audit.query(AuditQuery())
        await store.audit.commit(entry("a"))
        page = await store.audit.query(AuditQuery())
    expect((empty.items, empty.next), ((), None), "the page while there is an intent only")
    expect([(record.id, record.phase) for record in page.items], [("a", "outcome")], "the page after its outcome")


async def every_filter_of_a_query_counts(make: Make) -> None:
    """Each filter counts alone, and together with all others."""
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
    async with open_store(make) as store:
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
    async with open_store(make) as store:
        for number, time in enumerate(times):
            await store.audit.commit(entry(f"a{number}", time=time))
        for since, until, expected in ((1, None, "321"), (None, 2, "10"), (1, 3, "21"), (3, 3, "")):
            query = AuditQuery(
                since=None if since is None else times[since], until=None if until is None else times[until]
            )
            page = await store.audit.query(query)
            expect("".join(record.id[1:] for record in page.items), expected, f"records from {since} until {until}")


async def pages_follow_each_other(make: Make) -> None:
    """Each record is on one page, even while others are written; the last page is marked as such."""
    async with open_store(make) as store:
        for number in range(7):
            await store.audit.commit(intent(f"a{number}"))
            await store.audit.commit(entry(f"a{number}", tool="odd" if number % 2 else "even"))
        ids: list[str] = []
        before: int | None = None
        sizes: list[int] = []
        while True:
            page = await store.audit.query(AuditQuery(tool="even", limit=2, before=before))
            ids += [record.id for record in page.items]
            sizes.append(len(page.items))
            await store.audit.commit(entry(f"b{len(sizes)}", tool="even"))
            if page.next is None:
                break
            before = page.next
    expect(ids, ["a6", "a4", "a2", "a0"], "the records of all pages")
    expect(sizes, [2, 2], "the sizes of the pages: a full last page says that it is the last")


async def the_attempts_of_a_correlation_are_told(make: Make) -> None:
    """Check that ended calls have their outcome and open intents none, and that other correlations are left out."""
    async with open_store(make) as store:
        turn = {"correlation": "turn-1", "org": "acme"}
        await store.audit.commit(intent("a", causation="call-1", **turn))
        await store.audit.commit(intent("b", causation="call-2", **turn))
        await store.audit.commit(entry("a", causation="call-1", **turn))
        await store.audit.commit(entry("c", causation=None, outcome="denied", **turn))
        await store.audit.commit(entry("d", correlation="turn-2", org="acme"))
        await store.audit.commit(entry("e", correlation="turn-1", org="other"))
        await store.audit.commit(intent("f", correlation="turn-2"))
        attempts = await store.audit.attempts("acme", "turn-1")
        expected = [Attempt("a", "call-1", "succeeded"), Attempt("b", "call-2", None), Attempt("c", None, "denied")]
        expect(sorted(attempts, key=lambda attempt: attempt.record), expected, "the attempts")
        attempts = await store.audit.attempts(None, "turn-2")
        expect([*attempts], [Attempt("f", None, None)], "the attempts of no organisation")
