"""The audit log in memory."""

from __future__ import annotations

import logging
import secrets
import time

from capset.clock import iso
from capset.definitions.records import Record
from capset.fingerprint.canonical import NotCanonical
from capset.fingerprint.chain import GENESIS, Verification, seal, verify
from capset.stores.base import AuditPage, AuditQuery, Entry
from capset.stores.entries import BadEntry, Row, columns_of, interrupted
from capset.stores.memory.door import Door

_log = logging.getLogger("capset.stores")
_FILTERS = ("id", "tool", "outcome", "principal", "session", "correlation", "org")


class MemoryAudit:
    """The log; every entry is as durable at once as it will ever be.

    What is appended becomes a record when somebody reads, flushes or commits: that takes ten times as long as a call.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._rows: list[Row] = []
        self._keys: set[tuple[str, str]] = set()
        self._open: dict[str, Row] = {}
        self._pending: list[Entry] = []
        self._refused: BadEntry | None = None
        """An appended entry that no record could be made of; the next flush tells."""
        self._digest_key = secrets.token_bytes(32)

    def append(self, entry: Entry) -> None:
        """Take an entry. Raises ``StoreError`` when the store is not open."""
        self._door.check()
        self._pending.append(entry)

    async def commit(self, entry: Entry) -> None:
        """Take an entry. Raises ``StoreError`` if no record can be made of it."""
        self.settle()
        self._extend(columns_of(entry))

    async def flush(self) -> None:
        """Make records of all that was taken. Raises ``StoreError`` if that failed, or the store is not open."""
        self.settle()
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    async def query(self, query: AuditQuery) -> AuditPage:
        """Return outcome records, newest first."""
        self.settle()
        wanted = {name: value for name in _FILTERS if (value := getattr(query, name)) is not None}
        if query.org == "":
            wanted["org"] = None
        wanted["phase"] = "outcome"
        end = len(self._rows) if query.before is None else max(0, query.before - 1)
        found: list[Record] = []
        for row in reversed(self._rows[:end]):
            if wanted.items() <= row.items():
                found.append(Record(**row))
                if len(found) > query.limit:
                    break
        items = tuple(found[: query.limit])
        return AuditPage(items, items[-1].seq if len(found) > query.limit else None)

    async def verify(self) -> Verification:
        """Check the whole chain, intents included."""
        self.settle()
        return verify(self._rows)

    async def digest_key(self) -> bytes:
        """Return the 32 secret bytes that argument digests are keyed with."""
        self._door.check()
        return self._digest_key

    def close_interrupted(self) -> None:
        """Give every open intent the outcome ``interrupted``."""
        now = iso(time.time_ns())
        for intent in list(self._open.values()):
            self._extend(interrupted(intent, now))

    def settle(self) -> None:
        """Make records of what was appended. Raises ``StoreError`` when the store is not open."""
        self._door.check()
        pending, self._pending = self._pending, []
        for entry in pending:
            try:
                self._extend(columns_of(entry))
            except BadEntry as error:
                self._refused = error
                _log.error("an entry is not on record: %s", error.message)

    def _extend(self, row: Row) -> None:
        writer = self._door.check()
        key = (row["id"], row["phase"])
        if key in self._keys:
            raise BadEntry("a record was refused: there is one of its id and phase already")
        previous = self._rows[-1]["hash"] if self._rows else GENESIS
        row |= {"seq": len(self._rows) + 1, "writer": writer, "previous": previous}
        try:
            seal(row)
        except NotCanonical as error:
            raise BadEntry("a record could not be made of its call: it holds a lone surrogate") from error
        self._rows.append(row)
        self._keys.add(key)
        if row["phase"] == "intent":
            self._open[row["id"]] = row
        else:
            self._open.pop(row["id"], None)
