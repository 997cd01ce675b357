"""Notifications of changed lists and files for clients that subscribe: ``subscriptions/listen`` (spec 7, M24)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
    event_to_notification,
)
from mcp_types import (
    INTERNAL_ERROR,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from capset.errors import CapsetError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.prompts import list_prompts
from capset_server.mcp.resources import FILES, files_of, list_offered, path_of
from capset_server.mcp.tools import list_tools

METHOD: Final = "subscriptions/listen"
LOOK_SECONDS: Final = 2.0
"""The maximum delay until a change by another process is noticed."""
RUNG_SECONDS: Final = 0.25
"""The minimum time between two checks, since each of many calls may request one."""
MAX_LISTENERS: Final = 500
"""Maximum number of open streams of changes in a process."""
MAX_URIS: Final = 100
"""Maximum number of resources that one stream may subscribe to by URI."""
_WORK: Final = 20.0
"""The minimum pause until the next check of a stream, as a multiple of the duration of the last one."""
_ALL_WORK: Final = 4.0
"""The same, times the number of open streams; this bounds the work of all of them together."""
_RETRY_SECONDS: Final = 30.0
_log = logging.getLogger("capset.mcp")

Asked = ServerRequestContext[dict[str, Any], Any]


class Listeners:
    """The open streams of changes in a process: limited in number, woken by calls, and ended together."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Event, str] = {}
        self.closed: Final = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of open streams."""
        return len(self._open)

    def ring(self, session: str) -> None:
        """Check at once what a call has changed in its session."""
        for rung, of in self._open.items():
            if of == session:
                rung.set()

    def ring_all(self) -> None:
        """Check at once what another process has changed."""
        for rung in self._open:
            rung.set()

    def close(self) -> None:
        """End all streams: the process is shutting down."""
        self.closed.set()
        for rung in self._open:
            rung.set()

    @contextmanager
    def joined(self, session: str) -> Generator[asyncio.Event]:
        """Yield an event that is set when something may have changed. Raises ``MCPError`` if there is no room."""
        if len(self._open) >= MAX_LISTENERS or self.closed.is_set():
            raise MCPError(
                INTERNAL_ERROR,
                f"This server has no room for another stream of changes (it has {len(self._open)} of {MAX_LISTENERS}): "
                f"ask for the lists again instead, or retry in {_RETRY_SECONDS:g} seconds",
                {"retryable": True, "retry_after": _RETRY_SECONDS},
            )
        rung = asyncio.Event()
        self._open[rung] = session
        try:
            yield rung
        finally:
            del self._open[rung]


class _SeenLists(NamedTuple):
    """The lists and files that a caller sees at one time; only those that the stream covers are filled in."""

    snapshot: Snapshot
    tools: Sequence[object] = ()
    prompts: Sequence[object] = ()
    resources: Sequence[object] = ()
    files: Mapping[str, object] = {}
    """The version, size and time of each file, by path: they change with its content."""

    def changes(self, now: _SeenLists, uris: Sequence[str]) -> list[ServerEvent]:
        """Return an event for each list and resource that differs in ``now``."""
        events: list[ServerEvent] = []
        if now.tools != self.tools:
            events.append(ToolsListChanged())
        if now.prompts != self.prompts:
            events.append(PromptsListChanged())
        if now.resources != self.resources or now.files.keys() != self.files.keys():
            events.append(ResourcesListChanged())
        events += [ResourceUpdated(uri) for uri in uris if now.files.get(path_of(uri)) != self.files.get(path_of(uri))]
        return events


async def listen(
    listeners: Listeners, exchange: Exchange, ctx: Asked, params: SubscriptionsListenRequestParams
) -> SubscriptionsListenResult:
    """Notify a client of changes in its lists, and in the files that it names, until it disconnects.

    The lists are compared as a new request would find them: after calls in the session, and every few seconds, for
    changes by others and by other processes. It ends when the caller loses its access, and on shutdown.
    """
    subscription = _honoured(params.notifications, is_limited=exchange.tools is not None)
    meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
    uris = subscription.resource_subscriptions or ()
    with listeners.joined(exchange.session.id) as rung:
        lists, took = await _timed(exchange, subscription, None)
        acknowledgement = SubscriptionsAcknowledgedNotificationParams(notifications=subscription, _meta=meta)
        await ctx.session.send_notification(
            SubscriptionsAcknowledgedNotification(params=acknowledgement), related_request_id=ctx.request_id
        )
        while await _waited(listeners, rung, took):
            try:
                exchange = await exchange.again()
                now, took = await _timed(exchange, subscription, lists)
            except CapsetError as error:
                if error.status < 500:
                    break  # the key is no longer valid, or the session no longer exists
                _log.warning("cannot check what has changed for a subscribed client: %s", error.message)
                continue
            for event in lists.changes(now, uris) if now is not lists else ():
                await ctx.session.send_notification(
                    event_to_notification(event, meta), related_request_id=ctx.request_id
                )
            lists = now
    return SubscriptionsListenResult(_meta=meta)


def _honoured(requested: SubscriptionFilter, *, is_limited: bool) -> SubscriptionFilter:
    """Return the supported part of a filter; for callers of single tools, that is the list of tools only.

    Of resources, only files are supported: the content of others is known only by calling their tools.
    """
    files = [uri for uri in requested.resource_subscriptions or () if uri.startswith(FILES)][:MAX_URIS]
    return SubscriptionFilter(
        tools_list_changed=requested.tools_list_changed or None,
        prompts_list_changed=(not is_limited and requested.prompts_list_changed) or None,
        resources_list_changed=(not is_limited and requested.resources_list_changed) or None,
        resource_subscriptions=None if is_limited else files or None,
    )


async def _waited(listeners: Listeners, rung: asyncio.Event, took: float) -> bool:
    """Wait until the next check is due, and return whether to make it; ``took`` is the duration of the last one."""
    pause = max(RUNG_SECONDS, took * max(_WORK, _ALL_WORK * len(listeners)))
    await _set_within(listeners.closed, pause)
    await _set_within(rung, LOOK_SECONDS - pause)
    rung.clear()
    return not listeners.closed.is_set()


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):
            await event.wait()


async def _timed(
    exchange: Exchange, subscription: SubscriptionFilter, before: _SeenLists | None
) -> tuple[_SeenLists, float]:
    started = monotonic()
    return await _look(exchange, subscription, before), monotonic() - started


async def _look(exchange: Exchange, subscription: SubscriptionFilter, before: _SeenLists | None) -> _SeenLists:
    """Return what the caller sees now, as far as the subscription covers it."""
    session = exchange.session
    snapshot = await session.current()
    is_limited = exchange.tools is not None
    if before is None or snapshot is not before.snapshot:
        tools = list_tools(snapshot, exchange).tools if subscription.tools_list_changed else ()
        prompts = list_prompts(snapshot).prompts if subscription.prompts_list_changed and not is_limited else ()
        resources = list_offered(snapshot) if subscription.resources_list_changed and not is_limited else ()
        before = _SeenLists(snapshot, tools, prompts, resources)
    if is_limited or not (subscription.resources_list_changed or subscription.resource_subscriptions):
        return before._replace(files={})
    files = {file.path: (file.version, file.size_bytes, file.modified_at) for file in await files_of(session)}
    return before._replace(files=files)
