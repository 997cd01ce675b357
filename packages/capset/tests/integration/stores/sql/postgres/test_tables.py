"""The tables that the migrations make in PostgreSQL, and how they are asked (spec 5, P15, P30)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import event

from capset.stores.base import DocumentRow, ScopeKey
from capset.stores.sql.postgres.store import WordTable
from capset.stores.sql.schema import tables
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW, entry
from tests.databases import connected
from tests.helpers.stores.sql.support import run_at

pytestmark = pytest.mark.spec("P30")

KEY = ScopeKey("session", "acme", "s", "memories")
OTHER = ScopeKey("user", "acme", "ada", "memories")
WORDS = "SELECT count(*), count(DISTINCT number) FROM document_words"


async def fill(store: SqlStore, key: ScopeKey, texts: int) -> None:
    rows = [DocumentRow(f"id-{number:05}", f"common word{number}", NOW) for number in range(texts)]
    await asyncio.gather(*[store.documents.add(key, row) for row in rows])


async def test_the_words_of_a_text_go_with_it(server_store: SqlStore, postgres_url: str) -> None:
    documents = server_store.documents
    await fill(server_store, KEY, 60)
    await fill(server_store, OTHER, 10)
    adding = [documents.add(OTHER, DocumentRow("id-1", f"text {number}", NOW)) for number in range(3)]
    refused = await asyncio.gather(*adding, return_exceptions=True)
    assert [result is True for result in refused] == [True, False, False]
    await documents.delete(OTHER, "id-1")
    await documents.delete(KEY, "id-00007")
    assert run_at(postgres_url, WORDS) == [(138, 69)]
    await server_store.sessions.delete("s")
    assert run_at(postgres_url, WORDS) == [(20, 10)]
    assert len(await documents.search(OTHER, "common", limit=99)) == 10


async def test_a_search_asks_for_one_keys_words_only_and_finds_its_own_where_two_share_a_token(
    server_store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(server_store, KEY, 40)
    await fill(server_store, OTHER, 3)
    assert server_store._engines is not None
    with server_store._engines[1].begin() as connection:
        rows = connection.execute(WordTable().candidates_query(OTHER, ["common", "w"])).all()
    assert sorted(hits for _, hits in rows) == [2, 2, 2]
    monkeypatch.setattr("capset.stores.sql.postgres.store.token", lambda _key: "00000000")
    first, second = (ScopeKey("user", "acme", name, "memories") for name in ("eve", "zoe"))
    await fill(server_store, first, 5)
    await fill(server_store, second, 3)
    assert len(await server_store.documents.search(second, "common", limit=99)) == 3
    assert len(await server_store.documents.search(first, "word", limit=99)) == 5


@pytest.mark.spec("P15")
async def test_every_read_can_use_an_index(server_store: SqlStore, postgres_url: str) -> None:
    """With plans in which reading a whole table costs more than any index."""
    store, statements = server_store, list[tuple[str, Any]]()
    for number in range(500):
        store.audit.append(entry(f"call-{number}"))
    await store.audit.flush()
    await store.files.write("s", "/a/b", b"", org=None, now=NOW)
    assert store._engines is not None
    event.listen(store._engines[1], "before_cursor_execute", lambda *about: statements.append(about[2:4]))
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
