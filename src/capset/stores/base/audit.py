"""The port of the audit log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.names import checked_optional
from capset.definitions.records import Columns, Outcome, Record
from capset.fingerprint.chain import Verification
from capset.fingerprint.checkpoints import Checkpoint
from capset.fingerprint.signatures import CheckpointKey, PublicKey

FILTERS: Final = ("id", "tool", "outcome", "principal", "session", "correlation", "agent", "approval", "code")
"""The columns that a query may ask to equal a text; ``org`` is one more, for which ``""`` stands for none."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


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
    agent: str | None = None
    approval: str | None = None
    """Only calls that this request for an approval was for, by its id."""
    code: str | None = None
    """Only calls that ended with an error of this code."""
    since: str | None = None
    """Only records of this time or later, as ``capset.clock.iso`` writes it."""
    until: str | None = None
    """Only records from before this time."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a limit beyond 1–1,000 or no time, ``DefinitionError`` for text without UTF-8."""
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"the limit of a query is 1–1,000, not {self.limit}")
        for name in (*FILTERS, "org"):
            checked_optional(f"an audit query's {name}", getattr(self, name))
        check_times(self.since, self.until)


def check_times(*times: str | None) -> None:
    """Raise ``ValueError`` for what is not a time as ``capset.clock.iso`` writes it, whose order is that of time."""
    for time in times:
        if time is not None and not _TIME.fullmatch(time):
            raise ValueError(f"a time is written like 2026-01-31T00:00:00.000000Z; got {time!r:.60}")


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some records, and the ``before`` that asks for those that follow them, if there are any."""

    items: tuple[Record, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What retention has cut: how many records, and the first that is left, or is to come."""

    removed: int
    since: int


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

    async def span(self, *, since: str | None = None, until: str | None = None) -> tuple[int, int] | None:
        """Return the ``seq`` of the first link from a time on, and of the last one before another; ``None`` for none.

        All between the two belongs to the chain, although clocks of several processes may differ a little.
        """
        ...

    async def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Return links, intents included, in chain order: those that follow the one whose ``seq`` is ``after``."""
        ...

    async def verify(self, keys: Sequence[PublicKey] = (), kept: Sequence[Checkpoint] = ()) -> Verification:
        """Check the whole chain, intents included, and its checkpoints; their signatures by ``keys``.

        ``kept`` are checkpoints that were kept elsewhere, where nobody can change them who can change the log.
        """
        ...

    async def checkpoint(self, key: CheckpointKey, *, now: str) -> Checkpoint | None:
        """Sign how far the log has come with all that was taken, and keep that; ``None`` for an empty log.

        If nothing came since the newest checkpoint, it is that one. Raises ``StoreError`` if it cannot be kept, or the
        log is not any more what that one was made of.
        """
        ...

    async def checkpoints(self, *, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        """Return checkpoints in their order, those that follow the one whose ``number`` is ``after``."""
        ...

    async def prune(self, before: str, key: CheckpointKey, *, now: str) -> Pruned:
        """Cut off the oldest links, up to the newest checkpoint of this key that covers none from ``before`` or later.

        No open intent goes, nor what came after one. What is cut is verified first, and a checkpoint says with which
        record the log begins now; all in one transaction. Raises ``Conflict`` if there is something to cut but no such
        checkpoint, or what it covers is not sound.
        """
        ...

    async def digest_key(self) -> bytes:
        """Return the 32 secret bytes that argument digests are keyed with, made once for a store."""
        ...
