"""Locks: those that say which writers live, and the one by which writers take turns (spec 4, G19, G21)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import make_url

from capset.errors import StoreError
from capset.stores.base import AuditQuery, ScopeKey, StateRow
from capset.stores.sql.postgres import engines
from capset.stores.sql.postgres.engines import ACQUIRE_WRITE_LOCK, SessionLeases, lock_key, locking_engine
from capset.stores.sql.postgres.store import PostgresStore
from capset_testing.store_suite.support import NOW, create_sessions, entry, intent
from tests.databases import Server, connected
from tests.helpers.stores.sql.postgres.support import connections, cut_off, holding_lock_of_makers, opened_soon, writing
from tests.helpers.stores.sql.support import opened_at, run_at
from tests.waiting import moment, until

KEY = ScopeKey("session", "acme", "s", "counter")


@contextmanager
def leases(url: str) -> Generator[SessionLeases]:
    engine = locking_engine(make_url(url), "a")
    session_leases = SessionLeases(engine.connect)
    try:
        yield session_leases
    finally:
        session_leases.release()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after locks often, and take no server for one that was just started."""
    monkeypatch.setattr(engines, "LOCK_CHECK_SECONDS", 0.02)
    monkeypatch.setattr(engines, "RECONNECT_SECONDS", 0.0)


@pytest.mark.realtime
@pytest.mark.spec("G19")
def test_a_writer_is_gone_when_nobody_holds_its_lock(postgres_url: str) -> None:
    with leases(postgres_url) as mine, leases(postgres_url) as other:
        for _ in range(2):
            assert other.dead_writers(["a"]) == ["a"], "who asks keeps nothing"
        mine.take("a")
        mine.take("a")
        assert other.dead_writers(["a", "b"]) == ["b"]
        mine.release()
        assert other.dead_writers(["a"]) == ["a"]
        mine.take("c")
        assert other.dead_writers(["a", "c"]) == ["a"]


@pytest.mark.realtime
@pytest.mark.spec("G19")
async def test_a_lock_whose_connection_was_lost_is_taken_again_when_it_is_free(postgres_url: str) -> None:
    with leases(postgres_url) as lost, leases(postgres_url) as mine, leases(postgres_url) as other:
        lost.take("a")
        mine.take("a")  # the same writer, whose first connection the server has not missed yet
        assert other.dead_writers(["a"]) == []
        lost.release()
        await until(lambda: other.dead_writers(["a"]) == [])
        for _ in range(2):
            await until(lambda: connections(postgres_url) == 1)  # those of who looked have ended
            assert cut_off(postgres_url) == 1
            await until(lambda: other.dead_writers(["a"]) == [])


async def test_a_store_takes_a_lock_only_for_an_intent(postgres_url: str) -> None:
    def locks() -> int:
        here = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        return run_at(
            postgres_url, f"SELECT * FROM pg_locks WHERE locktype = 'advisory' AND database = {here}"
        ).__len__()

    async with opened_at(postgres_url) as store:
        await store.audit.commit(entry("a"))
        assert locks() == 0
        await store.audit.commit(intent("b"))
        assert locks() == 1
        await store.audit.commit(entry("b"))
    assert locks() == 0


@pytest.mark.spec("P30")
async def test_a_process_waits_while_another_one_makes_the_tables_for_longer_than_a_turn(postgres: Server) -> None:
    url = postgres.empty()
    store = PostgresStore(make_url(url), busy_seconds=0.2)
    with holding_lock_of_makers(url):
        opening = asyncio.create_task(store.open())
        await moment(1)
        assert not opening.done()
    await opening
    await store.close()


@pytest.mark.spec("P91", "T91")
async def test_who_may_only_connect_holds_up_no_writer(postgres: Server, postgres_url: str) -> None:
    """Not by an advisory lock, not by reading which are held, and not by the lock of a table that it may read."""
    postgres.run("CREATE ROLE passer LOGIN")
    passers_url = postgres.url(str(make_url(postgres_url).database), "passer:")
    try:
        with connected(postgres_url) as owner, connected(passers_url) as passer:
            owner.execute("GRANT SELECT ON alembic_version TO passer")
            passer.execute("SELECT pg_advisory_lock(%s)", (lock_key("writes"),))
            with pytest.raises(InsufficientPrivilege), passer.transaction():
                passer.execute(ACQUIRE_WRITE_LOCK)
            async with opened_soon(postgres_url, busy_seconds=0.5) as store:
                await store.audit.commit(intent("a"))
                locks = "SELECT classid::bigint << 32 | objid::bigint FROM pg_locks WHERE locktype = 'advisory'"
                for (key,) in passer.execute(locks).fetchall():
                    passer.execute("SELECT pg_try_advisory_lock(%s)", (key,))
                with passer.transaction():
                    passer.execute("SELECT * FROM alembic_version")
                    await store.audit.commit(entry("a"))
            owner.execute("REVOKE ALL ON alembic_version FROM passer")
    finally:
        postgres.run("DROP ROLE passer")


@pytest.mark.spec("G23")
async def test_what_is_buffered_waits_in_order_while_another_process_has_its_turn(postgres_url: str) -> None:
    async with opened_soon(postgres_url, busy_seconds=0.05) as store:
        with writing(postgres_url):
            store.audit.append(entry("a"))
            for attempt in (store.audit.commit(entry("refused")), store.audit.flush()):
                with pytest.raises(StoreError, match="locked by another process") as failure:
                    await attempt
                assert "SELECT" not in f"{failure.value.message} {failure.value.hint}"
            store.audit.append(entry("b"))
            assert (await store.audit.query(AuditQuery())).items == (), "who reads waits for nobody"
        await store.audit.commit(entry("c"))
        assert [record.id for record in await store.audit.read()] == [*"abc"]


@pytest.mark.spec("C34")
async def test_a_change_outwaits_a_turn_and_is_told_of_one_without_end(postgres_url: str) -> None:
    async with opened_soon(postgres_url, busy_seconds=0.1) as store:
        await create_sessions(store, "s")
        with writing(postgres_url):
            changes = [asyncio.create_task(store.states.change(KEY, lambda _: "1", now=NOW)) for _ in range(3)]
            with pytest.raises(StoreError, match="locked"):
                await store.audit.commit(entry("refused"))
        assert [row.version for row in await asyncio.gather(*changes)] == [1, 2, 3]
        with writing(postgres_url), pytest.raises(StoreError, match="locked by another process"):
            await store.states.change(KEY, lambda _: "2", now=NOW)
        assert await store.states.read([KEY]) == [StateRow("1", 3)]
