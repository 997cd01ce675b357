"""Lineage in SQL: registrations and the rows of turns, which are written in the writer's transactions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Select, Table, func, insert, or_, select, update
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
from capset.stores.base.lineage import SIGHTED, LinksFull
from capset.stores.rows import (
    TRANSITIONS,
    LineageRow,
    TurnRows,
    can_be,
    no_link,
    stored_row,
    taken,
    transition_of,
    turn_of,
)
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.schema.lineage_tables import envelopes, links, payloads, registrations, transitions
from capset.stores.sql.writer.writer import Writer

_NUMBER = "number"

_CHUNK: Final = 500
"""Number of hashes per statement."""


class SqlLineage:
    """All rows, by org and id. Each method writes in one transaction."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def register(self, row: RegistrationRow) -> RegistrationRow:
        """Store a registration, or reuse the one for its agent id and static hash; make it the latest."""
        stored = stored_row(row)
        return await self._writer.write(lambda connection: put_registration(connection, stored))

    async def latest_registration(self, org: str | None, agent_id: str) -> RegistrationRow | None:
        """Return an agent's latest registration, or ``None``."""
        row = await self._last(registrations, org, agent_id=agent_id)
        return RegistrationRow(**row) if row else None

    async def record_turn(
        self,
        link: LinkRow,
        envelope: EnvelopeRow | None = None,
        *,
        reason: str = "",
        payloads: Iterable[PayloadRow] = (),
        most: int | None = None,
    ) -> TransitionRow | None:
        """Store a link, its envelope and payloads, and a transition if the runtime hash has changed."""
        turn = turn_of(link, envelope, reason, payloads)
        return await self._writer.write(lambda connection: put_turn(connection, turn, most))

    async def link(self, org: str | None, id: str) -> LinkRow | None:
        """Return a link, or ``None``."""
        row = await self._last(links, org, id=id)
        return LinkRow(**row) if row else None

    async def latest_link(self, org: str | None, session: str) -> LinkRow | None:
        """Return a session's last recorded link, or ``None``."""
        row = await self._last(links, org, session=session)
        return LinkRow(**row) if row else None

    async def links(self, query: LinkQuery) -> Page[LinkRow]:
        """Return links, newest first."""
        if not can_be(query.org, query.agent_id, query.session, query.before):
            return Page((), None)
        statement = _select(links, query.org).order_by(links.c.id.desc())
        for name in ("agent_id", "session"):
            if (value := getattr(query, name)) is not None:
                statement = statement.where(links.c[name] == value)
        if query.before is not None:
            statement = statement.where(links.c.id < query.before)

        def read(connection: Connection) -> Page[LinkRow]:
            rows, has_more = read_rows(connection, statement, query.limit, query.max_bytes)
            items = tuple([LinkRow(**_values(row)) for row in rows])
            return Page(items, items[-1].id if has_more else None)

        return await self._reader.read(read)

    async def sightings(self, org: str | None, hash: str, *, looked: int = SIGHTED) -> Sightings:
        """Return which of an org's newest ``looked`` links contain a hash."""
        of_org = links.c.org == (org or "")
        newest = select(links.c.id).where(of_org).order_by(links.c.id.desc()).limit(looked + 1).subquery()
        columns = (links.c.id, links.c.session, links.c.agent_id, links.c.agent_name, links.c.created_at)
        names = [links.c[name] == hash for name in ("static_hash", "runtime_hash", "prompt_hash")]
        statement = select(*columns).where(of_org, or_(*names, links.c.tool_refs.contains(hash, autoescape=True)))

        def read(connection: Connection) -> Sightings:
            count, first = connection.execute(select(func.count(), func.min(newest.c.id))).one()
            if not count:
                return Sightings((), None)
            looked_at = links.c.id > first if count > looked else links.c.id >= first
            rows = connection.execute(statement.where(looked_at).order_by(links.c.id.desc()))
            sightings = tuple([Sighting(*row) for row in rows])
            if count <= looked:
                return Sightings(sightings, None)
            oldest = select(links.c.created_at).where(of_org, looked_at).order_by(links.c.id).limit(1)
            return Sightings(sightings, connection.execute(oldest).scalar())

        return await self._reader.read(read)

    async def record_envelope(self, row: EnvelopeRow) -> None:
        """Store an envelope. Raises ``StoreError`` if its id is taken, or its link is not in its org."""
        stored = stored_row(row)
        await self._writer.write(lambda connection: put_envelope(connection, stored))

    async def envelope(self, org: str | None, id: str) -> EnvelopeRow | None:
        """Return an envelope, or ``None``."""
        row = await self._last(envelopes, org, id=id)
        return EnvelopeRow(**row) if row else None

    async def envelope_of(self, org: str | None, link: str) -> EnvelopeRow | None:
        """Return a link's envelope (the latest if it has several), or ``None``."""
        row = await self._last(envelopes, org, link=link)
        return EnvelopeRow(**row) if row else None

    async def record_transition(self, row: TransitionRow) -> None:
        """Store a transition. Raises ``StoreError`` unless both links exist."""
        stored = stored_row(row)
        await self._writer.write(lambda connection: put_transition(connection, stored))

    async def transitions(self, org: str | None, session: str) -> tuple[TransitionRow, ...]:
        """Return a session's last 1,000 transitions, in recording order."""
        rows = await self._newest(transitions, org, TRANSITIONS, session=session)
        return tuple(TransitionRow(**row) for row in reversed(rows))

    async def record_payloads(self, payloads: Iterable[PayloadRow]) -> None:
        """Store the payloads of hashes, each once."""
        stored = [stored_row(row) for row in payloads]
        await self._writer.write(lambda connection: put_payloads(connection, stored))

    async def payload(self, org: str | None, hash: str) -> PayloadRow | None:
        """Return the payload of a hash, or ``None``."""
        row = await self._last(payloads, org, hash=hash)
        return PayloadRow(**row) if row else None

    async def _last(self, table: Table, org: str | None, **at: str) -> dict[str, Any] | None:
        rows = await self._newest(table, org, 1, **at)
        return rows[0] if rows else None

    async def _newest(self, table: Table, org: str | None, limit: int, **at: str) -> list[dict[str, Any]]:
        """Return the rows whose columns equal ``at``, last recorded first."""
        if not can_be(org, *at.values()):
            return []
        statement = _select(table, org).where(*[table.c[name] == value for name, value in at.items()]).limit(limit)
        if _NUMBER in table.c:
            statement = statement.order_by(table.c[_NUMBER].desc())

        def read(connection: Connection) -> list[dict[str, Any]]:
            return [_values(row) for row in connection.execute(statement).mappings()]

        return await self._reader.read(read, is_one_statement=True)


