"""The secrets with which requests act for one user (spec 11, V21)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol, cast

from capset.definitions.calls.contexts import Context
from capset.definitions.credentials import CredentialSource, LentCredential, MissingCredential
from capset.definitions.governance.policies import Request
from capset.definitions.principals import Principal
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, DefinitionError, ToolError
from capset.kernel.call.context import CallContext
from capset_connect.mcp.server import McpServer
from capset_connect.vault.user_auth import USER_CREDENTIAL, UserCredential, user_server


class Lender(Protocol):
    """A holder of the right to use a credential of a user, such as a running call."""

    @property
    def is_over(self) -> bool:
        """Whether it may not use it any more."""
        ...

    async def lend(self, refused: str | None) -> LentCredential:
        """Return the credential, another one than ``refused``. Raises ``CapsetError`` if there is none."""
        ...


class UserSecrets:
    """The secrets of the kernel, and the credential of one user as ``USER_CREDENTIAL``."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._value: str | None = None
        self._lenders: list[Lender] = []
        self._is_refused = False
        self.version = 0
        """Increases whenever the credential changes."""

    def lend(self, value: str, lender: Lender) -> None:
        """Set the credential of the newest call."""
        self._lenders = [*(lender for lender in self._lenders if not lender.is_over), lender]
        self._set(value)

    def refuse(self) -> None:
        """Note that the server has refused the credential, so that it is renewed before it is used again."""
        self._is_refused = True

    async def get(self, name: str) -> str | None:
        """Return a secret, or ``None``. Raises ``CapsetError`` if a refused credential cannot be renewed."""
        if name != USER_CREDENTIAL:
            return await self._secrets.get(name)
        if self._is_refused and self._value is not None:
            self._is_refused = False
            self._set(await self._renew(self._value))
        return self._value

    def _set(self, value: str) -> None:
        if value != self._value:
            self._value, self._is_refused = value, False
            self.version += 1

    async def _renew(self, refused: str) -> str:
        """Return another credential, by the authority of any running call: some may not have it any more."""
        running = [lender for lender in reversed(self._lenders) if not lender.is_over]
        error: CapsetError = ToolError("no call uses the credential any more", code="no_credential")
        for number, lender in enumerate(running):
            try:
                renewed = (await lender.lend(refused)).value
            except CapsetError as lender_error:
                error = lender_error
                continue
            if renewed != refused:  # for the records of the others
                others = (other.lend(refused) for other in running[number + 1 :])
                await asyncio.gather(*others, return_exceptions=True)
            return renewed
        raise error


async def lent_for(source: Any, ctx: Context) -> LentCredential:  # as below
    """Return the credential of a call's user for a source. Raises ``ToolError`` if it is now meant for another place.

    A session that began before a configuration was reloaded has the source as it was declared then.
    """
    lent = await cast("CallContext", ctx).origin.lend(None)
    if lent.purpose != user_server(source).purpose:
        message = f"The {source.label} is declared otherwise now, so that it does not get the credential of its user."
        raise ToolError(message, code="withdrawn", status=409, hint="begin a new session")
    return lent


async def secrets_of_call(source: Any, ctx: Context, secrets: Secrets) -> UserSecrets:  # as below
    """Return the secrets for a call of a source, with the credential of its user. Raises as ``lent_for`` does."""
    user_secrets = UserSecrets(secrets)
    user_secrets.lend((await lent_for(source, ctx)).value, cast("CallContext", ctx).origin)
    return user_secrets


def needs_user(source: Any) -> bool:  # an MCP server or an API
    """Return whether the tools of a source are listed with credentials of users; the document of an API is not."""
    return isinstance(source, McpServer) and isinstance(source.auth, UserCredential)


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

    if credentials is None:
        raise DefinitionError(f"{source.label}: auth: user needs a vault", hint="set CAPSET_VAULT_KEY")
    user_secrets, look = UserSecrets(secrets), _Look(source, credentials, principal)
    user_secrets.lend((await look.lend(None)).value, look)
    return user_secrets


@dataclass(frozen=True, slots=True)
class _Look:
    """A look of a principal at the tools of a source."""

    source: Any  # as above
    credentials: CredentialSource
    principal: Principal
    is_over: bool = False

    async def lend(self, refused: str | None) -> LentCredential:
        lent = await self.credentials.lend(Request({}, self.principal), self.source.pin_key, refused=refused)
        if isinstance(lent, MissingCredential):
            hint = f"connect it, to see its tools as yourself: capset connect {lent.connection}"
            raise DefinitionError(f"{self.source.label}: {lent.reason}", hint=hint)
        return lent
