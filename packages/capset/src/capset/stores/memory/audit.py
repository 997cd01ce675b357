"""The audit log in memory, its checkpoints and its pruning (spec 4, G21)."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from capset.clock import iso
from capset.definitions.calls.records import Record
from capset.fingerprint.canonical import NotCanonical
from capset.fingerprint.chain import GENESIS, Verification, VerifiedPart, seal, verify, verify_part
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, PublicKey, TrustedKey, signed
from capset.stores.audit_rules import (
    BadEntry,
    Row,
    check_may_sign,
    check_newest,
    check_sound,
    columns_of,
    following,
    interrupted,
    may_adopt,
    no_anchor,
    no_link,
)
from capset.stores.base import Attempt, AuditQuery, Entry, Page, Pruned
from capset.stores.base.audit import FILTERS, MEASURED, WALKED, Measured, MeasuredCall, check_times
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import page_of


class MemoryCheckpoints:
    """The checkpoints of the log, in order. ``records`` is the log's own list of rows."""

    def __init__(self, records: list[Row]) -> None:
        self._records = records
        self.all: list[Checkpoint] = []
        self.retired: list[str] = []
        """The ids of the keys that were replaced."""

    @property
    def since(self) -> int:
        """The ``seq`` of the log's first record."""
        return self.all[-1].since if self.all else 1

    def rows(self) -> Iterable[Mapping[str, Any]]:  # columns of several types
        """Return all checkpoints as mappings by column name."""
        return map(asdict, self.all)

    def head(self) -> tuple[int, str]:
        """Return the last record's ``seq`` and ``hash``, even if it was pruned."""
        if self._records:
            return self._records[-1]["seq"], self._records[-1]["hash"]
        return (self.all[-1].seq, self.all[-1].hash) if self.all else (0, GENESIS)

    def put(self, key: CheckpointKey, now: str) -> Checkpoint | None:
        """Sign the log's head unless this key has already signed it, and return the newest checkpoint."""
        check_may_sign(key, self.retired)
        if self.all:
            check_newest(self.all[-1], key, self._hash_at)
        checkpoint = following(self.all[-1] if self.all else None, self.head(), key, now)
        if checkpoint is not None:
            self.all.append(checkpoint)
        return self.all[-1] if self.all else None

    def cut(self, before: str, key: CheckpointKey, now: str, open_seqs: Iterable[int]) -> list[Row]:
        """Prune the log and return the removed records. Raises ``Conflict`` as ``AuditLog.prune`` does."""
        check_may_sign(key, self.retired)
        since = self.since
        young = next((row["seq"] for row in self._records if row["time"] >= before), self.head()[0] + 1)
        stop = min((young, *open_seqs))
        if stop <= since:
            return []
        fits = [
            checkpoint for checkpoint in self.all if checkpoint.key == key.public.id and since <= checkpoint.seq < stop
        ]
        if not fits:
            raise no_anchor(before)
        anchor = fits[-1]
        gone = self._records[: anchor.seq + 1 - since]
        previous = (
            GENESIS if since == 1 else next(checkpoint.hash for checkpoint in self.all if checkpoint.seq == since - 1)
        )
        check_sound(verify(gone, since=since, previous=previous, keys=[key.public], kept=[anchor]))
        check_newest(self.all[-1], key, self._hash_at)
        seq, last = self.head()
        note = signed(key, self.all[-1], seq=seq, hash=last, since=anchor.seq + 1, now=now)
        del self._records[: len(gone)]
        self.all = [checkpoint for checkpoint in self.all if checkpoint.number >= anchor.number] + [note]
        return gone

    def verified_part(
        self, after: int | None, previous: str | None, limit: int, public_key: PublicKey | None
    ) -> VerifiedPart:
        """Verify a part of the chain as ``AuditLog.verify_part`` does."""
        first = self.since
        if after is None or after < first - 1:  # earlier links were pruned
            after, previous = first - 1, None
        if previous is None:
            sealed = (checkpoint.hash for checkpoint in self.all if checkpoint.seq == after)
            previous = GENESIS if after == 0 else next(sealed, None) or self._hash_at(after)
        if previous is None:
            return no_link(after)
        rows = self._records[after + 1 - first : after + 1 - first + limit]
        is_end = len(rows) < limit
        marks = [
            checkpoint
            for checkpoint in self.all
            if checkpoint.seq >= after and (is_end or checkpoint.seq <= after + limit)
        ]
        if marks:
            marks = [checkpoint for checkpoint in self.all if checkpoint.number == marks[0].number - 1] + marks
        return verify_part(rows, marks, since=after + 1, previous=previous, is_end=is_end, own=public_key)

    def _hash_at(self, seq: int) -> str | None:
        place = seq - self.since
        return self._records[place]["hash"] if 0 <= place < len(self._records) else None


