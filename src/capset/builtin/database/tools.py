"""The tool ``db_query`` (spec 4, G30)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from capset import Context, Tool, ToolError, tool
from capset.builtin.database.cancellation import Halt
from capset.builtin.database.config import SQLITE, DatabaseConfig, DatabaseConnection, engine_of
from capset.builtin.database.rows import QueryResult
from capset.ext import in_thread

Engine = Callable[[str, str, Sequence[object], DatabaseConfig, Halt, str], QueryResult]
Scalar = str | int | float | bool | None
MAX_QUERY: Final = 1 << 16
MAX_PARAMS: Final = 1_000


def query_tool(config: Callable[[Context], DatabaseConfig]) -> Tool[..., Any]:
    """Return the tool that queries the databases of a call's config."""

    @tool(effect="read", permissions={"database:read"})
    async def db_query(
        ctx: Context,
        query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY)],
        params: Annotated[list[Scalar], Field(max_length=MAX_PARAMS)] | None = None,
        connection: str | None = None,
    ) -> QueryResult:
        """Ask a database by one SELECT and get its rows. Use it for facts that a database holds; it only reads.

        What comes from a person or another tool goes into params, never into the text of the query. The rows are
        capped: aggregate and filter in the query, and see whether the result is truncated.

        Args:
            query: One SELECT (or WITH … SELECT, or VALUES) in the dialect of the database. Placeholders are ? for
                SQLite and $1, $2 for PostgreSQL.
            params: The values of the placeholders, in order: texts, numbers, booleans or null.
            connection: The name of the database; can be left out if there is only one.
        """
        known = config(ctx)
        name, chosen = _chosen(known, connection)
        engine, url = await _located(ctx, name, chosen)
        halt = Halt(known.seconds)
        work = partial(engine, url, query, params or (), known, halt, name)
        return await in_thread(ctx, work, stop=halt.stop)

    return db_query


def _chosen(config: DatabaseConfig, name: str | None) -> tuple[str, DatabaseConnection]:
    known = config.connections
    if not known:
        raise ToolError("no database is configured here", code="no_database", status=503)
    if name is None and len(known) == 1:
        return next(iter(known.items()))
    if name is None or name not in known:
        said = "say which connection is meant" if name is None else f"there is no connection {name!r:.60}"
        raise ToolError(f"{said}; there is: {', '.join(known)}", code="unknown_connection", status=404)
    return name, known[name]


async def _located(ctx: Context, name: str, chosen: DatabaseConnection) -> tuple[Engine, str]:
    """Return the engine's query function, and the URL."""
    url = chosen.url or (await ctx.secret(chosen.secret or "")).get_secret_value()
    try:
        is_file = engine_of(url) == SQLITE
    except ValueError as error:
        raise ToolError(f"the connection {name!r} is not well configured: {error}", status=503) from None
    # Imported only when needed.
    if is_file:
        from capset.builtin.database.sqlite import query_sqlite

        return query_sqlite, url
    try:
        from capset.builtin.database.postgres import query_postgres
    except ImportError:
        raise ToolError(
            f"the connection {name!r} is a PostgreSQL, for which the package psycopg is not installed here",
            code="driver_missing",
            status=503,
            hint="pip install 'capset[postgres]'",
        ) from None
    return query_postgres, url
