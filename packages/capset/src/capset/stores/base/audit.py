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
"""The columns that a query may compare with a text; ``org`` is one more, for which ``""`` stands for none."""
Kind = Literal["call", "act", "all"]
"""What a query is about: how calls ended, administrative acts, or both."""
_PHASES: Final[Mapping[Kind, tuple[Phase, ...]]] = {
    "call": ("outcome",),
    "act": ("act",),
    "all": ("outcome", "act"),
}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class Entry(Protocol):
    """Something that becomes a record, encoded by the writer off the hot path: it must not change any more.

    Ports take one as the ``act`` of a change. It is on record if and only if the change is made: both are written in
    one transaction, so a store that cannot write the record raises ``StoreError`` and changes nothing.
    """

    def columns(self) -> Columns:
        """Return every column except ``seq``, ``writer``, ``previous`` and ``hash``. Must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class AuditQuery(Query[int]):
    """A query for outcomes of calls, or for acts, that equal every field that is not ``None``, newest first.

    ``principal`` is an id alone, such as ``ada``, as ``Principal("ada")`` has it, not ``user:ada``. ``limit`` is
    1–1,000; ``before`` is the ``seq`` that the page ends before (keyset paging).
    """

    id: str | None = None
    tool: str | None = None
    outcome: Outcome | None = None
    principal: str | None = None
    session: str | None = None
    correlation: str | None = None
    org: str | None = None
    """Only records of this organisation; ``""`` means those of none."""
    agent: str | None = None
    approval: str | None = None
    """Only calls of this request for an approval, by its id."""
    code: str | None = None
    """Only calls that ended with an error of this code."""
    since: str | None = None
    """Only records of this time or later, as ``capset.clock.iso`` writes it."""
    until: str | None = None
    """Only records from before this time."""
    act: str | None = None
    """Only acts of this name."""
    kind: Kind | None = None
    """Calls, acts or both; by default calls, or acts if ``act`` is given."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a bad limit or time, ``DefinitionError`` for text that is not valid UTF-8."""
        check_limit(self.limit)
        for name in (*FILTERS, "org"):
            checked_optional(f"an audit query's {name}", getattr(self, name))
        check_times(self.since, self.until)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the records that it is about."""
        return _PHASES[self.kind or ("call" if self.act is None else "act")]


def check_times(*times: str | None) -> None:
    """Raise ``ValueError`` unless times are as ``capset.clock.iso`` writes them, so that they sort by time."""
    for time in times:
        if time is not None and not _TIME.fullmatch(time):
            raise ValueError(f"a time is written like 2026-01-31T00:00:00.000000Z; got {time!r:.60}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call by its record's id, its causation, and its outcome; ``None`` if it has an intent only."""

    record: str
    causation: str | None
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning: the number of records cut, and the first ``seq`` that is left, or is to come."""

    removed: int
    since: int


WALKED: Final = 20_000
"""Number of an organisation's newest calls that a summary looks at, at most."""
MEASURED: Final = 6_000
"""Number of calls that a summary counts, at most."""


