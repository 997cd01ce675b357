"""The directory in SQL. An index finds each name from the previous one, however many rows a name has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from sqlalchemy import Column, Connection, Select, bindparam, func, literal, select, tuple_

from capset.stores.base import Page
from capset.stores.base.directory import MAX_COUNT, KnownOrg, KnownPrincipal
from capset.stores.base.sessions import MAX_SEARCHED
from capset.stores.sql.reader import ReadConnections, contains
from capset.stores.sql.schema.tables import agents, api_keys, sessions

_ORG_COLUMNS: Final[Mapping[str, Column[str | None]]] = {
    "keys": api_keys.c.org,
    "agents": agents.c.org,
    "sessions": sessions.c.org,
}
"""The columns with the names of organisations, by what is counted. Each is the first column of an index."""
_IDENTITY: Final = (sessions.c.principal, sessions.c.principal_kind)


class SqlDirectory:
    """Principals and organisations, collected on request."""

    def __init__(self, reader: ReadConnections) -> None:
        self._reader = reader

    async def principals(
        self,
        org: str | None,
        *,
        after: tuple[str, str] | None = None,
        limit: int = 50,
        text: str | None = None,
        max_searched: int = MAX_SEARCHED,
    ) -> Page[KnownPrincipal, tuple[str, str]]:
        def read(connection: Connection) -> Page[KnownPrincipal, tuple[str, str]]:
            if text is not None:
                return _matching_principals(connection, org, after, limit, text, max_searched)
            principals: list[KnownPrincipal] = []
            last = after
            while len(principals) <= limit:
                statement = _next_principal(is_named=bool(org), is_first=last is None)
                values = dict(zip(("id", "kind"), last or (), strict=False))
                row = connection.execute(statement, {"org": org, **values}).first()
                if row is None:
                    break
                principals.append(KnownPrincipal(*row))
                last = row[0], row[1]
            return _page(principals, limit, None)

        return await self._reader.read(read)

    async def orgs(self, *, after: str | None = None, limit: int = 50) -> list[KnownOrg]:
        def read(connection: Connection) -> list[KnownOrg]:
            orgs: list[KnownOrg] = []
            last = after
            while len(orgs) < limit and (last := _next_org(connection, last)) is not None:
                orgs.append(
                    KnownOrg(last, **{name: _count(connection, column, last) for name, column in _ORG_COLUMNS.items()})
                )
            return orgs

        return await self._reader.read(read)


@cache
def _next_principal(*, is_named: bool, is_first: bool) -> Select[str, str, str]:
    """Select the first or the next principal with sessions in an org, and the start of its last session.

    ``is_named`` is false for principals without an org.
    """
    of_principal = sessions.alias()
    newest = select(of_principal.c.created_at).where(
        of_principal.c.org == bindparam("org") if is_named else of_principal.c.org.is_(None),
        of_principal.c.principal == sessions.c.principal,
        of_principal.c.principal_kind == sessions.c.principal_kind,
    )
    of_org = sessions.c.org == bindparam("org") if is_named else sessions.c.org.is_(None)
    statement = select(*_IDENTITY, newest.order_by(of_principal.c.id.desc()).limit(1).scalar_subquery()).where(of_org)
    if not is_first:
        statement = statement.where(tuple_(*_IDENTITY) > tuple_(bindparam("id"), bindparam("kind")))
    return statement.order_by(*_IDENTITY).limit(1)


def _matching_principals(
    connection: Connection, org: str | None, after: tuple[str, str] | None, limit: int, text: str, max_searched: int
) -> Page[KnownPrincipal, tuple[str, str]]:
    """Return the principals with sessions in an org that have a text in their id, from a part of an index."""
    of_org = sessions.c.org == org if org else sessions.c.org.is_(None)
    following = select(*_IDENTITY).where(of_org).order_by(sessions.c.org, *_IDENTITY)
    if after is not None:
        following = following.where(tuple_(*_IDENTITY) > tuple_(*map(literal, after)))
    ends = connection.execute(following.offset(max_searched - 1).limit(2)).all()
    searched = following.limit(max_searched).subquery()
    matching = select(searched.c.principal, searched.c.principal_kind).where(contains(searched.c.principal, text))
    principals: list[KnownPrincipal] = []
    for name, kind in sorted((row[0], row[1]) for row in connection.execute(matching.distinct()))[: limit + 1]:
        of_principal = (of_org, sessions.c.principal == name, sessions.c.principal_kind == kind)
        newest = select(sessions.c.created_at).where(*of_principal).order_by(sessions.c.id.desc()).limit(1)
        principals.append(KnownPrincipal(name, kind, connection.execute(newest).scalar_one()))
    return _page(principals, limit, (ends[0][0], ends[0][1]) if len(ends) > 1 else None)


def _page(
    principals: Sequence[KnownPrincipal], limit: int, end: tuple[str, str] | None
) -> Page[KnownPrincipal, tuple[str, str]]:
    """Return a page of principals, of which one more than ``limit`` is given if there are more."""
    items = tuple(principals[:limit])
    return Page(items, (items[-1].id, items[-1].kind) if len(principals) > limit else end)


def _next_org(connection: Connection, after: str | None) -> str | None:
    if after is None and any(_count(connection, column, "", maximum=1) for column in _ORG_COLUMNS.values()):
        return ""
    names: list[str] = []
    for column in _ORG_COLUMNS.values():
        statement = select(column).where(column > (after or "")).order_by(column).limit(1)
        if (name := connection.execute(statement).scalar()) is not None:
            names.append(name)
    return min(names, default=None)


def _count(connection: Connection, column: Column[str | None], org: str, maximum: int = MAX_COUNT) -> int:
    """Return the number of an organisation's rows. For no organisation, some tables have null and others empty text.

    The two are counted separately, so that each is a range of an index.
    """
    counted = 0
    for condition in (column == org,) if org else (column == "", column.is_(None)):
        sample = select(column).where(condition).limit(maximum - counted).subquery()
        counted += connection.execute(select(func.count()).select_from(sample)).scalar_one()
    return counted
