"""The vault of a command, for the servers that use credentials of users."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from capset.errors import DefinitionError
from capset.kernel.runtime import EnvironmentSecrets

if TYPE_CHECKING:
    from capset_connect.sources import Source
    from capset_connect.vault.user_vault import UserVault


def user_vault(sources: Iterable[Source], *, is_required: bool = False) -> UserVault | None:
    """Return the vault for those of a configuration's sources that use credentials of users; ``None`` if none does.

    Raises ``DefinitionError`` for invalid keys of the vault, and for missing ones if it ``is_required``. Otherwise,
    calls of these servers are refused without them.
    """
    from capset_connect.vault.encryption import vault_keys
    from capset_connect.vault.user_auth import user_servers
    from capset_connect.vault.user_vault import UserVault

    sources = tuple(sources)
    servers = user_servers(sources)
    if not servers:
        return None
    keys = vault_keys(os.environ)
    if keys is None:
        if is_required:
            raise DefinitionError(
                f"{', '.join(sorted(servers))}: auth: user needs the vault's key, which is not set",
                hint="set CAPSET_VAULT_KEY, or CAPSET_VAULT_KEY_FILE",
            )
        return None
    vault = UserVault(keys, EnvironmentSecrets())
    vault.declare(sources)
    return vault
