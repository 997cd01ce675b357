"""Texts in SQLite: what goes leaves no words behind, and a search costs what its owner's texts cost (spec 5, P30)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from capset.stores.base import DocumentRow, ScopeKey
from capset.stores.sql.documents import Fts5
from capset.stores.sql.sqlite import SqliteStore
from capset_testing.store_suite.support import NOW, create_sessions
from tests.helpers.stores.sql.support import opened, raw

KEY = ScopeKey("session", "acme", "s", "memories")
OTHER = ScopeKey("user", "acme", "ada", "memories")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqliteStore]:
    async with opened(tmp_path / "a.db") as opened_store:
        await create_sessions(opened_store, "s")
        yield opened_store


async def fill(store: SqliteStore, key: ScopeKey, texts: int) -> None:
    rows = [DocumentRow(f"id-{number:05}", f"common word{number}", NOW) for number in range(texts)]
    await asyncio.gather(*[store.documents.add(key, row) for row in rows])


def indexed(path: Path) -> int:
    """Return how many texts the index holds, which must be whole."""
    with raw(path) as file:
        file.execute("INSERT INTO document_words (document_words) VALUES ('integrity-check')")
        (count,) = file.execute("SELECT count(*) FROM document_words").fetchone()
        assert file.execute("SELECT count(*) FROM documents").fetchone() == (count,)
    return count


@pytest.mark.spec("P30")
async def test_the_words_of_a_text_go_with_it(store: SqliteStore, tmp_path: Path) -> None:
    await fill(store, KEY, 300)
    await fill(store, OTHER, 10)
    adding = [store.documents.add(OTHER, DocumentRow("id-1", f"text {number}", NOW)) for number in range(5)]
    results = await asyncio.gather(*adding, return_exceptions=True)
    assert [result is True for result in results] == [True, False, False, False, False]
    await store.documents.delete(KEY, "id-00007")
    assert indexed(tmp_path / "a.db") == 310
    await store.sessions.delete("s")
    assert indexed(tmp_path / "a.db") == 11
    assert len(await store.documents.search(OTHER, "common", limit=99)) == 10


@pytest.mark.spec("P30")
async def test_keys_that_share_a_token_find_only_their_own(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset.stores.sql.documents.token", lambda _key: "00000000")
    await fill(store, KEY, 5)
    await fill(store, OTHER, 3)
    assert len(await store.documents.search(OTHER, "common", limit=99)) == 3
    assert len(await store.documents.search(KEY, "word", limit=99)) == 5


@pytest.mark.spec("P30")
async def test_a_search_asks_the_index_for_one_keys_words_only(store: SqliteStore, tmp_path: Path) -> None:
    await fill(store, KEY, 40)
    await fill(store, OTHER, 3)
    assert store._engines is not None
    with store._engines[1].begin() as connection:
        candidates = connection.execute(Fts5().candidates_query(OTHER, ["common", "w"])).all()
    assert sorted(hits for _, hits in candidates) == [2, 2, 2]
    with raw(tmp_path / "a.db") as file:
        file.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(document_words, row)")
        tokens = {term[:8] for (term,) in file.execute("SELECT term FROM terms")}
    assert len(tokens) == 2, "before every word stands the token of its key"


async def test_every_read_uses_an_index(store: SqliteStore, tmp_path: Path) -> None:
    selects: list[tuple[str, Any]] = []

    def keep(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        if statement.startswith("SELECT"):
            selects.append((statement, parameters))

    assert store._engines is not None
    event.listen(store._engines[1], "before_cursor_execute", keep)
    await store.documents.get(OTHER, "id-1")
    await store.documents.recent(OTHER, limit=9)
    await store.documents.recent(OTHER, limit=9, before="id-9")
    await store.documents.search(OTHER, "two words", limit=9)
    selects.append(("DELETE FROM documents WHERE session = ?", ("s",)))
    with raw(tmp_path / "a.db") as file:
        plans = [file.execute(f"EXPLAIN QUERY PLAN {select}", values).fetchall() for select, values in selects]
    *by_key, search, cascade = map(str, plans)
    assert not any("TEMP B-TREE" in plan or "SCAN" in plan for plan in by_key)
    for plan, end in zip(by_key, (" AND id=?)", ")", " AND id<?)"), strict=True):
        assert f"(scope=? AND owner=? AND org=? AND name=?{end}" in plan
    assert search.count("SCAN document_words VIRTUAL TABLE INDEX") == 2
    assert "SEARCH documents USING INTEGER PRIMARY KEY" in search
    assert "ix_documents_session" in cascade
