"""The rows of a query as JSON data, within the caps (spec 4, G30)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, datetime, time
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import JsonValue


class RowTooLarge(Exception):
    """The first row, or a value in it, exceeds the cap."""


class Rows:
    """The rows of one query, collected up to the caps."""

    __slots__ = ("_bytes", "_max_bytes", "_max_rows", "truncated", "values")

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        """``max_bytes`` limits the rows as JSON in UTF-8."""
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self.values: list[list[JsonValue]] = []
        self._bytes = 0
        self.truncated = False

    def __len__(self) -> int:
        return len(self.values)

    def add(self, row: Sequence[object]) -> bool:
        """Add a row, and return whether there was room for it; if not, the rows are truncated.

        Raises ``RowTooLarge`` if the first row alone is too large.
        """
        values = [json_safe(value) for value in row]
        size = len(json.dumps(values, ensure_ascii=False))
        if size <= self._max_bytes:  # otherwise it is too large in any case: UTF-8 takes no fewer bytes
            size = len(json.dumps(values, ensure_ascii=False).encode())
        if len(self.values) == self._max_rows or self._bytes + size > self._max_bytes:
            if not self.values:
                raise RowTooLarge
            self.truncated = True
            return False
        self.values.append(values)
        self._bytes += size
        return True

    def next_batch(self) -> int:
        """Return the number of rows to fetch next: so few that they exceed the caps only slightly."""
        if not self.values:
            return 1
        fitting = (self._max_bytes - self._bytes) * len(self.values) // max(self._bytes, 1)
        # At most twice as many as received so far, since later ones may be larger.
        return max(1, min(500, 2 * len(self.values), fitting, self._max_rows + 1 - len(self.values)))


def json_safe(value: object) -> JsonValue:
    """Convert a database value to JSON data."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else str(value)
        case bytes():
            return {"base64": b64encode(value).decode()}
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [json_safe(item) for item in cast("Sequence[Any]", value)]
        case _:
            return str(value)
