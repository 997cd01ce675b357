"""Rules of the audit log that all stores share: a record's columns, signing and pruning (spec 4, G21)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, Final

from capset.definitions.calls.records import COLUMNS, NUMBERS
from capset.errors import Conflict, StoreError
from capset.fingerprint.chain import GENESIS, Verification, VerifiedPart
from capset.fingerprint.checkpoints import (
    Checkpoint,
    CheckpointKey,
    PublicKey,
    TrustedKey,
    VerificationError,
    check_signature,
    sign_checkpoint,
)
from capset.stores.base import Entry

# A record's columns by name. Those of the writer are missing until the record is chained.
Row = dict[str, Any]

ENTRY_COLUMNS: Final = tuple(name for name in COLUMNS if name not in ("seq", "writer", "previous", "hash"))
"""The columns that an entry provides; the writer adds the others."""

_column_names: Final = frozenset(ENTRY_COLUMNS)
_text_values: Final = itemgetter(*(name for name in ENTRY_COLUMNS if name not in NUMBERS))
_number_values: Final = itemgetter(*(name for name in ENTRY_COLUMNS if name in NUMBERS))
_TEXT: Final = {str, type(None)}

_VERIFY_HINT: Final = "run capset audit verify --key FILE to see where"


class BadEntry(StoreError):
    """Raised for an entry that cannot become a record. It does not affect other entries."""


def columns_of(entry: Entry) -> Row:
    """Return an entry's columns. Raises ``BadEntry`` if that fails, or they are not those of a record."""
    try:
        columns = dict(entry.columns())
    except Exception as error:
        raise BadEntry("a record could not be made of its call") from error
    return check_columns(columns)


def check_columns(columns: Row) -> Row:
    """Return ``columns``. Raises ``BadEntry`` unless their names and types are exactly those of a record.

    A value of another type would be stored differently from what its hash covers.
    """
    if columns.keys() != _column_names:
        differences = ", ".join(sorted(map(str, columns.keys() ^ _column_names)))
        raise BadEntry(
            f"a record could not be made of its call: its columns are not those of a record: {differences:.200}"
        )
    if not _TEXT.issuperset(map(type, _text_values(columns))):
        raise BadEntry("a record could not be made of its call: one of its text columns is not text")
    for number in _number_values(columns):
        if number is not None and (type(number) is not int or abs(number) > 2**53):
            raise BadEntry("a record could not be made of its call: one of its numbers is not an integer, or too large")
    return columns


def interrupted_outcome(intent: Mapping[str, Any], now: str) -> Row:
    """Return the outcome record of an intent whose writer is gone. Raises ``BadEntry`` as ``check_columns`` does.

    ``intent`` has the columns of its record, ``now`` is the time of the outcome in ISO 8601 UTC.
    """
    columns = {name: intent[name] for name in ENTRY_COLUMNS}
    return check_columns(columns | {"phase": "outcome", "outcome": "interrupted", "code": "interrupted", "time": now})


def check_may_sign(key: CheckpointKey, retired: Collection[str]) -> None:
    """Raise ``Conflict`` if a key has handed over to another; ``retired`` are the ids of such keys.

    A store checks this in the signing transaction: a checkpoint that a key signs after its succession would make the
    log unverifiable.
    """
    if key.public.id in retired:
        raise Conflict(
            f"the key {key.public.id} has handed over to another, and no longer signs this log",
            hint="sign with the key that the newest act checkpoint_key.succeed names",
        )


def check_newest(newest: Checkpoint, key: CheckpointKey, hash_at: Callable[[int], str | None]) -> None:
    """Raise ``StoreError`` if the log does not match its newest checkpoint.

    A new signature must never contradict an earlier one. ``hash_at`` returns the hash of a record by its ``seq``.
    """
    if newest.key == key.public.id:
        try:
            check_signature(newest, [TrustedKey(key.public)])
        except VerificationError as error:
            raise StoreError(f"no checkpoint was made: {error}", hint=_VERIFY_HINT) from None
    if newest.seq >= newest.since and hash_at(newest.seq) != newest.hash:
        raise StoreError(
            f"no checkpoint was made: record {newest.seq} is not the one of checkpoint {newest.number}",
            hint=_VERIFY_HINT,
        )


def next_checkpoint(
    newest: Checkpoint | None, head: tuple[int, str], key: CheckpointKey, now: str
) -> Checkpoint | None:
    """Return the checkpoint over a log's last record, its ``head``, or ``None`` if this key has nothing to sign."""
    if newest is None:
        return sign_checkpoint(key, None, seq=head[0], hash=head[1], since=1, now=now) if head[0] else None
    if head == (newest.seq, newest.hash) and newest.key == key.public.id:
        return None
    return sign_checkpoint(key, newest, seq=head[0], hash=head[1], since=newest.since, now=now)


def may_adopt(
    key: PublicKey, adopted: PublicKey | None, newest: str | None, replacing: str | None, retired: Collection[str]
) -> bool:
    """Return whether a key may become the signing key of a log.

    ``newest`` is the id of the newest checkpoint's key, ``replacing`` that of the key to be succeeded, if any;
    ``retired`` are the ids of keys that have handed over, which are never used again.
    """
    if key.id == replacing or key.id in retired:
        return False  # no key succeeds itself
    return newest in (None, key.id, replacing) if adopted is None else adopted.id == replacing


def no_checkpoint_error(before: str) -> Conflict:
    """Return the error for a log that has old records, but no checkpoint at which to cut them off."""
    return Conflict(
        f"nothing was pruned: no checkpoint of this key covers records from before {before} and none after it",
        hint="run capset audit checkpoint --key FILE, and prune once all records that it covers are old enough",
    )


def check_sound(verification: Verification) -> None:
    """Raise ``Conflict`` if the verification of the records to cut off found a problem: as evidence, they stay."""
    if verification.problem is not None:
        raise Conflict(
            f"nothing was pruned: the oldest records are not sound: {verification.problem}", hint=_VERIFY_HINT
        )


def missing_link(seq: int) -> VerifiedPart:
    """Return the result of verifying a part that follows a missing record."""
    problem = f"record {seq}, which the next one follows, is missing"
    return VerifiedPart(Verification(0, problem, seq, seq + 1), GENESIS, is_end=True)
