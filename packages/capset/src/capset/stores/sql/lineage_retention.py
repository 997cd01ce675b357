"""The removal of links and payloads whose time is over, in the transaction that prunes the records (spec 2, F36)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from sqlalchemy import Column, Connection, delete, select, tuple_, update

from capset.stores.retention import RECORD_HASHES, REFERRING_KINDS, hashes_in, reachable, unnamed_before
from capset.stores.sql.inserts import batches
from capset.stores.sql.schema.lineage_tables import envelopes, links, payloads, registrations, transitions
from capset.stores.sql.schema.tables import approvals, records

_NAMING: Final[tuple[Column[str], ...]] = (
    *(records.c[name] for name in RECORD_HASHES),
    *(links.c[name] for name in ("static_hash", "runtime_hash", "prompt_hash")),
    *(approvals.c[name] for name in ("tool_hash", "runtime_hash", "code_hash")),
    registrations.c.static_hash,
)
"""The columns that name the hash of a payload, beside the tools of links."""


def prune_lineage(connection: Connection, before: str) -> None:
    """Remove the links from before a time, and the payloads that nothing has named for long."""
    is_old = links.c.created_at < before
    if connection.execute(select(links.c.id).where(is_old).limit(1)).first() is not None:
        old = select(links.c.org, links.c.id).where(is_old)
        for table, name in ((transitions, "from_link"), (transitions, "to_link"), (envelopes, "link")):
            connection.execute(delete(table).where(tuple_(table.c.org, table.c[name]).in_(old)))
        connection.execute(delete(links).where(is_old))
    is_stale = payloads.c.named_at < unnamed_before(before)
    by_org: dict[str, list[str]] = {}
    for org, payload_hash in connection.execute(select(payloads.c.org, payloads.c.hash).where(is_stale)):
        by_org.setdefault(org, []).append(payload_hash)
    if not by_org:
        return
    # Only now, since this reads all records: a payload is stale if it was not used for as long as records are kept.
    named = _named_hashes(connection)
    for org, stale in by_org.items():
        _prune_payloads(connection, org, stale, _reachable(connection, org, named), before)


def _named_hashes(connection: Connection) -> set[str]:
    named: set[str] = set()
    for column in _NAMING:
        named.update(filter(None, connection.execute(select(column).distinct()).scalars()))
    return named | hashes_in(connection.execute(select(links.c.tool_refs).distinct()).scalars())


def _reachable(connection: Connection, org: str, named: Iterable[str]) -> set[str]:
    def read(hashes: list[str]) -> Iterable[str]:
        for batch in batches(hashes):
            of_batch = (payloads.c.org == org, payloads.c.hash.in_(batch), payloads.c.kind.in_(REFERRING_KINDS))
            yield from connection.execute(select(payloads.c.payload).where(*of_batch)).scalars()

    return reachable(named, read)


def _prune_payloads(
    connection: Connection, org: str, stale: Iterable[str], named: Collection[str], before: str
) -> None:
    """Delete stale payloads, except named ones, which are next examined a day later."""
    for batch in batches(sorted(stale)):
        of_org = payloads.c.org == org
        in_use = [payload_hash for payload_hash in batch if payload_hash in named]
        unused = [payload_hash for payload_hash in batch if payload_hash not in named]
        connection.execute(delete(payloads).where(of_org, payloads.c.hash.in_(unused)))
        connection.execute(update(payloads).where(of_org, payloads.c.hash.in_(in_use)).values(named_at=before))
