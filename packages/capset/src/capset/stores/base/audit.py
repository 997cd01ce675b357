"""The protocol of the audit log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from capset.definitions.calls.records import Columns, Outcome, Phase, Record
from capset.definitions.names import checked_optional
from capset.fingerprint.chain import Verification, VerifiedPart
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, PublicKey, TrustedKey
from capset.stores.base.pages import Page, Query, check_limit

FILTERS: Final = ("id", "tool", "outcome", "principal", "session", "correlation", "agent", "approval", "code", "act")
"""The columns that a query can filter by; it can also filter by ``org``, where ``""`` means none."""
Kind = Literal["call", "act", "all"]
"""What a query returns: outcomes of calls, administrative acts, or both."""
_PHASES: Final[Mapping[Kind, tuple[Phase, ...]]] = {
    "call": ("outcome",),
    "act": ("act",),
    "all": ("outcome", "act"),
}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class Entry(Protocol):
    """Something that becomes a record. The writer encodes it later, off the hot path, so it must not change.

    Ports accept one as the ``act`` of a change. The change and the record are written in one transaction: a store that
    cannot write the record raises ``StoreError`` and changes nothing.
    """

    def columns(self) -> Columns:
        """Return every column except ``seq``, ``writer``, ``previous`` and ``hash``. Must not raise."""
        ...


SEARCHED: Final = ("tool", "act", "agent", "principal")
"""The columns in which the ``text`` of a query is searched."""
MAX_SEARCHED: Final = 10_000
"""The maximum number of an organisation's records of one phase that one query with a ``text`` examines."""


@dataclass(frozen=True, slots=True)
class AuditQuery(Query[int]):
    """A query for outcomes of calls, or for acts, that match every field that is not ``None``, newest first.

    ``principal`` is the id as in ``Principal("ada")``: ``ada``, not ``user:ada``. ``limit`` is 1–1,000. Only records
    whose ``seq`` is less than ``before`` are returned (keyset paging).
    """

    id: str | None = None
    tool: str | None = None
    outcome: Outcome | None = None
    principal: str | None = None
    session: str | None = None
    correlation: str | None = None
    org: str | None = None
    """Only records of this organisation; ``""`` means records without one."""
    agent: str | None = None
    approval: str | None = None
    """Only calls of the approval request with this id."""
    code: str | None = None
    """Only calls that ended with an error of this code."""
    since: str | None = None
    """Only records from this time on, in the format of ``capset.clock.iso``."""
    until: str | None = None
    """Only records from before this time."""
    act: str | None = None
    """Only acts of this name."""
    kind: Kind | None = None
    """Calls, acts or both; defaults to calls, or to acts if ``act`` is given."""
    text: str | None = None
    """Only records with this in the name of their tool, act or agent, or in their principal's id (ASCII: any case).

    No index finds them: a page is from the organisation's newest ``MAX_SEARCHED`` records before its cursor. It may be
    empty although there is a next one.
    """

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a bad limit or time, ``DefinitionError`` for text that is not valid UTF-8."""
        check_limit(self.limit)
        for name in (*FILTERS, "org", "text"):
            checked_optional(f"an audit query's {name}", getattr(self, name))
        check_times(self.since, self.until)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the matching records."""
        return _PHASES[self.kind or ("call" if self.act is None else "act")]


