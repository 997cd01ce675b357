"""Sign-ins of people in a browser: they enter a key or a token once, and then have a cookie for some time."""

from __future__ import annotations

import logging
import re
import secrets
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from capset.errors import InvalidArguments, LimitExceeded, Unauthenticated
from capset.stores.base import ReplyRow
from capset_server.auth.callers import REFUSED, Caller, Callers
from capset_server.auth.keys import Scope, digest_of
from capset_server.auth.signing_keys import KeySource, decrypt, encrypt, is_sealed, seal
from capset_server.http.idempotency import forgotten_before
from capset_server.service import Service

FAILURES: Final = 10
"""Maximum number of wrong credentials from one address within ``WINDOW_SECONDS`` before they are rate-limited."""
WINDOW_SECONDS: Final = 60.0
_ADDRESSES: Final = 10_000

MAX_COOKIE: Final = 4_000
"""Maximum length of the cookie's value: browsers accept 4,096 characters including its name."""
_VALUE: Final = re.compile(r"([0-9a-f]{64})\.([0-9]{1,12})\.([0-9a-f]{16})\.([0-9a-f]{64})")
_NAMED: Final = re.compile(r"(?:^|; *)([\w-]+)=([\w.-]*)", re.ASCII)
_ENDED: Final = "sign-out"
_NO_ORG: Final = "\x1fsign-out"
"""The organisation of the rows of sign-outs. None can have this name, so the rows use up no quota."""
_log = logging.getLogger("capset.tokens")


@dataclass(frozen=True, slots=True)
class SignInKind:
    """A kind of sign-in: its cookie, its lifetime in seconds, and what it requires of a credential.

    ``path`` is the REST path that a token must be for, and ``scope`` the required scope, if there is one.
    """

    cookie: str
    seconds: int
    path: str
    scope: Scope | None = None
    same_site: str = "Strict"

    @property
    def purpose(self) -> str:
        """The purpose of the seals of this kind: they are valid for nothing else."""
        return self.cookie.replace("_", " ")


class SignIns:
    """The sign-ins of one kind. No server stores them: they are in the cookies.

    The cookie for a key contains the digest of the key, the expiry, a nonce and a seal. Every request looks the key up,
    so revoking it ends its sign-ins. The cookie for a token contains the expiry and the whole token, encrypted. Every
    request validates the token again: its signature, its expiry, its audience. Only sign-outs are stored, by the hash
    of the cookie, until the cookie would have expired. They end copies of the cookie, too.
    """

    def __init__(self, kind: SignInKind, service: Service, keys: KeySource) -> None:
        self.kind = kind
        self._service = service
        self._keys = keys
        self._failures = Failures()

    async def begin_with(self, credential: str, address: str) -> str:
        """Return the cookie's value for a credential that was entered at a client address.

        A valid credential always signs in. Raises as ``begin`` does, but ``LimitExceeded`` instead of
        ``Unauthenticated`` after ``FAILURES`` wrong credentials from the address within a minute.
        """
        try:
            return await self.begin(credential)
        except Unauthenticated:
            self._failures.add(address)
            either = " or token" if self._service.callers.takes_tokens else ""
            raise Unauthenticated(f"This is not a valid API key{either}.") from None

    async def begin(self, credential: str, *, subject: str | None = None) -> str:
        """Return the cookie's value for a key or a token; with a ``subject``, only for a token of that subject.

        Raises ``Unauthenticated`` if the credential is not valid or has another subject, ``InsufficientScope`` if it
        lacks the kind's scope, and ``InvalidArguments`` if a token is too long for a cookie.
        """
        callers, end = self._service.callers, str(self._now() + self.kind.seconds)
        if subject is None and not callers.is_token(credential):
            digest = digest_of(credential)
            self._check(await _caller(callers, digest))
            nonce = secrets.token_hex(8)  # so that a sign-out does not end other sign-ins of the same second
            return f"{digest}.{end}.{nonce}.{await seal(self._keys, self.kind.purpose, digest, end, nonce)}"
        caller = await self._sender(credential)
        if subject is not None and caller.principal.id != subject:
            _log.info("a token was refused: its subject is another than that of the ID token")
            raise Unauthenticated(REFUSED)
        self._check(caller)
        value = await encrypt(self._keys, f"{self.kind.purpose} token", zlib.compress(f"{end} {credential}".encode()))
        if len(value) > MAX_COOKIE:
            raise InvalidArguments(
                f"The token has {len(credential):,} characters, too many to sign in with",
                hint="ask its issuer for one with fewer claims, or sign in with an API key",
            )
        return value

    async def caller(self, cookie: str) -> Caller | None:
        """Return the caller of a cookie, ``None`` if it is invalid or has ended. Raises ``InsufficientScope``."""
        try:
            caller = await self._of_key(match) if (match := _VALUE.fullmatch(cookie)) else await self._of_token(cookie)
        except Unauthenticated:
            return None
        if caller is None or await self._has_ended(cookie):
            return None
        self._check(caller)
        return caller

    async def end(self, cookie: str) -> None:
        """End a sign-in on all servers of the store, with every copy of its cookie. Ignores invalid cookies.

        Raises ``StoreError`` if this cannot be stored; the sign-in then stays valid.
        """
        if not await self._is_own(cookie):
            return
        store, now, digest = self._service.kernel.store.replies, self._service.kernel.now(), digest_of(cookie)
        row = ReplyRow(_ENDED, digest, digest, now, org=_NO_ORG)
        if await store.reserve(row, expired=forgotten_before(now)) is None:
            await store.complete(_ENDED, digest, 200, None)

    async def _is_own(self, cookie: str) -> bool:
        """Return whether a cookie was issued here and has not expired. Its caller is not looked up."""
        if match := _VALUE.fullmatch(cookie):
            return await self._is_valid(match)
        try:
            end, _ = await self._token(cookie)
        except Unauthenticated:
            return False
        return end > self._now()

    async def _is_valid(self, match: re.Match[str]) -> bool:
        digest, end, nonce, sealed = match.groups()
        return int(end) > self._now() and await is_sealed(self._keys, sealed, self.kind.purpose, digest, end, nonce)

    async def _has_ended(self, cookie: str) -> bool:
        return await self._service.kernel.store.replies.get(_ENDED, digest_of(cookie)) is not None

    def _check(self, caller: Caller) -> None:
        if self.kind.scope is not None:
            caller.check(self.kind.scope)

    async def _of_key(self, match: re.Match[str]) -> Caller | None:
        return await _caller(self._service.callers, match[1]) if await self._is_valid(match) else None

    async def _of_token(self, cookie: str) -> Caller | None:
        end, token = await self._token(cookie)
        return await self._sender(token) if end > self._now() else None

    async def _token(self, cookie: str) -> tuple[int, str]:
        """Return the expiry of a token's sign-in and the token; 0 and ``""`` for any other cookie."""
        decrypted = await decrypt(self._keys, f"{self.kind.purpose} token", cookie) if cookie else None
        if decrypted is None:
            return 0, ""
        end, _, token = zlib.decompress(decrypted).decode().partition(" ")  # written by this server
        return int(end), token

    async def authorization(self, cookie: str) -> str:
        """Return the ``Authorization`` header for a sign-in with a token, ``""`` for one with a key."""
        if _VALUE.fullmatch(cookie):
            return ""
        _, token = await self._token(cookie)
        return f"Bearer {token}" if token else ""

    async def _sender(self, token: str) -> Caller:
        return await self._service.callers.identify(f"Bearer {token}", self.kind.path)

    async def form_token(self, cookie: str, about: str) -> str:
        """Return the token that ties a form to this sign-in and to its subject, ``about``."""
        return await seal(self._keys, f"{self.kind.purpose} form", cookie, about)

    async def is_own_form(self, token: str, cookie: str, about: str) -> bool:
        """Return whether a form's token was made for this sign-in and this subject."""
        return await is_sealed(self._keys, token, f"{self.kind.purpose} form", cookie, about)

    def _now(self) -> int:
        return self._service.kernel.clock.time_ns() // 1_000_000_000


