"""The audit log in memory, its checkpoints and its pruning (spec 4, G21)."""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from capset.clock import iso
from capset.definitions.calls.records import Record
from capset.fingerprint.canonical import NotCanonical
from capset.fingerprint.chain import GENESIS, Verification, VerifiedPart, seal, verify, verify_part
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, PublicKey, TrustedKey, sign_checkpoint
from capset.stores.audit_rules import (
    BadEntry,
    Row,
    check_may_sign,
    check_newest,
    check_sound,
    columns_of,
    interrupted_outcome,
    may_adopt,
    missing_link,
    next_checkpoint,
    no_checkpoint_error,
)
from capset.stores.base import Attempt, AuditQuery, Entry, Page, Pruned
from capset.stores.base.audit import (
    FILTERS,
    MAX_COUNTED,
    MAX_EXAMINED,
    MAX_SEARCHED,
    SEARCHED,
    Measured,
    MeasuredCall,
    check_times,
)
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.memory.lineage import MemoryLineage
from capset.stores.pages import filters_of, page_of
from capset.stores.retention import named_hashes
from capset.stores.texts import ascii_lower


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
        checkpoint = next_checkpoint(self.all[-1] if self.all else None, self.head(), key, now)
        if checkpoint is not None:
            self.all.append(checkpoint)
        return self.all[-1] if self.all else None

    def prune(self, before: str, key: CheckpointKey, now: str, open_seqs: Iterable[int]) -> list[Row]:
        """Prune the log and return the removed records. Raises ``Conflict`` as ``AuditLog.prune`` does."""
        check_may_sign(key, self.retired)
        since = self.since
        first_newer = next((row["seq"] for row in self._records if row["time"] >= before), self.head()[0] + 1)
        stop = min((first_newer, *open_seqs))
        if stop <= since:
            return []
        candidates = [
            checkpoint for checkpoint in self.all if checkpoint.key == key.public.id and since <= checkpoint.seq < stop
        ]
        if not candidates:
            raise no_checkpoint_error(before)
        anchor = candidates[-1]
        removed = self._records[: anchor.seq + 1 - since]
        previous = (
            GENESIS if since == 1 else next(checkpoint.hash for checkpoint in self.all if checkpoint.seq == since - 1)
        )
        check_sound(verify(removed, since=since, previous=previous, keys=[key.public], external=[anchor]))
        check_newest(self.all[-1], key, self._hash_at)
        seq, last = self.head()
        start = sign_checkpoint(key, self.all[-1], seq=seq, hash=last, since=anchor.seq + 1, now=now)
        del self._records[: len(removed)]
        self.all = [checkpoint for checkpoint in self.all if checkpoint.number >= anchor.number] + [start]
        return removed

    def verify_part(
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
            return missing_link(after)
        rows = self._records[after + 1 - first : after + 1 - first + limit]
        is_end = len(rows) < limit
        covering = [
            checkpoint
            for checkpoint in self.all
            if checkpoint.seq >= after and (is_end or checkpoint.seq <= after + limit)
        ]
        if covering:
            covering = [checkpoint for checkpoint in self.all if checkpoint.number == covering[0].number - 1] + covering
        return verify_part(rows, covering, since=after + 1, previous=previous, is_end=is_end, own_key=public_key)

    def _hash_at(self, seq: int) -> str | None:
        index = seq - self.since
        return self._records[index]["hash"] if 0 <= index < len(self._records) else None


_log = logging.getLogger("capset.stores")


class MemoryAudit:
    """The log. An accepted entry is as durable as it will ever be.

    Appended entries become records only at the next read, flush or commit: making a record takes ten times as long as
    a call.
    """

    def __init__(self, lifecycle: Lifecycle, lineage: MemoryLineage) -> None:
        """``lineage`` is pruned together with the log."""
        self._lifecycle = lifecycle
        self._lineage = lineage
        self._rows: list[Row] = []
        self._keys: set[tuple[str, str]] = set()
        self._open: dict[str, Row] = {}
        self._pending: list[Entry] = []
        self._checkpoints = MemoryCheckpoints(self._rows)
        self._refused: BadEntry | None = None
        """The error of an appended entry that could not become a record; the next flush raises it."""
        self._digest_key = secrets.token_bytes(32)
        self._signer: PublicKey | None = None
        lifecycle.record = self._record

    def append(self, entry: Entry) -> None:
        self._lifecycle.check()
        self._pending.append(entry)

    async def commit(self, entry: Entry) -> None:
        self.settle()
        self._extend(columns_of(entry))

    async def flush(self) -> None:
        self.settle()
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    async def query(self, query: AuditQuery) -> Page[Record, int]:
        self.settle()
        filters = filters_of(query, (*FILTERS, "org"))
        if query.org == "":
            filters["org"] = None
        since, until = query.since or "", query.until or "~"
        end = len(self._rows) if query.before is None else max(0, query.before - self._checkpoints.since)
        records: list[Record] = []
        part, searched, searched_from = ascii_lower(query.text or ""), Counter[str](), None
        for row in reversed(self._rows[:end]):
            if row["phase"] not in query.phases or not since <= row["time"] < until:
                continue
            if query.text is not None and (query.org is None or row["org"] == (query.org or None)):
                searched[row["phase"]] += 1
                if searched[row["phase"]] > MAX_SEARCHED:
                    searched_from = row["seq"] + 1
                    break
            has_text = query.text is None or any(part in ascii_lower(row[name] or "") for name in SEARCHED)
            if has_text and filters.items() <= row.items():
                records.append(Record(**row))
                if len(records) > query.limit:
                    break
        items, has_more = page_of(records, query.limit, query.max_bytes)
        return Page(items, items[-1].seq if has_more else searched_from)

    async def measure(
        self, query: AuditQuery, *, max_examined: int = MAX_EXAMINED, max_counted: int = MAX_COUNTED
    ) -> Measured:
        self.settle()
        filters = filters_of(query, [name for name in FILTERS if name != "act"])
        since, until = query.since or "", query.until or "~"
        before = (row for row in reversed(self._rows) if row["phase"] == "outcome" and row["time"] < until)
        of_org = (row for row in before if query.org is None or row["org"] == (query.org or None))
        newest = list(islice(of_org, max_examined + 1))
        fitting = [row for row in newest[:max_examined] if row["time"] >= since and filters.items() <= row.items()]
        calls = [MeasuredCall(*(row[name] for name in MeasuredCall._fields)) for row in fitting[:max_counted]]
        if len(fitting) > max_counted:
            return Measured(calls, calls[-1].time)
        is_cut = len(newest) > max_examined and newest[max_examined - 1]["time"] > since
        return Measured(calls, newest[max_examined - 1]["time"] if is_cut else None)

    async def attempts(self, org: str | None, correlation: str) -> Sequence[Attempt]:
        self.settle()
        by_id: dict[str, Attempt] = {}
        for row in self._rows:
            if (row["org"], row["correlation"]) == (org, correlation) and row["phase"] != "act":
                by_id[row["id"]] = Attempt(row["id"], row["causation"], row["outcome"])
        return list(by_id.values())

    async def span(self, *, since: str | None = None, until: str | None = None) -> tuple[int, int] | None:
        check_times(since, until)
        self.settle()
        first = next((row["seq"] for row in self._rows if since is None or row["time"] >= since), 0)
        last = next((row["seq"] for row in reversed(self._rows) if until is None or row["time"] < until), 0)
        return (first, last) if 0 < first <= last else None

    async def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        self.settle()
        start = max(0, after + 1 - self._checkpoints.since)
        return [Record(**row) for row in self._rows[start : start + limit]]

    async def verify(
        self, keys: Sequence[PublicKey | TrustedKey] = (), external: Sequence[Checkpoint] = ()
    ) -> Verification:
        self.settle()
        return verify(self._rows, self._checkpoints.rows(), since=self._checkpoints.since, keys=keys, external=external)

    async def verify_part(
        self, after: int | None, previous: str | None, *, limit: int, own_key: PublicKey | None = None
    ) -> VerifiedPart:
        self.settle()
        return self._checkpoints.verify_part(after, previous, limit, own_key)

    async def checkpoint(self, key: CheckpointKey, *, now: str) -> Checkpoint | None:
        await self.flush()
        return self._checkpoints.put(key, now)

    async def checkpoints(self, *, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        self._lifecycle.check()
        return [checkpoint for checkpoint in self._checkpoints.all if checkpoint.number > after][:limit]

    async def prune(
        self, before: str, key: CheckpointKey, *, now: str, act: Callable[[Pruned], Entry] | None = None
    ) -> Pruned:
        check_times(before)
        self.settle()
        removed = self._checkpoints.prune(before, key, now, [row["seq"] for row in self._open.values()])
        self._keys.difference_update((row["id"], row["phase"]) for row in removed)
        pruned = Pruned(len(removed), self._checkpoints.since)
        if removed:
            self._lineage.prune(before, named_hashes(self._rows))
            self._record(None if act is None else act(pruned))
        return pruned

    async def signer(self) -> PublicKey | None:
        self._lifecycle.check()
        return self._signer

    async def adopt(self, key: PublicKey, *, replacing: str | None, act: Entry) -> bool:
        self._lifecycle.check()
        newest = self._checkpoints.all[-1].key if self._checkpoints.all else None
        if not may_adopt(key, self._signer, newest, replacing, self._checkpoints.retired):
            return False
        self._record(act)
        if replacing is not None:
            self._checkpoints.retired.append(replacing)
        self._signer = key
        return True

    async def digest_key(self) -> bytes:
        self._lifecycle.check()
        return self._digest_key

    def _record(self, act: Entry | None) -> None:
        if act is not None:
            self.settle()
            self._extend(columns_of(act))

    def close_interrupted(self) -> None:
        """Close every open intent with the outcome ``interrupted``."""
        now = iso(time.time_ns())
        for intent in list(self._open.values()):
            self._extend(interrupted_outcome(intent, now))

    def settle(self) -> None:
        """Record the appended entries. Raises ``StoreError`` if the store is not open."""
        self._lifecycle.check()
        pending, self._pending = self._pending, []
        for entry in pending:
            try:
                self._extend(columns_of(entry))
            except BadEntry as error:
                self._refused = error
                _log.error("an audit entry could not be recorded: %s", error.message)

    def _extend(self, row: Row) -> None:
        writer = self._lifecycle.check()
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
