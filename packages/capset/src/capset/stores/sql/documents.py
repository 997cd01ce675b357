"""The searchable texts in SQL. Each engine has its own search; SQLite's FTS5 is here."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    column,
    delete,
    func,
    insert,
    literal_column,
    select,
    table,
    union_all,
)
from sqlalchemy.exc import IntegrityError

from capset.stores.base import DocumentRow, ScopeKey
from capset.stores.rows import id_taken_error
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import documents
from capset.stores.sql.states import columns_of, key_columns, require_session
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import query_terms, storable, words

_ROW: Final = (documents.c.id, documents.c.text, documents.c.created_at)


class WordIndex(Protocol):
    """An engine's index of words. Words come from ``stores.texts`` only."""

    def index_words(self, connection: Connection, number: int, key: ScopeKey, words: Sequence[str]) -> None:
        """Index the words of the document with the number ``number``."""
        ...

    def candidates_query(self, key: ScopeKey, words: Sequence[str]) -> Select[int, int]:
        """Return a query for the numbers of candidate documents, each with its count of matching words.

        ``words`` are distinct, and there is at least one. A word matches a document if any word of the document starts
        with it. Candidates may include documents of other keys.
        """
        ...


WORD_TABLES: Final = {
    "sqlite": (
        # Words are already normalised and separated by spaces, and this tokenizer leaves text beyond ASCII unchanged.
        "CREATE VIRTUAL TABLE document_words USING fts5(words, tokenize = 'ascii', detail = none, columnsize = 0)",
        "CREATE TRIGGER document_words_go AFTER DELETE ON documents"
        " BEGIN DELETE FROM document_words WHERE rowid = old.number; END",
    ),
    "postgresql": (
        # A word follows its key's token, so that all words with the same prefix are one range of the second index.
        'CREATE TABLE document_words (number BIGINT NOT NULL, word TEXT COLLATE "C" NOT NULL,'
        " CONSTRAINT document_words_pkey PRIMARY KEY (number, word),"
        " CONSTRAINT fk_document_words FOREIGN KEY (number) REFERENCES documents (number) ON DELETE CASCADE)",
        "CREATE INDEX ix_document_words ON document_words (word, number)",
    ),
}
"""The statements that create the index of words in a new database, by engine."""

_INDEX: Final = table("document_words", column("rowid"), column("words"))


class Fts5:
    """SQLite's FTS5. The token of its key precedes every word, so that one key's words are one range of the index.

    A column for the key is no alternative: FTS5 collects all matches of a prefix before it looks at another column.
    """

    def index_words(self, connection: Connection, number: int, key: ScopeKey, words: Sequence[str]) -> None:
        prefix = token(key)
        text = " ".join([prefix + word for word in words])
        connection.execute(_INDEX.insert(), {"rowid": number, "words": text})

    def candidates_query(self, key: ScopeKey, words: Sequence[str]) -> Select[int, int]:
        """Return a query for candidates: a union of prefix queries, one for each word."""
        prefix, match = token(key), literal_column("document_words").op("MATCH")
        # Words contain only letters and digits, so each query is exactly one quoted prefix.
        queries = [select(_INDEX.c.rowid.label("number")).where(match(f'"{prefix}{word}"*')) for word in words]
        matches = union_all(*queries).subquery()
        return select(matches.c.number, func.count().label("hits")).group_by(matches.c.number)


def token(key: ScopeKey) -> str:
    """Return a token of 8 characters for a key. Keys may share it: it only narrows a search."""
    return hashlib.sha256("\0".join(key_columns(key).values()).encode()).hexdigest()[:8]


class SqlDocuments:
    """The texts. Those of a session refer to it by a foreign key, and are deleted with it by the database."""

    def __init__(self, writer: Writer, reader: ReadConnections, index: WordIndex) -> None:
        self._writer = writer
        self._reader = reader
        self._index = index

    async def add(self, key: ScopeKey, row: DocumentRow, *, known: AbstractSet[str] | None = None) -> bool:
        storable(row.text, "the text")
        distinct_words = await _distinct_words(row.text)
        values = {**columns_of(key), "id": row.id, "text": row.text, "created_at": row.created_at}

        def write(connection: Connection) -> bool:
            require_session(connection, key, "text")
            if known is not None and _has_others(connection, key, known):
                return False
            try:
                number = connection.execute(insert(documents).returning(documents.c.number), values).scalar_one()
            except IntegrityError as error:
                raise id_taken_error("a text", row.id) from error
            self._index.index_words(connection, number, key, distinct_words)
            return True

        return await self._writer.write(write)

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        statement = select(*_ROW).where(_of_key(key), documents.c.id == id)
        return await self._reader.read_one(statement, _document)

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        statement = select(*_ROW).where(_of_key(key)).order_by(documents.c.id.desc()).limit(max(limit, 0))
        if before is not None:
            statement = statement.where(documents.c.id < before)
        return await self._reader.read_all(statement, _document)

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        terms = query_terms(query)
        if not terms:
            return await self.recent(key, limit=0)
        candidates = self._index.candidates_query(key, terms).subquery()
        best = (
            select(*_ROW)
            .join(candidates, candidates.c.number == documents.c.number)
            .where(_of_key(key))
            .order_by(candidates.c.hits.desc(), documents.c.id.desc())
            .limit(max(limit, 0))
        )
        return await self._reader.read_all(best, _document)

    async def delete(self, key: ScopeKey, id: str) -> bool:
        deletion = delete(documents).where(_of_key(key), documents.c.id == id)
        return await self._writer.write(lambda connection: bool(connection.execute(deletion).rowcount))


def _of_key(key: ScopeKey) -> ColumnElement[bool]:
    return and_(*[documents.c[name] == value for name, value in key_columns(key).items()])


def _document(mapping: RowMapping) -> DocumentRow:
    return DocumentRow(**mapping)


def _has_others(connection: Connection, key: ScopeKey, known_ids: AbstractSet[str]) -> bool:
    # Among one row more than are known, at least one is unknown, so the rest need not be read.
    sample = select(documents.c.id).where(_of_key(key)).limit(len(known_ids) + 1)
    return not set(connection.execute(sample).scalars()) <= known_ids


async def _distinct_words(text: str) -> list[str]:
    # Up to 4,000 characters, splitting a text is faster than handing it to a thread.
    all_words = words(text) if len(text) <= 4_000 else await asyncio.to_thread(words, text)
    return list(dict.fromkeys(all_words))
