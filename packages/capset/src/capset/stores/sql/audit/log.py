"""The audit log: written by the single writer, read in keyset pages, verified, signed and pruned (spec 4, G21)."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, text

from capset.definitions.calls.records import COLUMNS, NUMBERS, Record
from capset.errors import DefinitionError, StoreError
from capset.fingerprint.chain import GENESIS, Verification, VerifiedPart, verify, verify_part
from capset.fingerprint.checkpoints import (
    Checkpoint,
    CheckpointKey,
    PublicKey,
    TrustedKey,
)
from capset.stores.audit_rules import may_adopt, missing_link
from capset.stores.base import Attempt, AuditQuery, Entry, Page, Pruned
from capset.stores.base.audit import (
    FILTERS,
    MAX_COUNTED,
    MAX_EXAMINED,
    MAX_SEARCHED,
    SEARCHED,
    Measured,
    MeasuredCall,
    check_times,
)
from capset.stores.pages import count_fitting, filters_of, size_of
from capset.stores.sql.audit.checkpoints import (
    SIGNER,
    checkpoint_in,
    find_anchor,
    first_seq,
    hash_at,
    list_checkpoints,
    newest_checkpoint,
    prune_at,
    put_checkpoint,
    raw_checkpoints,
    retire_key,
    retired_keys,
    sealed_hash,
    select_checkpoints,
)
from capset.stores.sql.audit.records import raw_records, undecodable_as_bytes
from capset.stores.sql.audit.times import UNINDEXED_TIME, bounds_of, first_from, last_before, near_ends
from capset.stores.sql.lineage_retention import prune_payloads
from capset.stores.sql.reader import ReadConnections, contains, read_rows
from capset.stores.sql.schema.tables import FILTERS as INDEXED
from capset.stores.sql.schema.tables import IS_ACT, IS_OUTCOME, checkpoints, open_intents, records, settings
from capset.stores.sql.writer.writer import Writer

_IS_PHASE: Final = {"outcome": IS_OUTCOME, "act": IS_ACT}
"""The conditions of the partial indexes, by phase."""

_SELECTIVE: Final = ("id", "principal", "session", "correlation", "approval", "code")
"""The filters that match few records, regardless of organisation."""
_log = logging.getLogger("capset.stores")


class SqlAudit:
    """The append-only, hash-chained log of attempts."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    def append(self, entry: Entry) -> None:
        self._writer.append(entry)

    async def commit(self, entry: Entry) -> None:
        await self._writer.commit(entry)

    async def flush(self) -> None:
        await self._writer.flush()

    async def query(self, query: AuditQuery) -> Page[Record, int]:
        """Return outcomes of calls, or acts, newest first. Raises ``StoreError`` if one was tampered with."""
        statement = select(records).filter_by(**filters_of(query, FILTERS)).order_by(records.c.seq.desc())
        # Some filters match few records. SQLite must not scan all of the organisation's instead.
        org = records.c.org.concat(text("''")) if filters_of(query, _SELECTIVE) else records.c.org
        statement = statement.where(*_equals(org, query.org))
        if query.since is not None:
            statement = statement.where(query.since <= UNINDEXED_TIME)
        if query.until is not None:
            statement = statement.where(query.until > UNINDEXED_TIME)
        if query.before is not None:
            statement = statement.where(records.c.seq < query.before)
        if query.text is not None:
            statement = statement.where(or_(*[contains(records.c[name], query.text) for name in SEARCHED]))
        phases = query.phases

        def read(connection: Connection) -> Page[Record, int]:
            bounds = bounds_of(connection, query.since, query.until)
            searched_from = None
            if query.text is not None:
                searched_from = _search_start(connection, query, bounds)
                bounds = [*bounds, records.c.seq >= (searched_from or 0)]
            with undecodable_as_bytes(connection):
                # Rows are fetched at once: an error in one of them would leave SQLite's read transaction open, and the
                # next reader would see old data. Each phase has its own query, since it has its own indexes.
                pages = [
                    read_rows(connection, statement.where(_IS_PHASE[phase], *bounds), query.limit, query.max_bytes)
                    for phase in phases
                ]
            # The rows of a phase beyond its page may be newer than rows on the page of another phase.
            complete_from = max((rows[-1]["seq"] for rows, has_more in pages if has_more), default=0)
            matching = [row for rows, _ in pages for row in rows if row["seq"] >= complete_from]
            matching.sort(key=itemgetter("seq"), reverse=True)
            fitting = min(query.limit, count_fitting((size_of(row.values()) for row in matching), query.max_bytes))
            items = tuple(map(_record, matching[:fitting]))
            has_more = len(items) < sum(len(rows) for rows, _ in pages) or any(has_more for _, has_more in pages)
            return Page(items, items[-1].seq if has_more else searched_from)

        return await self._reader.read(read)

    async def measure(
        self, query: AuditQuery, *, max_examined: int = MAX_EXAMINED, max_counted: int = MAX_COUNTED
    ) -> Measured:
        return await self._reader.read(lambda connection: measured_calls(connection, query, max_examined, max_counted))

    async def attempts(self, org: str | None, correlation: str) -> Sequence[Attempt]:
        of_correlation = (records.c.correlation == correlation, *_equals(records.c.org, org or ""))
        columns = (records.c.id, records.c.causation)
        limit = 10_000  # ended calls, and as many open ones
        ended = select(*columns, records.c.outcome).where(*of_correlation, IS_OUTCOME).limit(limit)
        intended = select(*columns).join(open_intents, open_intents.c.seq == records.c.seq)
        intended = intended.where(*of_correlation).limit(limit)

        def read(connection: Connection) -> Sequence[Attempt]:
            attempts = [Attempt(*row) for row in connection.execute(ended)]
            return attempts + [Attempt(row.id, row.causation, None) for row in connection.execute(intended)]

        return await self._reader.read(read)

    async def span(self, *, since: str | None = None, until: str | None = None) -> tuple[int, int] | None:
        check_times(since, until)

        def read(connection: Connection) -> tuple[int, int] | None:
            ends = first_from(connection, since), last_before(connection, until)
            return None if ends[0] is None or ends[1] is None or ends[0] > ends[1] else (ends[0], ends[1])

        return await self._reader.read(read)

    async def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Return links in chain order. Raises ``StoreError`` if one was tampered with."""
        statement = select(records).where(records.c.seq > after).order_by(records.c.seq).limit(limit)

        def read(connection: Connection) -> list[Record]:
            with undecodable_as_bytes(connection):
                return [_record(row) for row in connection.execute(statement).mappings().all()]

        return await self._reader.read(read)

    async def verify(
        self, keys: Sequence[PublicKey | TrustedKey] = (), external: Sequence[Checkpoint] = ()
    ) -> Verification:
        return await self._reader.read(lambda connection: verify_chain(connection, keys, external))

    async def verify_part(
        self, after: int | None, previous: str | None, *, limit: int, own_key: PublicKey | None = None
    ) -> VerifiedPart:
        return await self._reader.read(
            lambda connection: verify_chain_part(connection, after, previous, limit, own_key)
        )

    async def checkpoint(self, key: CheckpointKey, *, now: str) -> Checkpoint | None:
        await self._writer.flush()  # the queue writes accepted entries before it runs the function
        return await self._writer.write(lambda connection: put_checkpoint(connection, key, now))

    async def checkpoints(self, *, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        """Return checkpoints in order. Raises ``StoreError`` if one was tampered with."""
        return await self._reader.read(lambda connection: list_checkpoints(connection, after, limit))

    async def prune(
        self, before: str, key: CheckpointKey, *, now: str, act: Callable[[Pruned], Entry] | None = None
    ) -> Pruned:
        check_times(before)
        # Both reads use one snapshot: another process may prune the log in between.
        first, anchor = await self._reader.read(
            lambda connection: (first_seq(connection), find_anchor(connection, before, key))
        )
        if anchor is None:
            return Pruned(0, first)
        entry = None if act is None else act(Pruned(anchor.seq - first + 1, anchor.seq + 1))
        pruned = await self._writer.write(lambda connection: prune_at(connection, anchor, key, now, before), entry)
        if pruned is None:
            return Pruned(0, await self._reader.read(first_seq))
        try:
            await prune_payloads(self._reader, self._writer, before)
        except StoreError as error:  # the records are gone
            _log.warning("the payloads that nothing names were not removed, the next pruning does it: %s", error)
        return pruned

    async def signer(self) -> PublicKey | None:
        """Return the key that signs this log. Raises ``StoreError`` if it was tampered with."""
        return await self._reader.read(_signer)

    async def adopt(self, key: PublicKey, *, replacing: str | None, act: Entry) -> bool:
        def write(connection: Connection) -> bool:
            newest, retired = newest_checkpoint(connection), retired_keys(connection)
            if not may_adopt(key, _signer(connection), newest and newest.key, replacing, retired):
                return False
            if replacing is not None:
                retire_key(connection, replacing)
            connection.execute(delete(settings).where(settings.c.name == SIGNER))
            connection.execute(insert(settings).values(name=SIGNER, value=key.pem()))
            return True

        return await self._writer.write(write, act)

    async def digest_key(self) -> bytes:
        statement = select(settings.c.value).where(settings.c.name == "digest_key")

        def get_or_make(connection: Connection) -> str:
            stored_key = connection.execute(statement).scalar()
            if stored_key is None:
                stored_key = secrets.token_hex(32)
                connection.execute(insert(settings).values(name="digest_key", value=stored_key))
            return stored_key

        # Read first, so that a store can be opened while its writers are blocked.
        text = await self._reader.read(lambda connection: connection.execute(statement).scalar())
        if text is None:
            text = await self._writer.write(get_or_make)
        try:
            key = bytes.fromhex(text)
        except (TypeError, ValueError):
            key = b""
        if len(key) != 32:
            raise StoreError("the key of the argument digests is damaged", hint="restore a backup")
        return key


def verify_chain(
    connection: Connection, keys: Sequence[PublicKey | TrustedKey], saved_checkpoints: Sequence[Checkpoint]
) -> Verification:
    """Verify the whole chain as ``AuditLog.verify`` does, in the connection's current transaction."""
    with (
        undecodable_as_bytes(connection),
        closing(raw_records(connection, "ORDER BY seq")) as rows,
        closing(raw_checkpoints(connection)) as stored_checkpoints,
    ):
        return verify(rows, stored_checkpoints, since=first_seq(connection), keys=keys, external=saved_checkpoints)