class MeasuredCall(NamedTuple):
    """How one call ended, and how long it took, in microseconds."""

    time: str
    tool: str
    decision: str | None
    outcome: str | None
    duration_us: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The newest calls that a query is about, newest first.

    ``since`` is the time of the oldest call that was looked at, if there are older ones that were not: ``None`` if all
    of the query's time was.
    """

    calls: Sequence[MeasuredCall]
    since: str | None


class AuditLog(Protocol):
    """The append-only, hash-chained log of attempts."""

    def append(self, entry: Entry) -> None:
        """Accept an entry to be written soon; bounded. Raises ``StoreError`` if it cannot be accepted."""
        ...

    async def commit(self, entry: Entry) -> None:
        """Write an entry and return once it is durable. Raises ``StoreError`` if it is not."""
        ...

    async def flush(self) -> None:
        """Return once everything accepted so far is durable. Raises ``StoreError`` if it is not."""
        ...

    async def query(self, query: AuditQuery) -> Page[Record, int]:
        """Return outcomes of calls, or acts, newest first."""
        ...

    async def measure(self, query: AuditQuery, *, walked: int = WALKED, measured: int = MEASURED) -> Measured:
        """Return how calls ended, of those that a query is about, in bounded time.

        Of the newest ``walked`` calls of its organisation before its ``until``, the newest ``measured`` that fit. Its
        ``limit``, ``before``, ``act`` and ``kind`` do not matter.
        """
        ...

    async def attempts(self, org: str | None, correlation: str) -> Sequence[Attempt]:
        """Return the calls of a correlation that have ended or have an open intent, in no order, at most 10,000.

        One that is both is returned with its outcome.
        """
        ...

    async def span(self, *, since: str | None = None, until: str | None = None) -> tuple[int, int] | None:
        """Return the ``seq`` of the first link since one time, and of the last one before another, or ``None``.

        All links between the two belong to the chain, although clocks of several processes may differ a little.
        """
        ...

    async def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Return links, intents included, in chain order: those that follow the one whose ``seq`` is ``after``."""
        ...

    async def verify(
        self, keys: Sequence[PublicKey | TrustedKey] = (), kept: Sequence[Checkpoint] = ()
    ) -> Verification:
        """Verify the whole chain, intents included, and its checkpoints; their signatures by ``keys``.

        A key without a span is trusted from the first record until one says that it hands over. ``kept`` are
        checkpoints that were stored elsewhere, out of reach of anyone who can change the log, which has to have its own
        up to them.
        """
        ...

    async def verify_part(
        self, after: int | None, previous: str | None, *, limit: int, own: PublicKey | None = None
    ) -> VerifiedPart:
        """Verify up to ``limit`` links that follow the one whose ``seq`` is ``after``, with the checkpoints over them.

        ``None`` begins with the first record of the log, and so does a position before it. ``previous`` is the hash of
        that link as it was verified before; ``None`` takes the one that is stored. Signatures are checked of those
        checkpoints that claim to be by ``own``.
        """
        ...

    async def checkpoint(self, key: CheckpointKey, *, now: str) -> Checkpoint | None:
        """Sign the current head of the log with everything accepted, and store that; ``None`` for an empty log.

        If nothing came since the newest checkpoint, that one is returned. Raises ``StoreError`` if it cannot be stored,
        or if the log no longer matches the newest checkpoint; ``Conflict`` if the key has handed over to another.
        """
        ...

    async def checkpoints(self, *, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        """Return checkpoints in order, those that follow the one whose ``number`` is ``after``."""
        ...

    async def prune(
        self, before: str, key: CheckpointKey, *, now: str, act: Callable[[Pruned], Entry] | None = None
    ) -> Pruned:
        """Cut off the oldest links, up to the newest checkpoint of this key that covers none from ``before`` or later.

        Open intents stay, and so does everything after the first of them. The cut links are verified first, and a
        checkpoint states the new first record; all in one transaction. Raises ``Conflict`` if there is something to cut
        but no such checkpoint, or if the verification fails. ``act`` makes the entry of the act, given the result.
        """
        ...

    async def signer(self) -> PublicKey | None:
        """Return the key that signs this log, or ``None`` if none was adopted."""
        ...

    async def adopt(self, key: PublicKey, *, replacing: str | None, act: Entry) -> bool:
        """Make a key the one that signs this log, and return whether that was done.

        It is, with the record of the ``act``, if the log's key so far has the id ``replacing``: the one adopted, or
        else that of the newest checkpoint. ``None`` stands for no other key. A key that was replaced signs no more, and
        is not adopted again.
        """
        ...

    async def digest_key(self) -> bytes:
        """Return the 32 secret bytes that key argument digests, made once for a store."""
        ...
