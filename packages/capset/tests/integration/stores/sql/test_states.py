"""State in SQL: nothing lost and nothing raised, however many processes change one value (spec 1, C34)."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from capset.errors import StoreError
from capset.stores.base import AuditQuery, ScopeKey, StateRow
from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW, create_sessions, entry
from tests.helpers.stores.sql.support import let_go, opened, process, raw
from tests.helpers.stores.sql.writer.writer import count_commits

pytestmark = pytest.mark.spec("C34")

KEY = ScopeKey("session", "acme", "s", "counter")

CHANGE = """
import asyncio, os, signal, sys
from capset.stores.base import ScopeKey
from capset_testing.store_suite.support import NOW, entry

KEY = ScopeKey("session", "acme", "s", "counter")

async def increment(store):
    await store.states.change(KEY, lambda row: str(int(row.value or 0) + 1), now=NOW)
"""
INCREMENT = """
async def main(url, name, tasks, times):
    store = store_at(url)
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()

    async def work(task):
        for number in range(times):
            await increment(store)
            store.audit.append(entry(f"{name} {task} {number}"))

    await asyncio.gather(*[work(task) for task in range(tasks)])
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""
DIE_IN_THE_MIDDLE = """
async def main():
    store = store_at(sys.argv[1])
    await store.open()
    for _ in range(3):
        await increment(store)
    await store.states.change(KEY, lambda row: os.kill(os.getpid(), signal.SIGKILL), now=NOW)

asyncio.run(main())
"""


@pytest.mark.realtime
@pytest.mark.nightly
async def test_processes_that_change_one_value_lose_nothing_and_never_fail(store: SqlStore, url: str) -> None:
    tasks = 64 if url.startswith("sqlite") else 16  # a server is asked several times for each change
    total = 4 * tasks * 8
    with ExitStack() as stack:
        let_go(*[stack.enter_context(process(CHANGE + INCREMENT, url, name, tasks, 8)) for name in "abcd"])
    assert await store.states.read([KEY]) == [StateRow(str(total), total)]
    verification = await store.audit.verify()
    assert (verification.problem, verification.checked) == (None, total)


@pytest.mark.realtime
async def test_a_process_that_dies_in_a_change_leaves_the_value_before(store: SqlStore, url: str) -> None:
    with process(CHANGE + DIE_IN_THE_MIDDLE, url) as child:
        assert child.wait(60) == -9
    assert await store.states.read([KEY]) == [StateRow("3", 3)]
    assert await store.states.change(KEY, lambda row: f"{row.value}0", now=NOW) == StateRow("30", 4)


@pytest.mark.realtime
async def test_a_change_outwaits_a_lock_but_not_one_without_end_and_an_entry_beside_it_none(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path, busy_seconds=0.2) as store:
        await create_sessions(store, "s")
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            changes = [asyncio.create_task(store.states.change(KEY, lambda _: "1", now=NOW)) for _ in range(3)]
            with pytest.raises(StoreError, match="locked"):
                await store.audit.commit(entry("refused"))
        assert [row.version for row in await asyncio.gather(*changes)] == [1, 2, 3]
        assert (await store.audit.query(AuditQuery())).items == ()
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked by another process"):
                await store.states.change(KEY, lambda _: "2", now=NOW)
        assert await store.states.read([KEY]) == [StateRow("1", 3)]


async def test_concurrent_changes_share_a_transaction(file_store: SqliteStore) -> None:
    commits = count_commits(file_store)
    await asyncio.gather(*[file_store.states.change(KEY, lambda _: "1", now=NOW) for _ in range(256)])
    assert len(commits) <= 8


async def test_every_read_uses_the_primary_key(file_store: SqliteStore, tmp_path: Path) -> None:
    statements: list[tuple[str, Any]] = []
    for engine in file_store._engines or ():
        event.listen(engine, "before_cursor_execute", lambda *about: statements.append(about[2:4]))
    for _ in range(2):
        await file_store.states.change(KEY, lambda _: "1", now=NOW)
    await file_store.states.read([KEY, ScopeKey("user", "acme", "ada", "x")])
    await file_store.sessions.delete("s")
    queries = [pair for pair in statements if "states" in pair[0] and not pair[0].startswith("INSERT")]
    assert len(queries) == 5
    with raw(tmp_path / "a.db") as file:
        for statement, parameters in queries:
            plan = str(file.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall())
            assert "sqlite_autoindex_states_1 (scope=? AND owner=? AND org=? AND name=?)" in plan, plan
        cascade = "EXPLAIN QUERY PLAN DELETE FROM states WHERE session = ?"
        assert "ix_states_session" in str(file.execute(cascade, ("s",)).fetchall())
