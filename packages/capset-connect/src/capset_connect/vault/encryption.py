"""Envelope encryption: each org's data key, wrapped by a key from outside the database (spec 11, V2).

A copy of the database without that key reveals no credential. Ciphertexts are AES-256-GCM, and bound to the row that
they belong to: moved to another principal, server or version, they cannot be decrypted.
"""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64decode, b64encode
from binascii import Error as InvalidBase64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from capset.errors import DefinitionError, StoreError

KEY_BYTES: Final = 32
"""The size of an AES-256 key."""
_NONCE_BYTES: Final = 12
"""The size of a GCM nonce (NIST SP 800-38D)."""
VARIABLE: Final = "CAPSET_VAULT_KEY"
"""The environment variable with the vault's keys, in base64, separated by commas."""
FILE_VARIABLE: Final = "CAPSET_VAULT_KEY_FILE"
"""The environment variable with the path of a file of keys, one a line, which only its owner may read."""
_HINT: Final = "make one: capset vault key"


class VaultKeys(Protocol):
    """The keys that wrap data keys, such as those of a key management service."""

    @property
    def current(self) -> str:
        """The id of the key that wraps new data keys."""
        ...

    async def wrap(self, data_key: bytes, context: bytes) -> str:
        """Return a data key encrypted by the current key. ``context`` has to be the same to unwrap it."""
        ...

    async def unwrap(self, wrapped: str, wrapped_by: str, context: bytes) -> bytes:
        """Return the data key. Raises ``StoreError`` if the key ``wrapped_by`` is missing or does not fit."""
        ...


class VaultKeyRing:
    """Keys in the memory of this process. The first one wraps; the others unwrap what they have wrapped before.

    Raises ``DefinitionError`` for a key that is not 32 bytes in base64; the message does not contain it.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        decoded = [_decoded(number, key) for number, key in enumerate(keys, start=1)]
        if not decoded:
            raise DefinitionError("the vault needs a key", hint=_HINT)
        self._keys = {_key_id(key): key for key in decoded}
        self._current = _key_id(decoded[0])

    @property
    def current(self) -> str:
        """The id of the key that wraps new data keys."""
        return self._current

    async def wrap(self, data_key: bytes, context: bytes) -> str:
        """Return a data key encrypted by the current key."""
        return encrypt(self._keys[self._current], data_key, context)

    async def unwrap(self, wrapped: str, wrapped_by: str, context: bytes) -> bytes:
        """Return the data key. Raises ``StoreError`` if the key ``wrapped_by`` is missing or does not fit."""
        if (key := self._keys.get(wrapped_by)) is None:
            raise StoreError(
                f"the vault's key {wrapped_by} is not here, so the credentials that it protects cannot be used",
                hint=f"add it to {VARIABLE}, behind the current key",
            )
        return decrypt(key, wrapped, context)


def vault_keys(environ: Mapping[str, str]) -> VaultKeyRing | None:
    """Return the keys that the environment names, or ``None`` if it names none.

    Raises ``DefinitionError`` for invalid keys, and for a file that is missing or that others may read.
    """
    text, path = environ.get(VARIABLE), environ.get(FILE_VARIABLE)
    if text and path:
        raise DefinitionError(f"give {VARIABLE} or {FILE_VARIABLE}, not both")
    if text:
        return VaultKeyRing([key.strip() for key in text.split(",")])
    return VaultKeyRing(_file_keys(Path(path))) if path else None


def new_vault_key() -> str:
    """Return a new key for a vault: 32 random bytes in base64."""
    return b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _file_keys(path: Path) -> Sequence[str]:
    try:
        mode, text = path.stat().st_mode & 0o777, path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"the vault's key file {str(path)!r} cannot be read: {error}") from None
    if os.name == "posix" and mode & 0o077:
        raise DefinitionError(
            f"the vault's key file {str(path)!r} has mode {mode:04o}: others may read it", hint=f"chmod 600 {path}"
        )
    return text.split()


def _decoded(number: int, key: str) -> bytes:
    try:
        decoded = b64decode(key, validate=True)
    except (InvalidBase64, ValueError):
        decoded = b""
    if len(decoded) != KEY_BYTES:
        raise DefinitionError(f"key {number} of the vault must be {KEY_BYTES} bytes in base64", hint=_HINT)
    return decoded


def _key_id(key: bytes) -> str:
    return sha256(b"capset vault key\0" + key).hexdigest()[:16]


def context_of(*parts: str | int | None) -> bytes:
    """Return what a ciphertext is bound to, unambiguously."""
    return json.dumps(parts, ensure_ascii=True, separators=(",", ":")).encode()


def new_data_key() -> bytes:
    """Return a new data key."""
    return secrets.token_bytes(KEY_BYTES)


class UnreadableSecret(StoreError):
    """An encrypted text that cannot be decrypted for the place in which it stands."""


def encrypt(key: bytes, data: bytes, context: bytes) -> str:
    """Return the nonce and the ciphertext in base64."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return b64encode(nonce + AESGCM(key).encrypt(nonce, data, context)).decode()


def decrypt(key: bytes, text: str, context: bytes) -> bytes:
    """Return the data. Raises ``UnreadableSecret`` if the key or the context is another, or the text was changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        encrypted = b64decode(text, validate=True)
        return AESGCM(key).decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        raise UnreadableSecret(
            "a credential in the vault cannot be decrypted: it was changed, or the key is another"
        ) from None
