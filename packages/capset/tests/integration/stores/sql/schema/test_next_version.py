"""The upgrade to an invented next version, whose processes are real, and this version beside it (spec 5, P30)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from capset.stores.base import Store
from capset.stores.sql.schema.revisions import HEAD
from capset.stores.sql.schema.tables import metadata
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW, create_sessions, entry
from tests.databases import Server
from tests.helpers.stores.sql.everything import read_everything, write_everything
from tests.helpers.stores.sql.next_version import INDEX, INDEXES, SHAPE, NextVersion, make_next_version
from tests.helpers.stores.sql.schema.revisions import OPEN
from tests.helpers.stores.sql.support import let_go, line_of, opened_at, run_at
from tests.waiting import wait_until

pytestmark = [pytest.mark.realtime, pytest.mark.spec("P30")]
REVISION = "SELECT version_num FROM alembic_version"
MAKING = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '% INDEX CONCURRENTLY%'"
HAS_INDEX = "SELECT count(*) FROM pg_indexes WHERE indexname = 'ix_records_next'"
MAKE_INDEX = "CREATE INDEX ix_records_next ON records (tool, time)"
INVALIDATE = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_records_next'::regclass"
LACKS_INDEXES = "lacks indexes: capset db upgrade makes them"


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> NextVersion:
    return make_next_version(tmp_path_factory.mktemp("next"))


@pytest.fixture(scope="module")
def next_large(tmp_path_factory: pytest.TempPathFactory) -> NextVersion:
    """Make a next version to which a few records are many already."""
    return make_next_version(tmp_path_factory.mktemp("large"), large=2)


async def rows_of(store: SqlStore) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables that this version knows."""

    def read(connection: Any) -> dict[str, list[tuple[Any, ...]]]:
        tables = metadata.sorted_tables
        return {table.name: sorted(map(tuple, connection.execute(select(table))), key=repr) for table in tables}

    assert store._engines is not None
    with store._engines[1].begin() as connection:
        return await asyncio.to_thread(read, connection)


async def fill(store: Store) -> None:
    for number in range(4):
        await store.audit.commit(entry(f"filled-{number}"))


async def test_every_row_is_there_after_the_upgrade(empty_url: str, next_version: NextVersion) -> None:
    async with opened_at(empty_url) as store:
        await write_everything(store)
        before = await rows_of(store)
    assert next_version.run("plan", empty_url)[0] == [[SHAPE, False], [INDEXES, False]]
    assert "capset db upgrade" in next_version.run("check", empty_url)[0][0]
    assert next_version.run("upgrade", empty_url)[0] == [[SHAPE, False], [INDEXES, False]]
    assert run_at(empty_url, REVISION) == [(INDEXES,)]
    assert next_version.run("check", empty_url)[0] == []
    async with opened_at(empty_url) as store:
        after = await rows_of(store)
        assert (await store.audit.verify()).ok
    changing = {"alembic_version", "settings", "checkpoints"}
    assert {name for name, rows in before.items() if rows != after[name]} <= changing


@pytest.mark.spec("D6")
async def test_this_version_works_before_during_and_after_the_upgrade(
    empty_url: str, next_version: NextVersion
) -> None:
    async with opened_at(empty_url) as store:
        await write_everything(store)
        upgrading = asyncio.create_task(asyncio.to_thread(next_version.run, "upgrade", empty_url))
        number = 0
        while not upgrading.done():
            await store.audit.commit(entry(f"during-{number}"))
            await read_everything(store)
            number += 1
        await upgrading
        await read_everything(store)
        await fill(store)
        assert (await store.audit.verify()).ok


@pytest.mark.spec("D6")
async def test_this_version_does_everything_in_a_database_of_the_next(
    empty_url: str, next_version: NextVersion
) -> None:
    next_version.run("open", empty_url)
    assert run_at(empty_url, REVISION) == [(INDEXES,)]
    async with opened_at(empty_url) as store:
        await write_everything(store)
        await read_everything(store)
        assert (await store.audit.verify()).ok
    assert next_version.run("check", empty_url)[0] == []


