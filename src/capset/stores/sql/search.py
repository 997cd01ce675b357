"""The search interface of an engine, and its implementation by SQLite's FTS5.

An index entry is deleted with its document by a trigger, so that no way of deletion misses it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Protocol

from sqlalchemy import Connection, Select, column, func, literal_column, select, table, union_all

from capset.stores.base import ScopeKey
from capset.stores.sql.scopes import where


class Search(Protocol):
    """An engine's index. Words come from ``stores.texts`` only."""

    def keep(self, connection: Connection, number: int, key: ScopeKey, words: Sequence[str]) -> None:
        """Index the words of the document with this number."""
        ...

    def find(self, key: ScopeKey, words: Sequence[str]) -> Select[int, int]:
        """Return a query for the numbers of candidate documents, with the count of matching words of each.

        ``words`` are distinct and at least one; one matches a document if any of its words begins with it. Documents of
        another key may be among them.
        """
        ...


FTS5_TABLES: Final = (
    # Words come normalised, with spaces between, and beyond ASCII this tokenizer changes nothing.
    "CREATE VIRTUAL TABLE document_words USING fts5(words, tokenize = 'ascii', detail = none, columnsize = 0)",
    "CREATE TRIGGER document_words_go AFTER DELETE ON documents"
    " BEGIN DELETE FROM document_words WHERE rowid = old.number; END",
)
"""The statements that create the index in a new database."""

_INDEX: Final = table("document_words", column("rowid"), column("words"))


class Fts5:
    """SQLite's FTS5. A token of its key precedes every word, so that one key's words are one range of the index.

    A column for the key would not do: FTS5 gathers all matches of a prefix before it looks at another column.
    """

    def keep(self, connection: Connection, number: int, key: ScopeKey, words: Sequence[str]) -> None:
        """Index the words of a document."""
        own = token(key)
        text = " ".join([own + word for word in words])
        connection.execute(_INDEX.insert(), {"rowid": number, "words": text})

    def find(self, key: ScopeKey, words: Sequence[str]) -> Select[int, int]:
        """Return a query for candidates: a union of prefix queries, one for each word."""
        own, match = token(key), literal_column("document_words").op("MATCH")
        # A word has letters and digits only, so that no query can be anything but one quoted prefix.
        each = [select(_INDEX.c.rowid.label("number")).where(match(f'"{own}{word}"*')) for word in words]
        found = union_all(*each).subquery()
        return select(found.c.number, func.count().label("hits")).group_by(found.c.number)


def token(key: ScopeKey) -> str:
    """Return 8 characters for a key. Keys may share them: they narrow a search and do not decide it."""
    return hashlib.sha256("\0".join(where(key).values()).encode()).hexdigest()[:8]
