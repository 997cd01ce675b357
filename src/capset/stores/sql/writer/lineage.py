"""The writes of lineage, within one transaction: registrations, and the rows of turns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.stores.base import EnvelopeRow, PayloadRow, RegistrationRow, TransitionRow
from capset.stores.lineage_rows import LineageRow, TurnRows, no_link, taken, transition_of
from capset.stores.sql.schema.lineage_tables import envelopes, links, payloads, registrations, transitions

_CHUNK: Final = 500
"""Number of hashes per statement."""


def put_registration(connection: Connection, row: RegistrationRow) -> RegistrationRow:
    """Insert a registration, or reuse that of its agent and hash; make it the latest, and return it."""
    of_agent = (registrations.c.org == (row.org or "")) & (registrations.c.agent_id == row.agent_id)
    of_hash = of_agent & (registrations.c.static_hash == row.static_hash)
    last = connection.execute(select(func.max(registrations.c.number)).where(of_agent)).scalar() or 0
    there = connection.execute(select(registrations).where(of_hash)).one_or_none()
    if there is None:
        try:
            connection.execute(insert(registrations).values(**_values(row), number=last + 1))
        except IntegrityError as error:
            raise taken("a registration", row.id) from error
        return row
    values = {"agent_name": row.agent_name, "number": last if there.number == last else last + 1}
    if values != {"agent_name": there.agent_name, "number": there.number}:
        connection.execute(update(registrations).where(of_hash).values(values))
    return replace(row, id=there.id, profile=there.profile, created_at=there.created_at)


def put_turn(connection: Connection, turn: TurnRows) -> TransitionRow | None:
    """Insert the rows of one turn, and a transition if its session's runtime hash has changed; return that one."""
    link, last = turn.link, None
    if link.session is not None:
        of_session = (links.c.org == (link.org or "")) & (links.c.session == link.session)
        asked = select(links.c.id, links.c.runtime_hash).where(of_session).order_by(links.c.number.desc()).limit(1)
        last = connection.execute(asked).one_or_none()
    try:
        connection.execute(insert(links).values(_values(link)))
    except IntegrityError as error:
        raise taken("a link", link.id) from error
    if turn.envelope:
        _insert_envelope(connection, turn.envelope)
    put_payloads(connection, turn.payloads)
    moved = transition_of(turn, last.id, last.runtime_hash) if last else None
    if moved:
        connection.execute(insert(transitions).values(_values(moved)))
    return moved


def put_envelope(connection: Connection, row: EnvelopeRow) -> None:
    """Insert an envelope, whose link must exist if it names one."""
    if row.link is not None:
        _require_link(connection, row.org, row.link)
    _insert_envelope(connection, row)


def put_transition(connection: Connection, row: TransitionRow) -> None:
    """Insert a transition, both of whose links must exist."""
    _require_link(connection, row.org, row.from_link)
    _require_link(connection, row.org, row.to_link)
    connection.execute(insert(transitions).values(_values(row)))


def put_payloads(connection: Connection, rows: Iterable[PayloadRow]) -> None:
    """Insert the payloads of the hashes that have none yet; of two payloads of one hash, the first."""
    by_org: dict[str, dict[str, PayloadRow]] = {}
    for row in rows:
        by_org.setdefault(row.org or "", {}).setdefault(row.hash, row)
    for org, by_hash in by_org.items():
        for some in _chunks(list(by_hash)):
            asked = select(payloads.c.hash).where(payloads.c.org == org, payloads.c.hash.in_(some))
            there = set(connection.execute(asked).scalars())
            if new := [_values(by_hash[one]) for one in some if one not in there]:
                connection.execute(insert(payloads), new)


def _insert_envelope(connection: Connection, row: EnvelopeRow) -> None:
    try:
        connection.execute(insert(envelopes).values(_values(row)))
    except IntegrityError as error:
        raise taken("an envelope", row.id) from error


def _require_link(connection: Connection, org: str | None, id: str) -> None:
    asked = select(links.c.id).where(links.c.org == (org or ""), links.c.id == id)
    if connection.execute(asked).first() is None:
        raise no_link(id)


def _values(row: LineageRow) -> Mapping[str, Any]:  # columns of several types
    values = asdict(row)
    if "tool_refs" in values:
        values["tool_refs"] = json.dumps(values["tool_refs"])
    return values | {"org": row.org or ""}


def _chunks(hashes: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(hashes), _CHUNK):
        yield hashes[start : start + _CHUNK]