_log = logging.getLogger("capset.stores")


class MemoryAudit:
    """The log. An accepted entry is as durable as it will ever be.

    Appended entries become records only at the next read, flush or commit: making a record takes ten times as long as
    a call.
    """

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: list[Row] = []
        self._keys: set[tuple[str, str]] = set()
        self._open: dict[str, Row] = {}
        self._pending: list[Entry] = []
        self._checkpoints = MemoryCheckpoints(self._rows)
        self._refused: BadEntry | None = None
        """The error of an appended entry that could not become a record; the next flush raises it."""
        self._digest_key = secrets.token_bytes(32)
        self._signer: PublicKey | None = None
        door.record = self._record

    def append(self, entry: Entry) -> None:
        """Accept an entry. Raises ``StoreError`` if the store is not open."""
        self._door.check()
        self._pending.append(entry)

    async def commit(self, entry: Entry) -> None:
        """Record an entry. Raises ``StoreError`` if it cannot become a record."""
        self.settle()
        self._extend(columns_of(entry))

    async def flush(self) -> None:
        """Record all accepted entries. Raises ``StoreError`` if one cannot be recorded, or if the store is not open."""
        self.settle()
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    async def query(self, query: AuditQuery) -> Page[Record, int]:
        """Return outcomes of calls, or acts, newest first."""
        self.settle()
        filters = {name: value for name in (*FILTERS, "org") if (value := getattr(query, name)) is not None}
        if query.org == "":
            filters["org"] = None
        since, until = query.since or "", query.until or "~"
        end = len(self._rows) if query.before is None else max(0, query.before - self._checkpoints.since)
        records: list[Record] = []
        for row in reversed(self._rows[:end]):
            if row["phase"] in query.phases and filters.items() <= row.items() and since <= row["time"] < until:
                records.append(Record(**row))
                if len(records) > query.limit:
                    break
        items, has_more = page_of(records, query.limit, query.max_bytes)
        return Page(items, items[-1].seq if has_more else None)

    async def measure(self, query: AuditQuery, *, walked: int = WALKED, measured: int = MEASURED) -> Measured:
        """Return the outcomes and durations of the calls that match a query."""
        self.settle()
        filters = {name: value for name in FILTERS if name != "act" and (value := getattr(query, name)) is not None}
        since, until = query.since or "", query.until or "~"
        before = (row for row in reversed(self._rows) if row["phase"] == "outcome" and row["time"] < until)
        of_org = (row for row in before if query.org is None or row["org"] == (query.org or None))
        newest = list(islice(of_org, walked + 1))
        fitting = [row for row in newest[:walked] if row["time"] >= since and filters.items() <= row.items()]
        calls = [MeasuredCall(*(row[name] for name in MeasuredCall._fields)) for row in fitting[:measured]]
        if len(fitting) > measured:
            return Measured(calls, calls[-1].time)
        is_cut = len(newest) > walked and newest[walked - 1]["time"] > since
        return Measured(calls, newest[walked - 1]["time"] if is_cut else None)

    async def attempts(self, org: str | None, correlation: str) -> Sequence[Attempt]:
        """Return the calls of a correlation that have ended or have an open intent."""
        self.settle()
        by_id: dict[str, Attempt] = {}
        for row in self._rows:
            if (row["org"], row["correlation"]) == (org, correlation) and row["phase"] != "act":
                by_id[row["id"]] = Attempt(row["id"], row["causation"], row["outcome"])
        return list(by_id.values())

    async def span(self, *, since: str | None = None, until: str | None = None) -> tuple[int, int] | None:
        """Return the first ``seq`` since a time and the last one before another, or ``None`` if there is no link."""
        check_times(since, until)
        self.settle()
        first = next((row["seq"] for row in self._rows if since is None or row["time"] >= since), 0)
        last = next((row["seq"] for row in reversed(self._rows) if until is None or row["time"] < until), 0)
        return (first, last) if 0 < first <= last else None

    async def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Return links in chain order."""
        self.settle()
        start = max(0, after + 1 - self._checkpoints.since)
        return [Record(**row) for row in self._rows[start : start + limit]]

    async def verify(
        self, keys: Sequence[PublicKey | TrustedKey] = (), kept: Sequence[Checkpoint] = ()
    ) -> Verification:
        """Verify the whole chain, including intents, and its checkpoints; check their signatures with ``keys``."""
        self.settle()
        return verify(self._rows, self._checkpoints.rows(), since=self._checkpoints.since, keys=keys, kept=kept)

    async def verify_part(
        self, after: int | None, previous: str | None, *, limit: int, own: PublicKey | None = None
    ) -> VerifiedPart:
        """Verify up to ``limit`` links after a position, and the checkpoints that cover them."""
        self.settle()
        return self._checkpoints.verified_part(after, previous, limit, own)

    async def checkpoint(self, key: CheckpointKey, *, now: str) -> Checkpoint | None:
        """Sign the current head of the log. Returns ``None`` if the log is empty."""
        await self.flush()
        return self._checkpoints.put(key, now)

    async def checkpoints(self, *, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        """Return checkpoints in order."""
        self._door.check()
        return [checkpoint for checkpoint in self._checkpoints.all if checkpoint.number > after][:limit]

    async def prune(
        self, before: str, key: CheckpointKey, *, now: str, act: Callable[[Pruned], Entry] | None = None
    ) -> Pruned:
        """Remove the oldest links, up to a checkpoint. Raises ``Conflict`` if no checkpoint is suitable."""
        check_times(before)
        self.settle()
        removed = self._checkpoints.cut(before, key, now, [row["seq"] for row in self._open.values()])
        self._keys.difference_update((row["id"], row["phase"]) for row in removed)
        done = Pruned(len(removed), self._checkpoints.since)
        if removed and act is not None:
            self._record(act(done))
        return done

    async def signer(self) -> PublicKey | None:
        """Return the key that signs this log, or ``None`` if none was adopted."""
        self._door.check()
        return self._signer

    async def adopt(self, key: PublicKey, *, replacing: str | None, act: Entry) -> bool:
        """Make a key the signing key of this log, and return whether it was adopted."""
        self._door.check()
        newest = self._checkpoints.all[-1].key if self._checkpoints.all else None
        if not may_adopt(key, self._signer, newest, replacing, self._checkpoints.retired):
            return False
        self._record(act)
        if replacing is not None:
            self._checkpoints.retired.append(replacing)
        self._signer = key
        return True

    async def digest_key(self) -> bytes:
        """Return the secret key of the argument digests, 32 bytes."""
        self._door.check()
        return self._digest_key

    def _record(self, act: Entry | None) -> None:
        if act is not None:
            self.settle()
            self._extend(columns_of(act))

    def close_interrupted(self) -> None:
        """Close every open intent with the outcome ``interrupted``."""
        now = iso(time.time_ns())
        for intent in list(self._open.values()):
            self._extend(interrupted(intent, now))

    def settle(self) -> None:
        """Record the appended entries. Raises ``StoreError`` if the store is not open."""
        self._door.check()
        pending, self._pending = self._pending, []
        for entry in pending:
            try:
                self._extend(columns_of(entry))
            except BadEntry as error:
                self._refused = error
                _log.error("an audit entry could not be recorded: %s", error.message)

    def _extend(self, row: Row) -> None:
        writer = self._door.check()
        key = (row["id"], row["phase"])
        if key in self._keys:
            raise BadEntry("a record was refused: a record with its id and phase already exists")
        seq, previous = self._checkpoints.head()
        row |= {"seq": seq + 1, "writer": writer, "previous": previous}
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
