"""The keys that sign and encrypt data that clients keep for the servers of a store (spec 5, P39)."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import math
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from capset.clock import iso
from capset.errors import StoreError
from capset.kernel.kernel import Kernel

RENEW_DAYS: Final = 7
"""Age at which the newest key is replaced."""
VALID_DAYS: Final = 30
"""How long a replaced key still verifies the ids that it has signed."""
LOOK_SECONDS: Final = 3600.0
"""How long a server uses the keys before it reads them again, while they verify every id."""
AGAIN_SECONDS: Final = 1.0
"""The same when an id cannot be verified: another server may have replaced the key."""
_NONCE: Final = 12
_DAY_NS: Final = 86_400 * 1_000_000_000
_log = logging.getLogger("capset.mcp")


class KeySource(Protocol):
    """A source of at least one key. The first one signs."""

    async def get(self, *, afresh: bool = False) -> Sequence[bytes]:
        """Return the keys; ``afresh`` if there may be new ones."""
        ...


async def seal(keys: KeySource, purpose: str, *texts: str) -> str:
    """Return the keyed hash of texts, in hexadecimal; it is valid for this purpose only."""
    return _seal((await keys.get())[0], purpose, texts)


async def is_sealed(keys: KeySource, given: str, purpose: str, *texts: str) -> bool:
    """Return whether ``given`` is the keyed hash of texts, made by any server that shares the keys."""
    for afresh in (False, True):
        for key in await keys.get(afresh=afresh):
            if hmac.compare_digest(given.encode(errors="replace"), _seal(key, purpose, texts).encode()):
                return True
    return False


def _seal(key: bytes, purpose: str, texts: Sequence[str]) -> str:
    message = b"\0".join(text.encode(errors="surrogatepass") for text in (purpose, *texts))
    return hmac.digest(key, message, sha256).hex()


async def encrypt(keys: KeySource, purpose: str, data: bytes) -> str:
    """Encrypt data with the newest key, for this purpose only, into text that a cookie may contain."""
    nonce = secrets.token_bytes(_NONCE)
    sealed = AESGCM(_encryption_key((await keys.get())[0], purpose)).encrypt(nonce, data, None)
    return urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()


async def decrypt(keys: KeySource, purpose: str, text: str) -> bytes | None:
    """Decrypt what a server that shares the keys has encrypted for this purpose; ``None`` for any other text."""
    try:
        encrypted = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    if urlsafe_b64encode(encrypted).rstrip(b"=").decode() != text:
        return None  # only the canonical encoding is accepted
    for afresh in (False, True):
        for key in await keys.get(afresh=afresh):
            with contextlib.suppress(InvalidTag, ValueError):
                return AESGCM(_encryption_key(key, purpose)).decrypt(encrypted[:_NONCE], encrypted[_NONCE:], None)
    return None


def _encryption_key(key: bytes, purpose: str) -> bytes:
    return hmac.digest(key, b"encryption\0" + purpose.encode(), sha256)


class FixedKey:
    """One key, for as long as the process lives."""

    def __init__(self, key: bytes) -> None:
        self._keys = (key,)

    async def get(self, *, afresh: bool = False) -> Sequence[bytes]:
        """Return the key; there is never another."""
        return self._keys


class StoredKeys:
    """The keys in a kernel's store, replaced when they are too old."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._keys: Sequence[bytes] = ()
        self._looked = -math.inf
        self._reading = asyncio.Lock()

    async def get(self, *, afresh: bool = False) -> Sequence[bytes]:
        """Return the keys as they were at most ``LOOK_SECONDS`` ago, or ``AGAIN_SECONDS`` if ``afresh``."""
        seconds = AGAIN_SECONDS if afresh else LOOK_SECONDS
        if time.monotonic() - self._looked >= seconds:
            async with self._reading:  # concurrent requests share one read
                if time.monotonic() - self._looked >= seconds:
                    await self._read_again()
        return self._keys

    async def _read_again(self) -> None:
        try:
            self._keys = await self._read()
        except StoreError as error:
            if not self._keys:
                raise
            _log.warning("the signing keys could not be read again: %s", error.message)
        self._looked = time.monotonic()

    async def _read(self) -> Sequence[bytes]:
        now = self._kernel.clock.time_ns()
        times = {
            "now": iso(now),
            "renewed": iso(now - RENEW_DAYS * _DAY_NS),
            "expired": iso(now - (RENEW_DAYS + VALID_DAYS) * _DAY_NS),
        }
        return [bytes.fromhex(row.key) for row in await self._kernel.store.keys.signing_keys(**times)]
