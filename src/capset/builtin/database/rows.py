"""The result of a query as JSON data, within the caps (spec 4, G30)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, datetime, time
from math import isfinite
from typing import Annotated, Any, Final, cast

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from capset import ToolError
from capset.builtin.database.config import DatabaseConfig

ONLY_READS: Final = "db_query only reads, by one SELECT"
"""The message to the model about a query that would do more."""


class QueryResult(TypedDict):
    columns: Annotated[list[str], Field(description="The names of the columns, in order.")]
    rows: Annotated[
        list[list[JsonValue]],
        Field(
            description=(
                'The rows, each a list of values in the order of `columns`. Bytes are {"base64": …}; exact decimals, '
                "dates and times, which are ISO 8601, are text."
            )
        ),
    ]
    row_count: Annotated[int, Field(description="How many rows are here.")]
    truncated: Annotated[bool, Field(description="Whether there are more, which the caps kept out.")]


class Rows:
    """The rows of one query as they come in."""

    __slots__ = ("_bytes", "_config", "_rows", "truncated")

    def __init__(self, config: DatabaseConfig) -> None:
        self._config = config
        self._rows: list[list[JsonValue]] = []
        self._bytes = 0
        self.truncated = False

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Sequence[object]) -> bool:
        """Add a row, and return whether it was accepted; if not, no further one will be.

        Raises ``ToolError`` if the first row alone is too large.
        """
        values = [json_safe(value) for value in row]
        size = len(json.dumps(values, ensure_ascii=False))
        if size <= self._config.max_bytes:  # otherwise bytes need not be counted: they are no fewer
            size = len(json.dumps(values, ensure_ascii=False).encode())
        if len(self._rows) == self._config.max_rows or self._bytes + size > self._config.max_bytes:
            if not self._rows:
                raise too_large(self._config)
            self.truncated = True
            return False
        self._rows.append(values)
        self._bytes += size
        return True

    def next_batch(self) -> int:
        """Return the number of rows to fetch next: few enough that they do not exceed the caps by much."""
        if not self._rows:
            return 1
        fitting = (self._config.max_bytes - self._bytes) * len(self._rows) // max(self._bytes, 1)
        # Not many more than those received: later ones may be larger.
        return max(1, min(500, 2 * len(self._rows), fitting, self._config.max_rows + 1 - len(self._rows)))

    def result(self, columns: Sequence[str]) -> QueryResult:
        """Return the complete result."""
        return QueryResult(columns=list(columns), rows=self._rows, row_count=len(self._rows), truncated=self.truncated)


def too_large(config: DatabaseConfig) -> ToolError:
    """Return the error for a row or a value above the cap."""
    return ToolError(
        f"a row, or a value in it, has more than {config.max_bytes:,} bytes; "
        "select fewer columns, or a part by substr()",
        code="too_large",
        status=413,
    )


def json_safe(value: object) -> JsonValue:
    """Return a database value in a form that JSON supports."""
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
            return [json_safe(one) for one in cast("Sequence[Any]", value)]
        case _:
            return str(value)
