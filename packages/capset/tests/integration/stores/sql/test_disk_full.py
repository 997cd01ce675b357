"""A disk that is full: told at once, nothing half written, nothing lost once there is room (spec 4, G23)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection

from capset.errors import StoreError
from capset.stores.base import AuditQuery
from capset.stores.sql.sqlite import SqliteStore
from capset_testing.store_suite.support import NOW, entry
from tests.helpers.stores.sql.support import line_of, opened, process
from tests.helpers.stores.sql.writer.writer import writer_of

# Fills a file up to the process's own limit, then lifts the limit: what the system says there is real.
LIMITED = """
import asyncio, resource, sys
from capset.errors import StoreError
from capset_testing.store_suite.support import NOW, create_sessions, entry

async def main():
    store = open_sqlite("sqlite:///" + sys.argv[1])
    await store.open()
    await store.audit.commit(entry("first"))
    await create_sessions(store, "s")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    errors = []
    for number in range(40):
        try:
            await store.files.write("s", f"/{number}", bytes([number]) * 20_000, org=None, now=NOW)
        except StoreError as error:
            errors.append(error)
    store.audit.append(entry("buffered"))
    try:
        await store.audit.commit(entry("refused", arguments="x" * 400_000))
    except StoreError as error:
        errors.append(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.audit.commit(entry("last"))
    files = await store.files.list("s", "/", recursive=True)
    print(len(files) + len(errors), errors[-1].message.replace(sys.argv[1], "FILE"), flush=True)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.realtime
@pytest.mark.spec("G23", "G24")
async def test_a_limit_of_the_system_is_told_and_outlived(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with process(LIMITED, path) as child:
        assert line_of(child) == "41 the database 'FILE' could not be read or written: the system reported an error"
        assert child.wait(60) == 0
    async with opened(path) as store:
        assert (await store.audit.verify()).ok
        assert [record.id for record in await store.audit.read()] == ["first", "buffered", "last"]


def limit_pages(more: int) -> Callable[[Connection], None]:
    """Return a write function that lets the file grow by so many pages only."""

    def write(connection: Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + more}")

    return write


@pytest.mark.spec("G23")
async def test_a_full_disk_refuses_durable_writes_and_keeps_buffered_ones(file_store: SqliteStore) -> None:
    writer, audit, count, refused = writer_of(file_store), file_store.audit, 0, ""
    await writer.write(limit_pages(12))
    with pytest.raises(StoreError, match="has no room left: the disk is full"):
        await file_store.files.write("s", "/big", bytes(200_000), org=None, now=NOW)
    while not refused:
        audit.append(entry(f"buffered {count}", reason="x" * 1000))
        try:
            await audit.commit(entry(f"durable {count}", reason="x" * 1000))
            count += 1
        except StoreError as error:
            refused = error.message
    assert "the disk is full" in refused
    with pytest.raises(StoreError, match="the disk is full"):
        await audit.flush()
    audit.append(entry("later"))
    assert (await audit.verify()).checked == 2 * count
    await writer.write(limit_pages(1000))
    await audit.flush()
    assert (await audit.verify()).checked == 2 * count + 2
    assert [record.id for record in (await audit.query(AuditQuery(limit=2))).items] == ["later", f"buffered {count}"]
    assert await file_store.files.list("s", "/", recursive=True) == []
