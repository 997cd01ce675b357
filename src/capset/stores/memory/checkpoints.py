"""Checkpoints in memory, and the records that are cut at one (spec 4, G21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from capset.fingerprint.chain import GENESIS, verify
from capset.fingerprint.checkpoints import Checkpoint, signed
from capset.fingerprint.signing import CheckpointKey
from capset.stores.entries import Row
from capset.stores.retention import check_newest, check_sound, following, no_anchor


class Checkpoints:
    """The checkpoints over ``records``, which is the log's own list of rows, in order."""

    def __init__(self, records: list[Row]) -> None:
        self._records = records
        self.all: list[Checkpoint] = []

    @property
    def since(self) -> int:
        """The record that the log begins with."""
        return self.all[-1].since if self.all else 1

    def rows(self) -> Iterable[Mapping[str, Any]]:  # columns of several types
        """Return all of them, by column name."""
        return map(asdict, self.all)

    def head(self) -> tuple[int, str]:
        """Return the last record's ``seq`` and ``hash``, also if it was pruned."""
        if self._records:
            return self._records[-1]["seq"], self._records[-1]["hash"]
        return (self.all[-1].seq, self.all[-1].hash) if self.all else (0, GENESIS)

    def put(self, key: CheckpointKey, now: str) -> Checkpoint | None:
        """Sign the log's head, unless this key has signed it already; return the newest checkpoint."""
        if self.all:
            check_newest(self.all[-1], key, self._hash_at)
        made = following(self.all[-1] if self.all else None, self.head(), key, now)
        if made is not None:
            self.all.append(made)
        return self.all[-1] if self.all else None

    def cut(self, before: str, key: CheckpointKey, now: str, open_seqs: Iterable[int]) -> list[Row]:
        """Cut the log, and return the records that are gone. Raises ``Conflict`` as ``AuditLog.prune`` does."""
        since = self.since
        young = next((row["seq"] for row in self._records if row["time"] >= before), self.head()[0] + 1)
        stop = min((young, *open_seqs))
        if stop <= since:
            return []
        fits = [one for one in self.all if one.key == key.public.id and since <= one.seq < stop]
        if not fits:
            raise no_anchor(before)
        anchor = fits[-1]
        gone = self._records[: anchor.seq + 1 - since]
        previous = GENESIS if since == 1 else next(one.hash for one in self.all if one.seq == since - 1)
        check_sound(verify(gone, since=since, previous=previous, keys=[key.public], kept=[anchor]))
        check_newest(self.all[-1], key, self._hash_at)
        seq, last = self.head()
        note = signed(key, self.all[-1], seq=seq, hash=last, since=anchor.seq + 1, now=now)
        del self._records[: len(gone)]
        self.all = [one for one in self.all if one.number >= anchor.number] + [note]
        return gone

    def _hash_at(self, seq: int) -> str | None:
        place = seq - self.since
        return self._records[place]["hash"] if 0 <= place < len(self._records) else None
