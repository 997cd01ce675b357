"""Indexes of a large database are made beside its writers, and by command only (spec 5, P30)."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest
from psycopg import sql

from capset.stores.sql.schema.maintenance import check, migrations, plan, upgrade
from capset.stores.sql.schema.revisions import ENOUGH, HEAD, raise_to
from capset_testing.store_suite.support import NOW, begin, entry
from tests.databases import Server, connected
from tests.helpers.stores.sql.support import opened_at, run_at, store_at
from tests.helpers.stores.sql.upgrades.eras import engine_at
from tests.waiting import wait_until

REVISION = "SELECT version_num FROM alembic_version"
MAKING = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CREATE INDEX CONCURRENTLY%'"
INDEXES = dict.fromkeys(name for _, _, indexes in migrations() for name, *_ in indexes or ())
COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
INVALID = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_records_time'::regclass"


@pytest.fixture
def url(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the URL of a database of revision 0006, in which a few records are many already."""
    monkeypatch.setattr("capset.stores.sql.schema.revisions.LARGE", 2)
    url = postgres.empty()
    engine = engine_at(url)
    with engine.begin() as connection:
        raise_to(connection, "0006")
    engine.dispose()
    return url


async def filled(url: str, revision: str = "0007") -> None:
    async with opened_at(url) as store:  # few records yet
        for number in range(4):
            await store.audit.commit(
                entry(f"call-{number}", attributes_digest=None, code_hash=None, act=None, source=None)
            )
    with connected(url) as connection:
        for name in INDEXES:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    unshape(url)
    with connected(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", (revision,))
    run_at(url, "DELETE FROM settings WHERE name = 'compatible'")


def unshape(url: str) -> None:
    """Take the tables and columns away that revisions after 0009 brought."""
    with connected(url) as connection:
        name, old = connection.info.dbname, f"old_{connection.info.dbname}"
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(old)))
    engine = engine_at(url.replace(name, old))
    with engine.begin() as connection:
        raise_to(connection, "0009")
        before = {tuple(row) for row in connection.exec_driver_sql(COLUMNS)}
    engine.dispose()
    with connected(url) as connection:
        added = {*connection.execute(COLUMNS).fetchall()} - before
        tables = {table for table, _ in added} - {table for table, _ in before}
        for table in tables:
            connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(table)))
        for table, column in sorted(pair for pair in added if pair[0] not in tables):
            named = sql.Identifier(table), sql.Identifier(column)
            connection.execute(sql.SQL("ALTER TABLE {} DROP COLUMN {} CASCADE").format(*named))


def until_it_makes(url: str) -> None:
    wait_until(lambda: run_at(url, MAKING) != [(0,)])


@pytest.mark.spec("P30")
async def test_opening_leaves_the_indexes_out_and_says_so(url: str, caplog: pytest.LogCaptureFixture) -> None:
    await filled(url)
    with caplog.at_level(logging.WARNING):
        async with opened_at(url) as store:
            await store.audit.commit(entry("new"))
    assert "lacks indexes: capset db upgrade makes them" in caplog.text
    assert run_at(url, REVISION) == [(ENOUGH,)], "with the tables that the code needs"
    assert run_at(url, "SELECT count(*) FROM reservations") == [(0,)]
    assert run_at(url, "SELECT count(*) FROM pg_indexes WHERE indexname = 'ix_records_agent'") == [(0,)]
    assert check(store_at(url)).problems == (f"it is of revision {ENOUGH}, not {HEAD}: capset db upgrade raises it",)
    assert [(step.revision, step.beside_writers) for step in plan(store_at(url)).steps] == [(HEAD, True)]
    upgrade(store_at(url))
    assert check(store_at(url)).problems == (), "with those of the revisions that were passed over, too"


@pytest.mark.nightly
@pytest.mark.spec("P30")
async def test_a_database_that_has_some_of_them_is_left_with_these(url: str, caplog: pytest.LogCaptureFixture) -> None:
    await filled(url, "0008")
    with caplog.at_level(logging.WARNING):
        async with opened_at(url):
            pass
    assert "lacks indexes: capset db upgrade makes them" in caplog.text
    assert run_at(url, REVISION) == [(ENOUGH,)]
    assert [(step.revision, step.beside_writers) for step in plan(store_at(url)).steps] == [(HEAD, True)]
    upgrade(store_at(url))
    assert run_at(url, REVISION) == [(HEAD,)]
    assert check(store_at(url)).problems == ()


@pytest.mark.nightly
@pytest.mark.spec("P30")
async def test_many_files_make_a_database_large_too(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.empty()
    async with opened_at(url) as store:
        await begin(store, "s")
        for number in range(4):
            await store.files.write("s", f"/{number}", b"x", org=None, now=NOW)
    run_at(url, "ANALYZE files")
    run_at(url, "DROP INDEX ix_files_usage")
    unshape(url)
    for name in ("DROP INDEX ix_approvals_equal", "DROP INDEX ix_approvals_whose"):
        run_at(url, name)
    run_at(url, "UPDATE alembic_version SET version_num = '0008'")
    for few, revision in ((3, ENOUGH), (100, HEAD)):
        monkeypatch.setattr("capset.stores.sql.schema.revisions.LARGE", few)
        async with opened_at(url):
            assert run_at(url, REVISION) == [(revision,)]
    assert check(store_at(url)).problems == ()


@pytest.mark.realtime
@pytest.mark.spec("P30")
async def test_writers_go_on_while_the_indexes_are_made(url: str, caplog: pytest.LogCaptureFixture) -> None:
    await filled(url)
    run_at(url, "CREATE INDEX ix_records_time ON records (time, seq)")
    run_at(url, INVALID)  # as one is left by an upgrade that was stopped
    async with opened_at(url) as store:
        with psycopg.connect(url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM records")  # as a long verification does: what is made waits for it
            caplog.clear()
            upgrading = asyncio.create_task(asyncio.to_thread(upgrade, store_at(url)))
            second = asyncio.create_task(asyncio.to_thread(upgrade, store_at(url)))
            await asyncio.to_thread(until_it_makes, url)
            for number in range(20):
                await asyncio.wait_for(store.audit.commit(entry(f"meanwhile-{number}")), 60)
            assert not upgrading.done()
            reader.rollback()
            await asyncio.gather(upgrading, second)
            assert caplog.text == "", "whoever makes them need not be told to"
            assert (await store.audit.verify()).checked == 24
    assert run_at(url, REVISION) == [(HEAD,)]
    assert check(store_at(url)).problems == ()


@pytest.mark.nightly
@pytest.mark.spec("P30")
async def test_what_was_left_unfinished_is_made_anew_in_a_small_database_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(url)
    run_at(url, "CREATE INDEX ix_records_time ON records (time, seq)")
    run_at(url, INVALID)
    monkeypatch.setattr("capset.stores.sql.schema.revisions.LARGE", 100)
    async with opened_at(url):
        pass
    assert run_at(url, REVISION) == [(HEAD,)]
    assert check(store_at(url)).problems == ()
