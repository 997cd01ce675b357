"""Who asks: found by the API key or the token of a request, before anything else is looked at (spec 4, G1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, cast

from capset.definitions.limits import allowance_of
from capset.definitions.principals import Principal, PrincipalKind
from capset.errors import PermissionDenied, Unauthenticated
from capset.kernel.kernel import Kernel
from capset.server.auth.keys import Scope, digest_of, is_valid
from capset.server.http.ttl_cache import TtlCache
from capset.stores.base import KeyRow

_MAX_KEY: Final = 200
REFUSED: Final = "This needs a valid API key or token, as the header: Authorization: Bearer KEY"
"""What everybody is told who shows none that is valid."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal, what it may ask of the API, and the id of its key; ``None`` where none was needed.

    Of who comes by a token, ``key`` is ``jwt:`` and the issuer. ``agent`` is the one that ``/mcp`` leads to.
    """

    principal: Principal
    scopes: frozenset[str]
    key: str | None
    agent: str | None = None

    @property
    def identity(self) -> str:
        """Text that no two callers share; permissions and scopes make no other caller."""
        who = self.principal
        return "\0".join((self.key or "", who.kind, who.org or "", who.id, *self.attributes))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The principal's attributes and those of whom it acts for, as JSON texts; none where nothing is said."""
        several = (self.principal.attributes, *self.principal.on_behalf_of_attributes)
        return tuple(one.to_json() for one in several) if any(several) else ()

    def has(self, scope: Scope) -> bool:
        """Whether the caller has this scope, or that of an administrator."""
        return scope in self.scopes or "capset:admin" in self.scopes

    def check(self, *scopes: Scope) -> None:
        """Raise ``PermissionDenied`` unless the caller has one of these scopes, or that of an administrator."""
        if not any(map(self.has, scopes)):
            raise PermissionDenied(f"Permission denied: the API key lacks the scope {' or '.join(scopes)}")


class Identifies(Protocol):
    """What knows callers by tokens, such as ``capset.server.auth.tokens.Tokens``."""

    async def identify(self, token: str) -> Caller:
        """Return who sent a token. Raises ``Unauthenticated``."""
        ...


class Callers:
    """Knows callers by their keys, and by ``tokens`` if they are taken; with ``anyone``, everybody is that caller."""

    def __init__(self, kernel: Kernel, anyone: Caller | None, tokens: Identifies | None = None) -> None:
        self._kernel = kernel
        self._anyone = anyone
        self._tokens = tokens
        self._known: TtlCache[str, tuple[KeyRow, Caller] | None] = TtlCache()

    async def identify(self, authorization: str | None) -> Caller:
        """Return who sent this ``Authorization`` header.

        Raises ``Unauthenticated`` for none, and for a key or a token that is unknown, revoked, expired or forged,
        without saying which.
        """
        if self._anyone is not None:
            return self._anyone
        scheme, _, key = (authorization or "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise Unauthenticated(REFUSED)
        if self._tokens is not None and key.count(".") == 2:  # no key has a dot
            return await self._tokens.identify(key)
        if len(key) > _MAX_KEY:
            raise Unauthenticated(REFUSED)
        digest = digest_of(key)
        found = await self._known.get(digest, lambda: self._find(digest))
        if found is None or not is_valid(found[0], self._kernel.now()):
            raise Unauthenticated(REFUSED)
        return found[1]

    async def knows(self, authorization: str | None, *, afresh: bool = False) -> bool:
        """Whether who sent this header would still be let in: for answers that go on for long.

        ``afresh`` asks the store itself, and not what it said within the last second.
        """
        if afresh:
            own = digest_of((authorization or "").partition(" ")[2].strip())
            self._known.forget(lambda digest, _: digest == own)
        try:
            await self.identify(authorization)
        except Unauthenticated:
            return False
        return True

    async def _find(self, digest: str) -> tuple[KeyRow, Caller] | None:
        row = await self._kernel.store.keys.find(digest)
        if row is None:
            return None
        kind = cast("PrincipalKind", row.principal_kind)  # as it was kept; Principal checks it
        allowance = None if row.allowance is None else allowance_of(row.allowance)
        principal = Principal(
            row.principal,
            permissions=row.permissions,
            kind=kind,
            org=row.org,
            attributes=row.attributes,
            allowance=allowance,
        )
        return row, Caller(principal, frozenset(row.scopes), row.id, row.agent)
