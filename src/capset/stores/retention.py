"""The rules of signing and pruning the log, shared by all stores (spec 4, G21)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from capset.errors import Conflict, StoreError
from capset.fingerprint.chain import Verification
from capset.fingerprint.checkpoints import Checkpoint, Unsound, check_signature, signed
from capset.fingerprint.signatures import CheckpointKey

HINT: Final = "capset audit verify --key FILE says where"


def check_newest(newest: Checkpoint, key: CheckpointKey, hash_at: Callable[[int], str | None]) -> None:
    """Raise ``StoreError`` if the log does not match its newest checkpoint.

    A new signature must never contradict an earlier one. ``hash_at`` gives the hash of a record by its ``seq``.
    """
    if newest.key == key.public.id:
        try:
            check_signature(newest, [key.public])
        except Unsound as error:
            raise StoreError(f"no checkpoint was made: {error}", hint=HINT) from None
    if newest.seq >= newest.since and hash_at(newest.seq) != newest.hash:
        raise StoreError(
            f"no checkpoint was made: record {newest.seq} is not the one of checkpoint {newest.number}", hint=HINT
        )


def following(newest: Checkpoint | None, head: tuple[int, str], key: CheckpointKey, now: str) -> Checkpoint | None:
    """Return the checkpoint over a log's last record, its ``head``, or ``None`` if this key signed that already."""
    if newest is None:
        return signed(key, None, seq=head[0], hash=head[1], since=1, now=now) if head[0] else None
    if head == (newest.seq, newest.hash) and newest.key == key.public.id:
        return None
    return signed(key, newest, seq=head[0], hash=head[1], since=newest.since, now=now)


def no_anchor(before: str) -> Conflict:
    """Return the error for a log with old records but no checkpoint to cut them at."""
    return Conflict(
        f"nothing was pruned: no checkpoint of this key covers records from before {before} and none after it",
        hint="one that is made today serves once all that it covers is old enough: capset audit checkpoint",
    )


def check_sound(found: Verification) -> None:
    """Raise ``Conflict`` if the verification of the records to cut found a problem: they are evidence, and stay."""
    if found.problem is not None:
        raise Conflict(f"nothing was pruned: what would be cut is not sound: {found.problem}", hint=HINT)