def _record(row: Any) -> Record:
    """Convert a row, by column name, to a record. Raises ``StoreError`` if a value has the wrong type."""
    for name in COLUMNS:
        expected = int if name in NUMBERS else str
        if row[name] is not None and type(row[name]) is not expected:
            raise StoreError(
                f"record {row['seq']} was changed: its {name!r} has the wrong type",
                hint="capset audit verify says more",
            )
    return Record(**row)


def _signer(connection: Connection) -> PublicKey | None:
    text = connection.execute(select(settings.c.value).where(settings.c.name == SIGNER)).scalar()
    try:
        return None if text is None else PublicKey.load(str(text))
    except DefinitionError:
        raise StoreError("the checkpoint key of the audit log is damaged", hint="restore a backup") from None


def verify_chain_part(
    connection: Connection, after: int | None, previous: str | None, limit: int, public_key: PublicKey | None
) -> VerifiedPart:
    """Verify a part of the chain as ``AuditLog.verify_part`` does, in the connection's current transaction."""
    with undecodable_as_bytes(connection):
        first = first_seq(connection)
        if after is None or after < first - 1:  # earlier links were pruned
            after, previous = first - 1, None
        if previous is None:
            previous = GENESIS if after == 0 else sealed_hash(connection, after) or hash_at(connection, after)
        if not isinstance(previous, str):
            return missing_link(after)
        with closing(raw_records(connection, f"WHERE seq > {after} ORDER BY seq LIMIT {limit}")) as cursor:
            rows = list(cursor)
        is_end = len(rows) < limit
        try:
            covering = _checkpoints_over(connection, after, None if is_end else after + len(rows))
        except StoreError as error:  # a checkpoint is corrupt
            return VerifiedPart(Verification(0, error.message, after + 1, after + 1), previous, is_end)
        return verify_part(rows, covering, since=after + 1, previous=previous, is_end=is_end, own_key=public_key)


