"""A connection to an MCP server, opened on demand and reopened after it breaks (spec 7, M3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import Context
from functools import partial
from time import monotonic
from typing import Any, Final, Self, TypeVar

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
    ErrorData,
    GetPromptResult,
    ReadResourceResult,
)
from pydantic import BaseModel, ValidationError

from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, DefinitionError, ToolError, TransientError
from capset_connect.declarations import mask_text, mask_value
from capset_connect.mcp.answers import UNREADABLE, VERSION, ToolAnswer, answer_of
from capset_connect.mcp.connector import Connector, OpenConnection
from capset_connect.mcp.failures import (
    NotListed,
    cause_of,
    late,
    pause_after,
    unknown_outcome,
    unreachable,
    unreadable,
)
from capset_connect.mcp.lists.meter import ListMeter
from capset_connect.mcp.lists.offers import is_used, kept_of, offers_of, unmatched
from capset_connect.mcp.rooms import Room
from capset_connect.mcp.server import McpServer
from capset_connect.mcp.transports import INTERRUPTED, NOT_SENT, SESSION_OVER
from capset_connect.pins.offers import Offer

_LASTING_SECONDS: Final = 1.0
"""A connection that breaks sooner counts as a failure, except the first one, which is reopened at once."""
FRESH_SECONDS: Final = 300.0
"""How long a tool list is cached if the server announces no change."""
AGAIN_SECONDS: Final = 2.0
"""The minimum time between two listings that are requested because a tool differs from its pin."""
_OF_ONE_STREAM: Final = "SSE stream"
"""The prefix of the SDK's error messages for a request whose own stream broke."""
_NOTHING_TO_HEAR: Final = frozenset({METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})
"""The errors of a server that does not support listening."""
R = TypeVar("R")
M = TypeVar("M", bound=BaseModel)


