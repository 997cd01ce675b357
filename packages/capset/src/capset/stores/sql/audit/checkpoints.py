"""The checkpoints of the audit log: reading and making them, and pruning the log at one."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict
from typing import Any, Final, cast

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, func, insert, select

from capset.errors import StoreError
from capset.fingerprint.chain import GENESIS, verify
from capset.fingerprint.checkpoints import (
    CHECKPOINT_COLUMNS,
    Checkpoint,
    CheckpointKey,
    VerificationError,
    checkpoint_of,
    sign_checkpoint,
)
from capset.stores.audit_rules import check_may_sign, check_newest, check_sound, next_checkpoint, no_checkpoint_error
from capset.stores.base import Pruned
from capset.stores.sql.audit.records import head, raw_records, raw_rows, undecodable_as_bytes
from capset.stores.sql.lineage_retention import prune_links
from capset.stores.sql.schema.tables import checkpoints, open_intents, records, settings

SIGNER: Final = "checkpoint_key"
"""The name of the setting that holds the public half of the signing key."""
_RETIRED: Final = "retired_checkpoint_keys"
"""The name of the setting that holds the ids of replaced keys, as a JSON list."""
_NAMES: Final = ", ".join(CHECKPOINT_COLUMNS)


def raw_checkpoints(connection: Connection) -> Generator[dict[str, Any]]:  # of any type, if they were tampered with
    """Yield all checkpoints as stored, by column name. Call it within ``undecodable_as_bytes``."""
    for values in raw_rows(connection, f"SELECT {_NAMES} FROM checkpoints ORDER BY number"):  # noqa: S608 - own names
        yield dict(zip(CHECKPOINT_COLUMNS, values, strict=True))


def first_seq(connection: Connection) -> int:
    """Return the log's first ``seq``, as stated by the newest checkpoint. Call it within ``undecodable_as_bytes``."""
    row = connection.exec_driver_sql(
        "SELECT since FROM checkpoints WHERE number = (SELECT max(number) FROM checkpoints)"
    ).first()
    return row.since if row is not None and type(row.since) is int and row.since > 0 else 1


def list_checkpoints(connection: Connection, after: int, limit: int) -> list[Checkpoint]:
    """Return checkpoints in order. Raises ``StoreError`` if one is corrupt."""
    statement = select_checkpoints().where(checkpoints.c.number > after).order_by(checkpoints.c.number).limit(limit)
    with undecodable_as_bytes(connection):
        rows = connection.execute(statement).mappings().all()
    return [checkpoint_in(row) for row in rows]


def put_checkpoint(connection: Connection, key: CheckpointKey, now: str) -> Checkpoint | None:
    """Sign the log's head, unless this key has already signed it, and return the newest checkpoint.

    Raises ``Conflict`` if the key was replaced.
    """
    check_may_sign(key, retired_keys(connection))
    newest = newest_checkpoint(connection)
    if newest is not None:
        check_newest(newest, key, lambda seq: hash_at(connection, seq))
    checkpoint = next_checkpoint(newest, head(connection), key, now)
    if checkpoint is None:
        return newest
    connection.execute(insert(checkpoints).values(asdict(checkpoint)))
    return checkpoint


def find_anchor(connection: Connection, before: str, key: CheckpointKey) -> Checkpoint | None:
    """Return the checkpoint to prune at, or ``None`` if no record is old enough. Raises as ``AuditLog.prune`` does."""
    since = first_seq(connection)
    first_newer = select(records.c.seq).where(records.c.time >= before).order_by(records.c.seq).limit(1)
    stops = [
        connection.execute(first_newer).scalar(),
        connection.execute(select(func.min(open_intents.c.seq))).scalar(),
        head(connection)[0] + 1,
    ]
    stop = min(candidate for candidate in stops if candidate is not None)
    if stop <= since:
        return None
    of_key = checkpoints.c.key == key.public.id
    anchor = newest_checkpoint(connection, of_key, checkpoints.c.seq < stop, checkpoints.c.seq >= since)
    if anchor is None:
        raise no_checkpoint_error(before)
    previous = GENESIS if since == 1 else sealed_hash(connection, since - 1)
    with (
        undecodable_as_bytes(connection),
        closing(raw_records(connection, f"WHERE seq <= {anchor.seq} ORDER BY seq")) as rows,
    ):
        verification = verify(rows, since=since, previous=previous, keys=[key.public], external=[anchor])
    check_sound(verification)
    return anchor


