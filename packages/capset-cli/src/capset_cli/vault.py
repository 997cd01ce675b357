"""``capset vault``: the keys that protect the credentials of users (spec 11, V2)."""

from __future__ import annotations

import asyncio
import os

from capset.clock import SystemClock
from capset.errors import DefinitionError, counted
from capset.ids import Ids
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import Db
from capset_cli.common.output import out
from capset_cli.common.settings import load_settings, require_db
from capset_cli.common.targets import open_store
from capset_connect.vault.encryption import FILE_VARIABLE, VARIABLE, new_vault_key, vault_keys
from capset_connect.vault.vault import Vault


@guarded
def key_command() -> Exit:
    """Print a new key for the vault. Put it where only the server reads it, and keep a copy: nothing replaces it."""
    print(new_vault_key(), flush=True)
    return Exit.DONE


@guarded
def check_command(db: Db = None) -> Exit:
    """Check that the vault's key opens every data key of a database."""
    asyncio.run(_check(require_db(load_settings(db=db).db)))
    out().print("the vault's key opens every data key")
    return Exit.DONE


@guarded
def rotate_command(db: Db = None) -> Exit:
    """Wrap all data keys by the current key of the vault, which is the first one; the others can be removed then."""
    count = asyncio.run(_rotate(require_db(load_settings(db=db).db)))
    out().print(f"wrapped {counted(count, 'data key')} by the current key")
    return Exit.DONE


async def _check(url: str) -> None:
    keys = vault_keys(os.environ)
    if keys is None:
        raise DefinitionError("the vault has no key", hint=f"set {VARIABLE} or {FILE_VARIABLE}")
    async with open_store(url) as store:
        await Vault(store, keys, SystemClock(), Ids(SystemClock())).check()


async def _rotate(url: str) -> int:
    keys = vault_keys(os.environ)
    if keys is None:
        raise DefinitionError("the vault has no key", hint=f"set {VARIABLE} or {FILE_VARIABLE}")
    async with open_store(url) as store:
        return await Vault(store, keys, SystemClock(), Ids(SystemClock())).rotate()
