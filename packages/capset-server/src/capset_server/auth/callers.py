"""Callers, identified by API key or token, and their credentials in open sessions (spec 4, G1, G54)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol, cast

from capset.definitions.governance.allowances import allowance_of
from capset.definitions.principals import Principal, PrincipalKind
from capset.errors import PermissionDenied, Unauthenticated
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.kernel.revocation import MAX_AGE_SECONDS, CurrentRows
from capset.kernel.ttl_cache import TtlCache
from capset.stores.base import KeyRow
from capset_server.auth.keys import Scope, digest_of, is_valid, scope_of, tool_of
from capset_server.auth.resources import WHOLE, ProtectedResource, contains, resource_of

_MAX_KEY: Final = 200
_MET: Final = 10_000
"""Maximum number of remembered callers whose last request was authenticated."""
ISSUED: Final = "jwt:"
"""Prefix of the ``key`` of a caller with a token; the issuer follows."""
REFUSED: Final = "This needs a valid API key or token, as the header: Authorization: Bearer KEY"
"""The message for every request without valid credentials."""
_log = logging.getLogger("capset.tokens")


class InsufficientScope(PermissionDenied):
    """The caller has none of ``scopes``. Any of them suffices; clients should request the first."""

    def __init__(self, scopes: Sequence[str]) -> None:
        super().__init__(f"Permission denied: the API key lacks the scope {' or '.join(scopes)}")
        self.scopes = tuple(scopes)


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal, its API scopes, and the id of its key; ``None`` if no key is required.

    For a caller with a token, ``key`` is ``jwt:`` and the issuer. ``agent`` is the default agent of ``/mcp``.
    ``parts`` are the parts of the server that the credential is for, as paths.
    """

    principal: Principal
    scopes: frozenset[str]
    key: str | None
    agent: str | None = None
    parts: tuple[str, ...] = WHOLE
    digest: str | None = field(default=None, repr=False)
    """The digest of the API key, to look it up without the header."""

    @property
    def identity(self) -> str:
        """A text unique to the caller, independent of its permissions and scopes."""
        principal = self.principal
        acting = () if principal.on_behalf_of is None else (principal.on_behalf_of,)
        return "\0".join((self.key or "", principal.kind, principal.org or "", principal.id, *acting, *self.attributes))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the principal and of those it acts for, as JSON texts; empty if there are none."""
        several = (self.principal.attributes, *self.principal.on_behalf_of_attributes)
        return tuple(attribute_set.to_json() for attribute_set in several) if any(several) else ()

    def has(self, scope: Scope) -> bool:
        """Return whether the caller has this scope or ``capset:admin``."""
        return scope in self.scopes or "capset:admin" in self.scopes

    def check(self, *scopes: Scope) -> None:
        """Raise ``InsufficientScope`` unless the caller has one of these scopes or ``capset:admin``."""
        if not any(map(self.has, scopes)):
            raise InsufficientScope(scopes)

    @property
    def key_id(self) -> str | None:
        """The id of its key; ``None`` for a caller with a token, or without a credential."""
        return None if self.key is None or self.key.startswith(ISSUED) else self.key

    @property
    def tools(self) -> frozenset[str] | None:
        """The only tools that its scopes let the caller call, as ``CAPABILITY.TOOL``; ``None`` if they allow all."""
        if self.has("capset:call"):
            return None
        return frozenset(tool for scope in self.scopes if (tool := tool_of(scope)) is not None)

    def check_calls(self) -> None:
        """Raise ``InsufficientScope`` unless the caller may call at least one tool."""
        if self.tools is not None and not self.tools:
            raise InsufficientScope(("capset:call",))

    def check_tool(self, own_name: str | None) -> None:
        """Raise ``InsufficientScope`` unless the caller may call a tool.

        ``own_name`` is ``CAPABILITY.TOOL``, by the capability's own names; ``None`` if there is no such tool.
        """
        if self.tools is not None and own_name not in self.tools:
            raise InsufficientScope(tuple(dict.fromkeys((scope_of(own_name), "capset:call"))))

    def is_for(self, path: str) -> bool:
        """Return whether the credential is for the part of the server that a path belongs to."""
        return self.parts is WHOLE or any(contains(part, resource_of(path)) for part in self.parts)


class Identifies(Protocol):
    """Authenticator of tokens, such as ``capset_server.auth.tokens.Tokens``."""

    @property
    def resource(self) -> ProtectedResource | None:
        """The server as an OAuth resource; ``None`` if clients cannot discover the authorization server."""
        ...

    async def identify(self, token: str) -> Caller:
        """Return the sender of a token. Raises ``Unauthenticated``."""
        ...


class Callers:
    """Authenticator for API keys, and tokens if ``tokens`` is given. With ``anyone``, that is the only caller."""

    def __init__(self, kernel: Kernel, anyone: Caller | None, tokens: Identifies | None = None) -> None:
        self._kernel = kernel
        self._anyone = anyone
        self._tokens = tokens
        self._known: TtlCache[str, tuple[KeyRow, Caller] | None] = TtlCache()
        self._met: OrderedDict[str, None] = OrderedDict()

    @property
    def resource(self) -> ProtectedResource | None:
        """The server as an OAuth resource; ``None`` if clients cannot discover the authorization server."""
        return None if self._tokens is None else self._tokens.resource

    @property
    def anyone(self) -> Caller | None:
        """The caller of every request, if no keys are required."""
        return self._anyone

    def is_token(self, credential: str) -> bool:
        """Return whether a credential is treated as a token, not as a key."""
        return self._tokens is not None and credential.count(".") == 2  # keys contain no dots

    @property
    def takes_tokens(self) -> bool:
        """Whether an issuer's tokens are accepted besides keys."""
        return self._tokens is not None

    async def by_digest(self, digest: str) -> Caller:
        """Return the current caller of a key by its digest. Raises ``Unauthenticated`` if the key is not valid."""
        return self._check_found(await self._resolve_key(digest))

    async def identify(self, authorization: str | None, path: str | None = None) -> Caller:
        """Return the sender of an ``Authorization`` header. With ``path``, the credential must be for that path.

        Raises ``Unauthenticated`` for a missing header, and for a key or a token that is unknown, revoked, expired,
        forged or for another resource, without saying which.
        """
        if self._anyone is not None:
            return self._anyone
        digest = digest_of(authorization or "")
        try:
            caller = await self._identify(authorization)
            if path is not None and not caller.is_for(path):
                _log.info("a token was refused: it is for another part of this server")
                raise Unauthenticated(REFUSED)
        except Unauthenticated:
            self._met.pop(digest, None)  # otherwise a revoked key could send more than an unknown one
            raise
        self._met[digest] = None
        self._met.move_to_end(digest)
        if len(self._met) > _MET:
            self._met.popitem(last=False)
        return caller

    def has_met(self, authorization: str | None) -> bool:
        """Return whether the last request with this header was authenticated. The next one may not be."""
        return self._anyone is not None or (bool(authorization) and digest_of(authorization or "") in self._met)

    async def _identify(self, authorization: str | None) -> Caller:
        scheme, _, key = (authorization or "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise Unauthenticated(REFUSED)
        if self._tokens is not None and self.is_token(key):
            return await self._tokens.identify(key)
        if len(key) > _MAX_KEY:
            raise Unauthenticated(REFUSED)
        return await self._of_key(digest_of(key))

    async def _of_key(self, digest: str) -> Caller:
        entry = await self._known.get(digest, lambda: self._resolve_key(digest))
        if entry is None or not is_valid(entry[0], self._kernel.now()):
            raise Unauthenticated(REFUSED)
        return entry[1]

    async def knows(self, caller: Caller, authorization: str, *, bypass_cache: bool = False) -> bool:
        """Return whether a caller's credential is still valid, during a long-running response.

        ``authorization`` is the header with its token. ``bypass_cache`` looks a key up in the store instead of the
        cache, which is at most a second old.
        """
        try:
            if caller.digest is None or self._anyone is not None:
                await self.identify(authorization)
            elif bypass_cache:
                await self.check_key(caller.digest, bypass_cache=True)
            else:
                await self._of_key(caller.digest)
        except Unauthenticated:
            return False
        return True

    async def check_key(self, digest: str, *, bypass_cache: bool = False) -> float:
        """Return the monotonic time at which a valid key was last looked up, at most ``MAX_AGE_SECONDS`` ago.

        ``bypass_cache`` looks it up in the store again. Raises ``Unauthenticated`` if the key is not valid.
        """
        seconds = 0.0 if bypass_cache else MAX_AGE_SECONDS
        checked_at, entry = await self._known.get_since(digest, lambda: self._resolve_key(digest), seconds)
        self._check_found(entry)
        return checked_at

    def _check_found(self, entry: tuple[KeyRow, Caller] | None) -> Caller:
        if entry is None or not is_valid(entry[0], self._kernel.now()):
            raise Unauthenticated("The API key is no longer valid: it was revoked, or has expired")
        return entry[1]

    async def _resolve_key(self, digest: str) -> tuple[KeyRow, Caller] | None:
        row = await self._kernel.store.keys.find(digest)
        if row is None:
            return None
        kind = cast("PrincipalKind", row.principal_kind)  # Principal validates it
        allowance = None if row.allowance is None else allowance_of(row.allowance)
        principal = Principal(
            row.principal,
            permissions=row.permissions,
            kind=kind,
            org=row.org,
            attributes=row.attributes,
            allowance=allowance,
            makers=row.makers,
        )
        return row, Caller(principal, frozenset(row.scopes), row.id, row.agent, digest=digest)


async def check_tool(caller: Caller, session: Session, tool: str) -> None:
    """Raise ``InsufficientScope`` if no scope of the caller covers a tool of a session.

    This is for responses whose head is sent before the call is made. The pipeline refuses such calls, too.
    """
    if caller.tools is not None:
        installed = (await session.current()).tools.get(tool)
        caller.check_tool(None if installed is None else installed.own_name)


class SessionCredential:
    """The key or the token of a session's caller, and the session's agent: a ``Credential`` of the kernel's.

    Args:
        callers: looks up the key.
        current: looks up the agent.
        caller: the caller.
        agent: the id of the session's agent; only a stored one can be archived.
        authorization: the header with the caller's token, for a long-running request. A turn has none: it continues
            after its caller's token has expired.
    """

    def __init__(
        self, callers: Callers, current: CurrentRows, caller: Caller, agent: str | None, authorization: str = ""
    ) -> None:
        self._callers = callers
        self._current = current
        self._caller = caller
        self._agent = agent
        self._authorization = authorization
        self._is_for_all: Final = caller.tools is None
        self._until = 0.0

    @property
    def admits_all(self) -> bool:
        """Whether the credential was valid a moment ago, and is for every tool."""
        return self._is_for_all and monotonic() < self._until

    def check_tool(self, own_name: str | None) -> None:
        """Raise ``InsufficientScope`` if no scope of the caller covers a tool."""
        self._caller.check_tool(own_name)

    async def check(self, *, bypass_cache: bool = False) -> None:
        """Raise ``Unauthenticated`` for a key or a token that is not valid, ``PermissionDenied`` for an archived agent.

        Raises ``StoreError`` if the store does not answer.
        """
        checked_at = monotonic()
        if checked_at < self._until and not bypass_cache:
            return
        if self._caller.digest is not None and self._callers.anyone is None:
            checked_at = await self._callers.check_key(self._caller.digest, bypass_cache=bypass_cache)
        elif self._authorization and not await self._callers.knows(self._caller, self._authorization):
            raise Unauthenticated(REFUSED)
        if self._agent is not None:
            checked_at = min(checked_at, await self._check_agent(self._agent, bypass_cache=bypass_cache))
        self._until = checked_at + MAX_AGE_SECONDS

    async def _check_agent(self, id: str, *, bypass_cache: bool) -> float:
        checked_at, agent = await self._current.agent(self._caller.principal.org, id, bypass_cache=bypass_cache)
        if agent is not None and agent.status != "active":
            raise PermissionDenied(
                f"Permission denied: the agent {id!r} is archived, and its sessions cannot call tools",
                hint=f'restore it: PATCH /v1/agents/{id} with {{"status": "active"}}',
            )
        return checked_at
