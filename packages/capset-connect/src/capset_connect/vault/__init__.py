"""Credentials that users lend to the server: encrypted, renewed, and used only for the servers they are for."""

from __future__ import annotations

from capset_connect.vault.encryption import LocalKeys, VaultKeys, vault_keys
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.user_credentials import UserCredential, UserCredentials, needs_of
from capset_connect.vault.user_vault import UserVault
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault

__all__ = [
    "CredentialOwner",
    "CredentialSecret",
    "LocalKeys",
    "Provider",
    "ProviderClient",
    "UserCredential",
    "UserCredentials",
    "UserVault",
    "Vault",
    "VaultKeys",
    "needs_of",
    "vault_keys",
]
