"""What a handler is given beside its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from typing_extensions import TypeVar

from capset.definitions.files import Files
from capset.definitions.principals import Principal

if TYPE_CHECKING:
    from capset.definitions.tools import Tool

P = ParamSpec("P")
R = TypeVar("R")


class SessionView(Protocol):
    """The session that a call belongs to."""

    @property
    def id(self) -> str:
        """The session's UUIDv7."""
        ...


class Context(Protocol):
    """The world of one call: who acts, where, and what else is at hand. Ask for it as a handler's first parameter."""

    @property
    def principal(self) -> Principal:
        """Who acts."""
        ...

    @property
    def session(self) -> SessionView:
        """The session that the call belongs to."""
        ...

    @property
    def correlation(self) -> str:
        """The id that ties this call to whatever caused it."""
        ...

    @property
    def env(self) -> Mapping[str, Any]:
        """What the host said of this environment; its values are the host's own."""
        ...

    @property
    def files(self) -> Files:
        """The session's files."""
        ...

    async def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another tool of this agent, through the whole road, as the same principal (spec 1, C31)."""
        ...
