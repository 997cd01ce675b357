"""A backup is one moment of a database that others write, and a database that is whole (spec 5, P30)."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from capset.errors import DefinitionError, StoreError
from capset.stores.base import AuditQuery, ScopeKey
from capset.stores.sql.schema.maintenance import back_up, check
from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW, create_sessions, entry, intent
from tests.databases import Server
from tests.helpers.stores.sql.schema.in_use import use
from tests.helpers.stores.sql.support import opened_at, store_at

COUNT = ScopeKey("session", None, "s", "count")

Restore = Callable[[Path], str]
"""Makes a database of a backup, and returns its URL."""


@pytest.fixture
def restore(url: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Restore:
    """Restore a backup as the documentation says."""

    def as_file(file: Path) -> str:
        path = tmp_path / "restored.db"
        file.rename(path)
        return f"sqlite:///{path}"

    def by_server(file: Path) -> str:
        server: Server = request.getfixturevalue("postgres")
        new_url = server.empty()
        subprocess.run(["pg_restore", "--no-owner", "--exit-on-error", f"--dbname={new_url}", file], check=True)
        return new_url

    if url.startswith("sqlite"):
        return as_file
    use(request.getfixturevalue("postgres").programs, monkeypatch)
    return by_server


@asynccontextmanager
async def writing(store: SqlStore) -> AsyncGenerator[None]:
    """Have calls and changes of state be written all the time, by several tasks."""
    numbers, ended, begun = count(), asyncio.Event(), asyncio.Event()

    async def write() -> None:
        while not ended.is_set():
            if (number := next(numbers)) == 200:
                begun.set()
            await store.audit.commit(intent(f"call-{number}"))
            await store.states.change(COUNT, lambda row: str(int(row.value or 0) + 1), now=NOW)
            await store.audit.commit(entry(f"call-{number}"))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(write()) for _ in range(4)]
        await begun.wait()
        yield
        ended.set()
        await asyncio.gather(*tasks)


@pytest.mark.realtime
@pytest.mark.spec("P30")
async def test_a_backup_under_load_is_one_moment_and_can_be_worked_with(
    url: str, restore: Restore, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with opened_at(url) as store:
        await create_sessions(store, "s")
        async with writing(store):
            before = (await store.audit.query(AuditQuery(limit=1))).items[0].seq
            size = await asyncio.to_thread(back_up, store_at(url), file)
        after = (await store.audit.verify()).checked
    assert size == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    restored_url = restore(file)
    report = check(store_at(restored_url), verify=True)
    assert (report.ok, report.problems) == (True, ())
    assert report.verification is not None
    assert before <= report.verification.checked < after
    async with opened_at(restored_url) as store:
        assert await store.audit.digest_key(), "digests can be compared as before"
        changed = int((await store.states.read([COUNT]))[0].value or 0)
        outcomes = [record for record in await store.audit.read(limit=100_000) if record.phase == "outcome"]
        interrupted = [record.id for record in outcomes if record.outcome == "interrupted"]
        assert len(outcomes) - len(interrupted) <= changed <= len(outcomes), "what belongs together is there together"
        await store.audit.commit(entry("new"))
        assert (await store.audit.verify()).ok


@pytest.mark.spec("P30")
async def test_a_backup_is_made_beside_a_writer_that_holds_the_database(tmp_path: Path) -> None:
    async with opened_at(f"sqlite:///{tmp_path}/a.db") as store:
        await store.audit.commit(entry("a"))
        assert store._engines is not None
        with store._engines[0].begin():
            back_up(SqliteStore(str(tmp_path / "a.db")), tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("backup")) == ["backup"]
    verification = check(SqliteStore(str(tmp_path / "backup")), verify=True).verification
    assert verification is not None
    assert verification.checked == 1


async def test_what_cannot_be_backed_up_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened_at(f"sqlite:///{tmp_path}/a.db"):
        pass
    store = SqliteStore(str(tmp_path / "a.db"))
    existing = tmp_path / "kept"
    existing.write_text("mine")
    with pytest.raises(DefinitionError, match="kept' already exists"):
        back_up(store, existing)
    assert existing.read_text() == "mine"
    with pytest.raises(DefinitionError, match="does not exist"):
        back_up(store, tmp_path / "nowhere" / "file")
    monkeypatch.setattr(store, "back_up_to", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StoreError, match="No space left"):
        back_up(store, tmp_path / "full")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("full")] == []


async def test_no_file_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lowest() -> int:
        os.close(number := os.open(tmp_path, os.O_RDONLY))
        return number

    async with opened_at(f"sqlite:///{tmp_path}/a.db"):
        pass
    store, before = SqliteStore(str(tmp_path / "a.db")), lowest()
    back_up(store, tmp_path / "whole")
    assert lowest() == before
    monkeypatch.setattr(store, "back_up_to", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StoreError):
        back_up(store, tmp_path / "full")
    assert lowest() == before


@pytest.mark.realtime
@pytest.mark.spec("P30")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "needs pg_dump, which is not on the PATH"),
        ("echo 'pg_dump (PostgreSQL) 9.6.24'", "pg_dump has version 9; the server has"),
        ('[ "$1" = --version ] && exec {real} --version; echo refused >&2; exit 1', "pg_dump could not read"),
    ],
)
async def test_without_a_pg_dump_that_serves_nothing_is_made(
    postgres: Server,
    postgres_url: str,
    script: str | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if script is not None:
        (folder / "pg_dump").write_text(f"#!/bin/sh\n{script.format(real=postgres.programs / 'pg_dump')}\n")
        (folder / "pg_dump").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(StoreError, match=message):
        back_up(store_at(postgres_url), tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.realtime
async def test_a_password_does_not_stand_on_the_command_line(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, log = tmp_path / "bin", tmp_path / "seen"
    folder.mkdir()
    real = postgres.programs / "pg_dump"
    (folder / "pg_dump").write_text(f'#!/bin/sh\necho "$@ / $PGPASSWORD" >> {log}\nexec {real} "$@"\n')
    (folder / "pg_dump").chmod(0o755)
    use(folder, monkeypatch)
    with postgres.database() as url:
        back_up(store_at(url.replace("postgres:@", "postgres:sesame@", 1)), tmp_path / "backup")
    command, _, password = log.read_text().splitlines()[-1].rpartition(" / ")
    assert "sesame" not in command
    assert password == "sesame"
