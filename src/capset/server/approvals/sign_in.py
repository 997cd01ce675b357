"""Signing in to the page: a key once, then a signed cookie for some minutes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from capset.errors import Unauthenticated
from capset.server.auth.callers import Caller, Callers
from capset.server.auth.keys import digest_of
from capset.server.auth.signing_keys import KeySource, is_sealed, seal
from capset.server.service import Service

COOKIE: Final = "capset_approver"
SECONDS: Final = 600
"""How long a sign-in lasts."""
_HEADER: Final = re.compile(rf"(?:^|; *){COOKIE}=([0-9a-f.]*)")
_VALUE: Final = re.compile(r"([0-9a-f]{64})\.([0-9]{1,12})\.([0-9a-f]{64})")
_PURPOSE: Final = "capset approver"
_FORM: Final = "capset approver form"


class SignIns:
    """The sign-ins of approvers, which no server stores: a cookie has the digest of a key, its end, and a seal.

    The key itself is looked up for every request, so that a revoked one ends its sign-ins.
    """

    def __init__(self, service: Service, keys: KeySource) -> None:
        self._service = service
        self._keys = keys

    async def begin(self, key: str) -> str:
        """Return the value of the cookie of a key's holder.

        Raises ``Unauthenticated`` for a key that is not valid, or is a token, and ``InsufficientScope``.
        """
        callers = self._service.callers
        digest = digest_of(key)
        caller = await _caller(callers, digest)
        caller.check("capset:approve")
        end = str(self._now() + SECONDS)
        return f"{digest}.{end}.{await seal(self._keys, _PURPOSE, digest, end)}"

    async def caller(self, cookie: str) -> Caller | None:
        """Return who has signed in with a cookie, ``None`` if it is over, or none. Raises ``InsufficientScope``."""
        found = _VALUE.fullmatch(cookie)
        if found is None or int(found[2]) <= self._now():
            return None
        if not await is_sealed(self._keys, found[3], _PURPOSE, found[1], found[2]):
            return None
        try:
            caller = await _caller(self._service.callers, found[1])
        except Unauthenticated:
            return None
        caller.check("capset:approve")
        return caller

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
