"""The headers of an MCP server; their secrets are read again when the server refuses them (spec 7, M101)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from capset_connect.client_credentials import AccessTokens
from capset_connect.declarations import Secret, fill_secrets
from capset_connect.mcp.server import McpServer
from capset_connect.vault.user_secrets import UserSecrets

Headers = Mapping[str, str]
RawHeaders = list[tuple[bytes, bytes]]
_BEARER: Final = "Bearer "


class ServerHeaders:
    """The headers of one connection to a server.

    Args:
        server: the declaration.
        secret: the source of secrets.
        tokens: the access tokens for the server, if it needs them.
        hide: called with each token, to mask it in what the server sends.
        user: the credential of the user whose connection it is, if there is one.
    """

    def __init__(
        self,
        server: McpServer,
        secret: Secret,
        tokens: AccessTokens | None,
        hide: Callable[[str], object],
        user: UserSecrets | None = None,
    ) -> None:
        self._server = server
        self._user = user
        self._version = 0
        """The version of the user's credential in the headers."""
        self._secret = secret
        self._tokens = tokens
        self._hide = hide
        self._filled: Headers = {}
        self._first: Headers = {}
        self._renewing = asyncio.Lock()

    async def first(self) -> Headers:
        """Return the headers that the connection's client sends; ``put`` replaces them once they change.

        Raises as ``fill_secrets`` and ``AccessTokens.get`` do.
        """
        self._filled = await self._fill()
        self._first = await self.current()
        return self._first

    async def current(self, refused: Headers | None = None) -> Headers:
        """Return the current headers, with a valid token other than the ``refused`` one."""
        if self._user is not None and self._user.version != self._version:
            self._filled = await self._fill()
        if self._tokens is None:
            return self._filled
        token = await self._tokens.get(None if refused is None else refused["Authorization"].removeprefix(_BEARER))
        self._hide(token)
        return {**self._filled, "Authorization": f"{_BEARER}{token}"}

    async def renewed(self, refused: Headers) -> Headers:
        """Return the headers to send after ``refused``: with secrets read again, and another token."""
        async with self._renewing:
            current = await self.current()
            if current == refused:  # no other request has renewed them
                if self._user is not None:
                    self._user.refuse()
                self._filled = await self._fill()
                current = await self.current(refused)
            return current

    def put(self, headers: RawHeaders, current: Headers) -> RawHeaders:
        """Return a request's headers, with the client's first headers replaced by the ``current`` ones."""
        if current == self._first:
            return headers
        replaced = {
            (name.lower().encode(), self._first[name].encode()): value.encode() for name, value in current.items()
        }
        return [(name, replaced.get((name.lower(), value), value)) for name, value in headers]

    async def _fill(self) -> Headers:
        if self._user is not None:
            self._version = (
                self._user.version
            )  # before the secrets are read, which may change it: then they are read again
        return await fill_secrets(self._server.label, "header", self._server.sent_headers, self._secret)
