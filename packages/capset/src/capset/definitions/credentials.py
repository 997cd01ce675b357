"""Credentials of users that tools use on their behalf (spec 11)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from capset.definitions.governance.policies import Request


@dataclass(frozen=True, slots=True)
class LentCredential:
    """A credential as one call uses it. Records have ``reference`` and ``owner``, and never its value.

    ``reference`` is its id and version, ``ID@VERSION``; ``owner`` the principal whose authority it is, ``user:ada``.
    ``purpose`` is a digest of the server for which it was lent, and of its place.
    """

    reference: str
    owner: str
    value: str = field(repr=False)
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class MissingCredential:
    """Why a call has no credential.

    ``connection`` is what its ``owner`` (``kind:id``) has to connect, and ``reason`` the sentence for callers, without
    a full stop. Without an ``owner``, no connection helps, and the call is refused.
    """

    connection: str
    owner: str | None
    reason: str


class CredentialSource(Protocol):
    """A source of users' credentials, such as a vault."""

    async def lend(
        self, request: Request, connection: str, *, refused: str | None = None
    ) -> LentCredential | MissingCredential:
        """Return the credential with which a call uses a connection, or why there is none.

        ``request`` has the caller, the tool and its arguments; without a tool, the caller lists the tools of a server.
        ``refused`` is a value that the server has just refused, so that another one is needed. Raises
        ``TransientError`` if it could not be renewed at the moment, and ``StoreError`` if it cannot be read.
        """
        ...

    async def aclose(self) -> None:
        """Finish what has begun, such as a renewal, before the store is closed."""
        ...
