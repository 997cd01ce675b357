"""The hash chain of records: every link covers its own columns and the hash of the previous link (spec 4, G20–G22)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, cast

from pydantic_core import to_json

from capset.definitions.calls.records import COLUMNS, NUMBERS
from capset.fingerprint.canonical import MAX_EXACT, NotCanonical, digest
from capset.fingerprint.checkpoints import (
    GENESIS,
    Checkpoint,
    PublicKey,
    TrustedKey,
    Unsound,
    check_follows,
    check_signature,
    sound,
    successor_of,
)

__all__ = ["GENESIS", "Verification", "VerifiedPart", "link_payload", "seal", "verify", "verify_part"]

_SORTED: Final = tuple(sorted({*COLUMNS, "kind"} - {"hash"}))
_texts: Final = itemgetter(*(name for name in COLUMNS if name not in NUMBERS and name != "hash"))
_numbers: Final = itemgetter(*sorted(NUMBERS))
_TEXT: Final = {str, type(None)}


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of ``verify``: how many links are valid, and the ``seq`` of the first invalid one.

    ``since`` is the first record present; all earlier ones were pruned, or are not in the file. ``covered`` is the last
    record covered by a checkpoint whose signature was checked; ``None`` if no key was given. ``keys`` are the given
    keys and their successors, each with the records for which it is trusted.
    """

    checked: int
    problem: str | None = None
    seq: int | None = None
    since: int = 1
    covered: int | None = None
    keys: tuple[TrustedKey, ...] = ()
    ok: bool = field(init=False)
    """Whether every link is valid."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", self.problem is None)


@dataclass(frozen=True, slots=True)
class VerifiedPart:
    """The result of ``verify_part``: the verification, the hash of the last valid link, and whether the log ends there.

    ``checkpoints`` are those over the part's links, all of which agree with them.
    """

    found: Verification
    hash: str
    is_end: bool
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def last(self) -> int:
        """The ``seq`` of the last valid link, or of the one before the part."""
        return self.found.since + self.found.checked - 1


def link_payload(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a link's hash: every column that is not null, except ``hash``.

    A column may have any value here, since tampered rows are read too.
    """
    payload = {name: value for name, value in columns.items() if value is not None and name != "hash"}
    payload["kind"] = "record"
    return payload


def seal(columns: dict[str, Any]) -> dict[str, Any]:
    """Add the ``hash`` to a record's columns, which include ``seq``, ``writer`` and ``previous``; return them.

    Raises ``NotCanonical`` for text with a lone surrogate.
    """
    data = _flat(columns)
    columns["hash"] = digest(link_payload(columns)) if data is None else hashlib.sha256(data).hexdigest()
    return columns


def _flat(columns: Mapping[str, Any]) -> bytes | None:
    """Return the canonical bytes of a link's hash input, or ``None`` if only ``canonical`` can write them.

    A record is flat and its columns are known, so their names need not be sorted every time. For texts and exact
    integers, pydantic's output follows RFC 8785.
    """
    if len(columns) - ("hash" in columns) != len(_SORTED) - 1:  # without the "kind"
        return None
    try:
        if not _TEXT.issuperset(map(type, _texts(columns))):
            return None
        for number in _numbers(columns):
            if number is not None and (type(number) is not int or abs(number) > MAX_EXACT):
                return None
        values = {**columns, "kind": "record"}
        return to_json({name: value for name in _SORTED if (value := values[name]) is not None})
    except (KeyError, ValueError):  # such as a lone surrogate
        return None


def verify(
    rows: Iterable[Mapping[str, Any]],
    checkpoints: Iterable[Mapping[str, Any]] | None = None,
    *,
    since: int = 1,
    previous: str | None = None,
    keys: Sequence[PublicKey | TrustedKey] = (),
    kept: Sequence[Checkpoint] = (),
) -> Verification:
    """Verify a chain from its first link, in ``seq`` order, up to the first invalid one.

    Detects changed columns and removed, inserted or reordered records; with checkpoints, also a truncated tail and a
    recomputed chain. ``checkpoints`` are the log's own, ordered by number, or ``None`` if they are not available.
    ``kept`` are those stored elsewhere; the log must have its own checkpoints up to the newest of them. With ``keys``,
    all signatures are checked, and there must be at least one checkpoint. If a record says that a trusted key hands
    over to a successor, and that key has signed the statement, the successor is trusted from there on, and the old key
    no longer. A log that begins with a later record, ``since``, needs the hash of the record before it: as
    ``previous``, or from a checkpoint.
    """
    walk = _Walk(since, previous or (GENESIS if since == 1 else None), keys)
    newest = 0

    def read_checkpoints() -> Iterator[Checkpoint]:
        nonlocal newest
        for mark in sound(checkpoints or (), since):
            newest = mark.number
            yield mark

    try:
        if kept and max(map(_seq, kept)) < since - 1:
            raise Unsound(f"no checkpoint stored elsewhere covers record {since} or a later one", since)
        walk.along(rows, merge(read_checkpoints(), sorted(kept, key=_seq), key=_seq))
        if walk.covered is None and (keys or kept):
            raise Unsound("there is no checkpoint over any of the records", since)
        if checkpoints is not None and kept and newest < (last := max(checkpoint.number for checkpoint in kept)):
            lost = f"checkpoint {last} is" if last == newest + 1 else f"checkpoints {newest + 1}–{last} are"
            raise Unsound(f"{lost} missing from the log, but stored elsewhere")
    except Unsound as error:
        seq = walk.seq + 1 if error.seq is None else error.seq
        return Verification(walk.seq - since + 1, str(error), seq, since)
    covered = walk.covered if keys else None
    return Verification(walk.seq - since + 1, since=since, covered=covered, keys=walk.keys)


