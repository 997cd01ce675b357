"""Checkpoints: signed statements of the chain's progress, each following the previous one (spec 4, G21).

Anyone who can write the database can truncate the chain, or recompute it from some record on, and every hash is
valid again. Checkpoints reveal this to anyone with the public key. The newest one also states the first record of
the log, so that records cut by retention can be distinguished from removed ones.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from capset.fingerprint.canonical import NotCanonical, canonical, digest
from capset.fingerprint.signatures import CheckpointKey, PublicKey

GENESIS: Final = "0" * 64
"""The ``previous`` of the first link of a chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A signed statement: at ``time`` (ISO 8601 UTC) the log ran from record ``since`` to ``seq``, which had ``hash``.

    ``number`` counts checkpoints from 1, ``previous`` is the SHA-256 of the previous one. ``key`` is the id of the key,
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
    """A verification failed: the message gives the problem, ``seq`` the first affected record."""

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
    """Return the ``previous`` of the next checkpoint."""
    return digest(asdict(checkpoint))


def checkpoint_of(row: Mapping[str, Any]) -> Checkpoint:
    """Return a row, by column name, as a checkpoint. Raises ``Unsound`` for invalid columns."""
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
    """Return the checkpoints in JSON lines, as written by ``capset audit``. Raises ``Unsound``."""
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
    """Yield a log's own checkpoints in order, each after checking that it follows the previous one.

    ``since`` is the first record of the log. Raises ``Unsound`` at the first invalid one.
    """
    before: Checkpoint | None = None
    for row in rows:
        this = checkpoint_of(row)
        number = this.number
        if before is None:
            if number != 1 and this.seq != since - 1:  # retention also cuts those before its own
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
