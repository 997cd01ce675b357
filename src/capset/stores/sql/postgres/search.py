"""Full-text search in PostgreSQL: a table of words, in which a prefix is one range.

A ``tsvector`` is not enough: it holds one megabyte of words, and ``stores.texts`` gives more of a long text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import BigInteger, Connection, Select, Text, bindparam, column, func, insert, select, table, union_all
from sqlalchemy.dialects.postgresql import ARRAY

from capset.stores.base import ScopeKey
from capset.stores.sql.search import token

_WORDS: Final = table("document_words", column("number", BigInteger), column("word", Text))
_AFTER: Final = chr(0x10FFFF)
"""Sorts after every letter and digit, in the order of code points."""
_KEEP: Final = insert(_WORDS).from_select(
    ["number", "word"],
    select(bindparam("number", type_=BigInteger), func.unnest(bindparam("words", type_=ARRAY(Text)))),
)


class WordTable:
    """A row for each different word of a document, with a token of its key in front; deleted by a foreign key."""

    def keep(self, connection: Connection, number: int, key: ScopeKey, words: Sequence[str]) -> None:
        """Index the words of a document."""
        own = token(key)
        connection.execute(_KEEP, {"number": number, "words": [own + word for word in words]})

    def find(self, key: ScopeKey, words: Sequence[str]) -> Select[int, int]:
        """Return a query for candidates: a range for each word."""
        own, word = token(key), _WORDS.c.word
        each = [select(_WORDS.c.number).where(word >= own + one, word < own + one + _AFTER).distinct() for one in words]
        found = union_all(*each).subquery()
        return select(found.c.number, func.count().label("hits")).group_by(found.c.number)
