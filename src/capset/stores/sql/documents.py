"""The searchable texts in SQL; the search itself is the engine's (``sql.search``)."""

from __future__ import annotations

import asyncio
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import DocumentRow, ScopeKey
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import documents
from capset.stores.sql.scopes import columns_of, require_session, where
from capset.stores.sql.search import Search
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import asked, storable, words

_SPLIT_INLINE: Final = 4_000
"""Up to this many characters, splitting a text into words is faster than a thread."""

_ROW: Final = (documents.c.id, documents.c.text, documents.c.created_at)


class SqlDocuments:
    """The texts. A row of a session refers to it and is deleted with it, by any process."""

    def __init__(self, writer: Writer, reader: ReadConnections, search: Search) -> None:
        self._writer = writer
        self._reader = reader
        self._search = search

    async def add(self, key: ScopeKey, row: DocumentRow) -> None:
        """Store a text. Raises ``StoreError`` for an id that is taken, and ``StateError`` as the protocol has it."""
        storable(row.text, "the text")
        found = await _different(row.text)
        values = {**columns_of(key), "id": row.id, "text": row.text, "created_at": row.created_at}

        def write(connection: Connection) -> None:
            require_session(connection, key, "text")
            try:
                number = connection.execute(insert(documents).returning(documents.c.number), values).scalar_one()
            except IntegrityError as error:
                raise StoreError(f"there is a text {row.id!r} already") from error
            self._search.keep(connection, number, key, found)

        await self._writer.write(write)

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        """Return a text, or ``None``."""
        asked_for = select(*_ROW).where(_at(key), documents.c.id == id)

        def read(connection: Connection) -> DocumentRow | None:
            found = connection.execute(asked_for).one_or_none()
            return DocumentRow(*found) if found else None

        return await self._reader.read(read)

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        """Return the newest texts first, at most ``limit``, older than the id ``before``."""
        wanted = select(*_ROW).where(_at(key)).order_by(documents.c.id.desc()).limit(max(limit, 0))
        if before is not None:
            wanted = wanted.where(documents.c.id < before)
        return await self._reader.read(lambda connection: [DocumentRow(*row) for row in connection.execute(wanted)])

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        """Return the texts with a word that equals or begins with one of the query, at most ``limit``, best first."""
        wanted = asked(query)
        if not wanted:
            return await self.recent(key, limit=0)
        found = self._search.find(key, wanted).subquery()
        best = (
            select(*_ROW)
            .join(found, found.c.number == documents.c.number)
            .where(_at(key))
            .order_by(found.c.hits.desc(), documents.c.id.desc())
            .limit(max(limit, 0))
        )
        return await self._reader.read(lambda connection: [DocumentRow(*row) for row in connection.execute(best)])

    async def delete(self, key: ScopeKey, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        gone = delete(documents).where(_at(key), documents.c.id == id)
        return await self._writer.write(lambda connection: bool(connection.execute(gone).rowcount))


def _at(key: ScopeKey) -> ColumnElement[bool]:
    return and_(*[documents.c[name] == value for name, value in where(key).items()])


async def _different(text: str) -> list[str]:
    if len(text) > _SPLIT_INLINE:
        return list(dict.fromkeys(await asyncio.to_thread(words, text)))
    return list(dict.fromkeys(words(text)))
