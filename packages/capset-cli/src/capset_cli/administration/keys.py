"""The API keys of a local database."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta

from capset.definitions.governance.limits import window_seconds
from capset.errors import NotFound
from capset.kernel.kernel import Kernel
from capset.wire.operations import KeyInput, KeyShape, NewKeyShape, key_shape, new_key_shape
from capset_server.auth.keys import DEFAULT_SCOPES, create_key, key_principal, revoke_key


class LocalKeys:
    """The methods of ``client.keys``, for the keys of every organisation."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def create(self, key: KeyInput) -> NewKeyShape:
        """Create a key, and return it with its secret, which is not shown again.

        By default, the key does not expire. Raises ``DefinitionError`` as ``create_key`` does.
        """
        expires = key.expires if "expires" in key.model_fields_set else None
        row, secret = await create_key(
            self._kernel,
            key.name,
            key_principal(key),
            scopes=key.scopes or DEFAULT_SCOPES,
            lifetime=None if expires is None else timedelta(seconds=window_seconds(expires)),
            agent=key.agent,
        )
        return new_key_shape(row, secret)

    async def all(self) -> AsyncGenerator[KeyShape]:
        """Yield all keys, newest first, including revoked and expired ones."""
        for row in await self._kernel.store.keys.list():
            yield key_shape(row)

    async def revoke(self, id: str) -> KeyShape:
        """Revoke a key for good. Raises ``NotFound``."""
        row = await revoke_key(self._kernel, id)
        if row is None:
            raise NotFound(f"there is no key {id!r}", hint="capset key list shows their ids")
        return key_shape(row)
