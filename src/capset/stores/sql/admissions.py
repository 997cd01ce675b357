"""Admissions: a claim and its intent go to the writer together."""

from __future__ import annotations

from typing import Final

from capset.stores.base import Entry
from capset.stores.base.admissions import Claim, Refused
from capset.stores.sql.reader import Reader
from capset.stores.sql.reservations import Counting, release, sweep
from capset.stores.sql.writer import Writer

_SWEEP_EVERY: Final = 256
"""How many calls are counted between two looks at those that count no more."""


class SqlAdmissions:
    """The calls that count, a row each, numbered within their window; and what was used of each budget."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader
        self._since_sweep = 0

    async def look(self, claim: Claim) -> Refused | None:
        """Return why a call would not be admitted now by its windows and budgets."""
        return await self._reader.read(lambda connection: Counting(connection).refusal(claim))

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        """Count a call, use up its approval, and write its intent. Raises ``Refused`` and ``StoreError``."""
        self._since_sweep += len(claim.windows)
        await self._writer.admit(claim, intent)
        if self._since_sweep > _SWEEP_EVERY:
            self._since_sweep = 0
            await self._writer.write(lambda connection: sweep(connection, claim.at))

    async def release(self, claim: Claim) -> None:
        """Count a call no more, and give its approval back."""
        await self._writer.write(lambda connection: release(connection, claim))
