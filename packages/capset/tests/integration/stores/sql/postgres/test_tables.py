"""The tables that the migrations make in PostgreSQL, and how they are asked (spec 5, P15, P30)."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, inspect, make_url

from capset.stores.base import DocumentRow, ScopeKey
from capset.stores.sql.postgres.engines import reading_engine
from capset.stores.sql.postgres.store import WordTable
from capset.stores.sql.schema import tables
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW, begin, entry
from tests.databases import Server, connected
from tests.helpers.stores.sql.schema.revisions import OPEN, is_no_index_of_words
from tests.helpers.stores.sql.support import let_go, opened_at, process, run_at

KEY = ScopeKey("session", "acme", "s", "memories")
OTHER = ScopeKey("user", "acme", "ada", "memories")
TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
WORDS = "SELECT count(*), count(DISTINCT number) FROM document_words"


@pytest.mark.spec("P30")
def test_a_new_database_has_the_tables_that_the_code_knows(postgres_url: str) -> None:
    engine = reading_engine(make_url(postgres_url), "a")
    with engine.connect() as connection:
        opts = {"compare_type": True, "compare_server_default": True, "include_name": is_no_index_of_words}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, tables.metadata) == []
        for table in tables.metadata.sorted_tables:
            primary = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
            assert primary == [column.name for column in table.primary_key]
        partial = connection.exec_driver_sql(
            "SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%%, seq) WHERE (phase = ''outcome''::text)'"
        ).scalar()
    engine.dispose()
    assert partial == len(tables.FILTERS)


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P30")
def test_processes_that_make_the_tables_at_once_all_succeed(postgres: Server) -> None:
    url = postgres.empty()
    with ExitStack() as stack:
        let_go(*[stack.enter_context(process(OPEN, url)) for _ in range(3)])
    assert run_at(url, TABLES) == [(len(tables.metadata.tables) + 2,)], "with the words and Alembic's own"


async def fill(store: SqlStore, key: ScopeKey, texts: int) -> None:
    rows = [DocumentRow(f"id-{number:05}", f"common word{number}", NOW) for number in range(texts)]
    await asyncio.gather(*[store.documents.add(key, row) for row in rows])


@pytest.mark.spec("P30")
async def test_the_words_of_a_text_go_with_it(postgres_url: str) -> None:
    async with opened_at(postgres_url) as store:
        await begin(store, "s")
        await fill(store, KEY, 60)
        await fill(store, OTHER, 10)
        adding = [store.documents.add(OTHER, DocumentRow("id-1", f"text {number}", NOW)) for number in range(3)]
        refused = await asyncio.gather(*adding, return_exceptions=True)
        assert [result is True for result in refused] == [True, False, False]
        await store.documents.delete(OTHER, "id-1")
        await store.documents.delete(KEY, "id-00007")
        assert run_at(postgres_url, WORDS) == [(138, 69)]
        await store.sessions.delete("s")
        assert run_at(postgres_url, WORDS) == [(20, 10)]
        assert len(await store.documents.search(OTHER, "common", limit=99)) == 10


@pytest.mark.spec("P30")
async def test_keys_that_share_a_token_find_only_their_own(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset.stores.sql.postgres.store.token", lambda _key: "00000000")
    async with opened_at(postgres_url) as store:
        await begin(store, "s")
        await fill(store, KEY, 5)
        await fill(store, OTHER, 3)
        assert len(await store.documents.search(OTHER, "common", limit=99)) == 3
        assert len(await store.documents.search(KEY, "word", limit=99)) == 5


@pytest.mark.spec("P30")
async def test_a_search_asks_for_one_keys_words_only(postgres_url: str) -> None:
    async with opened_at(postgres_url) as store:
        await begin(store, "s")
        await fill(store, KEY, 40)
        await fill(store, OTHER, 3)
        assert store._engines is not None
        with store._engines[1].begin() as connection:
            rows = connection.execute(WordTable().candidates_query(OTHER, ["common", "w"])).all()
    assert sorted(hits for _, hits in rows) == [2, 2, 2]


@pytest.mark.spec("P15", "P30")
async def test_every_read_can_use_an_index(postgres_url: str) -> None:
    """With plans in which reading a whole table costs more than any index."""
    statements: list[tuple[str, Any]] = []

    def keep(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        statements.append((statement, parameters))

    async with opened_at(postgres_url) as store:
        await begin(store, "s")
        for number in range(500):
            store.audit.append(entry(f"call-{number}"))
        await store.audit.flush()
        await store.files.write("s", "/a/b", b"", org=None, now=NOW)
        assert store._engines is not None
        event.listen(store._engines[1], "before_cursor_execute", keep)
        await store.states.read([KEY, OTHER])
        await store.documents.get(OTHER, "id-1")
        await store.documents.recent(OTHER, limit=9, before="id-9")
        await store.documents.search(OTHER, "two words", limit=9)
        await store.files.list("s", "/a", recursive=True)
    selects = [pair for pair in statements if pair[0].startswith("SELECT")]
    plans: list[str] = []
    with connected(postgres_url) as connection:
        connection.execute("SET enable_seqscan = off")
        for statement, parameters in selects:
            cursor = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters)  # pyright: ignore[reportArgumentType]
            plans.append(json.dumps(cursor.fetchall()))
        connection.execute("ANALYZE records")  # of an empty table all its indexes cost the same
        for name in (*tables.FILTERS, "id"):
            query = f"SELECT * FROM records WHERE phase = 'outcome' AND {name} = 'x' AND seq < 5000 ORDER BY seq DESC"
            plans.append(json.dumps(connection.execute(f"EXPLAIN (FORMAT JSON) {query} LIMIT 9").fetchall()))
    assert len(plans) > 12
    assert [plan for plan in plans if "Seq Scan" in plan] == []
    assert "ix_document_words" in plans[4]
    for name, plan in zip(tables.FILTERS, plans[-len(tables.FILTERS) - 1 :], strict=False):
        assert f"ix_records_{name}" in plan
