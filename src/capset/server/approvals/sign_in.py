"""Signing in to the page: a key or a token once, then a cookie for some minutes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from capset.errors import InvalidArguments, Unauthenticated
from capset.server.auth.callers import Caller, Callers
from capset.server.auth.keys import digest_of
from capset.server.auth.signing_keys import KeySource, decrypt, encrypt, is_sealed, seal
from capset.server.service import Service

COOKIE: Final = "capset_approver"
SECONDS: Final = 600
"""How long a sign-in lasts."""
MAX_COOKIE: Final = 4_000
"""Maximum characters of the cookie's value: browsers take 4,096 with its name."""
_HEADER: Final = re.compile(rf"(?:^|; *){COOKIE}=([\w.-]*)", re.ASCII)
_VALUE: Final = re.compile(r"([0-9a-f]{64})\.([0-9]{1,12})\.([0-9a-f]{64})")
_PURPOSE: Final = "capset approver"
_FORM: Final = "capset approver form"
_TOKEN: Final = "capset approver token"  # noqa: S105 - a purpose, not a token
_REST: Final = "/v1/approvals"
"""The path that a token must be for: the page does what this does."""


class SignIns:
    """The sign-ins of approvers, which no server stores: a cookie has the digest of a key, its end, and a seal.

    The key itself is looked up for every request, so that a revoked one ends its sign-ins. The cookie of a token has
    the end and the whole token, encrypted, so that every request checks it again: its signature, its end, its audience.
    """

    def __init__(self, service: Service, keys: KeySource) -> None:
        self._service = service
        self._keys = keys

    async def begin(self, credential: str) -> str:
        """Return the value of the cookie of the holder of a key or a token.

        Raises ``Unauthenticated`` for one that is not valid, ``InsufficientScope``, and ``InvalidArguments`` for a
        token that is too long for a cookie.
        """
        callers, end = self._service.callers, str(self._now() + SECONDS)
        if not callers.is_token(credential):
            digest = digest_of(credential)
            (await _caller(callers, digest)).check("capset:approve")
            return f"{digest}.{end}.{await seal(self._keys, _PURPOSE, digest, end)}"
        (await _sender(callers, credential)).check("capset:approve")
        value = await encrypt(self._keys, _TOKEN, zlib.compress(f"{end} {credential}".encode()))
        if len(value) > MAX_COOKIE:
            raise InvalidArguments(
                f"The token has {len(credential):,} characters, too many to sign in with",
                hint="ask its issuer for one with fewer claims, or sign in with an API key",
            )
        return value

    async def caller(self, cookie: str) -> Caller | None:
        """Return who has signed in with a cookie, ``None`` if it is over, or none. Raises ``InsufficientScope``."""
        try:
            caller = await self._of_key(found) if (found := _VALUE.fullmatch(cookie)) else await self._of_token(cookie)
        except Unauthenticated:
            return None
        if caller is not None:
            caller.check("capset:approve")
        return caller

    async def _of_key(self, found: re.Match[str]) -> Caller | None:
        digest, end, sealed = found.groups()
        if int(end) <= self._now() or not await is_sealed(self._keys, sealed, _PURPOSE, digest, end):
            return None
        return await _caller(self._service.callers, digest)

    async def _of_token(self, cookie: str) -> Caller | None:
        found = await decrypt(self._keys, _TOKEN, cookie)
        if found is None:
            return None
        end, _, token = zlib.decompress(found).decode().partition(" ")  # it is as this server has written it
        return await _sender(self._service.callers, token) if int(end) > self._now() else None

    async def form_token(self, cookie: str, request: str) -> str:
        """Return the token of a form of this sign-in for this request."""
        return await seal(self._keys, _FORM, cookie, request)

    async def is_own_form(self, token: str, cookie: str, request: str) -> bool:
        """Return whether a form was made for this sign-in and this request."""
        return await is_sealed(self._keys, token, _FORM, cookie, request)

    def _now(self) -> int:
        return self._service.kernel.clock.time_ns() // 1_000_000_000


async def _caller(callers: Callers, digest: str) -> Caller:
    return callers.anyone or await callers.by_digest(digest)


async def _sender(callers: Callers, token: str) -> Caller:
    return await callers.identify(f"Bearer {token}", _REST)


def cookie_of(header: str) -> str:
    """Return the value of the sign-in's cookie in a ``Cookie`` header, ``""`` if there is none."""
    found = _HEADER.search(header)
    return "" if found is None else found[1]


def set_cookie(value: str, path: str, *, is_secure: bool) -> tuple[bytes, bytes]:
    """Return the header that sets the cookie; an empty value removes it."""
    age = SECONDS if value else 0
    written = f"{COOKIE}={value}; Max-Age={age}; Path={path}; HttpOnly; SameSite=Strict"
    return b"set-cookie", (f"{written}; Secure" if is_secure else written).encode()


def is_foreign(headers: Mapping[bytes, bytes], public_url: str | None) -> bool:
    """Return whether a browser says that a form comes from another site; what says nothing is no browser of today."""
    if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        return True
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    if not origin:
        return False
    host = headers.get(b"host", b"").decode("latin-1").lower()
    own = urlsplit(public_url).netloc.lower() if public_url else host
    return origin.partition("://")[2] not in (host, own)
