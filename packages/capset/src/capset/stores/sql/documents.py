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

from capset.errors import StoreError
from capset.stores.base import DocumentRow, ScopeKey
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import documents
from capset.stores.sql.states import columns_of, require_session, where
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import asked, storable, words

_SPLIT_INLINE: Final = 4_000
"""Up to this many characters, splitting a text into words is faster than handing it to a thread."""

_ROW: Final = (documents.c.id, documents.c.text, documents.c.created_at)


class Search(Protocol):
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
        """Index the words of a document."""
        prefix = token(key)
        text = " ".join([prefix + word for word in words])
        connection.execute(_INDEX.insert(), {"rowid": number, "words": text})

    def candidates_query(self, key: ScopeKey, words: Sequence[str]) -> Select[int, int]:
        """Return a query for candidates: a union of prefix queries, one for each word."""
        prefix, match = token(key), literal_column("document_words").op("MATCH")
        # Words contain only letters and digits, so each query is exactly one quoted prefix.
        each = [select(_INDEX.c.rowid.label("number")).where(match(f'"{prefix}{word}"*')) for word in words]
        matches = union_all(*each).subquery()
        return select(matches.c.number, func.count().label("hits")).group_by(matches.c.number)


def token(key: ScopeKey) -> str:
    """Return a token of 8 characters for a key. Keys may share it: it only narrows a search."""
    return hashlib.sha256("\0".join(where(key).values()).encode()).hexdigest()[:8]


class SqlDocuments:
    """The texts. Those of a session refer to it by a foreign key, and are deleted with it by the database."""

    def __init__(self, writer: Writer, reader: ReadConnections, search: Search) -> None:
        self._writer = writer
        self._reader = reader
        self._search = search

    async def add(self, key: ScopeKey, row: DocumentRow, *, known: AbstractSet[str] | None = None) -> bool:
        """Store a text, unless the key has texts that are not in ``known``; return whether it was stored.

        Raises as ``DocumentStore.add`` does.
        """
        storable(row.text, "the text")
        distinct_words = await _different(row.text)
        values = {**columns_of(key), "id": row.id, "text": row.text, "created_at": row.created_at}

        def write(connection: Connection) -> bool:
            require_session(connection, key, "text")
            if known is not None and _has_others(connection, key, known):
                return False
            try:
                number = connection.execute(insert(documents).returning(documents.c.number), values).scalar_one()
            except IntegrityError as error:
                raise StoreError(f"there is a text {row.id!r} already") from error
            self._search.index_words(connection, number, key, distinct_words)
            return True

        return await self._writer.write(write)

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        """Return a text, or ``None``."""
        asked_for = select(*_ROW).where(_at(key), documents.c.id == id)

        def read(connection: Connection) -> DocumentRow | None:
            row = connection.execute(asked_for).one_or_none()
            return DocumentRow(*row) if row else None

        return await self._reader.read(read)

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        """Return up to ``limit`` texts with ids less than ``before``, newest first."""
        statement = select(*_ROW).where(_at(key)).order_by(documents.c.id.desc()).limit(max(limit, 0))
        if before is not None:
            statement = statement.where(documents.c.id < before)
        return await self._reader.read(lambda connection: [DocumentRow(*row) for row in connection.execute(statement)])

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        """Return up to ``limit`` texts with a word that starts with a word of the query, best first."""
        query_words = asked(query)
        if not query_words:
            return await self.recent(key, limit=0)
        candidates = self._search.candidates_query(key, query_words).subquery()
        best = (
            select(*_ROW)
            .join(candidates, candidates.c.number == documents.c.number)
            .where(_at(key))
            .order_by(candidates.c.hits.desc(), documents.c.id.desc())
            .limit(max(limit, 0))
        )
        return await self._reader.read(lambda connection: [DocumentRow(*row) for row in connection.execute(best)])

    async def delete(self, key: ScopeKey, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        gone = delete(documents).where(_at(key), documents.c.id == id)
        return await self._writer.write(lambda connection: bool(connection.execute(gone).rowcount))


def _at(key: ScopeKey) -> ColumnElement[bool]:
    return and_(*[documents.c[name] == value for name, value in where(key).items()])


def _has_others(connection: Connection, key: ScopeKey, known_ids: AbstractSet[str]) -> bool:
    # Among one row more than are known, at least one is unknown, so the rest need not be read.
    some = select(documents.c.id).where(_at(key)).limit(len(known_ids) + 1)
    return not set(connection.execute(some).scalars()) <= known_ids


async def _different(text: str) -> list[str]:
    if len(text) > _SPLIT_INLINE:
        return list(dict.fromkeys(await asyncio.to_thread(words, text)))
    return list(dict.fromkeys(words(text)))
