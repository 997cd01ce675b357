"""Checkpoints: signed words on how far the chain of records had come, each after the one before (spec 4, G21).

Whoever can write the database can cut the chain's tail off, or compute it anew from some record on; every hash holds
again. A checkpoint shows that, to whoever has the public key. The newest one also says with which record the log
begins, so that what retention has cut is told from what somebody removed.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from capset.fingerprint.canonical import NotCanonical, canonical, digest
from capset.fingerprint.signatures import CheckpointKey, PublicKey

GENESIS: Final = "0" * 64
"""What the first link of a chain has as its ``previous``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What was signed: at ``time`` (ISO 8601 UTC) the log went from record ``since`` to ``seq``, which had ``hash``.

    ``number`` counts checkpoints from 1, ``previous`` is the SHA-256 of the one before. ``key`` is the id of the key,
    ``signature`` its Ed25519 signature, in base64, of the canonical bytes of all other columns.
    """

    number: int
    seq: int
    hash: str
    since: int
    time: str
    previous: str
    key: str
    signature: str


CHECKPOINT_COLUMNS: Final = tuple(Checkpoint.__slots__)
"""Every column's name, in order."""
_NUMBERS: Final = frozenset({"number", "seq", "since"})


class Unsound(ValueError):
    """Something does not hold: the message says what, ``seq`` from which record on."""

    def __init__(self, problem: str, seq: int | None = None) -> None:
        super().__init__(problem)
        self.seq = seq


def signed(key: CheckpointKey, before: Checkpoint | None, *, seq: int, hash: str, since: int, now: str) -> Checkpoint:
    """Return the checkpoint that follows ``before``."""
    columns: dict[str, Any] = {
        "number": before.number + 1 if before else 1,
        "seq": seq,
        "hash": hash,
        "since": since,
        "time": now,
        "previous": digest_of(before) if before else GENESIS,
        "key": key.public.id,
    }
    return Checkpoint(**columns, signature=key.sign(_signed_bytes(columns)))


def digest_of(checkpoint: Checkpoint) -> str:
    """Return what the next checkpoint has as its ``previous``."""
    return digest(asdict(checkpoint))


def checkpoint_of(row: Mapping[str, Any]) -> Checkpoint:
    """Return a row, by column name, as a checkpoint. Raises ``Unsound`` for what none can hold."""
    for name in CHECKPOINT_COLUMNS:
        if type(row.get(name)) is not (int if name in _NUMBERS else str):
            raise Unsound(f"checkpoint {row.get('number')!r} holds what none can hold: its {name!r}")
    checkpoint = Checkpoint(**{name: row[name] for name in CHECKPOINT_COLUMNS})
    try:
        digest_of(checkpoint)
    except NotCanonical as error:
        raise Unsound(f"checkpoint {checkpoint.number} holds what none can hold: {error}") from None
    return checkpoint


def checkpoints_in(text: str) -> list[Checkpoint]:
    """Return the checkpoints of JSON text, an object a line, as ``capset audit`` gives them. Raises ``Unsound``."""
    found: list[Checkpoint] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            data: Any = json.loads(line)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise Unsound("a checkpoint is a JSON object, each on a line of its own")
        found.append(checkpoint_of(cast("Mapping[str, Any]", data)))
    return found


def check_signature(checkpoint: Checkpoint, keys: Sequence[PublicKey]) -> None:
    """Raise ``Unsound`` unless one of the keys, if there are any, has signed it."""
    if not keys:
        return
    known = [key for key in keys if key.id == checkpoint.key]
    if not known:
        raise Unsound(f"checkpoint {checkpoint.number} is signed by another key: {checkpoint.key[:16]!r}")
    columns = asdict(checkpoint)
    del columns["signature"]
    if not known[0].holds(checkpoint.signature, _signed_bytes(columns)):
        raise Unsound(f"checkpoint {checkpoint.number} was changed: its signature does not hold")


def sound(rows: Iterable[Mapping[str, Any]], keys: Sequence[PublicKey], since: int) -> Generator[Checkpoint]:
    """Yield a log's own checkpoints in order, each once it is known to follow the one before.

    ``since`` is the record that the log begins with. Raises ``Unsound`` at the first that does not hold.
    """
    before: Checkpoint | None = None
    for row in rows:
        this = checkpoint_of(row)
        number = this.number
        if before is None:
            if number != 1 and this.seq != since - 1:  # those before the one that retention cut at are cut with it
                raise Unsound(f"checkpoint 1 is missing; found {number} in its place")
            if number == 1 and this.previous != GENESIS:
                raise Unsound("checkpoint 1 does not begin a chain: its 'previous' is a hash")
        elif number != before.number + 1:
            raise Unsound(f"checkpoint {before.number + 1} is missing; found {number} in its place")
        elif this.previous != digest_of(before):
            raise Unsound(f"checkpoint {number} does not follow the one before it: its 'previous' is another hash")
        elif this.seq < before.seq or this.since < before.since:
            raise Unsound(f"checkpoint {number} goes back behind the one before it")
        check_signature(this, keys)
        yield this
        before = this


def _signed_bytes(columns: Mapping[str, Any]) -> bytes:
    return canonical({**columns, "kind": "checkpoint"})
