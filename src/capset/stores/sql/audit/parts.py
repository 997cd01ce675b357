"""Parts of the chain, verified as stored: a bounded number of links at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from sqlalchemy import Connection

from capset.errors import StoreError
from capset.fingerprint.chain import GENESIS, Verification, VerifiedPart, verify_part
from capset.fingerprint.checkpoints import Checkpoint, PublicKey
from capset.stores.audit_rules import no_link
from capset.stores.sql.audit.checkpoints import (
    checkpoint_in,
    first_seq,
    hash_at,
    newest_checkpoint,
    sealed_hash,
    select_checkpoints,
)
from capset.stores.sql.audit.records import as_they_lie, raw_records
from capset.stores.sql.schema.tables import checkpoints


def verified_part(
    connection: Connection, after: int | None, previous: str | None, limit: int, own: PublicKey | None
) -> VerifiedPart:
    """Verify a part of the chain as ``AuditLog.verify_part`` does, in the connection's current transaction."""
    with as_they_lie(connection):
        first = first_seq(connection)
        if after is None or after < first - 1:  # what was before has been pruned
            after, previous = first - 1, None
        if previous is None:
            previous = GENESIS if after == 0 else sealed_hash(connection, after) or hash_at(connection, after)
        if not isinstance(previous, str):
            return no_link(after)
        some = f"WHERE seq > {after} ORDER BY seq LIMIT {limit}"
        with closing(raw_records(connection, some)) as found:
            rows = list(found)
        is_end = len(rows) < limit
        try:
            marks = _checkpoints_over(connection, after, None if is_end else after + len(rows))
        except StoreError as error:  # what a checkpoint holds, none can hold
            return VerifiedPart(Verification(0, error.message, after + 1, after + 1), previous, is_end)
        return verify_part(rows, marks, since=after + 1, previous=previous, is_end=is_end, own=own)


def _checkpoints_over(connection: Connection, after: int, last: int | None) -> Sequence[Checkpoint]:
    """Return the checkpoints from a record to the last, by number, after the one before them, if it is there."""
    wanted = select_checkpoints().where(checkpoints.c.seq >= after).order_by(checkpoints.c.seq, checkpoints.c.number)
    if last is not None:
        wanted = wanted.where(checkpoints.c.seq <= last)
    found = [checkpoint_in(row) for row in connection.execute(wanted).mappings()]
    if found and (before := newest_checkpoint(connection, checkpoints.c.number < found[0].number)) is not None:
        found.insert(0, before)
    return found
