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
    VerificationError,
    check_follows,
    check_signature,
    checked_checkpoints,
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

    verification: Verification
    hash: str
    is_end: bool
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def last(self) -> int:
        """The ``seq`` of the last valid link, or of the one before the part."""
        return self.verification.since + self.verification.checked - 1


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
    external: Sequence[Checkpoint] = (),
) -> Verification:
    """Verify a chain from its first link, in ``seq`` order, up to the first invalid one.

    Detects changed columns and removed, inserted or reordered records; with checkpoints, also a truncated tail and a
    recomputed chain. ``checkpoints`` are the log's own, ordered by number, or ``None`` if they are not available.
    ``external`` are those stored elsewhere; the log must have its own checkpoints up to the newest of them. With
    ``keys``, all signatures are checked, and there must be at least one checkpoint. If a record says that a trusted key
    hands over to a successor, and that key has signed the statement, the successor is trusted from there on, and the
    old key no longer. A log that begins with a later record, ``since``, needs the hash of the record before it: as
    ``previous``, or from a checkpoint.
    """
    verifier = _ChainVerifier(since, previous or (GENESIS if since == 1 else None), keys)
    newest = 0

    def read_checkpoints() -> Iterator[Checkpoint]:
        nonlocal newest
        for checkpoint in checked_checkpoints(checkpoints or (), since):
            newest = checkpoint.number
            yield checkpoint

    try:
        if external and max(map(_seq, external)) < since - 1:
            raise VerificationError(f"no checkpoint stored elsewhere covers record {since} or a later one", since)
        verifier.verify(rows, merge(read_checkpoints(), sorted(external, key=_seq), key=_seq))
        if verifier.covered is None and (keys or external):
            raise VerificationError("there is no checkpoint over any of the records", since)
        last = max((checkpoint.number for checkpoint in external), default=0)
        if checkpoints is not None and newest < last:
            lost = f"checkpoint {last} is" if last == newest + 1 else f"checkpoints {newest + 1}–{last} are"
            raise VerificationError(f"{lost} missing from the log, but stored elsewhere")
    except VerificationError as error:
        seq = verifier.seq + 1 if error.seq is None else error.seq
        return Verification(verifier.seq - since + 1, str(error), seq, since)
    covered = verifier.covered if keys else None
    return Verification(verifier.seq - since + 1, since=since, covered=covered, keys=verifier.keys)


def verify_part(
    rows: Iterable[Mapping[str, Any]],
    checkpoints: Sequence[Checkpoint],
    *,
    since: int,
    previous: str,
    is_end: bool,
    own_key: PublicKey | None = None,
) -> VerifiedPart:
    """Verify a part of a chain from the link ``since``, which follows a link with the hash ``previous``.

    ``checkpoints`` are the log's own over these links, ordered by number and preceded by the one before them, if there
    is one; at the end of the log, they include all that follow. Only signatures of ``own_key`` are checked, and
    ``covered`` is the last record that one of them covers. Other checkpoints may be signed with other keys.
    """
    verifier = _ChainVerifier(since, previous, ())
    covering = [checkpoint for checkpoint in checkpoints if checkpoint.seq >= since - 1]
    seq: int | None = None
    problem: str | None = None
    try:
        for before, after in pairwise(checkpoints):
            check_follows(before, after)
        signed = [checkpoint for checkpoint in covering if own_key is not None and checkpoint.key == own_key.id]
        for checkpoint in signed:
            check_signature(checkpoint, [] if own_key is None else [TrustedKey(own_key)])
        verifier.verify(rows, iter(covering))
    except VerificationError as error:
        seq, problem, signed = verifier.seq + 1 if error.seq is None else error.seq, str(error), []
    covered = max(map(_seq, signed), default=None)
    verification = Verification(verifier.seq - since + 1, problem, seq, since, covered)
    return VerifiedPart(verification, verifier.hash or previous, is_end, tuple(covering) if problem is None else ())


class _ChainVerifier:
    """The progress of a verification: ``seq`` and ``hash`` of the last valid link, and the last covered record."""

    def __init__(self, since: int, previous: str | None, keys: Sequence[PublicKey | TrustedKey]) -> None:
        self.seq = self._start = since - 1
        self.covered: int | None = None
        self.keys = tuple([key if isinstance(key, TrustedKey) else TrustedKey(key) for key in keys])
        self.hash = previous

    def verify(self, rows: Iterable[Mapping[str, Any]], checkpoints: Iterator[Checkpoint]) -> None:
        """Verify every row, and compare the chain with each checkpoint. Raises ``VerificationError``."""
        pending = next(checkpoints, None)
        while pending is not None and pending.seq < self._start:  # for pruned records
            check_signature(pending, self.keys)
            pending = next(checkpoints, None)
        pending = self._compare(pending, checkpoints)
        if self.hash is None:
            raise VerificationError(
                f"record 1 is missing: no checkpoint says that the log begins with {self._start + 1}"
            )
        for row in rows:
            self.hash = _verified_hash(row, self.hash, self.seq + 1)
            self.seq += 1
            if row["act"] == "checkpoint_key.succeed" and self.keys:
                self._trust_successor(row["arguments"])
            if pending is not None:
                pending = self._compare(pending, checkpoints)
        if pending is not None:
            missing = (
                f"record {pending.seq} is"
                if pending.seq == self.seq + 1
                else f"records {self.seq + 1}–{pending.seq} are"
            )
            raise VerificationError(
                f"{missing} missing at the end: checkpoint {pending.number} covers more", self.seq + 1
            )

    def _trust_successor(self, arguments: object) -> None:
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

    def _compare(self, pending: Checkpoint | None, checkpoints: Iterator[Checkpoint]) -> Checkpoint | None:
        """Compare the last valid link with the checkpoints that end there, and return the next checkpoint."""
        while pending is not None and pending.seq == self.seq:
            check_signature(pending, self.keys)
            if self.hash is None:
                self.hash = pending.hash
            if pending.hash != self.hash:
                self.seq = self._start if self.covered is None else self.covered
                raise VerificationError(
                    f"record {pending.seq} is not the one of checkpoint {pending.number}: "
                    f"the chain was recomputed from some record after {self.seq} on"
                )
            self.covered = pending.seq
            pending = next(checkpoints, None)
        return pending


def _seq(checkpoint: Checkpoint) -> int:
    return checkpoint.seq


def _verified_hash(row: Mapping[str, Any], previous: str, expected: int) -> str:
    """Return a link's hash. Raises ``VerificationError`` if it is not the expected link, or was changed."""
    seq = row["seq"]
    affected = seq if isinstance(seq, int) else expected
    if seq != expected:
        raise VerificationError(f"record {expected} is missing; found {seq!r} in its place", affected)
    if row["previous"] != previous:
        raise VerificationError(
            f"record {expected} does not follow the one before it: its 'previous' is another hash", affected
        )
    try:
        actual = digest(link_payload({name: row[name] for name in COLUMNS}))
    except NotCanonical as error:
        raise VerificationError(f"record {expected} holds what no record can hold: {error}", affected) from None
    if row["hash"] != actual:
        raise VerificationError(f"record {expected} was changed: its columns do not match its hash", affected)
    return actual
