"""MCP servers and APIs on the wire: the approval states of their tools, and approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from capset.definitions.tools.options import Effect
from capset.wire.shapes import Shape, StrictShape

_MAX_TOOLS = 1_000


class ToolApprovalShape(Shape):
    """An approval of a tool: the approved hash, by whom, and when."""

    hash: str
    by: str
    at: str


class ServerToolShape(Shape):
    """A tool of an MCP server or an API, and how it compares with what was approved.

    ``hash`` is the hash of its current description. ``problems`` are reasons not to use it as it is; ``notes`` name
    parts of its description that are not enforced, which does not prevent its use. ``before`` is the approved
    description and ``now`` the current one; both are absent if they are equal, and in lists.
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
    """An MCP server of an agent, with its tools.

    ``unmatched`` are names in its declaration that it does not offer; ``problem`` says why it could not be queried.
    ``next`` is the cursor of the next page of its tools, if any.
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

    ``id`` is its name, or ``api:NAME`` for an API. ``address`` is its location, which only operators see; it is null
    for administrators of an organisation. ``state`` is ``unreachable`` if the last attempt to connect failed or its
    process has ended, for the reason in ``problem``, and ``not connected`` until the first request to it. ``approved``
    is the number of approved tools; ``waiting`` is the number of new or changed ones, null if unknown. ``need`` says
    what keeps its tools from being used, if anything, and ``command`` is the command that mends it; only operators see
    the file and the database in it. ``output`` has the last lines that its process wrote to stderr, if it failed, for
    operators.
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
    need: str | None = None
    command: str | None = None
    output: list[str] = Field(default_factory=list[str])


class ToolSources(Shape):
    """The MCP servers and APIs of the configuration, by id. ``may_approve`` says whether the caller may approve."""

    items: list[ToolSourceShape]
    may_approve: bool


class ToolSourceState(ToolSourceShape):
    """An MCP server or an API with its current tools.

    ``unmatched`` are names in its declaration that it does not offer. ``next`` is the cursor of the next page of its
    tools, if any.
    """

    tools: list[ServerToolShape]
    unmatched: list[str]
    next: str | None = None


class ToolApprovals(StrictShape):
    """The tools to approve: the hash that the caller has seen, by the tool's name in its source."""

    tools: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(min_length=1, max_length=_MAX_TOOLS)


class ToolWithdrawals(StrictShape):
    """The tools whose approval is to be withdrawn, by their names in their source."""

    tools: list[str] = Field(min_length=1, max_length=_MAX_TOOLS)


class ChangedApprovals(Shape):
    """The names of the tools whose approval has changed, without those that already were in the wanted state."""

    tools: Sequence[str]
