"""The records of the key's organisation."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypedDict

from typing_extensions import Unpack

from capset.client.connection import LARGEST_PAGE, Connection, every, path_of
from capset.definitions.acts import ActName
from capset.definitions.records import Outcome
from capset.definitions.tools.options import refuse_unknown
from capset.stores.base.audit import Kind
from capset.wire.audit import RecordPageShape


class RecordFilters(TypedDict, total=False):
    """The values that records must have in columns of these names, all of them."""

    tool: str | None
    outcome: Outcome | None
    principal: str | None
    """Its id alone: ``ada``, not ``user:ada``."""
    session: str | None
    correlation: str | None
    agent: str | None
    approval: str | None
    code: str | None
    act: ActName | None
    """Only acts of this name."""
    kind: Kind | None
    """Calls, acts or all: by default calls, or acts if ``act`` is given."""
    since: str | None
    """The earliest time, in ISO 8601 with an offset."""
    until: str | None
    """The time that they are before, in the same form."""


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

        ``limit`` is 1–200, ``cursor`` the ``next`` of the page before.
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
