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
from capset.stores.sql.writer import leases
from capset.stores.sql.writer.leases import FileLeases
from capset_testing.store_suite.support import entry, intent
from tests.helpers.stores.sql.support import opened, raw


@pytest.mark.spec("G19")
def test_a_writer_is_gone_when_its_lock_or_its_file_is(tmp_path: Path) -> None:
    mine, other = FileLeases(tmp_path / "writers"), FileLeases(tmp_path / "writers")
    assert other.gone(["a"]) == ["a"]
    mine.take("a")
    mine.take("a")
    assert other.gone(["a", "b"]) == ["b"]
    mine.release()
    assert other.gone(["a"]) == ["a"]


@pytest.mark.spec("G19")
def test_a_lock_whose_file_was_removed_before_it_was_held_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = tmp_path / "writers", leases._lock

    def swept_away_first(descriptor: int) -> bool:
        monkeypatch.undo()
        (folder / "a.lock").unlink()
        return real(descriptor)

    monkeypatch.setattr(leases, "_lock", swept_away_first)
    mine, other = FileLeases(folder), FileLeases(folder)
    mine.take("a")
    assert other.gone(["a"]) == []
    mine.release()


def test_the_folder_goes_with_the_last_lock(tmp_path: Path) -> None:
    folder = tmp_path / "writers"
    first, second = FileLeases(folder), FileLeases(folder)
    first.take("a")
    second.take("b")
    first.release()
    assert [path.name for path in folder.iterdir()] == ["b.lock"]
    second.release()
    assert not folder.exists()
    first.release()


def test_writers_that_come_and_go_at_once_stop_no_other(tmp_path: Path) -> None:
    """The folder goes and comes again at any moment."""
    looking = FileLeases(tmp_path / "writers")

    def come_and_go(writer: str) -> None:
        writer_leases = FileLeases(tmp_path / "writers")
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


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "writers").touch()
    with pytest.raises(FileExistsError):
        FileLeases(tmp_path / "writers").take("a")


def test_a_sweep_removes_only_the_files_of_those_who_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "writers"
    mine = FileLeases(folder)
    mine.sweep()
    mine.take("a")
    (folder / "dead.lock").touch()
    mine.sweep()
    assert [path.name for path in folder.iterdir()] == ["a.lock"]
    mine.release()


async def test_a_store_takes_its_lock_with_its_first_transaction(tmp_path: Path) -> None:
    folder = tmp_path / "a.db-writers"
    async with opened(tmp_path / "a.db") as store:
        assert not folder.exists()
        await store.audit.commit(entry("a"))
        (lock,) = folder.iterdir()
        assert lock.read_bytes() == b"\0-" + f" process {os.getpid()} on {socket.gethostname()}".encode()
        await store.audit.commit(intent("b"))
        assert list(folder.iterdir()) == [lock]
        await store.audit.commit(entry("b"))
    assert not folder.exists()


@pytest.mark.spec("G19", "G22")
async def test_an_open_intent_that_was_changed_stops_nobody_from_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store:
        await store.audit.commit(intent("a"))
        await store.audit.commit(intent("b"))
    with raw(path) as file:
        file.execute("UPDATE records SET tool = CAST(x'ff' AS TEXT) WHERE seq = 1")
    async with opened(path) as store:
        page = await store.audit.query(AuditQuery())
        verification = await store.audit.verify()
    assert [(record.id, record.outcome) for record in page.items] == [("b", "interrupted")]
    assert (verification.ok, verification.seq) == (False, 1)
    assert "the intent in record 1 could not be closed" in caplog.text


@pytest.mark.spec("G19")
async def test_the_open_intents_are_those_without_an_outcome(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store, asyncio.TaskGroup() as tasks:
        for name in "abc":
            await store.audit.commit(intent(name))
        await store.audit.commit(entry("b"))
        for record in (intent("d"), entry("d"), entry("a")):  # an intent and its outcome in one transaction
            tasks.create_task(store.audit.commit(record))
    with raw(path) as file:
        assert file.execute("SELECT id, seq FROM open_intents").fetchall() == [("c", 3)]
    async with opened(path) as store:
        assert (await store.audit.query(AuditQuery(id="c"))).items[0].outcome == "interrupted"
    with raw(path) as file:
        assert file.execute("SELECT count(*) FROM open_intents").fetchone() == (0,)


async def test_opening_a_store_removes_the_locks_of_dead_writers(tmp_path: Path) -> None:
    folder = tmp_path / "one.db-writers"
    folder.mkdir()
    (folder / "dead.lock").touch()
    async with opened(tmp_path / "one.db"):
        assert not (folder / "dead.lock").exists()


@pytest.mark.spec("D46")
async def test_a_full_disk_that_takes_no_marks_stops_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection came back to its pool no more, and nothing was written until the process ended."""
    async with opened(tmp_path / "a.db") as store:
        await store.audit.commit(entry("first"))

        def full(_descriptor: int, _content: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(leases.os, "write", full)
            await store.audit.commit(entry("meanwhile"))
        await store.audit.commit(entry("last"))
        assert [record.id for record in await store.audit.read()] == ["first", "meanwhile", "last"]
