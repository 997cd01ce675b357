"""Admissions: a claim and its intent go to the writer together."""

from __future__ import annotations

from capset.stores.base import Entry
from capset.stores.base.admissions import Claim, Refused
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.writer.reservations import Counting, release
from capset.stores.sql.writer.writer import Writer


class SqlAdmissions:
    """The calls that count, a row each, numbered within their window; and the used amounts of each budget."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def look(self, claim: Claim) -> Refused | None:
        """Return the reason why a call would not be admitted now by its windows and budgets."""
        return await self._reader.read(lambda connection: Counting(connection).refusal(claim))

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        """Count a call, use up its approval, and write its intent. Raises ``Refused`` and ``StoreError``."""
        await self._writer.admit(claim, intent)

    async def release(self, claim: Claim) -> None:
        """Stop counting a call, and give its approval back."""
        await self._writer.write(lambda connection: release(connection, claim))
