"""The vault's encryption: what a ciphertext is bound to, and the keys that open it."""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from capset import Kernel
from capset.errors import DefinitionError, StoreError
from capset.ids import Ids
from capset.stores.base import Store
from capset.stores.memory import MemoryStore
from capset_connect.vault.encryption import VaultKeyRing, vault_keys
from capset_connect.vault.providers import AuthorizationStart
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault

ADA = CredentialOwner("acme", "user:ada", "github")
PLACE = "b" * 64
SECRET = CredentialSecret("key-of-ada-0123456789", "refresh-of-ada-0123456789")


def key(number: int = 1) -> str:
    """Return a key of the vault."""
    return b64encode(bytes([number]) * 32).decode()


def vault_in(store: Store, kernel: Kernel, *keys: str) -> Vault:
    """Return a vault with these keys."""
    clock = kernel.clock
    return Vault(store, VaultKeyRing(keys or (key(),)), clock, Ids(clock))


@pytest.mark.spec("V2", "V3", "T98")
async def test_a_credential_is_read_as_it_was_stored_and_only_its_ciphertext_is_stored() -> None:
    store = MemoryStore()
    async with Kernel(store=store) as kernel:
        vault = vault_in(store, kernel)
        row = await vault.put(ADA, "oauth", SECRET, binding=PLACE, scopes=("repo",))
        stored = await store.credentials.find("acme", "user:ada", "github")
        assert stored == row
        assert await vault_in(store, kernel).read(row) == SECRET
        data_key = await store.credentials.data_key("acme")
        for text in (repr(row), row.sealed, repr(SECRET), repr(data_key)):
            assert "of-ada" not in text


@pytest.mark.spec("V2", "T98")
@pytest.mark.parametrize(
    "change",
    [{"principal": "user:eve"}, {"server": "mail"}, {"org": None}, {"version": 2}, {"id": "x"}, {"binding": "c" * 64}],
)
async def test_a_ciphertext_opens_only_in_its_own_row(change: dict[str, object]) -> None:
    store = MemoryStore()
    async with Kernel(store=store) as kernel:
        vault = vault_in(store, kernel)
        row = await vault.put(ADA, "key", SECRET, binding=PLACE)
        await vault.put(replace(ADA, org=None), "key", SECRET, binding=PLACE)  # so that both orgs have a data key
        with pytest.raises(StoreError, match=r"cannot be decrypted|is missing"):
            await vault.read(replace(row, **change))


@pytest.mark.spec("V2", "T98")
async def test_without_its_key_the_vault_opens_nothing_and_says_which_is_missing() -> None:
    store = MemoryStore()
    async with Kernel(store=store) as kernel:
        row = await vault_in(store, kernel, key(1)).put(ADA, "key", SECRET, binding=PLACE)
        other = vault_in(store, kernel, key(2))
        for ask in (other.read(row), other.check(), other.put(ADA, "key", SECRET, binding=PLACE)):
            with pytest.raises(StoreError, match=r"key [0-9a-f]{16} is not here"):
                await ask
        both = vault_in(store, kernel, key(2), key(1))
        assert await both.read(row) == SECRET
        assert [await both.rotate(), await both.rotate()] == [1, 0]
        assert await vault_in(store, kernel, key(2)).read(row) == SECRET
        with pytest.raises(StoreError):
            await vault_in(store, kernel, key(1)).read(row)


@pytest.mark.spec("V10", "T102")
async def test_an_authorization_is_taken_by_its_state_once() -> None:
    store = MemoryStore()
    async with Kernel(store=store) as kernel:
        vault = vault_in(store, kernel)
        starts = [
            AuthorizationStart("https://town.example", f"state-{number}", f"verifier-{number}") for number in (1, 3)
        ]
        options = {"binding": "b", "redirect_uri": "https://capset.example/callback"}
        await vault.begin(ADA, starts[0], seconds=600, **options)
        assert await vault.take("state-2") is None
        begun = await vault.take("state-1")
        assert begun is not None
        assert (begun.principal, begun.redirect_uri) == ("user:ada", "https://capset.example/callback")
        assert await vault.verifier_of(begun, "state-1", binding="b") == "verifier-1"
        with pytest.raises(StoreError):
            await vault.verifier_of(begun, "state-1", binding="of another place")
        assert await vault.take("state-1") is None
        await vault.begin(ADA, starts[1], seconds=0, **options)
        assert await vault.take("state-3") is None


@pytest.mark.parametrize("text", ["short", b64encode(b"x" * 31).decode(), "é" * 44, f"{key()},"])
def test_invalid_keys_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        vault_keys({"CAPSET_VAULT_KEY": text})
    assert text not in str(refused.value)


def test_keys_come_from_a_variable_or_a_file_of_their_owner(tmp_path: Path) -> None:
    assert vault_keys({}) is None
    from_variable = vault_keys({"CAPSET_VAULT_KEY": f"{key(1)}, {key(2)}"})
    path = tmp_path / "vault.key"
    path.write_text(f"{key(1)}\n{key(2)}\n")
    path.chmod(0o600)
    from_file = vault_keys({"CAPSET_VAULT_KEY_FILE": str(path)})
    assert from_variable is not None
    assert from_file is not None
    assert from_variable.current == from_file.current
    with pytest.raises(DefinitionError, match="not both"):
        vault_keys({"CAPSET_VAULT_KEY": key(), "CAPSET_VAULT_KEY_FILE": str(path)})
    with pytest.raises(DefinitionError, match="cannot be read"):
        vault_keys({"CAPSET_VAULT_KEY_FILE": str(tmp_path / "none")})
    if os.name == "posix" and sys.platform != "cygwin":
        path.chmod(0o640)
        with pytest.raises(DefinitionError, match="0640: others may read it"):
            vault_keys({"CAPSET_VAULT_KEY_FILE": str(path)})
