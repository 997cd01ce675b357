"""The tables and their versions (spec 5, P30)."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import LiteralString

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from capset.definitions.calls.records import COLUMNS
from capset.errors import StoreError
from capset.stores.base import AuditQuery, SessionRow
from capset.stores.sql.postgres import engines
from capset.stores.sql.schema import revisions as making
from capset.stores.sql.schema import tables
from capset.stores.sql.schema.revisions import HEAD, KNOWN_REVISIONS, OLDEST_USABLE
from capset.stores.sql.sqlite import STUCK_SECONDS, SqliteStore
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import entry
from tests.databases import Server
from tests.helpers.stores.sql.schema.revisions import OPEN, is_no_index_of_words
from tests.helpers.stores.sql.support import let_go, make, opened, opened_at, path_of, process, raw, run_at, store_at


def count_tables(url: str) -> int:
    """Return how many tables a database has."""
    if path_of(url) is not None:
        return run_at(url, "SELECT count(*) FROM sqlite_master")[0][0]
    return run_at(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")[0][0]


PARTIAL: dict[bool, LiteralString] = {
    True: "SELECT count(*) FROM sqlite_master WHERE sql LIKE '%(%, seq) WHERE phase = ''outcome'''",
    False: "SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%, seq) WHERE (phase = ''outcome''::text)'",
}


def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", "capset.stores.sql:migrations")
    return ScriptDirectory.from_config(config)


def test_the_head_is_the_last_migration() -> None:
    assert scripts().get_heads() == [HEAD]
    assert {script.revision for script in scripts().walk_revisions()} == KNOWN_REVISIONS
    assert len(KNOWN_REVISIONS) == 1 or HEAD > OLDEST_USABLE, (
        "the last one adds indexes, or opening a large database would make them"
    )


@pytest.mark.spec("P30")
async def test_a_new_database_has_the_tables_that_the_code_knows(store: SqlStore, url: str) -> None:
    assert store._engines is not None
    with store._engines[1].connect() as connection:
        opts = {"compare_type": True, "compare_server_default": True, "include_name": is_no_index_of_words}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, tables.metadata) == []
        for table in tables.metadata.sorted_tables:
            primary = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
            assert primary == [column.name for column in table.primary_key]
        index_names = {index["name"] for index in inspect(connection).get_indexes("records")}
    assert run_at(url, PARTIAL[url.startswith("sqlite")]) == [(len(tables.FILTERS),)]
    filters = (*tables.FILTERS, "approval", "code", "time", "act", "acts")
    assert index_names >= {f"ix_records_{name}" for name in filters}
    assert tuple(tables.records.c.keys()) == COLUMNS
    assert tuple(tables.sessions.c.keys()) == tuple(SessionRow.__slots__)


def statements_of(path: Path) -> dict[str, str]:
    """Return what made each thing in a file, which is all that SQLite knows of it, with its white space as one."""
    with raw(path) as file:
        rows = file.execute("SELECT type || ' ' || name, sql FROM sqlite_master").fetchall()
    return {name: " ".join(str(sql).split()) for name, sql in rows}


@pytest.mark.spec("P30")
async def test_a_new_database_is_what_the_migrations_make(tmp_path: Path) -> None:
    make(tmp_path / "raised.db", HEAD)
    async with opened(tmp_path / "made.db"):
        pass
    created, raised = statements_of(tmp_path / "made.db"), statements_of(tmp_path / "raised.db")
    assert created == raised
    assert {f"table {name}" for name in tables.metadata.tables} < created.keys()
    for path in (tmp_path / "made.db", tmp_path / "raised.db"):
        with raw(path) as file:
            assert file.execute("SELECT * FROM alembic_version").fetchall() == [(HEAD,)]
            compatible = file.execute("SELECT * FROM settings WHERE name = 'compatible'").fetchall()
            assert compatible == [("compatible", "0001")]
            assert file.execute("SELECT count(*) FROM document_words").fetchall() == [(0,)]


async def test_every_filter_of_a_query_uses_an_index_in_its_order(tmp_path: Path) -> None:
    make(tmp_path / "a.db", HEAD)
    with raw(tmp_path / "a.db") as file:
        for name in (*tables.FILTERS, "approval", "code", "id"):
            query = (
                f"SELECT * FROM records WHERE phase = 'outcome' AND {name} = ? AND seq < ? ORDER BY seq DESC LIMIT 9"
            )
            plan = str(file.execute(f"EXPLAIN QUERY PLAN {query}", ("x", 5)).fetchall())
            assert "USING INDEX" in plan, name
            assert name == "id" or "TEMP B-TREE" not in plan, name


@pytest.mark.spec("P30")
async def test_a_database_of_a_newer_version_is_refused_or_worked_with_where_that_says_so(empty_url: str) -> None:
    """A process that is started again while others are of the next version already goes on."""
    url = empty_url
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
    run_at(url, "UPDATE alembic_version SET version_num = '9998'")
    run_at(url, "UPDATE settings SET value = '9000' WHERE name = 'compatible'")
    with pytest.raises(StoreError, match="its revision is '9998'") as failure:
        await store_at(url).open()
    assert "upgrade capset" in str(failure.value.hint)
    assert run_at(url, "SELECT count(*) FROM records") == [(1,)]
    run_at(url, "UPDATE settings SET value = '0001' WHERE name = 'compatible'")
    async with opened_at(url) as store:
        await store.audit.commit(entry("b"))
        assert (await store.audit.verify()).checked == 2
    assert run_at(url, "SELECT version_num FROM alembic_version") == [("9998",)]


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with raw(path) as file:
        file.execute("CREATE TABLE records (name TEXT)")
    with pytest.raises(StoreError, match="belongs to another program"):
        await SqliteStore(str(path)).open()
    with raw(path) as file:
        assert file.execute("SELECT name FROM sqlite_master").fetchall() == [("records",)]


async def test_what_fails_in_the_middle_leaves_nothing_behind(empty_url: str) -> None:
    store = store_at(empty_url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "_CREATE_REVISION_TABLE", "CREATE nothing")
        with pytest.raises(StoreError):
            await store.open()
    assert count_tables(empty_url) == 0
    await store.open()
    await store.audit.commit(entry("a"))
    await store.close()


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P30")
def test_processes_that_make_one_database_at_once_all_succeed(empty_url: str) -> None:
    with ExitStack() as stack:
        let_go(*[stack.enter_context(process(OPEN, empty_url)) for _ in range(4)], within=60)
    assert run_at(empty_url, "SELECT * FROM alembic_version") == [(HEAD,)]


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P30")
async def test_a_process_waits_while_another_one_makes_the_tables_for_long(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with raw(path) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        store = SqliteStore(str(path))
        opening = asyncio.create_task(store.open())
        await asyncio.sleep(STUCK_SECONDS + 1)
        other.execute("COMMIT")
        await opening
    await store.close()


@pytest.mark.realtime
@pytest.mark.spec("P30")
async def test_a_machine_that_pauses_while_it_reads_the_revision_makes_the_tables(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = making.revision_of

    def read_slowly(connection: Connection, name: str) -> str | None:
        connection.exec_driver_sql("SELECT 1")
        time.sleep(0.5)
        return read(connection, name)

    monkeypatch.setattr(engines, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(making, "revision_of", read_slowly)
    async with opened_at(postgres.empty()) as store:
        assert (await store.audit.query(AuditQuery(None))).items == ()
