"""Locks that say which writers live (spec 4, G19)."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capset.stores.base import AuditQuery
from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.writer import leases
from capset.stores.sql.writer.leases import FileLeases
from capset_testing.store_suite.support import entry, intent
from tests.helpers.stores.sql.support import opened, opened_at, raw, run_at

pytestmark = pytest.mark.spec("G19")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the writers of the file a.db have their locks."""
    return tmp_path / "a.db-writers"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_writer_is_gone_when_its_lock_or_its_file_is(folder: Path) -> None:
    mine, other = FileLeases(folder), FileLeases(folder)
    assert other.dead_writers(["a"]) == ["a"]
    mine.take("a")
    mine.take("a")
    assert other.dead_writers(["a", "b"]) == ["b"]
    mine.release()
    assert other.dead_writers(["a"]) == ["a"]


def test_a_lock_whose_file_was_removed_before_it_was_held_is_taken_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = leases._lock

    def swept_away_first(descriptor: int) -> bool:
        monkeypatch.undo()
        (folder / "a.lock").unlink()
        return real(descriptor)

    monkeypatch.setattr(leases, "_lock", swept_away_first)
    mine, other = FileLeases(folder), FileLeases(folder)
    mine.take("a")
    assert other.dead_writers(["a"]) == []
    mine.release()


def test_the_folder_goes_with_the_last_lock_and_a_sweep_spares_those_that_are_held(folder: Path) -> None:
    first, second = FileLeases(folder), FileLeases(folder)
    first.sweep()
    first.take("a")
    second.take("b")
    (folder / "dead.lock").touch()
    first.sweep()
    assert names_in(folder) == ["a.lock", "b.lock"]
    first.release()
    assert names_in(folder) == ["b.lock"]
    second.release()
    assert not folder.exists()
    first.release()
    folder.touch()
    with pytest.raises(FileExistsError):
        first.take("a")


def test_writers_that_come_and_go_at_once_stop_no_other(folder: Path) -> None:
    """The folder goes and comes again at any moment."""
    looking = FileLeases(folder)

    def come_and_go(writer: str) -> None:
        writer_leases = FileLeases(folder)
        for _ in range(2_000):
            writer_leases.take(writer)
            writer_leases.release()

    with ThreadPoolExecutor(2) as threads:
        others = [threads.submit(come_and_go, writer) for writer in "ab"]
        while not all(future.done() for future in others):
            looking.sweep()
            looking.holder()
        for future in others:
            future.result()


async def test_a_store_takes_its_lock_with_its_first_transaction(tmp_path: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "dead.lock").touch()
    async with opened(tmp_path / "a.db") as store:
        assert list(folder.iterdir()) == [], "the locks of dead writers are removed"
        await store.audit.commit(entry("a"))
        (lock,) = folder.iterdir()
        assert lock.read_bytes() == b"\0-" + f" process {os.getpid()} on {socket.gethostname()}".encode()
        await store.audit.commit(intent("b"))
        assert list(folder.iterdir()) == [lock]
        await store.audit.commit(entry("b"))
    assert not folder.exists()


@pytest.mark.spec("G22")
async def test_an_open_intent_that_was_changed_stops_nobody_from_opening(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened_at(url) as store:
        await store.audit.commit(intent("a"))
        await store.audit.commit(intent("b"))
    impossible = "CAST(x'ff' AS TEXT)" if url.startswith("sqlite") else "chr(26)"
    run_at(url, f"UPDATE records SET tool = {impossible} WHERE seq = 1")
    async with opened_at(url) as store:
        page = await store.audit.query(AuditQuery())
        verification = await store.audit.verify()
    assert [(record.id, record.outcome) for record in page.items] == [("b", "interrupted")]
    assert (verification.ok, verification.seq) == (False, 1)
    assert "the intent in record 1 could not be closed" in caplog.text


async def test_the_open_intents_are_those_without_an_outcome(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store, asyncio.TaskGroup() as tasks:
        for record in (intent("a"), intent("b"), intent("c"), entry("b")):
            await store.audit.commit(record)
        for record in (intent("d"), entry("d"), entry("a")):  # an intent and its outcome in one transaction
            tasks.create_task(store.audit.commit(record))
    with raw(path) as file:
        assert file.execute("SELECT id, seq FROM open_intents").fetchall() == [("c", 3)]
        async with opened(path) as store:
            assert (await store.audit.query(AuditQuery(id="c"))).items[0].outcome == "interrupted"
        assert file.execute("SELECT count(*) FROM open_intents").fetchone() == (0,)


@pytest.mark.spec("D46")
async def test_a_full_disk_that_takes_no_marks_stops_no_writer(
    file_store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection came back to its pool no more, and nothing was written until the process ended."""

    def full(_descriptor: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    await file_store.audit.commit(entry("first"))
    with monkeypatch.context() as patched:
        patched.setattr(leases.os, "write", full)
        await file_store.audit.commit(entry("meanwhile"))
    await file_store.audit.commit(entry("last"))
    assert [record.id for record in await file_store.audit.read()] == ["first", "meanwhile", "last"]
