"""The writer: groups, order, bounds, and failures that hit only those to blame (spec 4, G21, G23)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from capset.errors import StoreBusy, StoreError
from capset.stores.audit_rules import BadEntry
from capset.stores.base import AuditQuery, Store
from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.writer.writer import MAX_BATCH
from capset_testing.store_suite.support import NOW, BrokenEntry, create_sessions, entry
from tests.helpers.stores.sql.support import opened, raw
from tests.helpers.stores.sql.writer.writer import count_commits, writer_of

pytestmark = pytest.mark.spec("G23")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of writers in a file, as another process does."""
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def ids_in(store: Store) -> list[str]:
    return [record.id for record in await store.audit.read()]


def told(store: SqliteStore, what: str) -> asyncio.Event:
    """Return an event that is set whenever a connection of the writer is checked out, or in."""
    assert store._engines is not None
    loop, happens = asyncio.get_running_loop(), asyncio.Event()
    event.listen(store._engines[0], what, lambda *_: loop.call_soon_threadsafe(happens.set))
    return happens


async def test_concurrent_commits_share_a_transaction(file_store: SqliteStore) -> None:
    commits = count_commits(file_store)
    await asyncio.gather(*[file_store.audit.commit(entry(f"a{number}")) for number in range(256)])
    assert len(commits) <= 8
    assert (await file_store.audit.verify()).checked == 256


async def test_a_committed_entry_is_durably_in_the_file_when_commit_returns(
    file_store: SqliteStore, path: Path
) -> None:
    def pragmas(connection: Connection) -> list[Any]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    assert await writer_of(file_store).write(pragmas) == ["wal", 2, 1]
    for number in range(10):
        await file_store.audit.commit(entry(f"a{number}"))
        with raw(path) as file:
            assert file.execute("SELECT max(seq) FROM records").fetchone() == (number + 1,)


async def test_append_refuses_beyond_the_bound_and_loses_nothing(path: Path) -> None:
    store = SqliteStore(str(path), max_queued=100)
    await store.open()
    for number in range(100):
        store.audit.append(entry(f"a{number}"))
    with pytest.raises(StoreError, match="queue is full: 100 records"):
        store.audit.append(entry("refused"))
    await store.audit.commit(entry("waits"))
    store.audit.append(entry("room again"))
    await store.close()
    async with opened(path) as store:
        verification = await store.audit.verify()
        assert (verification.problem, verification.checked) == (None, 102)
        assert (await ids_in(store))[-2:] == ["waits", "room again"]


@pytest.mark.realtime
async def test_what_is_buffered_waits_in_order_while_another_process_holds_the_lock(path: Path) -> None:
    async with opened(path, busy_seconds=0.05) as store:
        with locked(path):
            store.audit.append(entry("a"))
            store.audit.append(entry("b"))
            for attempt in (
                *(store.audit.commit(entry("refused")), store.audit.flush()),
                store.files.write("s", "/a", b"", org=None, now=NOW),
            ):
                with pytest.raises(StoreError, match="locked by another process") as failure:
                    await attempt
                assert isinstance(failure.value.__cause__, DBAPIError)
                assert str(path) in failure.value.message
                assert "SELECT" not in failure.value.message + str(failure.value.hint)
            store.audit.append(entry("c"))
        await store.audit.commit(entry("d"))
        assert await ids_in(store) == [*"abcd"]
        assert (await store.audit.verify()).ok


@pytest.mark.realtime
@pytest.mark.spec("G21")
async def test_what_comes_while_a_write_fails_stays_behind_what_was_there(path: Path) -> None:
    async with opened(path, busy_seconds=0.3) as store:
        begins = told(store, "checkout")
        with locked(path):
            store.audit.append(entry("a"))
            store.audit.append(entry("b"))
            await begins.wait()
            store.audit.append(entry("c"))
            with pytest.raises(StoreError, match="locked"):
                await store.audit.flush()
        await store.audit.flush()
        assert await ids_in(store) == [*"abc"]


@pytest.mark.realtime
async def test_a_failed_write_is_tried_again_by_itself(path: Path) -> None:
    async with opened(path, busy_seconds=0.05) as store:
        tried = told(store, "checkin")
        with locked(path):
            store.audit.append(entry("a"))
            with pytest.raises(StoreError, match="locked"):
                await store.audit.flush()
        while not (await store.audit.query(AuditQuery())).items:  # nobody asks the writer again
            await tried.wait()
            tried.clear()
        assert (await store.audit.verify()).checked == 1


@pytest.mark.realtime
async def test_closing_says_how_much_is_lost(path: Path) -> None:
    store = SqliteStore(str(path), busy_seconds=0.05)
    await store.open()
    with locked(path):
        for number in range(3):
            store.audit.append(entry(f"a{number}"))
        with pytest.raises(StoreError, match=r"lost 3 audit records that could not be written"):
            await store.close()
    async with opened(path) as store:
        assert (await store.audit.verify()).checked == 0


