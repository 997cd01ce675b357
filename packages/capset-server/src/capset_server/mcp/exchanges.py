"""One MCP request: the session it may use, and its running calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Set
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from anyio import CancelScope
from mcp_types import RequestId

from capset.composition.installation import InstalledTool
from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.errors import CapsetError, ConnectionRequired
from capset.kernel.call.session import Session
from capset.wire.calls import approval_of
from capset_server.mcp.kept_streams import KeptStream


class Cancellable(Protocol):
    """Something that can be cancelled."""

    def cancel(self) -> None:
        """Cancel it."""
        ...


Reserve = Callable[[int], Awaitable[None]]
"""A function that waits for, and reserves, bytes of memory. Raises ``CapsetError`` if there are none in time."""

Again = Callable[[], Awaitable[tuple[Session, Set[str] | None]]]
"""A function that returns the current session of a request, and the only tools that the request may use.

Raises ``CapsetError`` if the caller no longer has access.
"""


class ApprovalAccess(NamedTuple):
    """How the approval requests of a caller can be decided, other than by others over REST.

    ``url`` returns the URL of a request's page, if there are pages. ``decide`` decides a request with the caller's own
    rights, if it may approve its own requests; ``refusal`` returns why it may not approve a particular one.
    ``connect_url`` returns the URL of the page of a connection, for calls that wait for their user to connect.
    """

    url: Callable[[str], str] | None = None
    decide: Callable[[str, Answer], Awaitable[object]] | None = None
    refusal: Callable[[ApprovalRow], str | None] = lambda request: None
    connect_url: Callable[[str], str] | None = None

    def page(self, error: CapsetError | None) -> str | None:
        """Return the URL of the page where what a call waits for is decided or connected, if there is one."""
        connection = error.connection if isinstance(error, ConnectionRequired) else None
        approval = approval_of(error)
        return None if approval is None else self.page_of(approval, connection)

    def page_of(self, approval: str, connection: str | None) -> str | None:
        """Return the URL of the page of a request; for one that waits for a connection, that of the connection."""
        if connection is not None:
            return self.connect_url and self.connect_url(connection)
        return self.url and self.url(approval)


BY_OTHERS: Final = ApprovalAccess()
"""Only others decide: there is no page, and the caller may not decide."""


class CallCancelled(Exception):
    """The call was cancelled by its exchange."""


class RunningCall:
    """A call that runs in the current task."""

    __slots__ = ("_calls", "_idle", "_is_cancelled", "_request", "_task")

    def __init__(self, calls: dict[Cancellable, RequestId | None], idle: asyncio.Event, request: RequestId) -> None:
        self._calls, self._idle, self._request = calls, idle, request
        self._is_cancelled = False
        self._task: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """Cancel the call."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> None:
        """Register the call."""
        self._task = asyncio.current_task()
        self._calls[self] = self._request
        self._idle.clear()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Unregister the call. Raises ``CallCancelled`` if it was cancelled."""
        del self._calls[self]
        if not self._calls:
            self._idle.set()
        if self._is_cancelled and isinstance(error, asyncio.CancelledError) and self._task is not None:
            self._task.uncancel()
            raise CallCancelled from None


class Exchange:
    """The session of a request, and its running calls, which can be cancelled.

    ``connection`` is the transport session that the request names, if any. ``correlation`` is the correlation id for
    its calls, if any; ``notes`` receives the tool and the record of a call. ``tools`` are the only tools that it may
    list and call, as ``CAPABILITY.TOOL``; ``None`` means all in play. ``identity`` identifies the caller and the
    target, for state that a client carries from one request to the next; it is ``None`` if there is only one caller.
    ``reserve`` reserves memory, if that is shared among callers. ``approvals`` says how approval requests are decided.
    ``again`` is for requests that wait for changes; without it, the session of a request never changes.
    """

    __slots__ = (
        *("_again", "_calls", "_idle", "approvals", "asking", "connection", "correlation", "identity"),
        *("notes", "reserve", "session", "tools"),
    )

    def __init__(
        self,
        session: Session,
        connection: str | None = None,
        correlation: str | None = None,
        notes: dict[str, str] | None = None,
        *,
        tools: Set[str] | None = None,
        identity: str | None = None,
        reserve: Reserve | None = None,
        approvals: ApprovalAccess = BY_OTHERS,
        again: Again | None = None,
    ) -> None:
        self.session = session
        self.approvals = approvals
        self._again = again
        self.asking: KeptStream | None = None
        """The stream on which its call can ask the client, in revisions before 2026-07-28."""
        self.identity = identity
        self.reserve = reserve
        self.connection = connection
        self.correlation = correlation
        self.notes = {} if notes is None else notes
        self.tools = tools
        self._calls: dict[Cancellable, RequestId | None] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    async def again(self) -> Exchange:
        """Return this exchange with its current session and tools."""
        if self._again is None:
            return self
        session, tools = await self._again()
        return Exchange(session, tools=tools, again=self._again)

    def may_use(self, installed: InstalledTool | None) -> bool:
        """Return whether the request may list and call a tool, if it is in play."""
        return self.tools is None or (installed is not None and installed.own_name in self.tools)

    async def may_call(self, name: str) -> bool:
        """Return whether the request may call the tool that has this name in its current session, if any."""
        return self.tools is None or self.may_use((await self.session.current()).tools.get(name))

    @contextmanager
    def calling(self, request: RequestId | None) -> Generator[CancelScope]:
        """Yield the cancel scope of one call; the exchange stays open until the call ends."""
        with CancelScope() as scope:
            self._calls[scope] = request
            self._idle.clear()
            try:
                yield scope
            finally:
                del self._calls[scope]
                if not self._calls:
                    self._idle.set()

    def running(self, request: RequestId) -> RunningCall:
        """Return a context manager for one call in the current task, as ``calling`` is for one in an anyio task.

        It raises ``CallCancelled`` if the call is cancelled.
        """
        return RunningCall(self._calls, self._idle, request)

    def cancel(self, request: RequestId | None = None) -> None:
        """Cancel the call of one request, or all of them."""
        for scope, request_id in list(self._calls.items()):
            if request is None or (type(request_id), request_id) == (type(request), request):
                scope.cancel()

    async def over(self) -> None:
        """Return once no call is running."""
        await self._idle.wait()