class Failures:
    """The wrong credentials of the last minute, by client address.

    Behind an undeclared proxy all clients have one address, so only wrong credentials are counted and refused.
    """

    def __init__(self) -> None:
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """Count a wrong credential. Raises ``LimitExceeded`` if ``FAILURES`` were counted within a minute."""
        times, now = self._times.setdefault(address, deque(maxlen=FAILURES)), time.monotonic()
        if len(times) == FAILURES and times[0] > now - WINDOW_SECONDS:
            raise LimitExceeded(
                f"Too many sign-ins have failed: {FAILURES} in a minute. Wait a minute, or use a valid credential.",
                retry_after=times[0] + WINDOW_SECONDS - now,
            )
        times.append(now)
        self._times.move_to_end(address)
        if len(self._times) > _ADDRESSES:
            self._times.popitem(last=False)


async def _caller(callers: Callers, digest: str) -> Caller:
    return callers.anyone or await callers.by_digest(digest)


def cookie_of(header: str, name: str) -> str:
    """Return the value of a sign-in's cookie in a ``Cookie`` header, ``""`` if there is none."""
    return next((value for key, value in _NAMED.findall(header) if key == name), "")


def set_cookie(kind: SignInKind, value: str, path: str, *, is_secure: bool) -> tuple[bytes, bytes]:
    """Return the header that sets the cookie of a sign-in; an empty value removes it.

    Browsers send it below ``path``.
    """
    cookie = f"{cookie_name(kind, path, is_secure=is_secure)}={value}; Max-Age={kind.seconds if value else 0}"
    cookie += f"; Path={path}; HttpOnly; SameSite={kind.same_site}"
    return b"set-cookie", (f"{cookie}; Secure" if is_secure else cookie).encode()


def cookie_name(kind: SignInKind, path: str, *, is_secure: bool) -> str:
    """Return the name of a sign-in's cookie. No other host can set one with the prefix ``__Host-``.

    Browsers accept that prefix only for the path ``/``. For other paths it is ``__Secure-``, which requires https.
    """
    if not is_secure:
        return kind.cookie
    return f"{'__Host-' if path == '/' else '__Secure-'}{kind.cookie}"


def is_foreign(headers: Mapping[bytes, bytes], public_url: str | None) -> bool:
    """Return whether the headers say that a form comes from another site. Every current browser sends them."""
    if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        return True
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    if not origin:
        return False
    host = headers.get(b"host", b"").decode("latin-1").lower()
    own_host = urlsplit(public_url).netloc.lower() if public_url else host
    return origin.partition("://")[2] not in (host, own_host)