def _checkpoints_over(connection: Connection, after: int, last: int | None) -> Sequence[Checkpoint]:
    """Return the checkpoints from ``after`` to ``last``, by number, preceded by the previous one, if there is one."""
    statement = select_checkpoints().where(checkpoints.c.seq >= after).order_by(checkpoints.c.seq, checkpoints.c.number)
    if last is not None:
        statement = statement.where(checkpoints.c.seq <= last)
    covering = [checkpoint_in(row) for row in connection.execute(statement).mappings()]
    if covering and (before := newest_checkpoint(connection, checkpoints.c.number < covering[0].number)) is not None:
        covering.insert(0, before)
    return covering


_MEASURED_COLUMNS = tuple(records.c[name] for name in MeasuredCall._fields)


def measured_calls(connection: Connection, query: AuditQuery, max_examined: int, max_counted: int) -> Measured:
    """Return the calls that match a query, as ``AuditLog.measure`` does."""
    ends = near_ends(connection, query.since, query.until)
    if ends is None:
        return Measured((), None)
    of_org = _equals(records.c.org, query.org)
    newest = (
        select(records.c.seq).where(IS_OUTCOME, records.c.seq.between(*ends), *of_org).order_by(records.c.seq.desc())
    )
    boundary = connection.execute(newest.offset(max_examined - 1).limit(2)).scalars().all()
    is_cut = len(boundary) > 1
    first, last = (boundary[0] if is_cut else ends[0]), ends[1]
    statement = (
        select(*_MEASURED_COLUMNS).where(IS_OUTCOME, records.c.seq.between(first, last)).order_by(records.c.seq.desc())
    )
    selective = _most_selective(connection, query, first, last, max_examined)
    for name, value in {"org": query.org, **_filters(query)}.items():
        # Only one index may be used: with another, a plan could scan many rows of other organisations.
        column = records.c[name] if name == selective else records.c[name].concat(text("''"))
        statement = statement.where(*_equals(column, value))
    if query.since is not None:
        statement = statement.where(query.since <= UNINDEXED_TIME)
    if query.until is not None:
        statement = statement.where(query.until > UNINDEXED_TIME)
    with undecodable_as_bytes(connection):
        rows = connection.execute(statement.limit(max_counted + 1)).all()
        calls = list(map(MeasuredCall._make, rows[:max_counted]))
        if len(rows) > max_counted:
            return Measured(calls, calls[-1].time)
        if not is_cut:
            return Measured(calls, None)
        since = str(connection.execute(select(records.c.time).where(records.c.seq == first)).scalar())
    return Measured(calls, since if since > (query.since or "") else None)


