"""The exact version of each turn: links, the envelopes stored with them, and the payloads of hashes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from capset.wire.diffs import DiffShape, FingerprintDiffShape
from capset.wire.fingerprints import FingerprintShape, InstalledShape, SightingsShape
from capset.wire.lineage import EnvelopeShape, LinkPageShape, LinkShape, StoredLinkShape
from capset_server.client.connection import LARGEST_PAGE, Connection, every, json_bytes, path_of


class LinkResource:
    """``client.links``; needs a key with the scope ``capset:call``, for links of the caller's own sessions.

    ``capset:audit`` covers every link and envelope of the organisation. All others raise ``NotFound``.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def record(
        self,
        session_id: str,
        *,
        metadata: Mapping[str, Any] | None = None,  # any JSON
        context: Mapping[str, Any] | None = None,
        invocation: Mapping[str, Any] | None = None,
        reason: str = "",
    ) -> StoredLinkShape:
        """Store a session's current link with its envelope; ``transition`` is the change of its runtime hash, if any.

        ``metadata`` is stored with the link, and ``context`` in the envelope. ``invocation`` says for whom the turn
        runs; only its hash is stored. ``reason`` explains a change of the hash, in at most 1,000 characters. Raises
        ``NotFound``, and ``InvalidArguments`` for a context or an invocation that cannot be stored.
        """
        optional = {"metadata": metadata, "context": context, "invocation": invocation}
        members = {name: value for name, value in optional.items() if value is not None}
        body = json_bytes({"session_id": session_id, "reason": reason, **members})
        return await self._connection.send(StoredLinkShape, "POST", path_of("links"), body)

    async def get(self, id: str) -> LinkShape:
        """Return a link. Raises ``NotFound``."""
        return await self._connection.get(LinkShape, path_of("links", id))

    async def list(
        self,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> LinkPageShape:
        """List the links that match all filters, newest first.

        ``limit`` is 1–200, ``cursor`` the ``next`` of the previous page. Raises ``PermissionDenied`` without
        ``session_id``, unless the key has the scope ``capset:audit``.
        """
        query = {"agent_id": agent_id, "session_id": session_id, "limit": limit, "cursor": cursor}
        return await self._connection.get(LinkPageShape, path_of("links"), query)

    def all(self, *, agent_id: str | None = None, session_id: str | None = None) -> AsyncGenerator[LinkShape]:
        """Iterate over all matching links, newest first, page by page."""
        return every(
            lambda cursor: self.list(agent_id=agent_id, session_id=session_id, limit=LARGEST_PAGE, cursor=cursor)
        )

    async def envelope_of(self, id: str) -> EnvelopeShape:
        """Return the envelope of a link. Raises ``NotFound``."""
        return await self._connection.get(EnvelopeShape, path_of("links", id, "envelope"))

    async def envelope(self, id: str) -> EnvelopeShape:
        """Return an envelope by its own id. Raises ``NotFound``."""
        return await self._connection.get(EnvelopeShape, path_of("envelopes", id))

    async def diff(self, before: str, after: str) -> DiffShape:
        """Compare two versions by the ids of their links or envelopes. Raises ``NotFound``."""
        return await self._connection.get(DiffShape, path_of("links", "diff"), {"before": before, "after": after})


class FingerprintResource:
    """``client.fingerprints``; needs a key with the scope ``capset:read``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, hash: str) -> FingerprintShape:
        """Return the payload of a hash.

        Raises ``NotFound`` for a hash unknown to the server, ``InvalidArguments`` for text that is not a hash.
        """
        return await self._connection.get(FingerprintShape, path_of("fingerprints", hash))

    async def sightings(self, hash: str) -> SightingsShape:
        """Return when and where a hash was live, by the links that name it; needs the scope ``capset:audit``."""
        return await self._connection.get(SightingsShape, path_of("fingerprints", hash, "sightings"))

    async def diff(self, before: str, after: str) -> FingerprintDiffShape:
        """Compare what two hashes cover. Raises ``NotFound``, and ``InvalidArguments`` if their kinds differ."""
        return await self._connection.get(FingerprintDiffShape, path_of("fingerprints", before, "diff", after))

    async def installed(self) -> InstalledShape:
        """Return the installed capabilities with their hashes, and those of their tools and code."""
        return await self._connection.get(InstalledShape, path_of("fingerprints"))
