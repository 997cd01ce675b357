"""The payloads of hashes in a local database."""

from __future__ import annotations

from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.wire.fingerprints import FingerprintShape
from capset_connect.agents.store import StoredAgents
from capset_server.fingerprints import FingerprintLookup


class LocalFingerprints:
    """The methods of ``client.fingerprints`` that commands use."""

    def __init__(self, kernel: Kernel, org: str | None) -> None:
        registry = Registry.installed()
        self._lookup = FingerprintLookup(kernel, registry, StoredAgents(kernel, registry))
        self._org = org

    async def get(self, hash: str) -> FingerprintShape:
        """Return what a hash covers. Raises ``NotFound``."""
        return await self._lookup.resolve(self._org, hash)
