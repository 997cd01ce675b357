"""Opens connections to an MCP server with the transport and protocol that the server supports (spec 7, M102)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal, cast

from mcp import Client
from mcp_types import Implementation

if TYPE_CHECKING:
    from mcp.client import Transport

from capset.definitions.secrets import Secrets
from capset.net.client import HttpClient
from capset.net.proxies import ProxySelector
from capset_connect.client_credentials import AccessTokens
from capset_connect.declarations import fill_secrets, maskable, proxies_of
from capset_connect.mcp.failures import was_closed
from capset_connect.mcp.lists.meter import ListMeter
from capset_connect.mcp.processes import ProcessOutput, process_streams
from capset_connect.mcp.raw_results import raw_results
from capset_connect.mcp.server import INHERITED, McpServer
from capset_connect.mcp.server_headers import ServerHeaders
from capset_connect.mcp.transports import NO_STREAMABLE_HTTP, CheckedTransport, Streams, http_streams, sse_streams
from capset_connect.vault.user_auth import USER_CREDENTIAL, UserCredential
from capset_connect.vault.user_secrets import UserSecrets

_DRAIN_SECONDS: Final = 1.0
"""How long to wait for the other requests of a session that is over. Refused ones are sent again."""
_SSE_SECONDS: Final = 10.0
"""How long a server may take to start over the older HTTP with SSE, which is only tried as a fallback."""
_MOST_TOKENS: Final = 32
"""How many tokens are masked. Tokens are renewed, so only the newest ones are kept."""


@dataclass(slots=True, eq=False)
class OpenConnection:
    """An open connection with its number and, for a server at a URL, its transport."""

    client: Client
    number: int
    transport: CheckedTransport | None = None
    requests: int = 0
    """The number of pending requests."""
    is_idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last pending request has its response."""

    async def drain(self) -> None:
        """Wait for the other requests of a session that is over."""
        if self.transport is not None and self.transport.is_forgotten and self.requests:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await self.is_idle.wait()


