"""Lineage in SQL: registrations and the rows of turns, which are written in the writer's transactions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, Select, Table, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from capset.fingerprint.hashes import Ref
from capset.stores.base import (
    EnvelopeRow,
    LinkQuery,
    LinkRow,
    Page,
    PayloadRow,
    RegistrationRow,
    Sighting,
    Sightings,
    TransitionRow,
)
from capset.stores.base.lineage import MAX_SEARCHED, LinksFull
from capset.stores.pages import filters_of
from capset.stores.rows import (
    MAX_TRANSITIONS,
    LineageRow,
    TurnRows,
    are_storable,
    id_taken_error,
    missing_link_error,
    stored_row,
    transition_of,
    turn_of,
)
from capset.stores.sql.inserts import batches
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.lineage_tables import envelopes, links, payloads, registrations, transitions
from capset.stores.sql.writer.writer import Writer

_Row = TypeVar("_Row")

_NUMBER = "number"
_INTERNAL = (_NUMBER, "named_at")
"""The columns that are in no row."""


class SqlLineage:
    """All rows, by org and id. Each method writes in one transaction."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def register(self, row: RegistrationRow) -> RegistrationRow:
        stored = stored_row(row)
        return await self._writer.write(lambda connection: put_registration(connection, stored))

    async def latest_registration(self, org: str | None, agent_id: str) -> RegistrationRow | None:
        return await self._last(RegistrationRow, registrations, org, agent_id=agent_id)

    async def record_turn(
        self,
        link: LinkRow,
        envelope: EnvelopeRow | None = None,
        *,
        reason: str = "",
        payloads: Iterable[PayloadRow] = (),
        max_links: int | None = None,
    ) -> TransitionRow | None:
        turn = turn_of(link, envelope, reason, payloads)
        return await self._writer.write(lambda connection: put_turn(connection, turn, max_links))

    async def link(self, org: str | None, id: str) -> LinkRow | None:
        return await self._last(LinkRow, links, org, id=id)

    async def latest_link(self, org: str | None, session: str) -> LinkRow | None:
        return await self._last(LinkRow, links, org, session=session)

    async def links(self, query: LinkQuery) -> Page[LinkRow]:
        if not are_storable(query.org, query.agent_id, query.session, query.before):
            return Page((), None)
        statement = _select(links, query.org).filter_by(**filters_of(query, ("agent_id", "session")))
        return await self._reader.read_page(statement, query, lambda row: LinkRow(**_values(row)))

    async def sightings(self, org: str | None, hash: str, *, max_searched: int = MAX_SEARCHED) -> Sightings:
        of_org = links.c.org == (org or "")
        newest = select(links.c.id).where(of_org).order_by(links.c.id.desc()).limit(max_searched + 1).subquery()
        columns = (links.c.id, links.c.session, links.c.agent_id, links.c.agent_name, links.c.created_at)
        names = [links.c[name] == hash for name in ("static_hash", "runtime_hash", "prompt_hash")]
        statement = select(*columns).where(of_org, or_(*names, links.c.tool_refs.contains(hash, autoescape=True)))

        def read(connection: Connection) -> Sightings:
            count, first = connection.execute(select(func.count(), func.min(newest.c.id))).one()
            if not count:
                return Sightings((), None)
            is_searched = links.c.id > first if count > max_searched else links.c.id >= first
            rows = connection.execute(statement.where(is_searched).order_by(links.c.id.desc()))
            sightings = tuple([Sighting(*row) for row in rows])
            if count <= max_searched:
                return Sightings(sightings, None)
            oldest = select(links.c.created_at).where(of_org, is_searched).order_by(links.c.id).limit(1)
            return Sightings(sightings, connection.execute(oldest).scalar())

        return await self._reader.read(read)

    async def record_envelope(self, row: EnvelopeRow) -> None:
        stored = stored_row(row)
        await self._writer.write(lambda connection: put_envelope(connection, stored))

    async def envelope(self, org: str | None, id: str) -> EnvelopeRow | None:
        return await self._last(EnvelopeRow, envelopes, org, id=id)

    async def envelope_of(self, org: str | None, link: str) -> EnvelopeRow | None:
        return await self._last(EnvelopeRow, envelopes, org, link=link)

    async def record_transition(self, row: TransitionRow) -> None:
        stored = stored_row(row)
        await self._writer.write(lambda connection: put_transition(connection, stored))

    async def transitions(self, org: str | None, session: str) -> tuple[TransitionRow, ...]:
        rows = await self._newest(transitions, org, MAX_TRANSITIONS, session=session)
        return tuple(TransitionRow(**row) for row in reversed(rows))

    async def record_payloads(self, payloads: Iterable[PayloadRow], *, named_at: str) -> None:
        stored = [stored_row(row) for row in payloads]
        await self._writer.write(lambda connection: put_payloads(connection, stored, named_at))

    async def payload(self, org: str | None, hash: str) -> PayloadRow | None:
        return await self._last(PayloadRow, payloads, org, hash=hash)

    async def _last(self, row_class: Callable[..., _Row], table: Table, org: str | None, **values: str) -> _Row | None:
        rows = await self._newest(table, org, 1, **values)
        return row_class(**rows[0]) if rows else None

    async def _newest(self, table: Table, org: str | None, limit: int, **values: str) -> list[dict[str, Any]]:
        """Return the rows whose columns equal ``values``, last recorded first."""
        if not are_storable(org, *values.values()):
            return []
        statement = _select(table, org).where(*[table.c[name] == value for name, value in values.items()]).limit(limit)
        if _NUMBER in table.c:
            statement = statement.order_by(table.c[_NUMBER].desc())
        return await self._reader.read_all(statement, _values)