async def test_a_broken_entry_is_logged_and_raised_once(
    file_store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    for record in (entry("a"), BrokenEntry(), entry("b")):
        file_store.audit.append(record)
    with caplog.at_level(logging.ERROR), pytest.raises(StoreError, match="1 call left no audit record"):
        await file_store.audit.flush()
    await file_store.audit.flush()
    assert (await file_store.audit.verify()).checked == 2
    assert "this entry is broken" in caplog.text


def put(name: str) -> Any:
    """Return a write function that puts a name among the settings, and fails after some names."""

    def write(connection: Connection) -> str:
        connection.exec_driver_sql("INSERT INTO settings VALUES (?, '')", (name,))
        if name == "bad":
            raise KeyError(name)
        if name == "worse":
            connection.exec_driver_sql("SELECT * FROM nothing")
        return name

    return write


def names_in(path: Path) -> str:
    with raw(path) as file:
        names = file.execute("SELECT name FROM settings WHERE value = '' ORDER BY name").fetchall()
    return "".join(name for (name,) in names)


async def test_a_write_function_that_fails_undoes_only_its_own(file_store: SqliteStore, path: Path) -> None:
    write = writer_of(file_store).write
    names = ("a", "bad", "b", "worse", "c", "a")
    results = await asyncio.gather(*[write(put(name)) for name in names], return_exceptions=True)
    assert [type(result) for result in results] == [str, KeyError, str, StoreError, str, StoreError]
    assert names_in(path) == "abc"
    for number, name in enumerate(("bad", "worse"), 1):  # alone
        file_store.audit.append(entry(name))
        with pytest.raises((KeyError, StoreError)):
            await write(put(name))
        await file_store.audit.flush()
        assert (await file_store.audit.verify()).checked == number, "the record that was written beside it"
    assert names_in(path) == "abc"


async def test_a_record_that_the_database_refuses_harms_no_other_and_no_function(
    file_store: SqliteStore, path: Path
) -> None:
    await file_store.audit.commit(entry("a"))
    twice, new = file_store.audit.commit(entry("a")), file_store.audit.commit(entry("b"))
    answers = await asyncio.gather(writer_of(file_store).write(put("b")), twice, new, return_exceptions=True)
    assert [type(answer) for answer in answers] == [str, BadEntry, type(None)]
    assert (await file_store.audit.verify()).checked == 2
    assert names_in(path) == "b"


@pytest.mark.realtime
async def test_a_write_function_outwaits_a_lock_that_a_commit_does_not(path: Path) -> None:
    async with opened(path, busy_seconds=0.2) as store:
        with locked(path):
            writes = [asyncio.create_task(create_sessions(store, name)) for name in "st"]
            for attempt in (store.audit.commit(entry("refused")), store.audit.flush()):
                with pytest.raises(StoreError, match="locked"):
                    await attempt
            store.audit.append(entry("a"))
            assert not any(write.done() for write in writes)
        await asyncio.gather(*writes)
        await store.audit.flush()
        assert None not in [await store.sessions.get(name) for name in "st"]
        assert await ids_in(store) == ["a"]


@pytest.mark.realtime
async def test_closing_answers_more_callers_than_one_transaction_takes(path: Path) -> None:
    store = SqliteStore(str(path), busy_seconds=0.2)
    await store.open()
    with locked(path):
        waiting = [asyncio.create_task(writer_of(store).write(lambda _: None)) for _ in range(MAX_BATCH + 500)]
        waiting += [asyncio.create_task(store.audit.flush()), asyncio.create_task(store.audit.commit(entry("a")))]
        await asyncio.sleep(0)
        store.audit.append(entry("b"))
        with pytest.raises(StoreError, match=r"lost 1 audit record that"):
            await store.close()
        answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    assert {type(answer) for answer in answers} <= {StoreError, StoreBusy}


@pytest.mark.realtime
async def test_closing_leaves_no_write_function_without_an_answer(path: Path) -> None:
    store = SqliteStore(str(path), busy_seconds=0.2)
    await store.open()
    with locked(path):
        write = asyncio.create_task(create_sessions(store, "s"))
        with pytest.raises(StoreError, match="locked"):
            await store.audit.flush()
        await store.close()
        with pytest.raises(StoreError, match="locked"):
            await write


async def test_a_waiter_that_was_cancelled_harms_nobody(file_store: SqliteStore) -> None:
    cancelled = asyncio.create_task(file_store.audit.commit(entry("a")))
    await asyncio.sleep(0)
    cancelled.cancel()
    await file_store.audit.commit(entry("b"))
    assert (await file_store.audit.verify()).checked == 2  # what was taken is written, whoever waits


def test_a_store_serves_several_event_loops_in_turn(path: Path) -> None:
    store = SqliteStore(str(path), busy_seconds=0.05)
    asyncio.run(store.open())
    asyncio.run(store.audit.commit(entry("a")))

    async def leave() -> None:
        asyncio.ensure_future(store.audit.commit(entry("b")))  # noqa: RUF006 - its loop ends before it does
        await asyncio.sleep(0)

    with locked(path):
        asyncio.run(leave())
    asyncio.run(store.audit.commit(entry("c")))
    assert asyncio.run(ids_in(store))[-1] == "c"
    asyncio.run(store.close())
