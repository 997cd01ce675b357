"""The audit log: written by the single writer, read in keyset pages, verified, signed and pruned (spec 4, G21)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, text

from capset.definitions.calls.records import COLUMNS, NUMBERS, Record
from capset.errors import DefinitionError, StoreError
from capset.fingerprint.chain import GENESIS, Verification, VerifiedPart, verify, verify_part
from capset.fingerprint.checkpoints import (
    Checkpoint,
    CheckpointKey,
    PublicKey,
    TrustedKey,
)
from capset.stores.audit_rules import may_adopt, no_link
from capset.stores.base import Attempt, AuditQuery, Entry, Page, Pruned
from capset.stores.base.audit import FILTERS, MEASURED, WALKED, Measured, MeasuredCall, check_times
from capset.stores.pages import fitting, size_of
from capset.stores.sql.audit.checkpoints import (
    SIGNER,
    checkpoint_in,
    cut,
    find_cut,
    first_seq,
    hash_at,
    list_checkpoints,
    newest_checkpoint,
    put_checkpoint,
    raw_checkpoints,
    retire_key,
    retired_keys,
    sealed_hash,
    select_checkpoints,
)
from capset.stores.sql.audit.records import as_they_lie, raw_records
from capset.stores.sql.audit.times import AT, bounds_of, first_from, last_before, near_ends
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.schema.tables import FILTERS as INDEXED
from capset.stores.sql.schema.tables import IS_ACT, IS_OUTCOME, checkpoints, open_intents, records, settings
from capset.stores.sql.writer.writer import Writer

_ATTEMPTS: Final = 10_000
"""Maximum number of ended calls, and of open calls, that are read for one correlation."""

_OF: Final = {"outcome": IS_OUTCOME, "act": IS_ACT}
"""The conditions of the partial indexes, by phase."""

_FEW: Final = ("id", "principal", "session", "correlation", "approval", "code")
"""The filters that match few records, regardless of organisation."""


class SqlAudit:
    """The append-only, hash-chained log of attempts."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    def append(self, entry: Entry) -> None:
        """Queue an entry for writing. Raises ``StoreError`` if too many entries are waiting."""
        self._writer.append(entry)

    async def commit(self, entry: Entry) -> None:
        """Write an entry and return once it is durable. Raises ``StoreError`` if it is not."""
        await self._writer.commit(entry)

    async def flush(self) -> None:
        """Return once everything accepted so far is durable. Raises ``StoreError`` if it is not."""
        await self._writer.flush()

    async def query(self, query: AuditQuery) -> Page[Record, int]:
        """Return outcomes of calls, or acts, newest first. Raises ``StoreError`` if one was tampered with."""
        statement = select(records).order_by(records.c.seq.desc())
        for name in FILTERS:
            if (value := getattr(query, name)) is not None:
                statement = statement.where(records.c[name] == value)
        if query.org is not None:
            # Filters such as the session match few records. SQLite must not scan all of the organisation's.
            few = any(getattr(query, name) is not None for name in _FEW)
            org = records.c.org.concat(text("''")) if few else records.c.org
            statement = statement.where(org == query.org if query.org else org.is_(None))
        if query.since is not None:
            statement = statement.where(query.since <= AT)
        if query.until is not None:
            statement = statement.where(query.until > AT)
        if query.before is not None:
            statement = statement.where(records.c.seq < query.before)

        phases = query.phases

        def read(connection: Connection) -> Page[Record, int]:
            bounds = bounds_of(connection, query.since, query.until)
            with as_they_lie(connection):
                # Rows are fetched at once: an error in one of them would leave SQLite's read transaction open, and the
                # next reader would see old data. Each phase has its own query, since it has its own indexes.
                pages = [
                    read_rows(connection, statement.where(_OF[phase], *bounds), query.limit, query.max_bytes)
                    for phase in phases
                ]
            # The rows of a phase beyond its page may be newer than rows on the page of another phase.
            complete_from = max((rows[-1]["seq"] for rows, has_more in pages if has_more), default=0)
            matching = [row for rows, _ in pages for row in rows if row["seq"] >= complete_from]
            matching.sort(key=itemgetter("seq"), reverse=True)
            fit = min(query.limit, fitting((size_of(row.values()) for row in matching), query.max_bytes))
            items = tuple(map(_record, matching[:fit]))
            has_more = len(items) < sum(len(rows) for rows, _ in pages) or any(has_more for _, has_more in pages)
            return Page(items, items[-1].seq if has_more else None)

        return await self._reader.read(read)

    async def measure(self, query: AuditQuery, *, walked: int = WALKED, measured: int = MEASURED) -> Measured:
        """Return the outcomes and durations of the calls that match a query, in bounded time."""
        return await self._reader.read(lambda connection: measured_calls(connection, query, walked, measured))

    async def attempts(self, org: str | None, correlation: str) -> Sequence[Attempt]:
        """Return the calls of a correlation that have ended or have an open intent."""
        of_correlation = (records.c.correlation == correlation) & (
            records.c.org == org if org else records.c.org.is_(None)
        )
        ended = select(records.c.id, records.c.causation, records.c.outcome).where(of_correlation, _OF["outcome"])
        intended = select(records.c.id, records.c.causation).join(open_intents, open_intents.c.seq == records.c.seq)

        def read(connection: Connection) -> Sequence[Attempt]:
            attempts = [Attempt(*row) for row in connection.execute(ended.limit(_ATTEMPTS))]
            open_ones = connection.execute(intended.where(of_correlation).limit(_ATTEMPTS))
            return attempts + [Attempt(record, causation, None) for record, causation in open_ones]

        return await self._reader.read(read)

    async def span(self, *, since: str | None = None, until: str | None = None) -> tuple[int, int] | None:
        """Return the first ``seq`` since a time and the last one before another, or ``None`` if there is no link."""
        check_times(since, until)

        def read(connection: Connection) -> tuple[int, int] | None:
            ends = first_from(connection, since), last_before(connection, until)
            return None if ends[0] is None or ends[1] is None or ends[0] > ends[1] else (ends[0], ends[1])

        return await self._reader.read(read)

    async def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Return links in chain order. Raises ``StoreError`` if one was tampered with."""
        statement = select(records).where(records.c.seq > after).order_by(records.c.seq).limit(limit)

        def read(connection: Connection) -> list[Record]:
            with as_they_lie(connection):
                return [_record(row) for row in connection.execute(statement).mappings().all()]

        return await self._reader.read(read)

    async def verify(
        self, keys: Sequence[PublicKey | TrustedKey] = (), kept: Sequence[Checkpoint] = ()
    ) -> Verification:
        """Verify the whole chain, including intents, and its checkpoints; check their signatures with ``keys``."""
        return await self._reader.read(lambda connection: verified(connection, keys, kept))

    async def verify_part(
        self, after: int | None, previous: str | None, *, limit: int, own: PublicKey | None = None
    ) -> VerifiedPart:
        """Verify up to ``limit`` links after a position, and the checkpoints that cover them."""
        return await self._reader.read(lambda connection: verified_part(connection, after, previous, limit, own))

    async def checkpoint(self, key: CheckpointKey, *, now: str) -> Checkpoint | None:
        """Sign the current head of the log, and store the checkpoint. Returns ``None`` if the log is empty.

        Raises ``StoreError``, and ``Conflict`` if the key was replaced.
        """
        await self._writer.flush()  # the queue writes accepted entries before it runs the function
        return await self._writer.write(lambda connection: put_checkpoint(connection, key, now))

    async def checkpoints(self, *, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        """Return checkpoints in order. Raises ``StoreError`` if one was tampered with."""
        return await self._reader.read(lambda connection: list_checkpoints(connection, after, limit))

    async def prune(
        self, before: str, key: CheckpointKey, *, now: str, act: Callable[[Pruned], Entry] | None = None
    ) -> Pruned:
        """Remove the oldest links, up to a checkpoint. Raises ``Conflict`` if no checkpoint is suitable."""
        check_times(before)
        # Both reads use one snapshot: another process may prune the log in between.
        first, anchor = await self._reader.read(
            lambda connection: (first_seq(connection), find_cut(connection, before, key))
        )
        if anchor is None:
            return Pruned(0, first)
        entry = None if act is None else act(Pruned(anchor.seq - first + 1, anchor.seq + 1))
        done = await self._writer.write(lambda connection: cut(connection, anchor, key, now), entry)
        return done or Pruned(0, await self._reader.read(first_seq))

    async def signer(self) -> PublicKey | None:
        """Return the key that signs this log. Raises ``StoreError`` if it was tampered with."""
        return await self._reader.read(_signer)

    async def adopt(self, key: PublicKey, *, replacing: str | None, act: Entry) -> bool:
        """Make a key the signing key of this log, and return whether it was adopted."""

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
        """Return the secret key of the argument digests, 32 bytes, which is made once per store."""
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


def verified(
    connection: Connection, keys: Sequence[PublicKey | TrustedKey], saved_checkpoints: Sequence[Checkpoint]
) -> Verification:
    """Verify the whole chain as ``AuditLog.verify`` does, in the connection's current transaction."""
    with (
        as_they_lie(connection),
        closing(raw_records(connection, "ORDER BY seq")) as rows,
        closing(raw_checkpoints(connection)) as stored_checkpoints,
    ):
        return verify(rows, stored_checkpoints, since=first_seq(connection), keys=keys, kept=saved_checkpoints)


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


