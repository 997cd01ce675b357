"""The removal of links and payloads whose time is over, with and after that of the records (spec 2, F36)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, delete, select, tuple_, update

from capset.stores.retention import RECORD_HASHES, REFERRING_KINDS, hashes_in, reachable, unnamed_before
from capset.stores.sql.inserts import batches
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.lineage_tables import envelopes, links, payloads, registrations, transitions
from capset.stores.sql.schema.tables import approvals, records
from capset.stores.sql.writer.writer import Writer

_NAMING: Final[tuple[tuple[Table, tuple[str, ...]], ...]] = (
    (records, RECORD_HASHES),
    (links, ("static_hash", "runtime_hash", "prompt_hash")),
    (approvals, ("tool_hash", "runtime_hash", "code_hash")),
    (registrations, ("static_hash",)),
)
"""The columns that name the hash of a payload of their row's organisation, beside the tools of links."""


class _StalePayloads(NamedTuple):
    """Hashes of an organisation that were not stored for long, by whether something still names them."""

    org: str
    named: list[str]
    unnamed: list[str]


def prune_links(connection: Connection, before: str) -> None:
    """Remove the links from before a time, with their envelopes and transitions."""
    is_old = links.c.created_at < before
    if connection.execute(select(links.c.id).where(is_old).limit(1)).first() is not None:
        old = select(links.c.org, links.c.id).where(is_old)
        for table, name in ((transitions, "from_link"), (transitions, "to_link"), (envelopes, "link")):
            connection.execute(delete(table).where(tuple_(table.c.org, table.c[name]).in_(old)))
        connection.execute(delete(links).where(is_old))


async def prune_payloads(reader: ReadConnections, writer: Writer, before: str) -> None:
    """Remove the payloads that nothing has named for long. Named ones are next examined a day later.

    The names are read beforehand, since that reads whole tables, and all other writes would wait for it. A process that
    names a payload in between has stored it again within ``RENEWAL_SECONDS``, so the write leaves it.
    """
    limit = unnamed_before(before)
    for stale in await reader.read(lambda connection: _stale_payloads(connection, limit)):
        await writer.write(partial(_prune, stale=stale, limit=limit, before=before))


def _stale_payloads(connection: Connection, limit: str) -> list[_StalePayloads]:
    by_org: dict[str, list[str]] = {}
    is_stale = payloads.c.named_at < limit
    for org, payload_hash in connection.execute(select(payloads.c.org, payloads.c.hash).where(is_stale)):
        by_org.setdefault(org, []).append(payload_hash)
    if not by_org:
        return []
    named = _named_hashes(connection, by_org)
    stale: list[_StalePayloads] = []
    for org, hashes in by_org.items():
        in_use = _reachable(connection, org, named[org])
        stale.append(_StalePayloads(org, sorted(in_use.intersection(hashes)), sorted(set(hashes) - in_use)))
    return stale


def _named_hashes(connection: Connection, orgs: Iterable[str]) -> dict[str, set[str]]:
    named: dict[str, set[str]] = {org: set() for org in orgs}
    for table, names in _NAMING:
        for name in names:
            for org, payload_hash in connection.execute(select(table.c.org, table.c[name]).distinct()):
                if payload_hash and (org or "") in named:
                    named[org or ""].add(payload_hash)
    for org, refs in connection.execute(select(links.c.org, links.c.tool_refs).distinct()):
        if org in named:
            named[org] |= hashes_in([refs])
    return named


def _reachable(connection: Connection, org: str, named: Iterable[str]) -> set[str]:
    def read(hashes: list[str]) -> Iterable[str]:
        for batch in batches(hashes):
            of_batch = (payloads.c.org == org, payloads.c.hash.in_(batch), payloads.c.kind.in_(REFERRING_KINDS))
            yield from connection.execute(select(payloads.c.payload).where(*of_batch)).scalars()

    return reachable(named, read)


def _prune(connection: Connection, stale: _StalePayloads, limit: str, before: str) -> None:
    def still_stale(hashes: Collection[str]) -> tuple[ColumnElement[bool], ...]:
        return payloads.c.org == stale.org, payloads.c.hash.in_(hashes), payloads.c.named_at < limit

    for batch in batches(stale.unnamed):
        connection.execute(delete(payloads).where(*still_stale(batch)))
    for batch in batches(stale.named):
        connection.execute(update(payloads).where(*still_stale(batch)).values(named_at=before))
