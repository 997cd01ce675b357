"""Records in PostgreSQL: any text is kept, and whatever is changed is found (spec 4, G19, G20, G22)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from capset.definitions.calls.records import COLUMNS
from capset.errors import StoreError
from capset.fingerprint.chain import Verification
from capset.stores.base import AgentQuery, AuditQuery, SessionQuery
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import entry, intent, session_row
from tests.databases import Server, connected
from tests.examples import examples
from tests.helpers.stores.sql.support import run_at, store_at

RECORDS = 6
KEPT = st.text(st.sampled_from("\x1a01a\\u") | st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.none() | KEPT | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 12)


@dataclass
class Log:
    """A log in a database, open twice: in a store, and as anybody could open it."""

    runner: asyncio.Runner
    store: SqlStore
    database: psycopg.Connection[tuple[Any, ...]]

    def verify(self) -> Verification:
        return self.runner.run(self.store.audit.verify())

    def rows(self) -> list[tuple[Any, ...]]:
        return self.database.execute("SELECT * FROM records ORDER BY seq").fetchall()

    def restore(self, rows: list[tuple[Any, ...]]) -> None:
        marks = sql.SQL(", ").join([sql.Placeholder()] * len(COLUMNS))
        with self.database.transaction():
            self.database.execute("DELETE FROM records")
            self.database.cursor().executemany(sql.SQL("INSERT INTO records VALUES ({})").format(marks), rows)


@pytest.fixture(scope="module")
def log(postgres: Server) -> Generator[Log]:
    with postgres.database() as url, asyncio.Runner() as runner, connected(url) as database:
        store = store_at(url)

        async def fill() -> None:
            await store.open()
            await store.audit.commit(intent("a"))
            for name in "abcde":
                await store.audit.commit(entry(name, org="acme", reason=f"{name}\0\x1a"))

        runner.run(fill())
        yield Log(runner, store, database)
        runner.run(store.close())


@pytest.mark.nightly
@pytest.mark.spec("G22")
@examples(30, 150)
@given(st.sampled_from(COLUMNS), st.integers(1, RECORDS), VALUES)
def test_a_change_of_any_column_is_found(log: Log, column: str, seq: int, value: object) -> None:
    before = log.rows()
    change = sql.SQL("UPDATE records SET {} = %s WHERE seq = %s").format(sql.Identifier(column))
    # A constraint or the column's type refuses it, and nothing is changed.
    with contextlib.suppress(psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError):
        log.database.execute(change, (value, seq))
    changed = log.rows() != before
    try:
        verification = log.verify()
        assert verification.ok is not changed
        if changed and column != "seq":
            assert verification.seq == seq
            assert f"record {seq} " in str(verification.problem)
    finally:
        log.restore(before)
    assert log.verify().ok


@pytest.mark.spec("G22")
def test_a_query_refuses_what_no_record_can_hold(log: Log) -> None:
    before = log.rows()
    log.database.execute("UPDATE records SET tool = %s WHERE seq = 3", ("\x1a",))
    with pytest.raises(StoreError, match="record 3 was changed: its 'tool'"):
        log.runner.run(log.store.audit.query(AuditQuery()))
    log.restore(before)


@pytest.mark.spec("G20")
async def test_texts_with_nul_are_kept_and_found_again(server_store: SqlStore) -> None:
    audit, sessions = server_store.audit, server_store.sessions
    texts = {name: f'["{name}", "\\u0000", "\\\\u0000"]' for name in ("a\0b", "a\x1a0b", "a0b", "a\x1a\0\x1ab", "ab")}
    for name, text in texts.items():
        await audit.commit(entry(f"of {name}", tool=name, arguments=text))
        await sessions.create(session_row(f"of {name}", org=name))
    for name, text in texts.items():
        records = (await audit.query(AuditQuery(tool=name))).items
        assert [(record.id, record.tool, record.arguments) for record in records] == [(f"of {name}", name, text)]
        assert [row.org for row in (await sessions.list(SessionQuery(name))).items] == [name]
    assert (await server_store.agents.list(AgentQuery(None, name="\0"))).total == 0
    assert (await audit.verify()).checked == len(texts)


@pytest.mark.spec("G19", "G23")
async def test_a_text_too_long_for_an_index_is_refused_alone(server_store: SqlStore, postgres_url: str) -> None:
    long = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000))
    audit = server_store.audit
    await audit.commit(intent("a"))
    entries = [entry("a"), entry("b", principal=long), entry("c", arguments=long * 20), entry("d")]
    results = await asyncio.gather(*[audit.commit(record) for record in entries], return_exceptions=True)
    assert [result is None for result in results] == [True, False, True, True]
    assert "is too long" in str(results[1])
    assert [record.id for record in (await audit.query(AuditQuery())).items] == ["d", "c", "a"]
    assert run_at(postgres_url, "SELECT count(*) FROM open_intents") == [(0,)]
    assert (await audit.verify()).ok
