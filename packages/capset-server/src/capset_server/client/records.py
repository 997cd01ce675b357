"""The records of the key's organisation, and their verification."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypedDict, cast

from pydantic_core import from_json
from typing_extensions import Unpack

from capset.definitions.calls.records import Outcome
from capset.definitions.governance.acts import ActName
from capset.definitions.tools.options import refuse_unknown
from capset.stores.base.audit import Kind
from capset.wire.audit import ChainPartShape, LogKeyShape, RecordPageShape, RecordProofShape, SummaryShape
from capset_server.client.connection import LARGEST_PAGE, Connection, Query, every, path_of


class RecordFilters(TypedDict, total=False):
    """The values that records must have in the columns of these names. All must match."""

    tool: str | None
    outcome: Outcome | None
    principal: str | None
    """The id without the kind: ``ada``, not ``user:ada``."""
    session: str | None
    correlation: str | None
    agent: str | None
    approval: str | None
    code: str | None
    act: ActName | None
    """Only acts of this name."""
    kind: Kind | None
    """Calls, acts or all: by default calls, or acts if ``act`` is given."""
    text: str | None
    """A part of the name of a tool, an act or an agent, or of a principal's id. A page may be empty and have a next."""
    since: str | None
    """The earliest time, in ISO 8601 with an offset."""
    until: str | None
    """The end of the period, exclusive, in the same format."""


class RecordResource:
    """``client.records``; needs a key with the scope ``capset:audit``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **filters: Unpack[RecordFilters],
    ) -> RecordPageShape:
        """List the outcomes of calls, or acts, newest first: the records that match all filters.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        refuse_unknown(self.list, filters, RecordFilters)
        query: dict[str, Any] = {"id": id, **filters, "limit": limit, "cursor": cursor}
        return await self._connection.get(RecordPageShape, path_of("audit"), query)

    def all(
        self, **filters: Unpack[RecordFilters]
    ) -> AsyncGenerator[dict[str, Any]]:  # a record's values are of every JSON type
        """Iterate over all matching records, newest first, page by page."""
        refuse_unknown(self.all, filters, RecordFilters)
        return every(lambda cursor: self.list(**filters, limit=LARGEST_PAGE, cursor=cursor))

    async def get(self, id: str) -> RecordProofShape:
        """Return a record in full, with its place in the chain, verified up to the next checkpoint.

        Raises ``NotFound``.
        """
        return await self._connection.get(RecordProofShape, path_of("audit", id))

    async def verify(self, *, limit: int = 5_000, cursor: str | None = None) -> ChainPartShape:
        """Verify the next part of the chain, up to ``limit`` links; ``limit`` is 1–10,000.

        ``cursor`` is the ``next`` of the previous part. A part without ``next`` is the last one.
        """
        return await self._connection.get(
            ChainPartShape, path_of("audit", "verify"), {"limit": limit, "cursor": cursor}
        )

    async def key(self) -> LogKeyShape:
        """Return the public key that signs the log, as the server names it. Raises ``NotFound`` if there is none."""
        return await self._connection.get(LogKeyShape, path_of("audit", "key"))

    async def summary(
        self,
        *,
        tool: str | None = None,
        agent: str | None = None,
        principal: str | None = None,
        outcome: Outcome | None = None,
        session: str | None = None,
        since: str | None = None,
        until: str | None = None,
        bucket: str | None = None,
    ) -> SummaryShape:
        """Count calls by outcome, with their latency: in total, over time, and by tool; the last day by default.

        ``bucket`` is ``1m``, ``5m``, ``15m``, ``1h``, ``6h``, ``1d``, ``7d`` or ``30d``, by default a suitable one.
        """
        filters = {"tool": tool, "agent": agent, "principal": principal, "outcome": outcome, "session": session}
        query = {**filters, "since": since, "until": until, "bucket": bucket}
        return await self._connection.get(SummaryShape, path_of("audit", "summary"), query)

    async def export(
        self, **filters: Unpack[RecordFilters]
    ) -> AsyncGenerator[dict[str, Any]]:  # a record's columns, of its types
        """Iterate over all matching records, newest first, in one request, with all columns as they are hashed.

        Raises ``Unreachable`` if the response breaks off, so that a part is not mistaken for the whole.
        """
        refuse_unknown(self.export, filters, RecordFilters)
        async with aclosing(self._lines("export", {**cast("Query", filters), "format": "ndjson"})) as lines:
            async for line in lines:
                yield from_json(line)

    def chain(self, *, first: int | None = None, since: str | None = None) -> AsyncGenerator[str]:
        """Iterate over the lines of the chain's export: records in order, then the checkpoints over them.

        ``first`` is the position of the first record, ``since`` its earliest time, in ISO 8601 with an offset. Needs a
        key with the scope ``capset:admin``, without an organisation. Raises ``Unreachable`` if the response breaks off.
        """
        return self._lines("chain", {"first": first, "since": since})

    async def _lines(self, name: str, query: Query) -> AsyncGenerator[str]:
        async with self._connection.head(path_of("audit", name), query) as response:
            with self._connection.answers.named(safe=True):
                async for line in response.aiter_lines():
                    yield line
