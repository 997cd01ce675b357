"""Records by time: exactly those, however far their times are from the chain's order (spec 5, P15)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from capset.stores.base import AuditQuery
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import entry, intent
from tests.helpers.stores.sql.support import opened_at


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000000Z"


async def filled(store: SqlStore, chance: random.Random) -> list[tuple[int, str, bool]]:
    """Fill a log in which times wander, and some records come late; return seq, time and whether it is an outcome."""
    rows: list[tuple[int, str, bool]] = []
    for seq in range(1, 61):
        late = chance.choice((0, 0, 0, 0, 5, 30))
        time = at(max(0, 10 * seq - chance.randrange(15) - 10 * late))
        is_outcome = chance.random() < 0.7
        store.audit.append((entry if is_outcome else intent)(f"call-{seq}", time=time, tool=f"tool-{seq % 2}"))
        rows.append((seq, time, is_outcome))
    await store.audit.flush()
    return rows


def spans(chance: random.Random) -> Iterator[tuple[str | None, str | None]]:
    yield None, None
    for _ in range(15):
        first, last = at(chance.randrange(650)), at(chance.randrange(650))
        yield from ((first, None), (None, last), (first, last))


@pytest.mark.spec("P15")
@pytest.mark.parametrize("few", [4, 10_000])
async def test_a_page_has_exactly_the_records_of_its_time(
    empty_url: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capset.stores.sql.audit.times.MAX_SKIPPED", few)
    chance = random.Random(few)
    async with opened_at(empty_url) as store:
        rows = await filled(store, chance)
        for since, until in spans(chance):
            matching = [
                (seq, is_outcome)
                for seq, time, is_outcome in rows
                if (since is None or time >= since) and (until is None or time < until)
            ]
            expected = [seq for seq, is_outcome in reversed(matching) if is_outcome]
            page = await store.audit.query(AuditQuery(since=since, until=until, limit=1000))
            assert [record.seq for record in page.items] == expected, (since, until)
            of_tool = await store.audit.query(AuditQuery(since=since, until=until, tool="tool-1", limit=1000))
            assert [record.seq for record in of_tool.items] == [seq for seq in expected if seq % 2]
            firsts = [seq for seq, time, _ in rows if since is None or time >= since]
            lasts = [seq for seq, time, _ in rows if until is None or time < until]
            ends = (min(firsts), max(lasts)) if firsts and lasts and min(firsts) <= max(lasts) else None
            assert await store.audit.span(since=since, until=until) == ends


@pytest.mark.spec("P15")
async def test_a_page_by_time_goes_on_where_the_one_before_ended(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capset.stores.sql.audit.times.MAX_SKIPPED", 4)
    async with opened_at(empty_url) as store:
        rows = await filled(store, random.Random(7))
        seqs: list[int] = []
        before: int | None = None
        while True:
            page = await store.audit.query(AuditQuery(since=at(100), until=at(500), limit=7, before=before))
            seqs += [record.seq for record in page.items]
            if (before := page.next) is None:
                break
        assert seqs == [seq for seq, time, is_outcome in reversed(rows) if is_outcome and at(100) <= time < at(500)]
