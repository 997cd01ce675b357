"""API keys, principals and organisations."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from capset.wire.operations import (
    KeyInput,
    KeyPageShape,
    KeyShape,
    NewKeyShape,
    OrgPageShape,
    OrgShape,
    PrincipalPageShape,
    PrincipalShape,
)
from capset_server.client.connection import LARGEST_PAGE, REPEATABLE, Connection, every, json_bytes, path_of


class KeyResource:
    """``client.keys``; needs a key with the scope ``capset:admin``, except for the caller's own key."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, key: KeyInput, *, idempotency_key: str | None = None) -> NewKeyShape:
        """Create a key and return it with its secret, which is shown only once.

        The key has at most the caller's organisation, permissions and allowance; raises ``PermissionDenied`` for more.
        With ``idempotency_key``, the same request within a day creates no second key, but raises ``Conflict`` with the
        id of the first.
        """
        headers = {} if idempotency_key is None else {REPEATABLE: idempotency_key}
        return await self._connection.send(NewKeyShape, "POST", path_of("keys"), json_bytes(key.plain()), headers)

    async def get(self, id: str) -> KeyShape:
        """Return a key without its secret. Raises ``NotFound``."""
        return await self._connection.get(KeyShape, path_of("keys", id))

    async def revoke(self, id: str) -> KeyShape:
        """Revoke a key for good. Raises ``NotFound``."""
        response = await self._connection.request("POST", path_of("keys", id, "revoke"))
        return self._connection.answers.parsed(KeyShape, response.content)

    async def list(
        self, *, org: str | None = None, principal: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> KeyPageShape:
        """List keys, newest first, including revoked and expired ones; ``org`` is for callers without an organisation.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        query = {"org": org, "principal": principal, "limit": limit, "cursor": cursor}
        return await self._connection.get(KeyPageShape, path_of("keys"), query)

    def all(self, *, org: str | None = None, principal: str | None = None) -> AsyncGenerator[KeyShape]:
        """Iterate over all matching keys, newest first, page by page."""
        return every(lambda cursor: self.list(org=org, principal=principal, limit=LARGEST_PAGE, cursor=cursor))


class PrincipalResource:
    """``client.principals``; needs a key with the scope ``capset:admin``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        org: str | None = None,
        principal: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> PrincipalPageShape:
        """List the principals that have keys or sessions, by id, with their valid keys.

        ``org`` is for callers without an organisation. ``principal`` is an id, which a user and an agent may share,
        and ``text`` a part of it.
        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        query = {"org": org, "principal": principal, "text": text, "limit": limit, "cursor": cursor}
        return await self._connection.get(PrincipalPageShape, path_of("principals"), query)

    def all(self, *, org: str | None = None) -> AsyncGenerator[PrincipalShape]:
        """Iterate over all principals, page by page."""
        return every(lambda cursor: self.list(org=org, limit=LARGEST_PAGE, cursor=cursor))


class OrgResource:
    """``client.orgs``; needs a key with the scope ``capset:admin`` that belongs to no organisation."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> OrgPageShape:
        """List the organisations that have keys, stored agents or sessions, by name.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page.
        """
        return await self._connection.get(OrgPageShape, path_of("orgs"), {"limit": limit, "cursor": cursor})

    def all(self) -> AsyncGenerator[OrgShape]:
        """Iterate over all organisations, page by page."""
        return every(lambda cursor: self.list(limit=LARGEST_PAGE, cursor=cursor))
