"""Conversion of an entry to the columns of a record, checked once for every store."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

from capset.definitions.records import COLUMNS, NUMBERS
from capset.errors import StoreError
from capset.stores.base import Entry

# A record's columns by name; until it is chained, without the writer's own.
Row = dict[str, Any]

GIVEN: Final = tuple(name for name in COLUMNS if name not in ("seq", "writer", "previous", "hash"))
"""The columns that an entry gives; the others are the writer's."""

_names: Final = frozenset(GIVEN)
_texts: Final = itemgetter(*(name for name in GIVEN if name not in NUMBERS))
_numbers: Final = itemgetter(*(name for name in GIVEN if name in NUMBERS))
_TEXT: Final = {str, type(None)}


class BadEntry(StoreError):
    """Raised for an entry that cannot become a record; others can."""


def columns_of(entry: Entry) -> Row:
    """Return an entry's columns. Raises ``BadEntry`` if that fails or they are not those of a record."""
    try:
        columns = dict(entry.columns())
    except Exception as error:
        raise BadEntry("a record could not be made of its call") from error
    return checked(columns)


def checked(columns: Row) -> Row:
    """Return the columns. Raises ``BadEntry`` unless they are exactly those of a record, and of its types.

    A value of another type would be stored as something else than its hash covers.
    """
    if columns.keys() != _names or not _TEXT.issuperset(map(type, _texts(columns))):
        raise BadEntry("a record could not be made of its call: its columns are not those of a record")
    for number in _numbers(columns):
        if number is not None and (type(number) is not int or abs(number) > 2**53):
            raise BadEntry("a record could not be made of its call: one of its numbers is none, or too large")
    return columns


def interrupted(intent: Mapping[str, Any], now: str) -> Row:
    """Return the outcome of an intent whose writer is gone. Raises ``BadEntry`` as ``checked`` does.

    ``intent`` is a record's columns, ``now`` the time of the outcome in ISO 8601 UTC.
    """
    columns = {name: intent[name] for name in GIVEN}
    return checked(columns | {"phase": "outcome", "outcome": "interrupted", "code": "interrupted", "time": now})
