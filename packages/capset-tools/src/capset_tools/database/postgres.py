"""PostgreSQL queries, each in a process with limited memory that is ended when its time is up (spec 4, G30)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from capset import ToolError
from capset_tools.database.cancellation import Halt
from capset_tools.database.child.failures import QueryFailure, timed_out
from capset_tools.database.child.main import QueryOrder
from capset_tools.database.config import DatabaseConfig
from capset_tools.database.query_process import ProcessEnded, QueryProcess, with_process
from capset_tools.database.rows import QueryResult, error_of

_SLACK: Final = 1 << 20
"""Bytes that a response may have beyond twice the size of its rows, for column names and separators."""


def query_postgres(
    url: str, query: str, params: Sequence[object], config: DatabaseConfig, halt: Halt, name: str
) -> QueryResult:
    """Run one query in another process, on its own connection. Raises ``ToolError`` if it fails."""
    order = QueryOrder(
        url=url,
        name=name,
        query=query,
        params=list(params),
        seconds=config.seconds,
        limit=config.seconds,
        max_rows=config.max_rows,
        max_bytes=config.max_bytes,
        functions=list(config.functions),
    )

    def ask(process: QueryProcess) -> Mapping[str, Any]:
        halt.begin()  # starting a process does not count as the query's time
        try:
            return process.ask(order, halt, 2 * config.max_bytes + _SLACK)
        except ProcessEnded:
            if halt.is_over:
                raise error_of(timed_out(halt.seconds)) from None
            if not process.has_answered:
                raise _ended() from None
            raise

    try:
        answer = with_process(ask)
    except ProcessEnded:  # a reused process may have ended while idle; a read can be repeated
        try:
            answer = with_process(ask)
        except ProcessEnded:
            raise _ended() from None
    if (failure := answer.get("failure")) is not None:
        raise error_of(QueryFailure(**failure))
    return QueryResult(
        columns=answer["columns"],
        rows=answer["rows"],
        row_count=len(answer["rows"]),
        truncated=answer["truncated"],
    )


def _ended() -> ToolError:
    return ToolError(
        "the process of the query ended without an answer, as it does if this machine has too little memory",
        code="query_ended",
        hint="ask for fewer or shorter rows",
    )