class SentCredentials:
    """The credentials that were sent to a server: all secrets and the newest tokens. They are masked in its messages.

    ``secrets`` is the source of the secrets.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._source = secrets
        self._secrets: set[str] = set()
        self._tokens: list[str] = []
        self.hidden: Sequence[str] = ()
        """The texts to mask, longest first."""

    async def secret(self, name: str) -> str | None:
        """Return a secret and mask it from now on. ``INHERITED`` variables, such as ``PATH``, are not masked."""
        value = await self._source.get(name)
        if value is not None and name == USER_CREDENTIAL:  # it is renewed, as tokens are
            self.hide_token(value)
        elif value is not None and name not in INHERITED:
            self._secrets.add(value)
            self._update()
        return value

    def hide_token(self, token: str) -> None:
        """Mask a token from now on."""
        if token not in self._tokens:
            self._tokens = [token, *self._tokens[: _MOST_TOKENS - 1]]
            self._update()

    def _update(self) -> None:
        self.hidden = maskable((*self._secrets, *self._tokens))


class Connector:
    """Opens the connections to one server, and remembers the transport and protocol that it supports.

    Args:
        server: the declaration.
        secrets: the source of secrets.
        lists: counts the size of the server's tool lists.
        ended: called with the number of a connection that has ended, and the reason.
        changed: called when the server announces that its tools have changed.
    """

    def __init__(
        self,
        server: McpServer,
        secrets: Secrets,
        lists: ListMeter,
        ended: Callable[[int, str], object],
        changed: Callable[[], object],
    ) -> None:
        self._server = server
        self._secrets = secrets
        self._lists = lists
        self._ended = ended
        self._changed = changed
        self.credentials: Final = SentCredentials(secrets)
        self.output: Final = ProcessOutput(lambda: self.credentials.hidden)
        secret = self.credentials.secret
        self._tokens = server.oauth and AccessTokens(server.label, server.oauth, secret, self._token_client)
        self._is_older = False
        """Whether its process must be sent ``initialize`` first, because it exited on another first message."""
        self._is_sse = False
        """Whether it uses the older HTTP with SSE."""

    async def open(self, stack: AsyncExitStack, number: int) -> OpenConnection:
        """Open a connection with this number, which is closed with the stack.

        Raises ``CapsetError`` and exceptions of the SDK.
        """
        return await (self._started(stack, number) if self._server.url is None else self._reached(stack, number))

    async def _started(self, stack: AsyncExitStack, number: int) -> OpenConnection:
        """Start a process. If it exits on the first message of the newer protocol, restart it with the older one."""
        server = self._server
        env = await fill_secrets(server.label, "variable", server.env, self.credentials.secret)
        if not self._is_older:
            is_open = False

            def ended(why: str) -> None:
                if is_open:
                    self._ended(number, why)

            try:
                client = await self._client(stack, process_streams(server, env, self.output, ended, self._lists))
            except Exception as error:
                if not was_closed(error):
                    raise
                self._is_older = True
            else:
                is_open = True
                return OpenConnection(client, number)
        try:
            streams = process_streams(server, env, self.output, partial(self._ended, number), self._lists)
            return OpenConnection(await self._client(stack, streams, "legacy"), number)
        except Exception:  # by the next attempt, the program may have been replaced
            self._is_older = False
            raise

    async def _reached(self, stack: AsyncExitStack, number: int) -> OpenConnection:
        """Connect to a URL. Fall back to the older HTTP with SSE if the server refuses streamable HTTP."""
        server, credentials = self._server, self.credentials
        proxies = await self._proxies()
        user = self._secrets if isinstance(self._secrets, UserSecrets) else None
        headers = ServerHeaders(server, credentials.secret, self._tokens, credentials.hide_token, user)
        first = await headers.first()
        auth = None
        if server.auth is not None and not isinstance(server.auth, UserCredential):
            auth = await server.auth(self._secrets)

        def transport(*, is_sse: bool) -> CheckedTransport:
            return CheckedTransport(
                server,
                partial(self._ended, number),
                self._lists,
                headers=headers if auth is None else None,
                hide=None if auth is None else credentials.hide_token,
                proxies=proxies,
                is_sse=is_sse,
            )

        failure: Exception | None = None
        if not self._is_sse:
            streamable = transport(is_sse=False)
            http = streamable.client(first, auth)
            try:
                client = await self._client(stack, http_streams(server, http))
            except Exception as error:
                if streamable.status not in NO_STREAMABLE_HTTP:
                    raise
                failure = error
            else:
                return OpenConnection(client, number, streamable)
        older = transport(is_sse=True)
        try:
            async with asyncio.timeout(_SSE_SECONDS):
                client = await self._client(stack, sse_streams(server, older.client(first, auth)), "legacy")
        except Exception as error:
            self._is_sse = False
            raise (failure or error) from None
        self._is_sse = True
        return OpenConnection(client, number, older)

    async def _proxies(self) -> ProxySelector | None:
        """Return the proxies for a server that the host declares; ``None`` for a stored agent's server."""
        server = self._server
        if server.agent is not None:
            return None
        return await proxies_of(server.label, server.proxy, server.internal, self.credentials.secret)

    async def _token_client(self) -> HttpClient:
        server = self._server
        return HttpClient(allow=server.internal, ca_file=server.ca_file, proxies=await self._proxies())

    async def _client(
        self,
        stack: AsyncExitStack,
        streams: AbstractAsyncContextManager[Streams],
        mode: Literal["auto", "legacy"] = "auto",
    ) -> Client:
        client = Client(
            cast("Transport", raw_results(streams)),
            client_info=Implementation(name="capset", version=version("capset")),
            message_handler=self._heard,
            cache=None,
            mode=mode,
        )
        return await stack.enter_async_context(client)

    async def _heard(self, message: object) -> None:
        """Handle a message that a server sends unasked. Since 2026-07-28, it announces changes only to listeners."""
        if type(message).__name__ in ("ToolListChangedNotification", "PromptListChangedNotification"):
            self._changed()
