"""A process of the version before goes on beside one that upgrades the database (spec 5, P30)."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import threading
from contextlib import closing
from typing import Any, Final

import psycopg
import pytest

from capset.stores.sql.postgres.engines import lock_key
from capset.stores.sql.schema.revisions import HEAD, raise_to
from capset.stores.sql.schema.tables import metadata
from capset_testing.store_suite.support import NOW, begin
from scripts.packages import ROOT
from tests.helpers.stores.sql.everything import read_everything, write_everything
from tests.helpers.stores.sql.support import opened_at, path_of, run_at
from tests.helpers.stores.sql.upgrades.eras import engine_at
from tests.waiting import wait_until

ERAS: Final = ("0006", "0008", "0009", "0011", "0029")
STATEMENTS: Final[dict[str, Any]] = {
    era: json.loads((ROOT / f"tests/helpers/stores/sql/upgrades/{era}.json").read_text(encoding="utf-8"))
    for era in ERAS
}
"""What the code of a revision says of itself, by engine: transactions of statements, parameters and counts of rows."""
beside_each = pytest.mark.parametrize(
    "era", [ERAS[0], *(pytest.param(era, marks=pytest.mark.nightly) for era in ERAS[1:-1]), ERAS[-1]]
)


class Old:
    """A process of an earlier revision: its connection, and all that its code ever says."""

    def __init__(self, url: str, era: str) -> None:
        path = path_of(url)
        self._statements = STATEMENTS[era]["sqlite" if path else "postgres"]
        # `connect` opens no transaction by itself, as the store's own connections do not.
        self._connection: Any = (
            sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
            if path
            else psycopg.connect(url, autocommit=True)
        )
        self._begin = None if path else "BEGIN"
        if path:
            self._connection.execute("PRAGMA foreign_keys = ON")
        self._tables = [name for (name,) in run_at(url, self._names(is_file=path is not None))]

    @staticmethod
    def _names(*, is_file: bool) -> Any:
        if is_file:
            return "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'document_words%'"
        return "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'document_words'"

    def work(self) -> None:
        """Do everything once, have the counts be what they were, and clear up."""
        for transaction in self._statements:
            if self._begin:
                self._connection.execute(self._begin)
            for statement, parameters, count in transaction:
                done = self._execute(statement, parameters)
                assert count in (-1, done.rowcount), statement
            self._connection.execute("COMMIT")
        order = [table.name for table in reversed(metadata.sorted_tables) if table.name in self._tables]
        self._connection.execute("BEGIN IMMEDIATE" if self._begin is None else "BEGIN")
        if self._begin:
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key("writes"),))
        for name in order:
            self._connection.execute(f"DELETE FROM {name}" + (" WHERE name <> 'compatible'" * (name == "settings")))
        if self._begin:  # the numbers of texts are known to the statements
            self._connection.execute("SELECT setval(pg_get_serial_sequence('documents', 'number'), 1, false)")
        self._connection.execute("COMMIT")

    def _execute(self, statement: str, parameters: Any) -> Any:
        values = from_json(parameters)
        cursor = self._connection.cursor()
        if isinstance(values, list) and values and isinstance(values[0], list | dict):
            cursor.executemany(statement, values)
            return cursor
        cursor.execute(statement, values) if values else cursor.execute(statement)
        if cursor.description is not None:
            cursor.fetchall()  # or SQLite would go on reading, and stay in the past
        return cursor

    def close(self) -> None:
        self._connection.close()


def from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if "zeros" in value:
            return bytes(value["zeros"])
        return (
            base64.b64decode(value["bytes"])
            if "bytes" in value
            else {key: from_json(member) for key, member in value.items()}
        )
    return [from_json(element) for element in value] if isinstance(value, list) else value


def made_at(url: str, era: str) -> None:
    engine = engine_at(url)
    with engine.begin() as connection:
        raise_to(connection, era)
    engine.dispose()


@pytest.mark.realtime
@pytest.mark.spec("P30", "D6")
@beside_each
async def test_all_that_an_old_process_says_holds_before_during_and_after_an_upgrade(empty_url: str, era: str) -> None:
    made_at(empty_url, era)
    ended = threading.Event()
    rounds = 0

    def work() -> None:
        nonlocal rounds
        while not ended.is_set():
            old.work()
            rounds += 1

    def more(than: int) -> None:
        wait_until(lambda: rounds > than or working.done())

    with closing(Old(empty_url, era)) as old:
        working = asyncio.create_task(asyncio.to_thread(work))
        try:
            await asyncio.to_thread(more, 1)
            async with opened_at(empty_url) as store:
                await asyncio.to_thread(more, rounds + 2)
                ended.set()
                await working
                await write_everything(store)
                await read_everything(store)
                assert (await store.audit.verify()).ok
        finally:
            ended.set()
            await asyncio.wait([working])
    assert run_at(empty_url, "SELECT version_num FROM alembic_version") == [(HEAD,)]
    assert rounds > 3


@pytest.mark.spec("P30")
@beside_each
async def test_what_an_old_process_deletes_takes_along_what_it_does_not_know(empty_url: str, era: str) -> None:
    made_at(empty_url, era)
    async with opened_at(empty_url) as store:
        await begin(store, "s")
        for statement in (
            "INSERT INTO session_events VALUES ('s', 1, 't', 'turn.started', '{}', '2026')",
            "INSERT INTO session_turns VALUES ('s', 't', 'h', '2026', '{}')",
            "INSERT INTO session_messages VALUES ('s', 1, 't', 'message', '2026', 2, '{}')",
        ):
            run_at(empty_url, statement)
        (deleting,) = {
            statement
            for transaction in STATEMENTS[era]["sqlite" if path_of(empty_url) else "postgres"]
            for statement, _, _ in transaction
            if statement.startswith("DELETE FROM sessions")
        }
        with closing(Old(empty_url, era)) as old:
            old._execute(deleting, ["s"] if path_of(empty_url) else {"id_1": "s"})
    counts = ", ".join(f"(SELECT count(*) FROM session_{table})" for table in ("events", "turns", "messages"))
    assert run_at(empty_url, "SELECT (SELECT count(*) FROM sessions), " + counts) == [(0, 0, 0, 0)]


@pytest.mark.spec("P25", "P30")
@beside_each
async def test_an_old_process_does_not_see_what_is_kept_of_files_that_went(empty_url: str, era: str) -> None:
    """It lists the root without it, and takes it along with the session."""
    made_at(empty_url, era)
    is_file = path_of(empty_url) is not None
    statements = {
        statement
        for transaction in STATEMENTS[era]["sqlite" if is_file else "postgres"]
        for statement, _, _ in transaction
        if "files" in statement
    }
    (listing,) = [
        statement for statement in statements if statement.startswith("SELECT") and "files.parent = " in statement
    ]
    (emptying,) = [
        statement
        for statement in statements
        if statement.startswith("DELETE FROM files") and "IS NOT NULL" in statement
    ]
    async with opened_at(empty_url) as store:
        await begin(store, "s")
        for path in ("/a", "/b"):
            await store.files.write("s", path, b"x", org=None, now=NOW)
        await store.files.delete("s", "/a", recursive=False)
        with closing(Old(empty_url, era)) as old:
            cursor = old._connection.cursor()
            cursor.execute(listing, ("s", "/") if is_file else {"session_1": "s", "parent_1": "/"})
            assert [row[1] for row in cursor.fetchall()] == ["/b"]
            assert run_at(empty_url, "SELECT path, version FROM files ORDER BY path") == [("/", 1), ("/b", 1)]
            old._execute(emptying, ["s"] if is_file else {"session_1": "s"})
    assert run_at(empty_url, "SELECT count(*) FROM files") == [(0,)]
