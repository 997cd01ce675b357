"""Connections: what callers can connect, so that calls use their own credentials."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from typing import Any

from typing_extensions import TypeVar

from capset.wire.connections import (
    AuthorizationAnswer,
    AuthorizationShape,
    ConnectionListShape,
    ConnectionShape,
    CredentialPageShape,
    CredentialShape,
    DelegationPageShape,
    DelegationShape,
    DisconnectedShape,
)
from capset.wire.shapes import Shape
from capset_server.client.connection import LARGEST_PAGE, Connection, every, json_bytes, path_of

S = TypeVar("S", bound=Shape)


class ConnectionResource:
    """``client.connections``; needs a key with the scope ``capset:call``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> ConnectionListShape:
        """List what the caller can connect, with what is connected."""
        return await self._connection.get(ConnectionListShape, path_of("connections"), {})

    async def get(self, name: str) -> ConnectionShape:
        """Return a connection by its name, or by that of a server that uses it. Raises ``NotFound``."""
        return await self._connection.get(ConnectionShape, path_of("connections", name), {})

    async def enter_key(self, name: str, key: str) -> ConnectionShape:
        """Connect by a key. Raises ``NotFound``, ``Conflict`` and ``InvalidArguments``."""
        return await self._connection.send(
            ConnectionShape, "PUT", path_of("connections", name, "key"), json_bytes({"key": key})
        )

    async def authorize(self, name: str) -> str:
        """Begin to connect at a provider, and return the page to open. Raises ``NotFound`` and ``Conflict``."""
        path = path_of("connections", name, "authorize")
        return (await self._ask(AuthorizationShape, "POST", path)).url

    async def complete(self, answered: Mapping[str, str]) -> ConnectionShape:
        """Complete an authorization by the parameters of the provider's redirect, of which some are ignored.

        Raises ``PermissionDenied``.
        """
        parameters = {name: answered[name] for name in AuthorizationAnswer.model_fields if name in answered}
        path = path_of("connections", "callback")
        return await self._connection.send(ConnectionShape, "POST", path, json_bytes(parameters))

    async def disconnect(self, name: str) -> bool:
        """Delete the caller's credential; return whether the provider has revoked it. Raises ``NotFound``."""
        return (await self._ask(DisconnectedShape, "DELETE", path_of("connections", name))).revoked

    async def delegate(
        self,
        name: str,
        delegate: str,
        *,
        tools: Iterable[str] = (),
        arguments: Mapping[str, Mapping[str, Any]] | None = None,  # JSON Schema
        until: datetime | None = None,
    ) -> DelegationShape:
        """Let another principal use a connection when it acts for the caller. Raises as ``enter_key`` does."""
        members = {
            "delegate": delegate,
            "tools": [*tools],
            "arguments": arguments and {argument: dict(schema) for argument, schema in arguments.items()},
            "until": until and until.isoformat(),
        }
        body = json_bytes({name: value for name, value in members.items() if value is not None})
        return await self._connection.send(DelegationShape, "POST", path_of("connections", name, "delegations"), body)

    async def delegations(self, *, limit: int = 50, cursor: str | None = None) -> DelegationPageShape:
        """List what the caller has let others use its connections for, newest first."""
        path = path_of("delegations")
        return await self._connection.get(DelegationPageShape, path, {"limit": limit, "cursor": cursor})

    async def end_delegation(self, id: str) -> None:
        """End a delegation. Raises ``NotFound``."""
        await self._connection.request("DELETE", path_of("delegations", id))

    async def credentials(self, *, limit: int = 50, cursor: str | None = None) -> CredentialPageShape:
        """List the credentials of the organisation, newest first; needs ``capset:admin``."""
        path = path_of("credentials")
        return await self._connection.get(CredentialPageShape, path, {"limit": limit, "cursor": cursor})

    def all_credentials(self) -> AsyncGenerator[CredentialShape]:
        """Iterate over all credentials of the organisation, newest first, page by page."""
        return every(lambda cursor: self.credentials(limit=LARGEST_PAGE, cursor=cursor))

    async def revoke(self, id: str) -> bool:
        """Delete a credential of the organisation; return whether it was revoked there; needs ``capset:admin``."""
        path = path_of("credentials", id)
        return (await self._ask(DisconnectedShape, "DELETE", path)).revoked

    async def _ask(self, shape: type[S], method: str, path: str) -> S:
        """Send a request without a body, and return the parsed response."""
        return self._connection.answers.parsed(shape, (await self._connection.request(method, path)).content)