def _select(table: Table, org: str | None) -> Select[Any]:  # of columns of several types
    return select(*[column for column in table.c if column.name not in _INTERNAL]).where(table.c.org == (org or ""))


def _values(mapping: RowMapping) -> dict[str, Any]:
    values: dict[str, Any] = {**mapping, "org": mapping["org"] or None}
    if "tool_refs" in values:
        values["tool_refs"] = tuple([Ref(**ref) for ref in json.loads(values["tool_refs"])])
    return values


def put_registration(connection: Connection, row: RegistrationRow) -> RegistrationRow:
    """Insert a registration, or reuse the one for its agent and hash; make it the latest, and return it."""
    of_agent = (registrations.c.org == (row.org or "")) & (registrations.c.agent_id == row.agent_id)
    of_hash = of_agent & (registrations.c.static_hash == row.static_hash)
    last = connection.execute(select(func.max(registrations.c.number)).where(of_agent)).scalar() or 0
    existing = connection.execute(select(registrations).where(of_hash)).one_or_none()
    if existing is None:
        try:
            connection.execute(insert(registrations).values(**_columns(row), number=last + 1))
        except IntegrityError as error:
            raise id_taken_error("a registration", row.id) from error
        return row
    values = {"agent_name": row.agent_name, "number": last if existing.number == last else last + 1}
    if values != {"agent_name": existing.agent_name, "number": existing.number}:
        connection.execute(update(registrations).where(of_hash).values(values))
    return replace(row, id=existing.id, profile=existing.profile, created_at=existing.created_at)


def put_turn(connection: Connection, turn: TurnRows, maximum: int | None = None) -> TransitionRow | None:
    """Insert the rows of a turn. If its session's runtime hash has changed, also insert and return a transition."""
    link, last = turn.link, None
    if link.session is not None:
        of_session = (links.c.org == (link.org or "")) & (links.c.session == link.session)
        statement = select(links.c.id, links.c.runtime_hash).where(of_session).order_by(links.c.number.desc()).limit(1)
        last = connection.execute(statement).one_or_none()
        has_envelope = exists().where(envelopes.c.org == links.c.org, envelopes.c.link == links.c.id)
        count = select(func.count()).select_from(links).where(of_session, has_envelope)
        if maximum is not None and connection.execute(count).scalar_one() >= maximum:
            raise LinksFull
    try:
        connection.execute(insert(links).values(_columns(link)))
    except IntegrityError as error:
        raise id_taken_error("a link", link.id) from error
    if turn.envelope:
        _insert_envelope(connection, turn.envelope)
    put_payloads(connection, turn.payloads, link.created_at)
    transition = transition_of(turn, last.id, last.runtime_hash) if last else None
    if transition:
        connection.execute(insert(transitions).values(_columns(transition)))
    return transition


def put_envelope(connection: Connection, row: EnvelopeRow) -> None:
    """Insert an envelope. Raises ``StoreError`` if it has a link that does not exist."""
    if row.link is not None:
        _require_link(connection, row.org, row.link)
    _insert_envelope(connection, row)


def put_transition(connection: Connection, row: TransitionRow) -> None:
    """Insert a transition. Raises ``StoreError`` unless both links exist."""
    _require_link(connection, row.org, row.from_link)
    _require_link(connection, row.org, row.to_link)
    connection.execute(insert(transitions).values(_columns(row)))


def put_payloads(connection: Connection, rows: Iterable[PayloadRow], named_at: str) -> None:
    """Insert payloads whose hash has none yet, and renew the others. Of several of one hash, the first is inserted."""
    by_org: dict[str, dict[str, PayloadRow]] = {}
    for row in rows:
        by_org.setdefault(row.org or "", {}).setdefault(row.hash, row)
    for org, by_hash in by_org.items():
        for batch in batches(list(by_hash)):
            of_batch = (payloads.c.org == org) & payloads.c.hash.in_(batch)
            existing = set(connection.execute(select(payloads.c.hash).where(of_batch)).scalars())
            if existing:
                older = of_batch & (payloads.c.named_at < named_at)
                connection.execute(update(payloads).where(older).values(named_at=named_at))
            new = [by_hash[payload_hash] for payload_hash in batch if payload_hash not in existing]
            if new:
                connection.execute(insert(payloads), [{**_columns(row), "named_at": named_at} for row in new])


def _insert_envelope(connection: Connection, row: EnvelopeRow) -> None:
    try:
        connection.execute(insert(envelopes).values(_columns(row)))
    except IntegrityError as error:
        raise id_taken_error("an envelope", row.id) from error


def _require_link(connection: Connection, org: str | None, id: str) -> None:
    statement = select(links.c.id).where(links.c.org == (org or ""), links.c.id == id)
    if connection.execute(statement).first() is None:
        raise missing_link_error(id)


def _columns(row: LineageRow) -> Mapping[str, Any]:  # columns of several types
    values = asdict(row)
    if "tool_refs" in values:
        values["tool_refs"] = json.dumps(values["tool_refs"])
    return values | {"org": row.org or ""}
