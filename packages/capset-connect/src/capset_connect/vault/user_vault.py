"""The vault of one process, with the servers that it is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from capset.clock import Clock
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError
from capset.ids import Ids
from capset.kernel.kernel import Kernel
from capset.stores.base import Store
from capset_connect.vault.connections import ConnectionService
from capset_connect.vault.encryption import VaultKeys
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.user_auth import UserServer, user_servers
from capset_connect.vault.user_credentials import UserCredentials
from capset_connect.vault.vault import Vault


class UserVault:
    """A vault for a kernel: ``Kernel(credentials=vault.open)``. ``secrets`` are those of the providers' clients."""

    def __init__(self, keys: VaultKeys, secrets: Secrets) -> None:
        self._keys = keys
        self._secrets = secrets
        self._clients: dict[str, ProviderClient] = {}
        self._servers: Mapping[str, UserServer] = {}
        self._opened: tuple[Vault, UserCredentials] | None = None

    def declare(self, sources: Iterable[Any]) -> None:  # MCP servers and APIs; most have no ``auth``
        """Set the servers that are used with credentials of users. Raises as ``user_servers`` does."""
        self._servers = user_servers(sources)
        if self._opened is not None:
            self._opened[1].declare(self._servers)

    def open(self, store: Store, clock: Clock) -> UserCredentials:
        """Return the credentials in a store."""
        vault = Vault(store, self._keys, clock, Ids(clock))
        credentials = UserCredentials(vault, store, clock, self._client)
        credentials.declare(self._servers)
        self._opened = vault, credentials
        return credentials

    @property
    def vault(self) -> Vault:
        """The vault in the kernel's store. Raises ``CapsetError`` before the kernel is open."""
        return self._open()[0]

    def connections(self, kernel: Kernel) -> ConnectionService:
        """Return the connections of the kernel's users. Raises ``CapsetError`` before the kernel is open."""
        vault, credentials = self._open()
        return ConnectionService(kernel, vault, credentials, self._client)

    def _open(self) -> tuple[Vault, UserCredentials]:
        if self._opened is None:
            raise CapsetError("the vault belongs to a kernel that is not open: Kernel(credentials=vault.open)")
        return self._opened

    def _client(self, provider: Provider) -> ProviderClient:
        client = self._clients.get(provider.name)
        if client is None or client.provider != provider:  # its declaration may have changed
            client = self._clients[provider.name] = ProviderClient(provider, self._secrets.get)
        return client
