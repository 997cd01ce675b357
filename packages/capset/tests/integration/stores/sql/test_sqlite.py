"""What a URL can name, and what can be wrong with it: one clear sentence each (spec 4, G24)."""

from __future__ import annotations

import errno
import math
import sqlite3
from pathlib import Path
from typing import cast

import pytest

from capset.errors import DefinitionError, StoreError
from capset.stores.base import make_store
from capset.stores.sql import open_sqlite
from capset.stores.sql.problems import store_error
from capset.stores.sql.sqlite import _retry_while_locked, _use_wal
from capset_testing.store_suite.support import entry
from tests.helpers.stores.sql.support import opened


@pytest.mark.parametrize("rest", ["//", "///", "///:memory:", "///a.db?mode=ro", "///a.db#x", "a.db"])
def test_a_url_that_names_no_file_is_refused(rest: str) -> None:
    with pytest.raises(DefinitionError, match="the store ") as failure:
        open_sqlite(f"sqlite:{rest}")
    assert failure.value.hint


def test_the_hint_for_no_file_names_the_store_in_memory() -> None:
    with pytest.raises(DefinitionError, match="names no file") as failure:
        make_store("sqlite://")
    assert "memory://" in str(failure.value.hint)


async def test_a_relative_path_is_that_of_the_moment_and_an_absolute_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    relative = make_store("sqlite:///a b%20.db")
    absolute = make_store(f"sqlite:///{tmp_path}/c.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for store in (relative, absolute):
        await store.open()
        await store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b%20.db", "c.db", "elsewhere"]


async def test_a_new_file_is_its_owners_alone_and_one_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    for name, before in (("new.db", None), ("shared.db", 0o640)):
        file = tmp_path / name
        if before is not None:
            file.touch()
            file.chmod(before)
        store = make_store(f"sqlite:///{file}")
        await store.open()
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{name}*") if path.is_file()}
        await store.close()
        assert modes.pop(name) == (before or 0o600)
        assert set(modes.values()) == {before or 0o600}, "SQLite's own files beside it"


@pytest.mark.spec("G24")
async def test_what_cannot_be_opened_is_said_in_the_users_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text.db").write_text("this is no database, but a text that is long enough to be one\n" * 20)
    for name, problem in (
        ("missing/a.db", "the folder of the database 'missing/a.db' does not exist"),
        ("folder", "the database 'folder' is a directory"),
        ("text.db", "the database 'text.db' is not a SQLite database"),
        ("text.db/a.db", "the folder of the database 'text.db/a.db' does not exist"),
        ("/proc/a.db", "the database '/proc/a.db' cannot be opened"),
    ):
        with pytest.raises(StoreError) as failure:
            await make_store(f"sqlite:///{name}").open()
        assert failure.value.message == problem
        assert failure.value.hint
        assert str(tmp_path) not in failure.value.message + str(failure.value.hint)


@pytest.mark.spec("G24")
async def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("a.db")
    async with opened(path) as store:
        for number in range(900):
            store.audit.append(entry(f"a{number}"))
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    content[half:] = b"\xff" * (len(content) - half)
    path.write_bytes(content)
    async with opened(path) as store:
        with pytest.raises(StoreError, match=r"the database 'a\.db' is damaged") as failure:
            await store.audit.verify()
    assert failure.value.hint == "restore a backup"


async def test_a_store_that_could_not_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    store = make_store(f"sqlite:///{tmp_path}/later/a.db")
    with pytest.raises(StoreError, match="does not exist"):
        await store.open()
    (tmp_path / "later").mkdir()
    await store.open()
    await store.close()


@pytest.mark.spec("G24")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (sqlite3.SQLITE_READONLY, "the database 'a.db' cannot be written: it is read-only here"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "the database 'a.db' is locked by another process"),
        (sqlite3.SQLITE_TOOBIG, "the database 'a.db' failed (SQLITE_TOOBIG)"),
    ],
)
def test_a_code_of_the_engine_becomes_a_sentence(code: int, message: str) -> None:
    error = sqlite3.OperationalError("near SELECT /home/me: secret")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_TOOBIG"
    assert store_error("a.db", error).message == message


def test_other_errors_show_no_path_and_no_text() -> None:
    system = OSError(errno.EROFS, "Read-only file system", "/home/me/a.db-writers")
    assert store_error("a.db", system).message == "the database 'a.db' failed: Read-only file system"
    assert store_error("a.db", KeyError("secret")).message == "the database 'a.db' failed (KeyError)"


class Busy:
    """A connection whose switch to WAL fails so often because another process makes the same file."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def execute(self, _statement: str) -> Busy:
        if self.failures:
            self.failures -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return self

    def fetchone(self) -> tuple[str]:
        return ("wal",)


@pytest.mark.realtime
@pytest.mark.spec("P30")
def test_the_switch_to_wal_waits_for_another_process_but_not_without_end() -> None:
    connection = Busy(3)
    _retry_while_locked(lambda: _use_wal(cast("sqlite3.Connection", connection)), math.inf)
    assert connection.failures == 0
    with pytest.raises(sqlite3.OperationalError):
        _retry_while_locked(lambda: _use_wal(cast("sqlite3.Connection", Busy(1))), -math.inf)
