"""The door: every call enters here, whoever makes it (DESIGN §2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import copy
from math import isfinite
from typing import Any, ParamSpec, Self

from typing_extensions import TypeVar

from capset.clock import iso
from capset.definitions.capabilities import AnyTool
from capset.definitions.files import Files
from capset.definitions.messages import Json, Message, Meta
from capset.definitions.tools import Tool
from capset.errors import InvalidArguments
from capset.evaluation.snapshot import Snapshot
from capset.kernel.calling import bound, ended, result_of, road_named, road_of
from capset.kernel.invocation import Invocation, Place, Road
from capset.kernel.pipeline import travel
from capset.kernel.results import Result
from capset.kernel.stages.lookup import refusing_road
from capset.kernel.streaming import Messages

P = ParamSpec("P")
R = TypeVar("R")


class Session:
    """One conversation: its agent, its principal, its files, and the snapshot that says what may be called.

    Made by ``kernel.open()``. All its doors lead to the same road; ``call``, ``try_call`` and ``stream`` are sugar.
    """

    __slots__ = ("_place", "_timeout")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._timeout: float | None = None

    @property
    def id(self) -> str:
        """The session's UUIDv7; opening it again takes this."""
        return self._place.id

    @property
    def snapshot(self) -> Snapshot:
        """Which tools are in play, and why not the others; with the hashes that every record carries."""
        return self._place.snapshot

    @property
    def files(self) -> Files:
        """The session's files, for the host: what is done here is not governed, and not on record."""
        return self._place.files

    def options(self, *, timeout: float) -> Self:
        """Return this session with ``timeout`` seconds for each call made through it."""
        if not timeout > 0:
            raise InvalidArguments(f"timeout must be a positive number of seconds; got {timeout!r}")
        other = copy(self)
        other._timeout = timeout
        return other

    async def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a tool and return its result.

        Raises ``NotFound``, ``PermissionDenied``, ``InvalidArguments`` or ``StoreError`` if the call is refused;
        ``ToolError``, ``DeadlineExceeded``, ``InternalError`` or ``NoOutcome`` if the tool failed.
        """
        call = self._start(road_of(self._place, tool), bound(tool, args, kwargs) if args else kwargs)
        await travel(call)
        return result_of(call)

    async def try_call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Call a tool and return what came of it, refusals and failures too."""
        call = self._start(road_of(self._place, tool), bound(tool, args, kwargs))
        await travel(call)
        return ended(call, call.value)

    def stream(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Messages:
        """Call a tool and read its messages: ``async with session.stream(…) as messages``."""
        return Messages(self._start(road_of(self._place, tool), bound(tool, args, kwargs)))

    def invoke(self, message: Message) -> Messages:
        """Send a command or a query, whose ``type`` is ``tool`` or ``capability.tool``, and read what comes back.

        ``data`` is a mapping, validated as Python, or ``Json``, validated as JSON. Queries are for tools with effect
        ``read``, commands for all others (spec 3, K1). A correlation and a deadline in ``meta`` are kept.
        """
        return Messages(self._asked(message))

    async def try_message(self, message: Message) -> Result[Any]:
        """Send a message as ``invoke`` does, and return what came of it; its data is plain JSON data.

        For a caller who wants no events: nobody listens, so the call runs in its caller's own task.
        """
        call = self._asked(message)
        await travel(call)
        return ended(call, call.data)

    def _asked(self, message: Message) -> Invocation:
        road, meta = road_named(self._place, message.type), message.meta
        wrong = road.tool and _misfit(road.tool, message)
        if road.tool is not None and wrong:
            road = refusing_road(road, road.tool, InvalidArguments(f"Invalid message: {wrong}"))
        call = self._start(road, {} if message.data is None else message.data)
        if meta is not None:
            call.cause = str(meta.correlation), str(meta.id)
            if road.tool is not None and not wrong and meta.deadline is not None:
                left = meta.deadline - self._place.world.clock.time_ns() / 1e9
                end = asyncio.get_running_loop().time() + left
                call.deadline = end if call.deadline is None else min(end, call.deadline)
        return call

    def message(self, tool: str, data: Mapping[str, Any] | Json, *, correlation: str | None = None) -> Message:
        """Return the message that asks for a tool by its name: a query if it only reads, else a command.

        ``data`` are the arguments, of the tool's own types. ``correlation`` ties the call to what caused it.
        """
        road, world = road_named(self._place, tool), self._place.world
        meta = Meta(world.ids.new(), iso(world.clock.time_ns()), correlation) if correlation is not None else None
        return Message("query" if road.tool and not road.has_side_effects else "command", tool, data, meta)

    def _start(self, road: Road, given: Mapping[str, Any] | Json) -> Invocation:
        call = Invocation(self._place, road, given)
        if self._timeout is not None:
            call.deadline = asyncio.get_running_loop().time() + self._timeout
        return call


def _misfit(tool: AnyTool, message: Message) -> str | None:
    """Return what is wrong with a message as a whole, if anything is."""
    expected = "command" if tool.has_side_effects else "query"
    if message.kind != expected:
        return f"{tool.name!r} takes a {expected}, not a {message.kind}"
    if (meta := message.meta) is None:
        return None
    for name in ("id", "correlation"):
        if not isinstance(getattr(meta, name), str):
            return f"the {name} of a message is text, not {type(getattr(meta, name)).__name__}"
    if meta.deadline is not None and not (isinstance(meta.deadline, int | float) and isfinite(meta.deadline)):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        return f"a deadline is a finite number of seconds, not {meta.deadline!r}"
    return None