def prune_at(connection: Connection, anchor: Checkpoint, key: CheckpointKey, now: str, before: str) -> Pruned | None:
    """Prune the log at a checkpoint, sign its new start, and remove the links from ``before``.

    Returns ``None`` if another process was faster.
    """
    check_may_sign(key, retired_keys(connection))
    newest = newest_checkpoint(connection)
    if newest is None or newest.since > anchor.seq:
        return None
    if hash_at(connection, anchor.seq) != anchor.hash:
        raise StoreError("nothing was pruned: the audit log was changed", hint="capset audit verify says more")
    check_newest(newest, key, lambda seq: hash_at(connection, seq))
    last = head(connection)
    start = sign_checkpoint(key, newest, seq=last[0], hash=last[1], since=anchor.seq + 1, now=now)
    removed = connection.execute(delete(records).where(records.c.seq <= anchor.seq)).rowcount
    connection.execute(delete(checkpoints).where(checkpoints.c.number < anchor.number))
    connection.execute(insert(checkpoints).values(asdict(start)))
    prune_links(connection, before)
    return Pruned(removed, start.since)


def retired_keys(connection: Connection) -> list[str]:
    """Return the ids of replaced keys. Raises ``StoreError`` if the setting is damaged."""
    text = connection.execute(select(settings.c.value).where(settings.c.name == _RETIRED)).scalar()
    try:
        ids: object = json.loads(text or "[]")
    except (TypeError, ValueError):
        ids = None
    if not isinstance(ids, list):
        raise StoreError("the list of replaced signing keys is damaged", hint="restore a backup")
    return [str(key_id) for key_id in cast("list[object]", ids)]


def retire_key(connection: Connection, id: str) -> None:
    """Record that a key was replaced."""
    ids = [*retired_keys(connection), id]
    connection.execute(delete(settings).where(settings.c.name == _RETIRED))
    connection.execute(insert(settings).values(name=_RETIRED, value=json.dumps(ids)))


def select_checkpoints() -> Select[Any]:
    """Return the query for all columns of checkpoints, in their order."""
    return select(*(checkpoints.c[name] for name in CHECKPOINT_COLUMNS))


def newest_checkpoint(connection: Connection, *conditions: ColumnElement[bool]) -> Checkpoint | None:
    """Return the newest checkpoint that meets the conditions, or ``None``. Raises ``StoreError`` if it is corrupt."""
    statement = select_checkpoints().where(*conditions).order_by(checkpoints.c.number.desc()).limit(1)
    with undecodable_as_bytes(connection):
        row = connection.execute(statement).mappings().first()
    return None if row is None else checkpoint_in(row)


def checkpoint_in(row: RowMapping) -> Checkpoint:
    """Convert a row to a checkpoint. Raises ``StoreError`` if it is corrupt."""
    try:
        return checkpoint_of({name: row[name] for name in CHECKPOINT_COLUMNS})
    except VerificationError as error:
        raise StoreError(str(error), hint="capset audit verify says more") from None


def hash_at(connection: Connection, seq: int) -> str | None:
    """Return the stored hash of a record, or ``None`` if there is no such record."""
    return connection.execute(select(records.c.hash).where(records.c.seq == seq)).scalar()


def sealed_hash(connection: Connection, seq: int) -> str | None:
    """Return the hash that a checkpoint states for a record, even a pruned one, or ``None``."""
    statement = select(checkpoints.c.hash).where(checkpoints.c.seq == seq).limit(1)
    return connection.execute(statement).scalar()
