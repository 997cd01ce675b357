"""One connection to an MCP server: made when it is first needed, and again when it broke (spec 7, M3)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, cast

import httpx2
from mcp import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    GetPromptResult,
    Implementation,
    ReadResourceResult,
)
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.client import Transport

from capset.adapters.declarations import fill_secrets
from capset.adapters.mcp.answers import ToolAnswer, answer_of
from capset.adapters.mcp.direct_calls import CallInterrupted, DirectCalls, ForTheSdk
from capset.adapters.mcp.offers import is_used, offers_of, unmatched
from capset.adapters.mcp.rooms import Room
from capset.adapters.mcp.server import McpServer
from capset.adapters.mcp.transports import CheckedTransport, Streams, http_streams, process_streams
from capset.adapters.offers import Offer, shown
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, InvalidOutput, ToolError, TransientError

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
"""Seconds before a server is tried again: twice as many after each failure, up to this."""
FRESH_SECONDS: Final = 300.0
"""How long a list of tools counts as what the server has, if it does not say that it has changed."""
AGAIN_SECONDS: Final = 2.0
"""The least time between two lists that are asked for because a tool is not as it was approved."""
_HEADER: Final = '"x-mcp-header"'
_NOTHING_TO_HEAR: Final = frozenset({METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})
"""The errors of a server that takes no listeners."""
R = TypeVar("R")


class _Opened(NamedTuple):
    """A connection that is open: its number, and what calls tools without the SDK, if the server is at a URL."""

    client: Client
    number: int
    direct: DirectCalls | None


class McpConnection:
    """One server: its tools, prompts and resources. Leaving its ``async with`` closes the connection.

    The connection is made when it is first needed, and belongs to a task of its own, so that a caller that is cancelled
    leaves it to the others. With a ``room``, it is open only as long as there is room, and it is used.
    """

    def __init__(self, server: McpServer, secrets: Secrets, room: Room | None = None) -> None:
        self.server: Final = server
        self._secrets = secrets
        self._room = room
        self._users, self._used = 0, 0.0
        """How many use it, or wait for it, and when the last of them was done."""
        self._owner: asyncio.Task[None] | None = None
        self._is_closed = False
        self._wanted, self._broken = asyncio.Event(), asyncio.Event()
        self._ready: asyncio.Future[_Opened] | None = None
        self._number = 0
        self._failures, self._again = 0, 0.0
        self._why = ""
        self.failure: CapsetError | None = None
        """Why the last attempt to connect failed, if it did."""
        self._offers: Sequence[Offer] | None = None
        self._with_headers = frozenset[str]()
        """The tools whose arguments are repeated in headers, which is the SDK's work."""
        self._listed = 0.0
        self._asked_again = -AGAIN_SECONDS
        self._changes = 0
        self._listing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect to nothing yet."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close the connection, for good; a process is ended."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection, for good; a process is ended."""
        self._is_closed = True
        if (owner := self._owner) is not None:
            owner.cancel()
            await asyncio.wait([owner])
        if self._ready is not None and not self._ready.done():  # somebody wanted it when it closed
            self._ready.set_exception(self._cause(asyncio.CancelledError()))
            self._ready.exception()  # the caller may have left

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""
        return self._ready is not None and self._ready.done() and self._ready.exception() is None

    @property
    def known_offers(self) -> Sequence[Offer] | None:
        """The tools that the server had when it was asked last, if it was on this connection."""
        return self._offers

    async def offers(self, *, at_once: bool = False) -> Sequence[Offer]:
        """Return the tools that the server has: as it has them now, or as it had them a few minutes ago."""
        async with self._listing:
            is_fresh = self._offers is not None and monotonic() - self._listed < FRESH_SECONDS
            if self._offers is None or at_once or not is_fresh:
                opened, changes = await self._connected(), self._changes
                try:
                    with self._failing(opened.number):
                        async with asyncio.timeout(self.server.start_timeout):
                            self._offers = offers = await offers_of(self.server, opened.client)
                except TimeoutError as error:
                    raise self._cause(error) from None
                self._with_headers = frozenset(one.name for one in offers if _HEADER in json.dumps(one.shape))
                # What changed while it was listed may not be in the list.
                self._listed = monotonic() if changes == self._changes else -FRESH_SECONDS
            return self._offers

    async def latest_offers(self) -> Sequence[Offer]:
        """Return the tools as the server has them now, asked for again unless that was done a moment ago."""
        if monotonic() - self._asked_again < AGAIN_SECONDS:
            return await self.offers()
        self._asked_again = monotonic()
        return await self.offers(at_once=True)

    async def first_offers(self) -> Sequence[Offer]:
        """Return the tools that the server has: a rule for one that it has not keeps it from nothing."""
        return await self.offers()

    async def unmatched(self) -> list[str]:
        """Return a sentence for each name in the declaration that the server does not have. Raises as ``offers``."""
        return unmatched(self.server, await self.offers())

    async def leaves_out(self, shape: Mapping[str, Any]) -> bool:
        """Return whether the declaration leaves out a tool, or a prompt, that was approved so."""
        return not is_used(self.server, shape)

    async def call(self, name: str, arguments: dict[str, Any], report: ProgressFnT | None) -> ToolAnswer:
        """Call a tool by its name there, with JSON; ``report`` is told its progress, if it is given.

        Raises ``TransientError`` if the server cannot be reached or does not answer in time, and ``ToolError`` for what
        it refuses, and for what it sends that is no answer.
        """
        client, number, direct = await self._connected()
        with self._failing(number):
            if direct is not None and self._offers is not None and name not in self._with_headers:
                with contextlib.suppress(ForTheSdk):
                    return await direct.call(name, arguments, report)
            timeout = self.server.timeout
            try:
                result = await client.call_tool(name, arguments, read_timeout_seconds=timeout, progress_callback=report)
            except RuntimeError as error:
                if type(error) is not RuntimeError or number != self._number:
                    raise
                # What the SDK raises for a structure that does not fit; the connection is as good as before.
                raise InvalidOutput(f"The tool {name!r} gave a result that does not fit its schema.") from None
            return answer_of(result)

    async def read(self, uri: str) -> ReadResourceResult:
        """Read a resource. Raises as ``call`` does."""
        opened = await self._connected()
        with self._failing(opened.number):
            return await self._in_time(opened.client.read_resource(uri, cache_mode="bypass"))

    async def prompt(self, name: str, arguments: dict[str, str]) -> GetPromptResult:
        """Get a prompt by its name there. Raises as ``call`` does."""
        opened = await self._connected()
        with self._failing(opened.number):
            return await self._in_time(opened.client.get_prompt(name, arguments))

    async def _in_time(self, answer: Awaitable[R]) -> R:
        try:
            async with asyncio.timeout(self.server.timeout):
                return await answer
        except TimeoutError:
            raise self._late() from None

    def _late(self) -> TransientError:
        told = f"The MCP server {self.server.name!r} did not answer within {self.server.timeout:g} s."
        return TransientError(told, code="timeout")

    async def _connected(self) -> _Opened:
        """Return the connection; it is made if there is none."""
        if self._is_closed:
            raise CapsetError(f"the connection to the MCP server {self.server.name!r} is closed")
        if self._owner is None or self._owner.done():
            # In an empty context: it outlives the call that happens to be the first.
            self._owner = asyncio.create_task(self._own(), name=f"mcp {self.server.name}", context=Context())
        wait = self._again - monotonic()
        if self._ready is None and wait > 0:
            raise self._unreachable(f"it is tried again in {wait:.1f} s")
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._wanted.set()
        with self._in_use():
            return await asyncio.shield(self._ready)

    @contextlib.contextmanager
    def _in_use(self) -> Generator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used = monotonic()

    @property
    def idle_since(self) -> float | None:
        """When it was last used, by the monotonic clock; nothing while it is in use."""
        return None if self._users else self._used

    def release(self) -> None:
        """Close the connection for now: the next call makes another. Calls under way fail."""
        self._end(self._number)

    def _unreachable(self, why: str) -> TransientError:
        return TransientError(f"The MCP server {self.server.name!r} cannot be reached: {why}.", code="unreachable")

    def _unknown(self) -> TransientError:
        why = self._why.removesuffix(".") or "the connection broke off"
        return self._unreachable(f"{why}; what came of the call is not known")

    async def _own(self) -> None:
        """Keep the connection: open it when it is wanted, until it breaks."""
        while not self._is_closed:  # a cancellation is lost where what it ends has failed already
            if self._room is not None and not self._wanted.is_set():
                return  # so that nothing keeps one that is not used any more
            await self._wanted.wait()
            self._wanted.clear()
            if (ready := self._ready) is None:
                continue
            self._broken.clear()
            self._why, number = "", self._number
            try:
                async with AsyncExitStack() as stack:
                    if self._room is not None:
                        stack.enter_context(self._room.taken(self))
                    async with asyncio.timeout(self.server.start_timeout):
                        opened = await self._opened(stack, number)
                    self._failures, self._offers, self.failure = 0, None, None
                    ready.set_result(opened)
                    async with asyncio.TaskGroup() as tasks:
                        listening = tasks.create_task(self._listen(opened.client))
                        await self._broken.wait()
                        listening.cancel()
            except (Exception, asyncio.CancelledError) as error:
                self._end(number)
                if self._ready is ready:
                    self._ready = None
                if not ready.done():
                    self._failures += 1
                    self._again = monotonic() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._failures - 1))
                    self.failure = self._cause(error)
                    ready.set_exception(self.failure)
                    ready.exception()  # the caller may have left
                if isinstance(error, asyncio.CancelledError):
                    raise

    async def _opened(self, stack: AsyncExitStack, number: int) -> _Opened:
        server, ended = self.server, partial(self._end, number)
        if server.url is None:
            env = await fill_secrets(server.label, "variable", server.env, self._secrets.get)
            return _Opened(await self._client(stack, process_streams(server, env, ended)), number, None)
        headers = await fill_secrets(server.label, "header", server.headers, self._secrets.get)
        transport = CheckedTransport(server, ended)
        auth = None if server.auth is None else await server.auth(self._secrets)
        http = transport.client(headers, auth)
        client = await self._client(stack, http_streams(server, http))
        if auth is not None:  # a flow of OAuth may send each request several times
            return _Opened(client, number, None)
        direct = DirectCalls(transport, http, client, self._changed)
        stack.push_async_callback(direct.aclose)
        return _Opened(client, number, direct)

    async def _client(self, stack: AsyncExitStack, streams: AbstractAsyncContextManager[Streams]) -> Client:
        client = Client(
            cast("Transport", streams),
            client_info=Implementation(name="capset", version=version("capset")),
            message_handler=self._heard,
            cache=None,
        )
        return await stack.enter_async_context(client)

    def _end(self, number: int, why: str = "") -> None:
        """Take a connection as broken, for a reason that callers are told: the next one makes another.

        Several calls may notice that it broke, and the last of them when there is another one already.
        """
        if number == self._number:
            self._number += 1
            self._why = why or self._why
            self._ready = None
            self._broken.set()

    async def _heard(self, message: object) -> None:
        """Hear what a server says by itself; since 2026-07-28 it says changes only to those who listen."""
        if type(message).__name__ in ("ToolListChangedNotification", "PromptListChangedNotification"):
            self._changed()

    def _changed(self) -> None:
        """Look at the tools again at the next call."""
        self._listed = -FRESH_SECONDS
        self._changes += 1

    async def _listen(self, client: Client) -> None:
        """Listen for changes, and again when that ends, unless the server knows nothing of it."""
        pause = _FIRST_PAUSE
        while True:
            try:
                has_prompts = bool(self.server.prompts)
                async with client.listen(tools_list_changed=True, prompts_list_changed=has_prompts) as changes:
                    self._changed()  # what changed before is told to none
                    async for _ in changes:
                        self._changed()
            except ListenNotSupportedError:
                return  # it is an older one, which tells without being asked
            except MCPError as error:
                if error.error.code in _NOTHING_TO_HEAR:
                    return  # the list is asked for again after FRESH_SECONDS
            except SubscriptionLost:
                pass  # such as when a server at a URL is started again
            self._changed()
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause)

    @contextlib.contextmanager
    def _failing(self, number: int) -> Generator[None]:
        """Turn what the SDK raises into errors of capset's; a connection that broke is made again."""
        try:
            with self._in_use():
                yield
        except (CapsetError, TimeoutError):
            raise
        except CallInterrupted as error:
            self._end(number, str(error))
            raise self._unknown() from None
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                self._end(number)
                raise self._unknown() from None
            if error.error.code == REQUEST_TIMEOUT:
                raise self._late() from None
            raise ToolError(f"The MCP server refused: {error.error.message}", code="mcp_error", status=502) from None
        except ValidationError:
            raise ToolError("The MCP server sent what is no answer.", code="mcp_error", status=502) from None
        except Exception as error:
            self._end(number)
            raise self._cause(error) from None

    def _cause(self, error: BaseException) -> CapsetError:
        """Return an error to show: that of capset's own in it, if there is one."""
        if isinstance(error, BaseExceptionGroup):
            causes = [self._cause(one) for one in cast("BaseExceptionGroup[BaseException]", error).exceptions]
            return next((one for one in causes if not isinstance(one, TransientError)), causes[0])
        if isinstance(error, CapsetError):
            return error
        if isinstance(error, asyncio.CancelledError):
            return CapsetError(f"the connection to the MCP server {self.server.name!r} is closed")
        if isinstance(error, TimeoutError):
            return self._unreachable(f"it did not answer within {self.server.start_timeout:g} s")
        if isinstance(error, MCPError):
            return self._unreachable(self._why or error.error.message)
        if isinstance(error, httpx2.HTTPError):
            return self._unreachable(str(error) or type(error).__name__)
        if _is_of_oauth(error):
            return self._unreachable(f"its authorization failed: {shown(str(error))}")
        return self._unreachable(type(error).__name__)


def _is_of_oauth(error: BaseException) -> bool:
    """Return whether an error is one of the SDK's flows of OAuth, which take long to import where none is used."""
    module = sys.modules.get("mcp.client.auth")
    return module is not None and isinstance(error, module.OAuthFlowError)
