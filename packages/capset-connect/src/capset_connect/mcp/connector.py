"""Connections to an MCP server as they are opened, in the way that the server speaks (spec 7, M102)."""

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
from capset.net.proxies import Proxies
from capset_connect.client_credentials import AccessTokens
from capset_connect.declarations import fill_secrets, maskable, proxies_of
from capset_connect.mcp.failures import was_closed
from capset_connect.mcp.lists import ListMeter
from capset_connect.mcp.processes import process_streams
from capset_connect.mcp.raw_results import raw_results
from capset_connect.mcp.server import INHERITED, McpServer
from capset_connect.mcp.server_headers import ServerHeaders
from capset_connect.mcp.transports import NO_STREAMABLE_HTTP, CheckedTransport, Streams, http_streams, sse_streams

_DRAIN_SECONDS: Final = 1.0
"""How long the other requests of a session that is over are waited for: those that are refused are sent again."""
_SSE_SECONDS: Final = 10.0
"""How long a server may take to begin in the older HTTP with SSE, which it was not declared to speak."""
_MOST_TOKENS: Final = 32
"""The number of tokens that are masked, the newest ones: they are renewed."""


@dataclass(slots=True, eq=False)
class OpenConnection:
    """A connection that is open, with its number, and to a server at a URL with its transport."""

    client: Client
    number: int
    transport: CheckedTransport | None = None
    requests: int = 0
    """How many requests wait for their answers."""
    is_idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last of them has its answer."""

    async def drain(self) -> None:
        """Wait for the other requests of a session that is over."""
        if self.transport is not None and self.transport.is_forgotten and self.requests:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await self.is_idle.wait()


class SentCredentials:
    """The credentials that a server was given, which are masked in what it sends: all secrets, and the newest tokens.

    ``secrets`` is the source of the secrets.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._source = secrets
        self._secrets: set[str] = set()
        self._tokens: list[str] = []
        self.hidden: Sequence[str] = ()
        """What is masked, the longest first."""

    async def secret(self, name: str) -> str | None:
        """Return a secret, which is masked from now on; the paths of programs and homes are not secret."""
        value = await self._source.get(name)
        if value is not None and name not in INHERITED:
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
    """Opens the connections to one server, and remembers how it is spoken to.

    Args:
        server: the declaration.
        secrets: the source of secrets.
        lists: counts what the server says of its tools.
        ended: is told the number of a connection from which nothing comes any more, and why.
        changed: is called when the server says that its tools have changed.
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
        secret = self.credentials.secret
        self._tokens = server.oauth and AccessTokens(server.label, server.oauth, secret, self._token_client)
        self._is_older = False
        """Whether its process ended at a first message other than ``initialize``, so that it is sent none."""
        self._is_sse = False
        """Whether it speaks the older HTTP with SSE."""

    async def open(self, stack: AsyncExitStack, number: int) -> OpenConnection:
        """Return a connection with this number, which is closed with the stack.

        Raises ``CapsetError``, and what the SDK does.
        """
        return await (self._started(stack, number) if self._server.url is None else self._reached(stack, number))

    async def _started(self, stack: AsyncExitStack, number: int) -> OpenConnection:
        """Start a process; once more, if it ends at a first message of the newer protocol, and from then on without."""
        server = self._server
        env = await fill_secrets(server.label, "variable", server.env, self.credentials.secret)
        if not self._is_older:
            is_open = False

            def ended(why: str) -> None:
                if is_open:
                    self._ended(number, why)

            try:
                client = await self._client(stack, process_streams(server, env, ended, self._lists))
            except Exception as error:
                if not was_closed(error):
                    raise
                self._is_older = True
            else:
                is_open = True
                return OpenConnection(client, number)
        try:
            streams = process_streams(server, env, partial(self._ended, number), self._lists)
            return OpenConnection(await self._client(stack, streams, "legacy"), number)
        except Exception:  # it may be another one by the next time
            self._is_older = False
            raise

    async def _reached(self, stack: AsyncExitStack, number: int) -> OpenConnection:
        """Connect to a URL; over the older HTTP with SSE if the server refuses messages as streamable HTTP has them."""
        server, credentials = self._server, self.credentials
        proxies = await self._proxies()
        headers = ServerHeaders(server, credentials.secret, self._tokens, credentials.hide_token)
        first = await headers.first()
        auth = None if server.auth is None else await server.auth(self._secrets)

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

    async def _proxies(self) -> Proxies | None:
        """Return the proxies on the way to a host's server; there is none to that of a stored agent."""
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
        """Hear what a server says by itself; since 2026-07-28 it says changes only to those who listen."""
        if type(message).__name__ in ("ToolListChangedNotification", "PromptListChangedNotification"):
            self._changed()
