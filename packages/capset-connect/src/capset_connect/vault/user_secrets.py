"""The secrets with which requests act for one user (spec 11, V21)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from capset.definitions.calls.contexts import Context
from capset.definitions.credentials import CredentialSource, MissingCredential
from capset.definitions.governance.policies import Request
from capset.definitions.principals import Principal
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError
from capset.kernel.call.context import CallContext
from capset_connect.vault.user_auth import USER_CREDENTIAL, UserCredential


class UserSecrets:
    """The secrets of the kernel, and the credential of one user as ``USER_CREDENTIAL``."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._value: str | None = None
        self._renew: Callable[[str], Awaitable[str]] | None = None
        self._is_refused = False
        self.version = 0
        """Increases whenever the credential changes."""

    def lend(self, value: str, renew: Callable[[str], Awaitable[str]]) -> None:
        """Set the credential of the newest call, and how it is renewed."""
        self._renew = renew
        if value != self._value:
            self._value, self._is_refused = value, False
            self.version += 1

    def refuse(self) -> None:
        """Note that the server has refused the credential, so that it is renewed before it is used again."""
        self._is_refused = True

    async def get(self, name: str) -> str | None:
        """Return a secret, or ``None``. Raises ``CapsetError`` if a refused credential cannot be renewed."""
        if name != USER_CREDENTIAL:
            return await self._secrets.get(name)
        if self._is_refused and self._value is not None and self._renew is not None:
            self._is_refused = False
            self.lend(await self._renew(self._value), self._renew)
        return self._value


async def secrets_of_call(ctx: Context, secrets: Secrets) -> UserSecrets:
    """Return the secrets for a call, with the credential of its user."""
    call = cast("CallContext", ctx).origin

    async def renew(refused: str) -> str:
        return (await call.lend(refused)).value

    own = UserSecrets(secrets)
    own.lend((await call.lend(None)).value, renew)
    return own


def needs_user(source: Any) -> bool:  # an MCP server or an API; most have no ``auth``
    """Return whether a source is used with credentials of users."""
    return isinstance(getattr(source, "auth", None), UserCredential)


async def secrets_of(
    source: Any,  # as above
    secrets: Secrets,
    credentials: CredentialSource | None,
    principal: Principal,
) -> Secrets:
    """Return the secrets with which a principal lists the tools of a source: with its own credential, if need be.

    Raises ``DefinitionError`` if it has none.
    """
    if not needs_user(source):
        return secrets

    async def lend(refused: str | None) -> str:
        if credentials is None:
            raise DefinitionError(f"{source.label}: auth: user needs a vault", hint="set CAPSET_VAULT_KEY")
        lent = await credentials.lend(Request({}, principal), source.pin_key, refused=refused)
        if isinstance(lent, MissingCredential):
            hint = f"connect it, to see its tools as yourself: capset connect {lent.connection}"
            raise DefinitionError(f"{source.label}: {lent.reason}", hint=hint)
        return lent.value

    own = UserSecrets(secrets)
    own.lend(await lend(None), lend)
    return own