def _search_start(connection: Connection, query: AuditQuery, bounds: Sequence[ColumnElement[bool]]) -> int | None:
    """Return the ``seq`` from which on records are searched for a text, ``None`` if that is all of them."""
    starts: list[int] = []
    for phase in query.phases:
        newest = select(records.c.seq).where(_IS_PHASE[phase], *bounds, *_equals(records.c.org, query.org))
        if query.before is not None:
            newest = newest.where(records.c.seq < query.before)
        newest = newest.order_by(records.c.seq.desc()).offset(MAX_SEARCHED - 1).limit(2)
        ends = connection.execute(newest).scalars().all()
        starts += ends[:1] if len(ends) > 1 else []
    return max(starts, default=None)


def _filters(query: AuditQuery) -> dict[str, str]:
    return filters_of(query, [name for name in FILTERS if name != "act"])


def _equals(column: ColumnElement[Any], value: str | None) -> list[ColumnElement[bool]]:
    """Return the condition of a filter, if any: ``None`` is no filter, and ``""`` matches null."""
    return [] if value is None else [column == value if value else column.is_(None)]


def _most_selective(connection: Connection, query: AuditQuery, first: int, last: int, max_examined: int) -> str:
    """Return the filter, ``org`` included, whose index has the fewest rows in a part of the chain."""
    counts: dict[str, int] = {}
    for name, value in {"org": query.org, **_filters(query)}.items():
        if name in INDEXED and value is not None:
            conditions = (IS_OUTCOME, records.c.seq.between(first, last), *_equals(records.c[name], value))
            sample = select(records.c.seq).where(*conditions).limit(max_examined).subquery()
            counts[name] = connection.execute(select(func.count()).select_from(sample)).scalar_one()
    return min(counts, key=lambda name: counts[name], default="org")
