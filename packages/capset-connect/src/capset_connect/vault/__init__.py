"""Credentials that users lend to the server: encrypted, renewed, and used only for the servers they are for."""

from __future__ import annotations

from capset_connect.vault.connections import ConnectionService, UserConnection
from capset_connect.vault.encryption import VaultKeyRing, VaultKeys, vault_keys
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.user_auth import UserCredential, UserServer, user_servers
from capset_connect.vault.user_credentials import UserCredentials
from capset_connect.vault.user_vault import UserVault
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault

__all__ = [
    "ConnectionService",
    "CredentialOwner",
    "CredentialSecret",
    "Provider",
    "ProviderClient",
    "UserConnection",
    "UserCredential",
    "UserCredentials",
    "UserServer",
    "UserVault",
    "Vault",
    "VaultKeyRing",
    "VaultKeys",
    "user_servers",
    "vault_keys",
]
