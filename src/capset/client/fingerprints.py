"""The payloads of hashes."""

from __future__ import annotations

from capset.client.address import path_of
from capset.client.connection import Connection
from capset.wire.fingerprints import FingerprintShape, InstalledShape


class FingerprintResource:
    """``client.fingerprints``; needs a key with the scope ``capset:read``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, hash: str) -> FingerprintShape:
        """Return the payload of a hash.

        Raises ``NotFound`` for a hash unknown to the server, ``InvalidArguments`` for text that is no hash.
        """
        return await self._connection.get(FingerprintShape, path_of("fingerprints", hash))

    async def installed(self) -> InstalledShape:
        """Return the installed capabilities, with their hashes, their tools', and the code behind them."""
        return await self._connection.get(InstalledShape, path_of("fingerprints"))
