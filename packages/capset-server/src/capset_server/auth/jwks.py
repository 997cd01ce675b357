"""A token issuer's JSON Web Key Set, fetched or read from a file, and cached (spec 5, P14)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from pydantic_core import from_json

from capset.errors import CapsetError, DefinitionError, ToolError
from capset.net.addresses import is_loopback
from capset.net.client import HttpClient
from capset.net.urls import parse_url

FRESH_SECONDS: Final = 600.0
"""How long keys are used before they are fetched again."""
APART_SECONDS: Final = 60.0
"""The minimum time between fetches caused by unknown keys, so that clients cannot flood the issuer with requests."""
AGAIN_SECONDS: Final = 10.0
"""How long to wait after a failed fetch before the next."""
STALE_SECONDS: Final = 24 * 3_600.0
"""How long keys are used while the issuer cannot be reached."""
MAX_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 100
_TIMEOUT: Final = 5.0
_KINDS: Final = ("RSA", "EC", "OKP")
"""The key types that verify and cannot sign: with a shared secret, any verifier of tokens could also issue them."""
_RSA: Final = range(342, 1_367)
"""The length of a modulus in base64url characters: 2,048 to 8,192 bits."""
_EMPTY: Final = KeySet([])
_log = logging.getLogger("capset.tokens")


class Jwks:
    """An issuer's keys, from an https URL (http on loopback) or from a file.

    Raises ``DefinitionError`` for any other URL, and for a file that cannot be read or has no verification key.
    """

    def __init__(
        self, source: str, *, client: HttpClient | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._now = monotonic
        self._lock = asyncio.Lock()
        self._keys, self._kids = _EMPTY, frozenset[str | None]()
        self._next = self._fresh_until = self._kept_until = float("-inf")
        if "://" in source:
            self._client: HttpClient | None = client or HttpClient(allow=[_checked_host(source)])
            return
        self._client = None
        try:
            read_keys(self._file())
        except (OSError, ValueError) as error:
            raise DefinitionError(f"cannot read keys from {source!r}: {error}") from None

    async def keys(self, kid: str | None) -> KeySet:
        """Return the keys, empty if there are none; fetch them if they are stale or lack this ``kid``.

        Concurrent callers wait for a fetch under way, unless the key they need is already known.
        """
        if self._is_due(kid) and not (self._lock.locked() and kid in self._kids):
            async with self._lock:
                if self._is_due(kid):
                    await self._fetch()
        return self._keys if self._now() < self._kept_until else _EMPTY

    def _is_due(self, kid: str | None) -> bool:
        now = self._now()
        if now < self._next:
            return False
        return now >= self._fresh_until or (kid is not None and kid not in self._kids)

    async def _fetch(self) -> None:
        try:
            keys = read_keys(await self._read())
        except (CapsetError, OSError, ValueError) as error:
            self._next = self._now() + AGAIN_SECONDS
            _log.warning("cannot get keys from %s: %s", self._source, error)
            return
        now = self._now()
        self._keys, self._kids = keys, frozenset(key.kid for key in keys)
        self._next, self._fresh_until, self._kept_until = now + APART_SECONDS, now + FRESH_SECONDS, now + STALE_SECONDS

    async def _read(self) -> bytes:
        if self._client is None:
            return await asyncio.to_thread(self._file)
        headers = {"accept": "application/json"}
        # A redirect could lead from https to http, or from the issuer to anyone.
        async with self._client.open("GET", self._source, timeout=_TIMEOUT, headers=headers, redirects=0) as answer:
            if answer.status != 200:
                raise ValueError(f"the response has the status {answer.status}")
            return (await answer.read(MAX_BYTES + 1)).data

    def _file(self) -> bytes:
        with Path(self._source).open("rb") as file:
            return file.read(MAX_BYTES + 1)


def read_keys(data: bytes) -> KeySet:
    """Return the verification keys of a set; a malformed key does not invalidate the others.

    Raises ``ValueError`` if the data is not a set, is too large or has no such key.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    parsed = from_json(data)
    raw_keys: object = cast("dict[str, object]", parsed).get("keys") if isinstance(parsed, dict) else None
    if not isinstance(raw_keys, list):
        raise ValueError('expected a JSON Web Key Set: {"keys": […]}')
    entries = cast("list[object]", raw_keys)
    if len(entries) > MAX_KEYS:
        raise ValueError(f"it has {len(entries)} keys, more than {MAX_KEYS}")
    keys: list[Key] = []
    for number, entry in enumerate(entries):
        try:
            keys.append(_key(entry))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            _log.warning("key %d of a key set is skipped: %s", number + 1, error)
    if not keys:
        raise ValueError("it has no key to verify with")
    return KeySet(keys)


def _key(entry: object) -> Key:
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")
    members = cast("dict[str, Any]", entry)
    kind = members.get("kty")
    if kind not in _KINDS:
        raise ValueError(f"its kind is none of {', '.join(_KINDS)}")
    if "d" in members:
        raise ValueError("it is a private key, which a key set must never contain")
    if kind == "RSA" and len(str(members.get("n"))) not in _RSA:
        raise ValueError("an RSA key must have 2,048 to 8,192 bits")
    if not isinstance(members.get("kid", ""), str):
        raise ValueError("its kid is not a text")
    return JWKRegistry.import_key(members)


def _checked_host(source: str) -> str:
    try:
        url = parse_url(source)
    except ToolError as error:
        raise DefinitionError(f"the keys of an issuer must be at a URL or in a file: {error.message}") from None
    if url.scheme != "https" and not is_loopback(url.host):
        raise DefinitionError(
            f"the keys of an issuer must come over https: anyone who can change them can let anyone in; got {url}"
        )
    return url.authority
