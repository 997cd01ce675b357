"""Query failures, as the model sees them. Both processes use this module."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

ONLY_READS: Final = "db_query only reads, by one SELECT"
"""The end of the message about a query that would do more than read."""
OWN_TABLES: Final = ("alembic_version", "checkpoints", "open_intents", "records")
"""Tables that every capset store has; a database with all of them counts as one."""


@dataclass(eq=False)
class QueryFailure(Exception):
    """A failed query. ``is_transient`` means that a retry may succeed."""

    message: str
    code: str = "tool_error"
    status: int = 400
    hint: str | None = None
    is_transient: bool = False


def too_large(max_bytes: int) -> QueryFailure:
    """Return the failure for a row or a value of more than ``max_bytes``."""
    return QueryFailure(
        f"a row, or a value in it, has more than {max_bytes:,} bytes; select fewer columns, or a part by substr()",
        "too_large",
        413,
    )


def own_store(name: str) -> QueryFailure:
    """Return the failure for a database that is a capset store."""
    return QueryFailure(
        f"the database {name!r} cannot be queried: it is a capset store, with the record, the keys and the sessions of "
        "all organisations; its operator has to name another",
        "own_store",
        403,
    )


def not_allowed(functions: Collection[str]) -> QueryFailure:
    """Return the failure for a query that calls functions that are not allowed."""
    named = ", ".join(sorted(functions))
    return QueryFailure(
        f"db_query does not call {named}: it calls only PostgreSQL's ordinary functions, which only compute; write the "
        "query without it",
        "function_not_allowed",
        403,
        "the operator allows further functions by their names, with `functions` in the configuration of database",
    )


def unavailable(name: str, state: str | None = None) -> QueryFailure:
    """Return the failure for a database that does not answer; ``state`` is its SQLSTATE, if there is one."""
    suffix = f" (SQLSTATE {state})" if state else ""
    return QueryFailure(f"the database {name!r} did not answer{suffix}", "database_unavailable", 503)


def timed_out(seconds: float) -> QueryFailure:
    """Return the failure for a query that was stopped after ``seconds``."""
    return QueryFailure(
        f"the query took longer than {seconds:g} s and was stopped; ask for less, or by an indexed column",
        "query_timeout",
        504,
    )
