"""Lineage in SQL: whole through kills, a chain across processes, and read by its indexes (spec 2, F28–F29)."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from capset.stores.base import LinkQuery, RegistrationRow
from capset_testing.store_suite.lineage_checks import envelope_row, link_row, payload_row
from capset_testing.store_suite.support import NOW
from tests.helpers.stores.sql.support import let_go, line_of, opened, opened_at, process, raw, run_at

TURNS = """
import asyncio, sys
from dataclasses import replace
from capset.ids import Ids
from capset.stores.base import RegistrationRow
from capset_testing.store_suite.lineage_checks import envelope_row, link_row, payload_row
from capset_testing.store_suite.support import NOW

async def main(url, name, times):
    store = store_at(url)
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    ids = Ids()

    async def work(task):
        for number in range(times):
            id = ids.new()
            row = link_row(id, runtime="abc"[(task + number) % 3])
            await store.lineage.record_turn(row, envelope_row(id, id), payloads=[payload_row(number)])
            await store.lineage.register(
                RegistrationRow(id, "acme", "agent-1", name, "abc"[number % 3] * 64, "jcs-1", NOW)
            )

    await asyncio.gather(*[work(task) for task in range(8)])
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

# Each turn has several megabytes, so that a kill is likely to hit one in the middle of its transaction.
UNTIL_KILLED = """
import asyncio, sys
from dataclasses import replace
from capset_testing.store_suite.lineage_checks import envelope_row, link_row, payload_row

async def main():
    store = store_at(sys.argv[1])
    await store.open()
    for number in range(10_000):
        link = link_row(f"link-{number:05}", runtime="ab"[number % 2])
        envelope = replace(envelope_row(f"id-{number:05}", link.id), body="x" * 4_000_000)
        await store.lineage.record_turn(link, envelope, payloads=[payload_row(number)])
        print(number, flush=True)

asyncio.run(main())
"""

# Dies within a transaction, with everything of the turn written and nothing committed.
DIE_BEFORE_THE_COMMIT = """
import asyncio, os, signal, sys
from sqlalchemy import event
from capset_testing.store_suite.lineage_checks import envelope_row, link_row, payload_row

async def main():
    store = store_at(sys.argv[1])
    await store.open()
    await store.lineage.record_turn(link_row("link-0"), envelope_row("id-0", "link-0"), payloads=[payload_row(0)])
    event.listen(store._engines[0], "commit", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    link, envelope = link_row("link-1", runtime="b"), envelope_row("id-1", "link-1")
    await store.lineage.record_turn(link, envelope, payloads=[payload_row(1)])

asyncio.run(main())
"""


async def turns_of(url: str) -> int:
    """Return how many turns a database has, each of which must be whole."""
    ids = [str(row[0]) for row in run_at(url, "SELECT id FROM links ORDER BY number")]
    async with opened_at(url) as store:
        for number, link in enumerate(ids):
            envelope = await store.lineage.envelope_of("acme", link)
            assert envelope is not None
            assert await store.lineage.payload("acme", payload_row(number).hash) == payload_row(number)
        transitions = await store.lineage.transitions("acme", "session-1")
        assert await store.lineage.payload("acme", payload_row(len(ids)).hash) is None
    assert [(transition.from_link, transition.to_link) for transition in transitions] == list(pairwise(ids))
    assert run_at(url, "SELECT count(*) FROM envelopes") == [(len(ids),)]
    assert not url.startswith("sqlite") or run_at(url, "PRAGMA foreign_key_check") == []
    return len(ids)


@pytest.mark.realtime
@pytest.mark.spec("F28")
@pytest.mark.parametrize("after", [1, 2, 4])
async def test_a_turn_whose_process_is_killed_is_whole_or_not_there(url: str, after: int) -> None:
    with process(UNTIL_KILLED, url) as child:
        for number in range(after):
            assert line_of(child) == str(number)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert await turns_of(url) >= after


@pytest.mark.realtime
@pytest.mark.spec("F28")
async def test_a_turn_that_was_not_committed_leaves_nothing(url: str) -> None:
    with process(DIE_BEFORE_THE_COMMIT, url) as child:
        assert child.wait(60) == -signal.SIGKILL
    assert await turns_of(url) == 1
    async with opened_at(url) as store:
        moved = await store.lineage.record_turn(link_row("link-1", runtime="b"), envelope_row("id-1", "link-1"))
        assert moved is not None
        assert (moved.from_link, moved.to_link) == ("link-0", "link-1")


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("F29")
async def test_processes_that_record_turns_of_one_session_make_one_chain(url: str) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(process(TURNS, url, name, 12)) for name in "ab"]
        let_go(*children)
    links = run_at(url, "SELECT id, runtime_hash FROM links ORDER BY number")
    assert run_at(url, "SELECT count(*) FROM registrations") == [(3,)]
    assert len(links) == 2 * 8 * 12
    moved = [(first[0], two[0]) for first, two in pairwise(links) if first[1] != two[1]]
    async with opened_at(url) as store:
        transitions = await store.lineage.transitions("acme", "session-1")
        latest = await store.lineage.latest_link("acme", "session-1")
        page = await store.lineage.links(LinkQuery("acme", limit=1000))
    assert [(transition.from_link, transition.to_link) for transition in transitions] == moved
    assert latest is not None
    assert latest.id == links[-1][0]
    assert [row.id for row in page.items] == sorted([row[0] for row in links], reverse=True)


async def test_a_registration_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    row = RegistrationRow("id-1", "acme", "agent-1", "scribe", "a" * 64, "jcs-1", NOW)
    async with opened(tmp_path / "a.db") as store:
        await store.lineage.register(row)
        assert store._engines is not None
        statements = listen(store._engines[0])
        assert await store.lineage.register(replace(row, id="id-2")) == row
    assert [
        statement
        for statement, _ in statements
        if not statement.startswith(("SELECT", "BEGIN", "SAVEPOINT", "RELEASE"))
    ] == []


async def test_every_read_uses_an_index_in_its_order(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        assert store._engines is not None
        lineage = store.lineage
        await lineage.record_turn(link_row("link-1"), envelope_row("id-1", "link-1"))
        statements = [listen(engine) for engine in store._engines]
        await lineage.register(RegistrationRow("id-1", "acme", "agent-1", "scribe", "a" * 64, "jcs-1", NOW))
        await lineage.record_turn(link_row("link-2", runtime="b"), payloads=[payload_row(0), payload_row(1)])
        await lineage.record_envelope(envelope_row("id-2", "link-1"))
        await lineage.latest_registration("acme", "agent-1")
        await lineage.link("acme", "link-1")
        await lineage.latest_link("acme", "session-1")
        await lineage.envelope("acme", "id-1")
        await lineage.envelope_of("acme", "link-1")
        await lineage.transitions("acme", "session-1")
        await lineage.payload("acme", payload_row(0).hash)
        for agent in (None, "agent-1"):
            for session in (None, "session-1"):
                for before in (None, "link-2"):
                    await lineage.links(LinkQuery("acme", agent, session, before=before))
    selects = [one for some in statements for one in some if one[0].startswith("SELECT")]
    assert len(selects) == 5 + 7 + 8
    with raw(tmp_path / "a.db") as file:
        for statement, parameters in selects:
            plan = json.dumps(file.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall())
            assert "SEARCH" in plan, plan
            assert "SCAN" not in plan, plan
            assert "TEMP B-TREE" not in plan, plan


def listen(engine: Any) -> list[tuple[str, Any]]:
    """Return a list that grows with every statement of an engine and its parameters."""
    statements: list[tuple[str, Any]] = []

    def keep(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", keep)
    return statements