def verified_part(
    connection: Connection, after: int | None, previous: str | None, limit: int, public_key: PublicKey | None
) -> VerifiedPart:
    """Verify a part of the chain as ``AuditLog.verify_part`` does, in the connection's current transaction."""
    with as_they_lie(connection):
        first = first_seq(connection)
        if after is None or after < first - 1:  # earlier links were pruned
            after, previous = first - 1, None
        if previous is None:
            previous = GENESIS if after == 0 else sealed_hash(connection, after) or hash_at(connection, after)
        if not isinstance(previous, str):
            return no_link(after)
        some = f"WHERE seq > {after} ORDER BY seq LIMIT {limit}"
        with closing(raw_records(connection, some)) as cursor:
            rows = list(cursor)
        is_end = len(rows) < limit
        try:
            marks = _checkpoints_over(connection, after, None if is_end else after + len(rows))
        except StoreError as error:  # a checkpoint is corrupt
            return VerifiedPart(Verification(0, error.message, after + 1, after + 1), previous, is_end)
        return verify_part(rows, marks, since=after + 1, previous=previous, is_end=is_end, own=public_key)


def _checkpoints_over(connection: Connection, after: int, last: int | None) -> Sequence[Checkpoint]:
    """Return the checkpoints from ``after`` to ``last``, by number, preceded by the previous one, if there is one."""
    statement = select_checkpoints().where(checkpoints.c.seq >= after).order_by(checkpoints.c.seq, checkpoints.c.number)
    if last is not None:
        statement = statement.where(checkpoints.c.seq <= last)
    marks = [checkpoint_in(row) for row in connection.execute(statement).mappings()]
    if marks and (before := newest_checkpoint(connection, checkpoints.c.number < marks[0].number)) is not None:
        marks.insert(0, before)
    return marks


