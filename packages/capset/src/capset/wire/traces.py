"""The trace of a run on the wire: its steps, with their calls, and the agents within these (spec 5, P99)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from capset.definitions.calls.records import Outcome
from capset.wire.runs import RunShape
from capset.wire.shapes import Shape


class ModelCallShape(Shape):
    """One request to a model. ``cost`` is in US dollars, absent if the price is not known."""

    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None


class TracedApprovalShape(Shape):
    """An approval request of a call, and its decision."""

    id: str
    status: str
    created_at: str
    decided_by: str | None = None
    decided_at: str | None = None
    note: str | None = None


class TracedCallShape(Shape):
    """A call of a tool, with the calls that its handler made, and the agents that ran within it.

    ``record`` is the id of its record, from which come the decision, the redacted arguments, the hashes and the times.
    A call that has not ended has none yet, unless its intent is on record. ``result`` is what the model read, masked
    and cut. ``call`` is the model's id of the call.
    """

    tool: str
    call: str | None = None
    record: str | None = None
    agent: str | None = None
    capability: str | None = None
    effect: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_us: int | None = None
    decision: Literal["allow", "deny"] | None = None
    policies: list[str] = Field(default_factory=list[str])
    reason: str | None = None
    outcome: Outcome | None = None
    code: str | None = None
    arguments: Any = None  # any JSON
    result: Any = None  # any JSON
    tool_hash: str | None = None
    code_hash: str | None = None
    approvals: list[TracedApprovalShape] = Field(default_factory=list[TracedApprovalShape])
    calls: list[TracedCallShape] = Field(default_factory=list["TracedCallShape"])
    agents: list[TracedAgentShape] = Field(default_factory=list["TracedAgentShape"])


class TraceStepShape(Shape):
    """A step of an agent: a request to its model, its answer, and the calls that it asked for.

    ``kind`` is ``summary`` for the request that summarises a long conversation. Texts are masked and cut.
    """

    number: int
    kind: Literal["step", "summary"] = "step"
    started_at: str
    ended_at: str | None = None
    model: ModelCallShape | None = None
    reasoning: str | None = None
    text: str | None = None
    calls: list[TracedCallShape] = Field(default_factory=list[TracedCallShape])


class TracedAgentShape(Shape):
    """An agent that ran within a call, with its steps."""

    agent: str
    steps: list[TraceStepShape] = Field(default_factory=list[TraceStepShape])


class TraceWaitShape(Shape):
    """A time in which the run waited for approvals."""

    started_at: str
    ended_at: str | None = None
    approvals: list[str] = Field(default_factory=list[str])


class TraceVersionShape(Shape):
    """The exact version that ran; ``GET /v1/fingerprints/{hash}`` returns what each hash covers."""

    link: str
    at: str
    static_hash: str
    runtime_hash: str
    prompt_hash: str


class RunTraceShape(Shape):
    """One run as a tree: turn, steps, model calls, tool calls, and agents within these.

    ``calls`` are those that no step asked for, such as of a flow. ``is_complete`` is false if the first events of the
    turn are no longer stored, or there are more records than can be shown.
    """

    run: RunShape
    prompt: str | None = None
    versions: list[TraceVersionShape] = Field(default_factory=list[TraceVersionShape])
    steps: list[TraceStepShape] = Field(default_factory=list[TraceStepShape])
    calls: list[TracedCallShape] = Field(default_factory=list[TracedCallShape])
    waits: list[TraceWaitShape] = Field(default_factory=list[TraceWaitShape])
    is_complete: bool = True
