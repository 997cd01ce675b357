"""Checks of the audit log's writes: everything is stored, in order, once and in one chain (spec 4, G20–G23)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from capset.errors import StoreError
from capset.fingerprint.chain import GENESIS, verify
from capset.stores.base import AuditQuery
from capset.testing.store_suite.support import (
    BrokenEntry,
    Check,
    Make,
    entry,
    expect,
    expect_error,
    intent,
    opened,
)

_OWN: Final = ("seq", "writer", "previous", "hash")


async def a_committed_entry_is_a_record(make: Make) -> None:
    """Every column comes back unchanged, and with the writer's own it is a link of a chain."""
    given = entry("a", causation="b", org="acme", reason="a NUL: \0", code="x", duration_us=0)
    async with opened(make) as store:
        await store.audit.commit(given)
        page = await store.audit.query(AuditQuery())
    expect(len(page.items), 1, "records after one commit")
    columns: Mapping[str, Any] = asdict(page.items[0])  # asdict() gives values of any type
    expect({name: columns[name] for name in columns if name not in _OWN}, given.values, "the record's columns")
    expect((columns["seq"], columns["previous"]), (1, GENESIS), "the first link")
    expect(verify([columns]).problem, None, "the chain of this record alone")


async def an_appended_entry_is_there_after_flush(make: Make) -> None:
    """``append`` may take its time; ``flush`` waits for it."""
    async with opened(make) as store:
        for number in range(300):
            store.audit.append(entry(f"a{number}"))
        await store.audit.flush()
        page = await store.audit.query(AuditQuery(limit=1000))
        found = await store.audit.verify()
    expect([record.id for record in page.items], [f"a{number}" for number in reversed(range(300))], "the records")
    expect((found.problem, found.checked), (None, 300), "the chain")


async def the_chain_keeps_the_order_of_the_calls(make: Make) -> None:
    """Buffered and durable entries are in the chain in the order of the calls."""
    async with opened(make) as store:
        store.audit.append(entry("a"))
        await store.audit.commit(entry("b"))
        store.audit.append(entry("c"))
        await store.audit.commit(entry("d"))
        page = await store.audit.query(AuditQuery())
    expect([(record.seq, record.id) for record in page.items], [(4, "d"), (3, "c"), (2, "b"), (1, "a")], "records")


async def concurrent_commits_make_one_chain(make: Make) -> None:
    """In any order, each entry is there once, and the chain holds."""
    async with opened(make) as store:
        await asyncio.gather(*[store.audit.commit(entry(f"a{number}")) for number in range(64)])
        found = await store.audit.verify()
        page = await store.audit.query(AuditQuery(limit=100))
    expect((found.problem, found.checked), (None, 64), "the chain")
    expect({record.id for record in page.items}, {f"a{number}" for number in range(64)}, "the records")


async def an_intent_and_its_outcome_are_two_records(make: Make) -> None:
    """They share an id; ``verify`` counts both."""
    async with opened(make) as store:
        await store.audit.commit(intent("a"))
        store.audit.append(entry("a"))
        await store.audit.flush()
        found = await store.audit.verify()
    expect((found.problem, found.checked), (None, 2), "the chain")


async def a_second_record_of_an_id_and_phase_is_refused(make: Make) -> None:
    """Check that the second record alone is refused: entries written beside it stay."""
    async with opened(make) as store:
        await store.audit.commit(intent("a"))
        await store.audit.commit(entry("a"))
        commits = [store.audit.commit(entry(name)) for name in ("b", "a", "c")]
        results = await asyncio.gather(*commits, return_exceptions=True)
        found = await store.audit.verify()
    expect([isinstance(result, StoreError) for result in results], [False, True, False], "which were refused")
    expect((found.problem, found.checked), (None, 4), "the chain")


async def a_broken_entry_harms_no_other(make: Make) -> None:
    """Check that a commit raises; for an appended entry, ``append`` itself or the next ``flush`` does."""
    surrogate = entry("b", reason="\ud800")
    async with opened(make) as store:
        commits = [store.audit.commit(one) for one in (entry("a"), BrokenEntry(), surrogate, entry("c"))]
        results = await asyncio.gather(*commits, return_exceptions=True)

        async def append() -> None:
            store.audit.append(BrokenEntry())
            await store.audit.flush()

        await expect_error(StoreError, append(), "appending a broken entry")
        store.audit.append(entry("d"))
        await store.audit.flush()
        found = await store.audit.verify()
    expect([isinstance(result, StoreError) for result in results], [False, True, True, False], "which were refused")
    expect((found.problem, found.checked), (None, 3), "the chain")


CHECKS: Final[tuple[Check, ...]] = (
    a_committed_entry_is_a_record,
    an_appended_entry_is_there_after_flush,
    the_chain_keeps_the_order_of_the_calls,
    concurrent_commits_make_one_chain,
    an_intent_and_its_outcome_are_two_records,
    a_second_record_of_an_id_and_phase_is_refused,
    a_broken_entry_harms_no_other,
)
