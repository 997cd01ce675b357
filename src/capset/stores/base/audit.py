"""The port of the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from capset.definitions.names import checked_optional
from capset.definitions.records import Columns, Outcome, Record
from capset.fingerprint.chain import Verification


class Entry(Protocol):
    """Something that becomes a record, encoded by the writer off the hot path: it must not change any more."""

    def columns(self) -> Columns:
        """Return every column but ``seq``, ``writer``, ``previous`` and ``hash``. Must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which outcome records: those that equal every field that is not ``None``, newest first.

    ``limit`` is 1–1,000; ``before`` is the ``seq`` that the page ends before (keyset paging, spec 5, P15).
    """

    id: str | None = None
    tool: str | None = None
    outcome: Outcome | None = None
    principal: str | None = None
    session: str | None = None
    correlation: str | None = None
    limit: int = 50
    before: int | None = None
    org: str | None = None
    """Only records of this organisation; ``""`` means those of none."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a limit beyond 1–1,000 and ``DefinitionError`` for text that has no UTF-8."""
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"the limit of a query is 1–1,000, not {self.limit}")
        for name in ("id", "tool", "principal", "session", "correlation", "org"):
            checked_optional(f"an audit query's {name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some records, and the ``before`` that asks for those that follow them, if there are any."""

    items: tuple[Record, ...]
    next: int | None


class AuditLog(Protocol):
    """The append-only, hash-chained log of attempts (spec 4, G21–G23)."""

    def append(self, entry: Entry) -> None:
        """Take an entry to be written soon; bounded. Raises ``StoreError`` if it cannot be taken."""
        ...

    async def commit(self, entry: Entry) -> None:
        """Write an entry and return once it is durable. Raises ``StoreError`` if it is not."""
        ...

    async def flush(self) -> None:
        """Return once everything taken so far is durable. Raises ``StoreError`` if it is not."""
        ...

    async def query(self, query: AuditQuery) -> AuditPage:
        """Return outcome records, newest first."""
        ...

    async def verify(self) -> Verification:
        """Check the whole chain, intents included."""
        ...

    async def digest_key(self) -> bytes:
        """Return the 32 secret bytes that argument digests are keyed with, made once for a store."""
        ...