async def test_an_upgrade_that_fails_leaves_the_database_as_it_was(empty_url: str, tmp_path: Path) -> None:
    async with opened_at(empty_url) as store:
        await fill(store)
    failing = make_next_version(tmp_path / "failing", failing=True)
    with pytest.raises(AssertionError, match="a failure in the middle"):
        failing.run("open", empty_url)
    assert run_at(empty_url, REVISION) == [(HEAD,)]
    async with opened_at(empty_url) as store:
        assert (await store.audit.verify()).checked == 4
    assert make_next_version(tmp_path / "mended").run("upgrade", empty_url)[0] != []


@pytest.mark.nightly
async def test_processes_that_upgrade_one_database_at_once_all_succeed(
    empty_url: str, next_version: NextVersion
) -> None:
    async with opened_at(empty_url) as store:
        await fill(store)
    with next_version.process(OPEN, empty_url) as one, next_version.process(OPEN, empty_url) as two:
        let_go(one, two, within=60)
    assert run_at(empty_url, REVISION) == [(INDEXES,)]


async def test_alembic_is_imported_only_for_an_upgrade(tmp_path: Path, next_version: NextVersion) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    async with opened_at(url):
        pass
    for name, expected in (("old", "True"), ("old", "False"), ("new", "False")):
        with next_version.process(OPEN, f"sqlite:///{tmp_path}/{name}.db") as child:
            assert line_of(child) == "ready"
            output, _ = child.communicate("go\n")
        assert output.strip() == expected


async def test_opening_a_large_database_leaves_indexes_out_and_says_so(
    postgres: Server, next_large: NextVersion
) -> None:
    url = postgres.empty()
    async with opened_at(url) as store:
        await fill(store)
    _, log = next_large.run("open", url)
    assert LACKS_INDEXES in log
    assert run_at(url, REVISION) == [(SHAPE,)], "with the tables that the code needs"
    assert run_at(url, HAS_INDEX) == [(0,)]
    assert next_large.run("check", url)[0] == [f"the revision is {SHAPE}, not {INDEXES}: run capset db upgrade"]
    assert next_large.run("plan", url)[0] == [[INDEXES, True]]
    assert next_large.run("upgrade", url)[0] == [[INDEXES, True]]
    assert next_large.run("check", url)[0] == []


async def test_writers_go_on_while_indexes_are_made(postgres: Server, next_large: NextVersion) -> None:
    url = postgres.empty()
    async with opened_at(url) as store:
        await fill(store)
        next_large.run("open", url)
        run_at(url, MAKE_INDEX)
        run_at(url, INVALIDATE)  # as one is left by an upgrade that was stopped
        with psycopg.connect(url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM records")  # as a long verification does: what is made waits for it
            upgrades = [asyncio.create_task(asyncio.to_thread(next_large.run, "upgrade", url)) for _ in range(2)]
            await asyncio.to_thread(wait_until, lambda: run_at(url, MAKING) != [(0,)])
            for number in range(20):
                await asyncio.wait_for(store.audit.commit(entry(f"meanwhile-{number}")), 60)
            assert not any(upgrade.done() for upgrade in upgrades)
            reader.rollback()
            for _, log in await asyncio.gather(*upgrades):
                assert log == "", "whoever makes them need not be told to"
        assert (await store.audit.verify()).checked == 24
    assert run_at(url, REVISION) == [(INDEXES,)]
    assert next_large.run("check", url)[0] == []


@pytest.mark.nightly
async def test_many_files_make_a_database_large_too(
    postgres: Server, next_version: NextVersion, next_large: NextVersion
) -> None:
    url = postgres.empty()
    async with opened_at(url) as store:
        await create_sessions(store, "s")
        for number in range(4):
            await store.files.write("s", f"/{number}", b"x", org=None, now=NOW)
    run_at(url, "ANALYZE files")
    for version, revision in ((next_large, SHAPE), (next_version, INDEXES)):
        version.run("open", url)
        assert run_at(url, REVISION) == [(revision,)]
    assert next_version.run("check", url)[0] == []


@pytest.mark.nightly
async def test_an_unfinished_index_is_made_anew_in_a_small_database_too(
    postgres: Server, next_version: NextVersion
) -> None:
    url = postgres.empty()
    async with opened_at(url) as store:
        await fill(store)
    run_at(url, MAKE_INDEX)
    run_at(url, INVALIDATE)
    assert next_version.run("check", url)[0][0] == f"the index {INDEX} was never finished"
    next_version.run("open", url)
    assert next_version.run("check", url)[0] == []
