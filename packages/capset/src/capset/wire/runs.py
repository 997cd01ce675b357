"""Runs and schedules on the wire: turns of agents, and what is queued for workers (spec 5, P99; spec 10, D10, D17)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, cast

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import from_json

from capset.stores.base import (
    Page,
    RunKind,
    RunQuery,
    RunRow,
    RunState,
    ScheduleQuery,
    ScheduleRow,
)
from capset.wire.pages import read_page
from capset.wire.shapes import PageShape, Shape, StrictShape

QueueName = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9._-]{0,99}$")]
Whose = Literal["own", "all"]
"""Which runs are listed: the caller's own, or all of its organisation."""
_IdText = Annotated[str, Field(min_length=1, max_length=200)]
_TEXT: Final[JsonDict] = {"type": "string"}
_NULL: Final[JsonDict] = {"type": "null"}
_A_CALL: Final[JsonDict] = {
    "required": ["session_id"],
    "properties": {"session_id": _TEXT, "agent_id": _NULL, "content": False},
}
_A_TURN: Final[JsonDict] = {
    "required": ["content"],
    "properties": {"content": True, "arguments": _NULL},
    "if": {"required": ["agent_id"], "properties": {"agent_id": _TEXT}},
    "then": {"properties": {"session_id": _NULL}},
    "else": {"required": ["session_id"], "properties": {"session_id": _TEXT}},
}
_KINDS: Final[JsonDict] = {
    "if": {"required": ["tool"], "properties": {"tool": _TEXT}},
    "then": _A_CALL,
    "else": _A_TURN,
}
"""The kinds of runs that ``RunInput`` accepts, for ``/openapi.json``.

They are written as conditions, since client generators cannot handle alternatives next to properties.
"""


class RunInput(StrictShape):
    """A turn of an agent, or one call of a tool, for the workers of a queue.

    A turn has `content`, and runs in a session (`session_id`) or in a new session with an agent (`agent_id`). A call
    has `tool` and `arguments`, and runs in a session.
    """

    model_config = ConfigDict(json_schema_extra=_KINDS)

    agent_id: _IdText | None = None
    session_id: _IdText | None = None
    content: Any = None  # any JSON
    tool: _IdText | None = None
    arguments: dict[str, Any] | None = None  # of the tool's own schema
    queue: QueueName = "default"

    @model_validator(mode="after")
    def _one_kind(self) -> RunInput:
        """Raise an error unless the input is either a turn or a call."""
        fields_set = self.model_fields_set
        if (self.agent_id is None) == (self.session_id is None):
            raise ValueError("a run needs a session: give either session_id, or agent_id for a new one")
        if ("content" in fields_set) == (self.tool is not None):
            raise ValueError("a run is a turn or a call: give either content, or tool and its arguments")
        if self.tool is None and self.arguments is not None:
            raise ValueError("arguments need a tool: give tool, too")
        if self.tool is not None and self.session_id is None:
            raise ValueError("a call needs an existing session: give session_id, not agent_id")
        return self


class ScheduleInput(RunInput):
    """A run that is queued at every time that matches `cron` (five fields) in the time zone `timezone`."""

    cron: Annotated[str, Field(min_length=1, max_length=200)]
    timezone: Annotated[str, Field(min_length=1, max_length=100)] = "UTC"


class ScheduleShape(Shape):
    """A schedule. `next_at` is absent while it is paused. `problem` says why the latest time queued no run."""

    id: str
    kind: RunKind
    cron: str
    timezone: str
    queue: str
    agent: str
    session: str | None = None
    created_at: str
    next_at: str | None = None
    last_at: str | None = None
    last_run: str | None = None
    problem: str | None = None


class SchedulePageShape(PageShape[ScheduleShape]):
    """A page of schedules, and the cursor of the next page, if any."""


class RunUsageShape(Shape):
    """The usage of a run and of the agents that it called: model steps, calls, tokens, US dollars, and seconds."""

    steps: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class RunShape(Shape):
    """A run: a turn of an agent, or a queued call. If it is a turn, the turn has the same id.

    `state` is `queued`, `running`, `waiting` (for approvals), `succeeded`, `failed` or `cancelled`. `outcome` is the
    data of the turn's last event, or the result of the call; a list has it only for the caller's own runs. `code` is
    the code of its error. `approval` is the request that a call waits for. `attempts` counts how often a worker
    stopped before the run ended, including pauses for approval. A turn that ran where it was requested has no `queue`.
    `usage` is what a turn had used when it last stopped.
    """

    id: str
    kind: RunKind
    state: RunState
    queue: str | None = None
    session: str
    agent: str
    principal: str
    principal_kind: str
    on_behalf_of: str | None = None
    attempts: int
    approval: str | None = None
    outcome: dict[str, Any] | None = None
    code: str | None = None
    usage: RunUsageShape | None = None
    created_at: str
    begun_at: str | None = None
    ended_at: str | None = None


class RunPageShape(PageShape[RunShape]):
    """A page of runs, and the cursor of the next page, if any."""


def run_shape(row: RunRow, *, with_outcome: bool = True) -> RunShape:
    """Return the wire shape of a run."""
    columns = {name: getattr(row, name) for name in RunShape.model_fields if name != "code"}
    outcome: dict[str, Any] | None = None if row.outcome is None else from_json(row.outcome)
    error = (outcome or {}).get("error")
    return RunShape.model_validate(
        {
            **columns,
            "outcome": outcome if with_outcome else None,
            "code": cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None,
            "usage": None if row.usage is None else from_json(row.usage),
        }
    )


async def run_page_shape(
    read: Callable[[RunQuery], Awaitable[Page[RunRow]]], query: RunQuery, *, with_outcomes: bool = True
) -> RunPageShape:
    """Return the wire shape of a page of runs."""
    items, next_cursor = await read_page(
        read, query, lambda row: run_shape(row, with_outcome=with_outcomes), attrgetter("id")
    )
    return RunPageShape(items=items, next=next_cursor)


def schedule_shape(row: ScheduleRow) -> ScheduleShape:
    """Return the wire shape of a schedule."""
    return ScheduleShape.model_validate(row, from_attributes=True)


async def schedule_page_shape(
    read: Callable[[ScheduleQuery], Awaitable[Page[ScheduleRow]]], query: ScheduleQuery
) -> SchedulePageShape:
    """Return the wire shape of a page of schedules."""
    items, next_cursor = await read_page(read, query, schedule_shape, attrgetter("id"))
    return SchedulePageShape(items=items, next=next_cursor)
