"""One MCP request: the session it may use, and its running calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Set
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from anyio import CancelScope
from mcp_types import RequestId

from capset.composition.installation import Installed
from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.kernel.call.session import Session
from capset_server.mcp.kept_streams import KeptStream


class Cancellable(Protocol):
    """Something that can be cancelled."""

    def cancel(self) -> None:
        """Cancel it."""
        ...


Reserve = Callable[[int], Awaitable[None]]
"""A function that waits until there is memory for so many bytes. Raises ``CapsetError`` if there is none in time."""

Again = Callable[[], Awaitable[tuple[Session, Set[str] | None]]]
"""A function that finds the session of a request as it is now, and the only tools that it may use.

Raises ``CapsetError`` if its caller may not go on.
"""


class ApprovalAccess(NamedTuple):
    """How the requests of a caller are decided, besides by others over REST.

    ``url`` returns the page of a request, if there is one. ``decide`` decides for the caller itself, with its rights,
    if it may approve what it asked for, and ``refusal`` says why it may not approve a certain request of these.
    """

    url: Callable[[str], str] | None = None
    decide: Callable[[str, Answer], Awaitable[object]] | None = None
    refusal: Callable[[ApprovalRow], str | None] = lambda request: None


BY_OTHERS: Final = ApprovalAccess()
"""There is no page, and the caller decides nothing."""


class CallCancelled(Exception):
    """A call whose exchange was cancelled."""


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
        """Forget the call. Raises ``CallCancelled`` if it was cancelled."""
        del self._calls[self]
        if not self._calls:
            self._idle.set()
        if self._is_cancelled and isinstance(error, asyncio.CancelledError) and self._task is not None:
            self._task.uncancel()
            raise CallCancelled from None


class Exchange:
    """The session of a request, and its calls that can be cancelled.

    ``connection`` names the transport session of the request, if it named one; ``correlation`` ties its calls to their
    cause, if there is one; ``notes`` collect the tool and the record of a call. ``tools`` are the only ones that it may
    list and call, as ``CAPABILITY.TOOL``; ``None`` for all in play. ``identity`` stands for the caller and the target,
    for what a client carries from one request to another; ``None`` where there is one caller only. ``reserve`` waits
    for the memory for so many bytes, where that is shared among callers. ``approvals`` says how requests are decided.
    ``again`` is for what waits for changes; without it, the session is the same as long as the request goes on.
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
        """The stream on which its call can ask the client, at revisions before 2026-07-28."""
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
        """Return this exchange as the same request would find it now."""
        if self._again is None:
            return self
        session, tools = await self._again()
        return Exchange(session, tools=tools, again=self._again)

    def may_use(self, installed: Installed | None) -> bool:
        """Return whether the request may list and call a tool, if it is in play."""
        return self.tools is None or (installed is not None and installed.own_name in self.tools)

    async def may_call(self, name: str) -> bool:
        """Return whether the request may call the tool that has this name in its session now, if there is one."""
        return self.tools is None or self.may_use((await self.session.current()).tools.get(name))

    @contextmanager
    def calling(self, request: RequestId | None) -> Generator[CancelScope]:
        """Yield the scope of one call; the exchange stays open until it ends."""
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
        """Return a context manager for one call in the current task, as ``calling`` does for one in a task of anyio's.

        What cancels it ends in ``CallCancelled`` there.
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
