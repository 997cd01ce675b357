"""The writer: groups, order, bounds, and failures that hit only those to blame (spec 4, G21, G23)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from capset.errors import StoreBusy, StoreError
from capset.stores.audit_rules import BadEntry
from capset.stores.base import AuditQuery
from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.writer.writer import TOGETHER
from capset_testing.store_suite.support import NOW, BrokenEntry, begin, entry
from tests.helpers.stores.sql.support import opened, raw
from tests.helpers.stores.sql.writer.writer import count_commits, writer_of


@pytest.mark.spec("G23")
async def test_concurrent_commits_share_a_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        commits = count_commits(store)
        await asyncio.gather(*[store.audit.commit(entry(f"a{number}")) for number in range(256)])
        assert len(commits) <= 8
        assert (await store.audit.verify()).checked == 256


@pytest.mark.spec("G23")
async def test_a_committed_entry_is_in_the_file_when_commit_returns(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        for number in range(10):
            await store.audit.commit(entry(f"a{number}"))
            with raw(tmp_path / "a.db") as file:
                assert file.execute("SELECT max(seq) FROM records").fetchone() == (number + 1,)


@pytest.mark.spec("G23")
async def test_writes_are_synchronous_and_the_file_in_wal_mode(tmp_path: Path) -> None:
    def pragmas(connection: Connection) -> list[Any]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    async with opened(tmp_path / "a.db") as store:
        assert await writer_of(store).write(pragmas) == ["wal", 2, 1]


@pytest.mark.spec("G23")
async def test_append_refuses_beyond_the_bound_and_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "a.db"), bound=100)
    await store.open()
    for number in range(100):
        store.audit.append(entry(f"a{number}"))
    with pytest.raises(StoreError, match="no room: 100 records"):
        store.audit.append(entry("refused"))
    await store.audit.commit(entry("waits"))
    store.audit.append(entry("room again"))
    await store.close()
    async with opened(tmp_path / "a.db") as store:
        verification = await store.audit.verify()
        page = await store.audit.query(AuditQuery(limit=2))
    assert (verification.problem, verification.checked) == (None, 102)
    assert [record.id for record in page.items] == ["room again", "waits"]


@pytest.mark.realtime
@pytest.mark.spec("G23")
async def test_what_is_buffered_waits_in_order_while_another_process_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path, busy_seconds=0.05) as store:
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            store.audit.append(entry("a"))
            store.audit.append(entry("b"))
            with pytest.raises(StoreError, match="locked by another process") as failure:
                await store.audit.commit(entry("refused"))
            with pytest.raises(StoreError, match="locked by another process"):
                await store.audit.flush()
            with pytest.raises(StoreError, match="locked by another process"):
                await store.files.write("s", "/a", b"", org=None, now=NOW)
            store.audit.append(entry("c"))
            other.execute("ROLLBACK")
        await store.audit.commit(entry("d"))
        page = await store.audit.query(AuditQuery())
        assert "".join(reversed([record.id for record in page.items])) == "abcd"
        assert (await store.audit.verify()).ok
    assert isinstance(failure.value.__cause__, DBAPIError)
    assert str(path) in failure.value.message
    assert "SELECT" not in failure.value.message + str(failure.value.hint)


@pytest.mark.realtime
@pytest.mark.spec("G21")
async def test_what_comes_while_a_write_fails_stays_behind_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path, busy_seconds=0.3) as store:
        assert store._engines is not None
        loop, begins = asyncio.get_running_loop(), asyncio.Event()
        event.listen(store._engines[0], "checkout", lambda *_: loop.call_soon_threadsafe(begins.set))
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            store.audit.append(entry("a"))
            store.audit.append(entry("b"))
            await begins.wait()
            store.audit.append(entry("c"))
            with pytest.raises(StoreError, match="locked"):
                await store.audit.flush()
            other.execute("ROLLBACK")
        await store.audit.flush()
        page = await store.audit.query(AuditQuery())
        assert "".join(reversed([record.id for record in page.items])) == "abc"


@pytest.mark.realtime
@pytest.mark.spec("G23")
async def test_a_failed_write_is_tried_again_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path, busy_seconds=0.05) as store:
        assert store._engines is not None
        loop, tried = asyncio.get_running_loop(), asyncio.Event()
        event.listen(store._engines[0], "checkin", lambda *_: loop.call_soon_threadsafe(tried.set))
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            store.audit.append(entry("a"))
            with pytest.raises(StoreError, match="locked"):
                await store.audit.flush()
            other.execute("ROLLBACK")
        while not (await store.audit.query(AuditQuery())).items:  # nobody asks the writer again
            await tried.wait()
            tried.clear()
        assert (await store.audit.verify()).checked == 1


@pytest.mark.realtime
@pytest.mark.spec("G23")
async def test_closing_says_how_much_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = SqliteStore(str(path), busy_seconds=0.05)
    await store.open()
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        for number in range(3):
            store.audit.append(entry(f"a{number}"))
        with pytest.raises(StoreError, match=r"could not be written to .* and so lost: 3 audit records"):
            await store.close()
    await store.open()
    assert (await store.audit.verify()).checked == 0
    await store.close()


@pytest.mark.spec("G23")
async def test_a_broken_entry_is_logged_and_raised_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path / "a.db") as store:
        store.audit.append(entry("a"))
        store.audit.append(BrokenEntry())
        store.audit.append(entry("b"))
        with caplog.at_level(logging.ERROR), pytest.raises(StoreError, match="1 call left no audit record"):
            await store.audit.flush()
        await store.audit.flush()
        assert (await store.audit.verify()).checked == 2
    assert "this entry is broken" in caplog.text


async def test_a_write_function_that_fails_undoes_only_its_own(tmp_path: Path) -> None:
    def put(name: str) -> Any:
        def write(connection: Connection) -> str:
            connection.exec_driver_sql("INSERT INTO settings VALUES (?, '')", (name,))
            if name == "bad":
                raise KeyError(name)
            if name == "worse":
                connection.exec_driver_sql("SELECT * FROM nothing")
            return name

        return write

    async with opened(tmp_path / "a.db") as store:
        write = writer_of(store).write
        names = ("a", "bad", "b", "worse", "c", "a")
        results = await asyncio.gather(*[write(put(name)) for name in names], return_exceptions=True)
        assert [type(result) for result in results] == [str, KeyError, str, StoreError, str, StoreError]
        with raw(tmp_path / "a.db") as file:
            rows = file.execute("SELECT name FROM settings WHERE value = '' ORDER BY name").fetchall()
        assert rows == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize("statement", ["INSERT INTO settings VALUES ('worse', '')", "SELECT * FROM nothing"])
async def test_a_write_function_alone_that_fails_undoes_only_its_own(tmp_path: Path, statement: str) -> None:
    def write(connection: Connection) -> None:
        connection.exec_driver_sql("INSERT INTO settings VALUES ('bad', '')")
        connection.exec_driver_sql(statement)
        raise KeyError

    async with opened(tmp_path / "a.db") as store:
        store.audit.append(entry("a"))
        with pytest.raises((KeyError, StoreError)):
            await writer_of(store).write(write)
        await store.audit.flush()
        assert (await store.audit.verify()).checked == 1  # the record that was written beside it
        with raw(tmp_path / "a.db") as file:
            assert file.execute("SELECT name FROM settings WHERE name IN ('bad', 'worse')").fetchall() == []


@pytest.mark.spec("G23")
async def test_a_record_that_the_database_refuses_harms_no_other_and_no_function(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await store.audit.commit(entry("a"))
        put = writer_of(store).write(
            lambda connection: connection.exec_driver_sql("INSERT INTO settings VALUES ('b', '')").rowcount
        )
        twice, new = store.audit.commit(entry("a")), store.audit.commit(entry("b"))
        answers = await asyncio.gather(put, twice, new, return_exceptions=True)
        assert [type(answer) for answer in answers] == [int, BadEntry, type(None)]
        assert (await store.audit.verify()).checked == 2
        with raw(tmp_path / "a.db") as file:
            assert file.execute("SELECT name FROM settings WHERE name = 'b'").fetchall() == [("b",)]


@pytest.mark.realtime
async def test_a_write_function_outwaits_a_lock_that_a_commit_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path, busy_seconds=0.2) as store:
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            writes = [asyncio.create_task(begin(store, name)) for name in ("s", "t")]
            with pytest.raises(StoreError, match="locked"):
                await store.audit.commit(entry("refused"))
            with pytest.raises(StoreError, match="locked"):
                await store.audit.flush()
            store.audit.append(entry("a"))
            assert not any(write.done() for write in writes)
            other.execute("ROLLBACK")
        await asyncio.gather(*writes)
        await store.audit.flush()
        assert [await store.sessions.get(name) is not None for name in ("s", "t")] == [True, True]
        assert [record.id for record in (await store.audit.query(AuditQuery())).items] == ["a"]


@pytest.mark.realtime
async def test_closing_leaves_no_write_function_without_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = SqliteStore(str(path), busy_seconds=0.2)
    await store.open()
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        write = asyncio.create_task(begin(store, "s"))
        with pytest.raises(StoreError, match="locked"):
            await store.audit.flush()
        await store.close()
        with pytest.raises(StoreError, match="locked"):
            await write


@pytest.mark.realtime
@pytest.mark.spec("G23")
async def test_closing_answers_more_callers_than_one_transaction_takes(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "a.db"), busy_seconds=0.2)
    await store.open()
    with raw(tmp_path / "a.db") as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(writer_of(store).write(lambda _: None)) for _ in range(TOGETHER + 500)]
        waiting += [asyncio.create_task(store.audit.flush()), asyncio.create_task(store.audit.commit(entry("a")))]
        await asyncio.sleep(0)
        store.audit.append(entry("b"))
        with pytest.raises(StoreError, match=r"and so lost: 1 audit record$"):
            await store.close()
        answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        other.execute("ROLLBACK")
    assert {type(answer) for answer in answers} <= {StoreError, StoreBusy}


async def test_a_waiter_that_was_cancelled_harms_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        cancelled = asyncio.create_task(store.audit.commit(entry("a")))
        await asyncio.sleep(0)
        cancelled.cancel()
        await store.audit.commit(entry("b"))
        assert (await store.audit.verify()).checked == 2  # what was taken is written, whoever waits


def test_a_store_serves_several_event_loops_in_turn(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "a.db"), busy_seconds=0.05)
    asyncio.run(store.open())
    asyncio.run(store.audit.commit(entry("a")))

    async def leave() -> None:
        asyncio.ensure_future(store.audit.commit(entry("b")))  # noqa: RUF006 - its loop ends before it does
        await asyncio.sleep(0)

    with raw(tmp_path / "a.db") as other:
        other.execute("BEGIN IMMEDIATE")
        asyncio.run(leave())
    asyncio.run(store.audit.commit(entry("c")))
    page = asyncio.run(store.audit.query(AuditQuery()))
    asyncio.run(store.close())
    assert page.items[0].id == "c"