class McpConnection:
    """A client of one server: its tools, prompts and resources. Leaving ``async with`` closes the connection.

    The connection is opened on demand. It belongs to a separate task, so a cancelled caller does not close it for
    others. With a ``room``, it is closed when it is idle, or when the room is needed for another connection.
    """

    def __init__(self, server: McpServer, secrets: Secrets, room: Room | None = None) -> None:
        self.server: Final = server
        self._room = room
        self._users, self._used = 0, 0.0
        """The number of users, including waiting ones, and the time at which the last of them finished."""
        self._owner: asyncio.Task[None] | None = None
        self._is_closed = False
        self._wanted, self._broken = asyncio.Event(), asyncio.Event()
        self._ready: asyncio.Future[OpenConnection] | None = None
        self._number = 0
        self._failures, self._since, self._again = 0, 0.0, 0.0
        """The number of consecutive failures, when it was opened, and the earliest time of the next attempt."""
        self._why = ""
        self.failure: CapsetError | None = None
        """The error of the last attempt to connect, if it failed, or the end of the process since."""
        self._lists = ListMeter(server, room)
        self._offers: Sequence[Offer] | None = None
        """The tools as last listed, without their shapes: the hashes are enough to compare them with pins."""
        self._listed, self._listed_on = 0.0, -1
        """When the tools were listed, and on which connection."""
        self._list_failure: tuple[float, CapsetError] | None = None
        """The time and the error of the last failed listing."""
        self._asked_again = -AGAIN_SECONDS
        self._changes = 0
        self._listing = asyncio.Lock()
        self._connector = Connector(server, secrets, self._lists, self._end, self._changed)

    async def __aenter__(self) -> Self:
        """Return the connection without opening it."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection permanently, and end the server's process, if it has one."""
        self._is_closed = True
        if (owner := self._owner) is not None:
            owner.cancel()
            await asyncio.wait([owner])
        if self._ready is not None and not self._ready.done():  # callers are still waiting for it
            self._ready.set_exception(self._error_for(asyncio.CancelledError()))
            self._ready.exception()  # the caller may have left

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""
        return self._ready is not None and self._ready.done() and self._ready.exception() is None

    @property
    def _hidden(self) -> Sequence[str]:
        """The credentials that are masked in the server's messages."""
        return self._connector.credentials.hidden

    @property
    def last_output(self) -> Sequence[str]:
        """The last lines that the server's process wrote to stderr, with credentials masked; empty for a URL."""
        return self._connector.output.lines()

    @property
    def list_size(self) -> int:
        """The size of the tool lists that were received on this connection, as ``ListMeter`` counts it."""
        return self._lists.size

    @property
    def known_offers(self) -> Sequence[Offer] | None:
        """The tools as last listed on this connection, without their shapes; ``None`` if they were not listed on it."""
        return self._offers if self._listed_on == self._number else None

    async def offers(self, *, at_once: bool = False) -> Sequence[Offer]:
        """Return the tools of the server, from a cache of a few minutes unless ``at_once``.

        Cached tools have no shapes. A new connection never uses the cache, because it may lead to another process.
        Raises ``CapsetError`` if the server cannot be reached or its lists are too large.
        """
        requested_at = monotonic()
        async with self._listing:
            is_fresh = self._listed_on == self._number and monotonic() - self._listed < FRESH_SECONDS
            if self._offers is None or at_once or not is_fresh:
                if self._list_failure is not None and self._list_failure[0] > requested_at:
                    raise self._list_failure[1].copy()  # another caller's attempt failed in the meantime
                try:
                    offers = await self._in_session(self._list)
                except CapsetError as error:
                    self._list_failure = monotonic(), error
                    raise
                self._offers = kept_of(offers)
                return offers
            return self._offers

    async def _list(self) -> Sequence[Offer]:
        opened, changes = await self._connected(), self._changes
        try:
            # The size of the handshake counts towards the first list.
            with self._failing(opened), self._lists.reading(from_zero=self._listed_on == opened.number):
                async with asyncio.timeout(self.server.start_timeout):
                    offers = await offers_of(self.server, opened.client, partial(mask_value, hidden=self._hidden))
        except TimeoutError as error:
            raise self._error_for(error) from None
        except CapsetError:
            if (refusal := self._lists.error) is None:
                raise
            self._end(opened.number, refusal.message)  # discard what was received
            self._lists.size = 0
            raise refusal.copy() from None
        # A change during the listing may be missing in the list.
        self._listed = monotonic() if changes == self._changes else -FRESH_SECONDS
        self._listed_on = opened.number
        return offers

    async def latest_offers(self) -> Sequence[Offer]:
        """Return the tools, listed again unless that was done in the last ``AGAIN_SECONDS``."""
        if monotonic() - self._asked_again < AGAIN_SECONDS:
            return await self.offers()
        self._asked_again = monotonic()
        return await self.offers(at_once=True)

    async def first_offers(self) -> Sequence[Offer]:
        """List the tools. Raises ``DefinitionError`` if the declaration names tools that the server does not have."""
        offers = await self.offers(at_once=True)
        if odd := unmatched(self.server, offers):
            raise DefinitionError(f"{self.server.label}: {'; '.join(odd)}")
        return offers

    async def unmatched(self) -> list[str]:
        """Return a message for each name in the declaration that the server lacks. Raises the errors of ``offers``."""
        return unmatched(self.server, await self.offers())

    async def leaves_out(self, shape: Mapping[str, Any]) -> bool:
        """Return whether the declaration leaves out the tool or prompt with this approved shape."""
        return not is_used(self.server, shape)

    async def call(self, name: str, arguments: dict[str, Any], report: ProgressFnT | None) -> ToolAnswer:
        """Call a tool by its name on the server, with JSON arguments. ``report`` receives its progress.

        Raises ``NotListed`` if the tools were listed on another connection, ``TransientError`` if the server cannot be
        reached or does not respond in time, and ``ToolError`` for a refused call or an invalid response.
        """
        answer = await self._call(name, arguments, report and self._masking(report))
        return ToolAnswer(*mask_value([*answer], self._hidden))

    async def _call(self, name: str, arguments: dict[str, Any], report: ProgressFnT | None) -> ToolAnswer:
        opened = await self._listed_connection()
        with self._failing(opened):
            return await self._extended(partial(self._call_on, opened, name, arguments), report)

    async def _extended(
        self, ask: Callable[[ProgressFnT | None, float], Awaitable[R]], report: ProgressFnT | None
    ) -> R:
        """Wait for a response. Each progress report restarts the ``timeout``, up to ``max_timeout`` in total.

        Without ``max_timeout``, progress does not extend the timeout. ``ask`` receives the progress callback and the
        longest possible timeout in seconds.
        """
        server = self.server
        if server.max_timeout is None:
            return await ask(report, server.timeout)
        loop = asyncio.get_running_loop()
        end = loop.time() + server.max_timeout
        scope, is_answered = asyncio.timeout(server.timeout), False

        async def extend(progress: float, total: float | None, message: str | None) -> None:
            if not (is_answered or scope.expired()):
                scope.reschedule(min(end, loop.time() + server.timeout))
            if report is not None:
                await report(progress, total, message)

        try:
            async with scope:
                try:
                    return await ask(extend, server.max_timeout)
                finally:
                    is_answered = True
        except TimeoutError:
            if not scope.expired():
                raise
            raise late(server) from None

    async def _call_on(
        self, opened: OpenConnection, name: str, arguments: dict[str, Any], report: ProgressFnT | None, seconds: float
    ) -> ToolAnswer:
        result = await opened.client.call_tool(name, arguments, read_timeout_seconds=seconds, progress_callback=report)
        return answer_of(result)

    async def read(self, uri: str) -> ReadResourceResult:
        """Read a resource. Raises the errors of ``call``, except ``NotListed``."""
        return await self._in_session(partial(self._read, uri))

    async def _read(self, uri: str) -> ReadResourceResult:
        opened = await self._connected()
        with self._failing(opened):
            return self._masked(await self._in_time(opened.client.read_resource(uri, cache_mode="bypass")))

    async def prompt(self, name: str, arguments: dict[str, str]) -> GetPromptResult:
        """Get a prompt by its name on the server. Raises the errors of ``call``."""
        opened = await self._listed_connection()
        with self._failing(opened):
            return self._masked(await self._in_time(opened.client.get_prompt(name, arguments)))

    async def _in_session(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Send a request, and repeat it once if the server has forgotten the session."""
        for _ in range(2):
            with contextlib.suppress(NotListed):
                return await ask()
        raise unreachable(self.server, "it forgets each session at once")

    def _masked(self, result: M) -> M:
        """Mask the credentials in a result of the server."""
        if not self._hidden:
            return result
        plain = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return type(result).model_validate(mask_value(plain, self._hidden), by_name=False)

    def _masking(self, report: ProgressFnT) -> ProgressFnT:
        """Wrap a progress callback so that credentials in its messages are masked."""

        async def masked(progress: float, total: float | None, message: str | None) -> None:
            await report(progress, total, message and mask_text(message, self._hidden))

        return masked

    async def _listed_connection(self) -> OpenConnection:
        opened = await self._connected()
        if self._offers is not None and opened.number != self._listed_on:
            raise NotListed
        return opened

    async def _in_time(self, answer: Awaitable[R]) -> R:
        try:
            async with asyncio.timeout(self.server.timeout):
                return await answer
        except TimeoutError:
            raise late(self.server) from None

    async def _connected(self) -> OpenConnection:
        """Return the open connection; open one if there is none."""
        if self._is_closed:
            raise CapsetError(f"the connection to the MCP server {self.server.name!r} is closed")
        if self._owner is None or self._owner.done():
            # In an empty context, because the task outlives the call that starts it.
            self._owner = asyncio.create_task(self._own(), name=f"mcp {self.server.name}", context=Context())
        wait = self._again - monotonic()
        if self._ready is None and wait > 0:
            raise unreachable(self.server, f"it is tried again in {wait:.1f} s")
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
        """The time of its last use, by the monotonic clock; ``None`` while it is in use."""
        return None if self._users else self._used

    def release(self) -> None:
        """Close the connection temporarily: the next call opens another one. Running calls fail."""
        self._since = -_LASTING_SECONDS  # does not count as a failure
        self._end(self._number)

    async def _own(self) -> None:
        """Own the connection: open it on demand, and hold it until it breaks."""
        while not self._is_closed:  # a cancellation can get lost if the cancelled code fails at the same time
            if self._room is not None and not self._wanted.is_set():
                return  # otherwise the task would keep an unused connection object alive
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
                        with self._lists.reading(from_zero=True):
                            opened = await self._connector.open(stack, number)
                    self.failure, self._since = None, monotonic()
                    ready.set_result(opened)
                    async with asyncio.TaskGroup() as tasks:
                        listening = tasks.create_task(self._listen(opened.client))
                        await self._broken.wait()
                        listening.cancel()
                        await opened.drain()
            except (Exception, asyncio.CancelledError) as error:
                self._end(number)
                if self._ready is ready:
                    self._ready = None
                if not ready.done():
                    self._failures += 1
                    self._again = monotonic() + pause_after(self._failures)
                    self.failure = self._error_for(error)
                    ready.set_exception(self.failure)
                    ready.exception()  # the caller may have left
                if isinstance(error, asyncio.CancelledError):
                    raise

    def _end(self, number: int, why: str = "") -> None:
        """Mark a connection as broken. The next call opens another one; errors of running calls contain ``why``.

        Several calls may notice the same break, some of them after another connection was opened. The ``number`` tells
        these apart.
        """
        if number == self._number:
            if self.is_connected:
                self._failures = 0 if monotonic() - self._since >= _LASTING_SECONDS else self._failures + 1
                self._again = monotonic() + pause_after(self._failures - 1)
                if why and self.server.url is None:  # one at a URL may only have ended an idle connection
                    self.failure = self._with_output(unreachable(self.server, mask_text(why, self._hidden)))
            self._number += 1
            self._why = mask_text(why, self._hidden) or self._why
            self._ready = None
            self._broken.set()

    def _changed(self) -> None:
        """Expire the cached tools."""
        self._listed = -FRESH_SECONDS
        self._changes += 1

    async def _listen(self, client: Client) -> None:
        """Listen for changes, and resume when the stream ends, unless the server does not support it."""
        ends = 0
        while True:
            try:
                has_prompts = bool(self.server.prompts)
                async with client.listen(tools_list_changed=True, prompts_list_changed=has_prompts) as changes:
                    self._changed()  # earlier changes were not announced
                    async for _ in changes:
                        self._changed()
            except ListenNotSupportedError:
                return  # an older server, which announces changes unasked
            except MCPError as error:
                if error.error.code in _NOTHING_TO_HEAR:
                    return  # the list expires after FRESH_SECONDS
            except SubscriptionLost:
                pass  # for example because a server at a URL restarts
            self._changed()
            ends += 1
            await asyncio.sleep(pause_after(ends))

    @contextlib.contextmanager
    def _failing(self, opened: OpenConnection) -> Generator[None]:
        """Convert exceptions of the SDK to capset's errors, and mark the connection as broken if it is.

        Raises ``NotListed`` if the session is over.
        """
        opened.requests += 1
        opened.is_idle.clear()
        try:
            with self._in_use():
                yield
        except (CapsetError, TimeoutError):
            raise
        except MCPError as error:
            raise self._refusal(opened, error.error) from None
        except ValidationError:
            raise ToolError("The MCP server sent an invalid response.", code="mcp_error", status=502) from None
        except Exception as error:
            self._end(opened.number)
            raise self._error_for(error) from None
        finally:
            opened.requests -= 1
            if not opened.requests:
                opened.is_idle.set()

    def _refusal(self, opened: OpenConnection, error: ErrorData) -> Exception:
        """Return the error for a request that was refused or interrupted."""
        message = mask_text(error.message, self._hidden)
        if error.code == SESSION_OVER and opened.number != self._number:
            return NotListed()
        if error.code in (NOT_SENT, INTERRUPTED):
            self._changed()  # only this request's connection broke, but the server may have been replaced
            return (unreachable if error.code == NOT_SENT else unknown_outcome)(self.server, message)
        if error.code == CONNECTION_CLOSED:
            if opened.client.protocol_version == VERSION and error.message.startswith(_OF_ONE_STREAM):
                self._changed()
            else:
                self._end(opened.number)
            return self._with_output(unknown_outcome(self.server, self._why))
        if error.code == REQUEST_TIMEOUT:
            return late(self.server)
        if error.data is UNREADABLE:
            return unreadable(self.server)
        return ToolError(f"The MCP server refused: {message}", code="mcp_error", status=502)

    def _error_for(self, error: BaseException) -> CapsetError:
        cause = cause_of(self.server, error, self._why).copy()
        cause.message = mask_text(cause.message, self._hidden)
        cause.args = (cause.message,)
        return self._with_output(cause)

    def _with_output(self, error: CapsetError) -> CapsetError:
        """Add the last output of the server's process to the hint of an error, which is for operators only."""
        if isinstance(error, TransientError) and error.hint is None and (lines := self.last_output):
            error.hint = f"its last output was: {lines[-1]}"
        return error