def _select(table: Table, org: str | None) -> Select[Any]:  # of columns of several types
    return select(*[column for column in table.c if column.name != _NUMBER]).where(table.c.org == (org or ""))


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
            raise taken("a registration", row.id) from error
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
        count = select(func.count()).select_from(links).where(of_session)
        if maximum is not None and connection.execute(count).scalar_one() >= maximum:
            raise LinksFull
    try:
        connection.execute(insert(links).values(_columns(link)))
    except IntegrityError as error:
        raise taken("a link", link.id) from error
    if turn.envelope:
        _insert_envelope(connection, turn.envelope)
    put_payloads(connection, turn.payloads)
    moved = transition_of(turn, last.id, last.runtime_hash) if last else None
    if moved:
        connection.execute(insert(transitions).values(_columns(moved)))
    return moved


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


def put_payloads(connection: Connection, rows: Iterable[PayloadRow]) -> None:
    """Insert payloads whose hash has none yet. Of several payloads of one hash, the first is inserted."""
    by_org: dict[str, dict[str, PayloadRow]] = {}
    for row in rows:
        by_org.setdefault(row.org or "", {}).setdefault(row.hash, row)
    for org, by_hash in by_org.items():
        for some in _chunks(list(by_hash)):
            statement = select(payloads.c.hash).where(payloads.c.org == org, payloads.c.hash.in_(some))
            existing = set(connection.execute(statement).scalars())
            if new := [_columns(by_hash[payload_hash]) for payload_hash in some if payload_hash not in existing]:
                connection.execute(insert(payloads), new)


def _insert_envelope(connection: Connection, row: EnvelopeRow) -> None:
    try:
        connection.execute(insert(envelopes).values(_columns(row)))
    except IntegrityError as error:
        raise taken("an envelope", row.id) from error


def _require_link(connection: Connection, org: str | None, id: str) -> None:
    statement = select(links.c.id).where(links.c.org == (org or ""), links.c.id == id)
    if connection.execute(statement).first() is None:
        raise no_link(id)


def _columns(row: LineageRow) -> Mapping[str, Any]:  # columns of several types
    values = asdict(row)
    if "tool_refs" in values:
        values["tool_refs"] = json.dumps(values["tool_refs"])
    return values | {"org": row.org or ""}


def _chunks(hashes: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(hashes), _CHUNK):
        yield hashes[start : start + _CHUNK]
