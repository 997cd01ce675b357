"""MCP servers and APIs on the wire: how their tools stand to what was approved, and approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from capset.definitions.tools.options import Effect
from capset.wire.shapes import Shape

_MAX_NAMED = 1_000


class ToolApprovalShape(Shape):
    """An approval of a tool: its hash then, by whom, and when."""

    hash: str
    by: str
    at: str


class ServerToolShape(Shape):
    """A tool of an MCP server, and how it stands to what was approved of it.

    ``hash`` is that of the tool as its server describes it now; ``problems`` say why it would not be used as it is,
    ``notes`` what of it is not held to, though it is used. ``before`` is what was approved, ``now`` what its server
    says, unless both are the same; lists leave them out.
    """

    tool: str
    state: Literal["approved", "changed", "new", "gone", "left out", "not asked"]
    hash: str | None = None
    approved: ToolApprovalShape | None = None
    effect: Effect
    problems: list[str]
    notes: list[str]
    before: dict[str, Any] | None = None
    now: dict[str, Any] | None = None


class AgentServerState(Shape):
    """An MCP server of an agent: its tools, the names in its declaration that it has not, and why it cannot be asked.

    ``next`` is the cursor of the next page of its tools, if there is one.
    """

    name: str
    url: str
    tools: list[ServerToolShape]
    unmatched: list[str]
    problem: str | None = None
    next: str | None = None


class AgentServerStates(Shape):
    """The MCP servers of an agent, by name."""

    items: list[AgentServerState]


class ToolSourceShape(Shape):
    """An MCP server or an API that the server's configuration declares, as far as is known without asking it.

    ``id`` is its name, ``api:NAME`` for an API. ``address`` is where it is, for operators: an administrator of an
    organisation reads null. It is ``unreachable`` if the last attempt to connect failed, and ``problem`` says why; it
    is ``not connected`` until something is asked of it. ``approved`` counts the tools that were approved, ``waiting``
    those that are new or changed; null if they are not known.
    """

    id: str
    kind: Literal["mcp", "api"]
    name: str
    capability: str
    address: str | None = None
    state: Literal["connected", "unreachable", "not connected"]
    problem: str | None = None
    approved: int
    waiting: int | None = None


class ToolSources(Shape):
    """The MCP servers and APIs of the configuration, by id; ``may_approve`` says whether the caller may."""

    items: list[ToolSourceShape]
    may_approve: bool


class ToolSourceState(ToolSourceShape):
    """An MCP server or an API that was asked: its tools, and the names in its declaration that it has not.

    ``next`` is the cursor of the next page of its tools, if there is one.
    """

    tools: list[ServerToolShape]
    unmatched: list[str]
    next: str | None = None


class ToolApprovals(Shape):
    """The tools to approve, by their names there: each with the hash that was seen of it."""

    model_config = ConfigDict(strict=True)

    tools: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(min_length=1, max_length=_MAX_NAMED)


class ToolWithdrawals(Shape):
    """The tools that are not to be used any more, by their names there."""

    model_config = ConfigDict(strict=True)

    tools: list[str] = Field(min_length=1, max_length=_MAX_NAMED)


class ChangedApprovals(Shape):
    """The names of the tools whose approval has changed; those that were as wanted before are not among them."""

    tools: Sequence[str]