def verify_part(
    rows: Iterable[Mapping[str, Any]],
    checkpoints: Sequence[Checkpoint],
    *,
    since: int,
    previous: str,
    is_end: bool,
    own: PublicKey | None = None,
) -> VerifiedPart:
    """Verify a part of a chain from the link ``since``, which follows a link with the hash ``previous``.

    ``checkpoints`` are the log's own over these links, ordered by number and preceded by the one before them, if there
    is one; at the end of the log, they include all that follow. Only signatures of the key ``own`` are checked, and
    ``covered`` is the last record that one of them covers. Other checkpoints may be signed with other keys.
    """
    walk = _Walk(since, previous, ())
    marks = [checkpoint for checkpoint in checkpoints if checkpoint.seq >= since - 1]
    seq: int | None = None
    problem: str | None = None
    try:
        for before, this in pairwise(checkpoints):
            check_follows(before, this)
        signed = [mark for mark in marks if own is not None and mark.key == own.id]
        for mark in signed:
            check_signature(mark, [] if own is None else [TrustedKey(own)])
        walk.along(rows, iter(marks))
    except Unsound as error:
        seq, problem, signed = walk.seq + 1 if error.seq is None else error.seq, str(error), []
    covered = max((mark.seq for mark in signed), default=None)
    verification = Verification(walk.seq - since + 1, problem, seq, since, covered)
    passed = tuple(marks) if problem is None else ()
    return VerifiedPart(verification, walk.hash or previous, is_end, passed)


class _Walk:
    """The progress of a verification: ``seq`` and ``hash`` of the last valid link, and the last covered record."""

    def __init__(self, since: int, previous: str | None, keys: Sequence[PublicKey | TrustedKey]) -> None:
        self.seq = self._start = since - 1
        self.covered: int | None = None
        self.keys = tuple([key if isinstance(key, TrustedKey) else TrustedKey(key) for key in keys])
        self._hash = previous
        self._mark: Checkpoint | None = None

    @property
    def hash(self) -> str | None:
        """The hash of the last valid link."""
        return self._hash

    def along(self, rows: Iterable[Mapping[str, Any]], marks: Iterable[Checkpoint]) -> None:
        """Verify every row, and compare the chain with each checkpoint. Raises ``Unsound``."""
        following = iter(marks)
        self._mark = next(following, None)
        while self._mark is not None and self._mark.seq < self._start:  # for pruned records
            check_signature(self._mark, self.keys)
            self._mark = next(following, None)
        self._compare(following)
        if self._hash is None:
            raise Unsound(f"record 1 is missing: no checkpoint says that the log begins with {self._start + 1}")
        for row in rows:
            self._hash = _checked(row, self._hash, self.seq + 1)
            self.seq += 1
            if row["act"] == "checkpoint_key.succeed" and self.keys:
                self._follow(row["arguments"])
            if self._mark is not None:
                self._compare(following)
        if (pending := self._mark) is not None:
            missing = (
                f"record {pending.seq} is"
                if pending.seq == self.seq + 1
                else f"records {self.seq + 1}–{pending.seq} are"
            )
            raise Unsound(f"{missing} missing at the end: checkpoint {pending.number} covers more", self.seq + 1)

    def _follow(self, arguments: object) -> None:
        """Trust a successor key from this record on, and the old key only up to here, if the old key signed that.

        A successor that the caller already trusts needs no signature; the old key may have been lost.
        """
        try:
            data = json.loads(arguments) if isinstance(arguments, str) else None
        except (ValueError, RecursionError):
            return  # a record by another program: its hash is valid, but it names no key
        if not isinstance(data, dict):
            return
        statement = cast("dict[str, Any]", data)
        trusted = {trusted_key.key.id: trusted_key.key for trusted_key in self.keys if trusted_key.covers(self.seq)}
        before = next((key for key in trusted.values() if key.id == statement.get("before")), None)
        if before is None:
            return
        successor = successor_of(statement, before)
        is_known = any(key.id == statement.get("id") and key is not before for key in trusted.values())
        if successor is None and not is_known:
            return
        self.keys = tuple(
            [
                replace(trusted_key, until=self.seq) if trusted_key.key.id == before.id else trusted_key
                for trusted_key in self.keys
            ]
        )
        if successor is not None and not is_known:
            self.keys += (TrustedKey(successor, self.seq),)

    def _compare(self, following: Iterable[Checkpoint]) -> None:
        while (mark := self._mark) is not None and mark.seq == self.seq:
            check_signature(mark, self.keys)
            if self._hash is None:
                self._hash = mark.hash
            if mark.hash != self._hash:
                self.seq = self._start if self.covered is None else self.covered
                raise Unsound(
                    f"record {mark.seq} is not the one of checkpoint {mark.number}: "
                    f"the chain was recomputed from some record after {self.seq} on"
                )
            self.covered = mark.seq
            self._mark = next(iter(following), None)


def _seq(checkpoint: Checkpoint) -> int:
    return checkpoint.seq


def _checked(row: Mapping[str, Any], previous: str, expected: int) -> str:
    """Return a link's hash. Raises ``Unsound`` unless it is the expected link and its hash matches its columns."""
    seq = row["seq"]
    where = seq if isinstance(seq, int) else expected
    if seq != expected:
        raise Unsound(f"record {expected} is missing; found {seq!r} in its place", where)
    if row["previous"] != previous:
        raise Unsound(f"record {expected} does not follow the one before it: its 'previous' is another hash", where)
    try:
        actual = digest(link_payload({name: row[name] for name in COLUMNS}))
    except NotCanonical as error:
        raise Unsound(f"record {expected} holds what no record can hold: {error}", where) from None
    if row["hash"] != actual:
        raise Unsound(f"record {expected} was changed: its columns do not match its hash", where)
    return actual