def check_times(*times: str | None) -> None:
    """Raise ``ValueError`` unless times have the format of ``capset.clock.iso``, in which they sort as text."""
    for time in times:
        if time is not None and not _TIME.fullmatch(time):
            raise ValueError(f"a time is written like 2026-01-31T00:00:00.000000Z; got {time!r:.60}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call: the id of its record, its causation, and its outcome, or ``None`` if it only has an intent."""

    record: str
    causation: str | None
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning: the number of removed records, and the ``seq`` of the first one left, or next."""

    removed: int
    since: int


MAX_EXAMINED: Final = 20_000
"""The maximum number of an organisation's newest calls that a summary examines."""
MAX_COUNTED: Final = 6_000
"""The maximum number of calls that a summary counts."""


class MeasuredCall(NamedTuple):
    """The end of one call, and its duration in microseconds."""

    time: str
    tool: str
    decision: str | None
    outcome: str | None
    duration_us: int | None
    agent: str
    principal: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The newest calls that match a query, newest first.

    ``since`` is the time of the oldest call that was examined, if older ones were not; ``None`` if the query's whole
    time range was examined.
    """

    calls: Sequence[MeasuredCall]
    since: str | None


class AuditLog(Protocol):
    """The append-only, hash-chained log of attempts."""

    def append(self, entry: Entry) -> None:
        """Queue an entry to be written soon. Raises ``StoreError`` if the bounded queue cannot accept it."""
        ...

    async def commit(self, entry: Entry) -> None:
        """Write an entry, and return once it is durable. Raises ``StoreError`` if that fails."""
        ...

    async def flush(self) -> None:
        """Wait until everything accepted so far is durable. Raises ``StoreError`` if that fails."""
        ...

    async def query(self, query: AuditQuery) -> Page[Record, int]:
        """Return outcomes of calls, or acts, newest first."""
        ...

    async def measure(
        self, query: AuditQuery, *, max_examined: int = MAX_EXAMINED, max_counted: int = MAX_COUNTED
    ) -> Measured:
        """Return how the newest calls that match a query ended, in bounded time.

        Examines the newest ``max_examined`` calls of the query's organisation before its ``until``, and returns the
        newest ``max_counted`` of them that match. Ignores ``limit``, ``before``, ``act`` and ``kind``.
        """
        ...

    async def attempts(self, org: str | None, correlation: str) -> Sequence[Attempt]:
        """Return the calls of a correlation that have ended or have an open intent, unordered, at most 10,000.

        A call with both is returned with its outcome.
        """
        ...

    async def span(self, *, since: str | None = None, until: str | None = None) -> tuple[int, int] | None:
        """Return the ``seq`` of the first link from ``since`` on and of the last one before ``until``, or ``None``.

        The links between the two are an unbroken part of the chain, although the clocks of processes may differ a
        little.
        """
        ...

    async def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Return links, including intents, in chain order: those whose ``seq`` is greater than ``after``."""
        ...

    async def verify(
        self, keys: Sequence[PublicKey | TrustedKey] = (), external: Sequence[Checkpoint] = ()
    ) -> Verification:
        """Verify the whole chain, including intents, and its checkpoints; check their signatures with ``keys``.

        A key without a span is trusted from the first record until the record of its succession. ``external`` are
        checkpoints that were stored elsewhere, out of reach of anyone who can change the log; the log must have its own
        checkpoints up to the newest of them.
        """
        ...

    async def verify_part(
        self, after: int | None, previous: str | None, *, limit: int, own_key: PublicKey | None = None
    ) -> VerifiedPart:
        """Verify up to ``limit`` links whose ``seq`` is greater than ``after``, and the checkpoints over them.

        If ``after`` is ``None`` or before the first record of the log, this starts at the first record. ``previous`` is
        the hash of the link at ``after``, as verified before; with ``None``, the stored one is used. Only the
        signatures of checkpoints that claim to be signed by ``own_key`` are checked.
        """
        ...

    async def checkpoint(self, key: CheckpointKey, *, now: str) -> Checkpoint | None:
        """Sign the head of the log, including everything accepted, and store the checkpoint.

        Returns the newest checkpoint if there are no records since, and ``None`` for an empty log. Raises
        ``StoreError`` if the checkpoint cannot be stored, or if the log no longer matches the newest one; ``Conflict``
        if the key has handed over to another.
        """
        ...

    async def checkpoints(self, *, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        """Return checkpoints in order: those whose ``number`` is greater than ``after``."""
        ...

    async def prune(
        self, before: str, key: CheckpointKey, *, now: str, act: Callable[[Pruned], Entry] | None = None
    ) -> Pruned:
        """Remove the oldest links, up to this key's newest checkpoint that only covers links from before ``before``.

        What ran goes with them, payloads afterwards: see ``LineageStore``.

        Open intents stay, and so does everything after the first of them. The links are verified before they are
        removed, and a new checkpoint states which record is now the first; all in one transaction. Raises ``Conflict``
        if there are links to remove but no such checkpoint, or if verification fails. ``act`` creates the entry of the
        act from the result.
        """
        ...

    async def signer(self) -> PublicKey | None:
        """Return the signing key of this log, or ``None`` if none was adopted."""
        ...

    async def adopt(self, key: PublicKey, *, replacing: str | None, act: Entry) -> bool:
        """Make a key the signing key of this log, and return whether that was done.

        The key is adopted, and the ``act`` recorded, if the current key of the log has the id ``replacing``. The
        current key is the adopted one, or else that of the newest checkpoint; ``None`` stands for no other key. A
        replaced key no longer signs, and is not adopted again.
        """
        ...

    async def digest_key(self) -> bytes:
        """Return the 32-byte secret key for digests of arguments, which is created once per store."""
        ...
