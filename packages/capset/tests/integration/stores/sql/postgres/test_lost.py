"""A server that goes away and comes back: told at once, nothing lost, nothing twice (spec 4, G19, G23)."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection

from capset.errors import StoreError
from capset.stores.base import AuditQuery
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW, create_sessions, entry, intent
from tests.databases import Server
from tests.helpers.stores.sql.postgres.support import cut_off
from tests.helpers.stores.sql.support import opened_at, run_at, store_at
from tests.waiting import until

pytestmark = pytest.mark.spec("G23")

OPEN_INTENTS = "SELECT id FROM open_intents ORDER BY id"


@pytest.fixture
def own_server(postgres: Server) -> Generator[Server]:
    """Give a server that may be stopped; without one for all there is none of one's own either."""
    del postgres
    server = Server(Path(tempfile.mkdtemp(prefix="capset-pg-")))
    yield server
    server.remove()


def lose_connection(store: SqlStore, *, is_committed: bool) -> None:
    """Have the connection of the next commit lost, when that is done, but its writer not told, or before."""
    assert store._engines is not None
    dialect: Any = store._engines[0].dialect
    commit = dialect.do_commit

    def commit_and_lose(raw: Any) -> None:
        if is_committed:
            commit(raw)
        del dialect.do_commit
        raw.driver_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    dialect.do_commit = commit_and_lose


async def ids_in(store: SqlStore) -> list[str]:
    return [record.id for record in (await store.audit.query(AuditQuery())).items]


@pytest.mark.realtime
async def test_what_is_buffered_outlives_a_server_that_stops(own_server: Server) -> None:
    async with opened_at(own_server.empty()) as store:
        await create_sessions(store, "s")
        await store.audit.commit(entry("a"))
        own_server.stop()
        store.audit.append(entry("b"))
        for attempt in (
            *(store.audit.commit(entry("refused")), store.audit.flush(), store.audit.query(AuditQuery())),
            store.files.write("s", "/a", b"", org=None, now=NOW),
        ):
            with pytest.raises(StoreError, match=r"the database 'empty0' (cannot be reached|was lost)") as failure:
                await attempt
            assert (failure.value.status, failure.value.retryable) == (503, True)
        store.audit.append(entry("c"))
        own_server.start()
        assert (await ids_in(store))[-1:] == ["a"]
        await store.audit.flush()
        assert await ids_in(store) == ["c", "b", "a"]
        await store.files.write("s", "/a", b"again", org=None, now=NOW)
        assert (await store.audit.verify()).ok


@pytest.mark.realtime
async def test_what_is_buffered_is_written_by_itself_once_the_server_is_back(own_server: Server) -> None:
    async with opened_at(own_server.empty()) as store:
        own_server.stop()
        store.audit.append(entry("a"))
        with pytest.raises(StoreError):
            await store.audit.flush()
        own_server.start()
        await until(lambda: ids_in(store), "the entry to be written, though the writer is not asked again")


@pytest.mark.nightly
@pytest.mark.spec("G19")
async def test_a_writer_that_outlives_its_server_is_not_taken_for_gone(own_server: Server) -> None:
    url = own_server.empty()
    async with opened_at(url) as store:
        await store.audit.commit(intent("a"))
        own_server.stop()
        own_server.start()
        async with opened_at(url):  # at once, before the writer has asked for anything
            assert run_at(url, OPEN_INTENTS) == [("a",)]
        await store.audit.commit(entry("a"))
        assert [record.outcome for record in (await store.audit.query(AuditQuery())).items] == ["succeeded"]


@pytest.mark.realtime
async def test_closing_says_how_much_is_lost_with_the_server(own_server: Server) -> None:
    store = store_at(own_server.empty())
    await store.open()
    own_server.stop()
    for number in range(3):
        store.audit.append(entry(f"a{number}"))
    with pytest.raises(StoreError, match="lost 3 audit records that could not be written to 'empty0'"):
        await store.close()


async def test_a_commit_that_nobody_was_told_of_is_not_made_twice(server_store: SqlStore, postgres_url: str) -> None:
    audit = server_store.audit
    await audit.commit(intent("a"))
    lose_connection(server_store, is_committed=True)
    audit.append(entry("a"))
    audit.append(entry("b"))
    with pytest.raises(StoreError, match="cannot be reached"):
        await audit.commit(intent("c"))
    await audit.flush()  # raises nothing: what was buffered is on record, once
    assert await ids_in(server_store) == ["b", "a"]
    assert run_at(postgres_url, OPEN_INTENTS) == [("c",)], "whose caller was told that it is not on record"
    with pytest.raises(StoreError, match="its id and phase already exists"):
        await audit.commit(entry("b"))
    await audit.commit(entry("c", outcome="unavailable"))
    assert run_at(postgres_url, OPEN_INTENTS) == []
    assert (await audit.verify()).checked == 5


async def test_a_commit_that_was_not_made_is_made_again(server_store: SqlStore) -> None:
    lose_connection(server_store, is_committed=False)
    server_store.audit.append(entry("a"))
    with pytest.raises(StoreError):
        await server_store.audit.flush()
    await server_store.audit.flush()
    assert await ids_in(server_store) == ["a"]


async def test_a_write_function_whose_connection_is_cut_off_changes_nothing(
    server_store: SqlStore, postgres_url: str
) -> None:
    def die(connection: Connection) -> None:
        connection.exec_driver_sql("INSERT INTO settings VALUES ('lost', '')")
        connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    server_store.audit.append(entry("a"))
    with pytest.raises(StoreError, match="was lost"):
        await server_store.audit._writer.write(die)
    await until(lambda: run_at(postgres_url, "SELECT id FROM records") == [("a",)])
    assert run_at(postgres_url, "SELECT name FROM settings WHERE name = 'lost'") == []


async def test_reads_and_writes_outlive_connections_that_the_server_has_ended(
    server_store: SqlStore, postgres_url: str
) -> None:
    """Connections are not tried before they read: a read on one that has ended is made again on another."""
    store = server_store
    await store.audit.commit(intent("a"))
    for _ in range(3):
        await asyncio.gather(*[store.sessions.get("s") for _ in range(4)])
        assert cut_off(postgres_url) > 1
        pages = await asyncio.gather(*[store.events.read("s", after=0, limit=9) for _ in range(4)])
        assert [page.last for page in pages] == [0] * 4
        cut_off(postgres_url)
        rows = await asyncio.gather(*[store.sessions.get("s") for _ in range(4)])
        assert [row is not None and row.id for row in rows] == ["s"] * 4
    await store.audit.commit(entry("a"))
    assert (await store.audit.verify()).checked == 2