_COLUMNS = tuple(records.c[name] for name in MeasuredCall._fields)


def measured_calls(connection: Connection, query: AuditQuery, walked: int, measured: int) -> Measured:
    """Return the calls that match a query, as ``AuditLog.measure`` does."""
    ends = near_ends(connection, query.since, query.until)
    if ends is None:
        return Measured((), None)
    of_org = _equal(records.c.org, query.org)
    newest = (
        select(records.c.seq).where(IS_OUTCOME, records.c.seq.between(*ends), *of_org).order_by(records.c.seq.desc())
    )
    cut = connection.execute(newest.offset(walked - 1).limit(2)).scalars().all()
    is_cut = len(cut) > 1
    first, last = (cut[0] if is_cut else ends[0]), ends[1]
    statement = select(*_COLUMNS).where(IS_OUTCOME, records.c.seq.between(first, last)).order_by(records.c.seq.desc())
    selective = _most_selective(connection, query, first, last, walked)
    for name, value in {"org": query.org, **_filters(query)}.items():
        # Only one index may be used: with another, a plan could scan many rows of other organisations.
        column = records.c[name] if name == selective else records.c[name].concat(text("''"))
        statement = statement.where(*_equal(column, value))
    if query.since is not None:
        statement = statement.where(query.since <= AT)
    if query.until is not None:
        statement = statement.where(query.until > AT)
    with as_they_lie(connection):
        rows = connection.execute(statement.limit(measured + 1)).all()
        calls = list(map(MeasuredCall._make, rows[:measured]))
        if len(rows) > measured:
            return Measured(calls, calls[-1].time)
        if not is_cut:
            return Measured(calls, None)
        since = str(connection.execute(select(records.c.time).where(records.c.seq == first)).scalar())
    return Measured(calls, since if since > (query.since or "") else None)


def _filters(query: AuditQuery) -> dict[str, str]:
    return {name: value for name in FILTERS if name != "act" and (value := getattr(query, name)) is not None}


def _equal(column: ColumnElement[Any], value: str | None) -> list[ColumnElement[bool]]:
    """Return the condition of a filter, if any: ``None`` is no filter, and ``""`` matches null."""
    return [] if value is None else [column == value if value else column.is_(None)]


def _most_selective(connection: Connection, query: AuditQuery, first: int, last: int, walked: int) -> str:
    """Return the filter, ``org`` included, whose index has the fewest rows in a part of the chain."""
    counts: dict[str, int] = {}
    for name, value in {"org": query.org, **_filters(query)}.items():
        if name in INDEXED and value is not None:
            conditions = (IS_OUTCOME, records.c.seq.between(first, last), *_equal(records.c[name], value))
            some = select(records.c.seq).where(*conditions).limit(walked).subquery()
            counts[name] = connection.execute(select(func.count()).select_from(some)).scalar_one()
    return min(counts, key=lambda name: counts[name], default="org")
