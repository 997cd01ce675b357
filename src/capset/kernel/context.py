"""What a handler sees of its call: made only for handlers that ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ParamSpec

from typing_extensions import TypeVar

from capset.definitions.files import Files
from capset.definitions.principals import Principal
from capset.definitions.tools import Tool
from capset.kernel.calling import call_from
from capset.kernel.invocation import Invocation, Place

P = ParamSpec("P")
R = TypeVar("R")


class CallContext:
    """The ``Context`` of one call."""

    __slots__ = ("_call",)

    def __init__(self, call: Invocation) -> None:
        self._call = call

    @property
    def principal(self) -> Principal:
        """Who acts."""
        return self._call.place.principal

    @property
    def session(self) -> Place:
        """The session that the call belongs to."""
        return self._call.place

    @property
    def correlation(self) -> str:
        """The id that ties this call to whatever caused it."""
        return self._call.correlation

    @property
    def env(self) -> Mapping[str, Any]:
        """What the host said of this environment; its values are the host's own."""
        return self._call.place.snapshot.env

    @property
    def files(self) -> Files:
        """The session's files."""
        return self._call.place.files

    async def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another tool of this agent, through the whole road, as the same principal (spec 1, C31)."""
        return await call_from(self._call, tool, args, kwargs)
