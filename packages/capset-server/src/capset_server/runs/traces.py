"""The trace of a run, assembled from its events, its records, and the messages of agents within it (spec 5, P99)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic_core import from_json, to_json

from capset.clock import iso_of
from capset.definitions.calls.records import Record
from capset.errors import StateError
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES, MAX_RECORDED_TEXT, Redactor, fully_redacted
from capset.stores.base import AuditQuery, LinkQuery, RunRow
from capset.wire.approvals import conversation_entries
from capset.wire.pages import PAGE_BYTES
from capset.wire.runs import run_shape
from capset.wire.traces import (
    ModelCallShape,
    RunTraceShape,
    TracedAgentShape,
    TracedApprovalShape,
    TracedCallShape,
    TraceStepShape,
    TraceVersionShape,
    TraceWaitShape,
)
from capset.wire.turns import EventShape, event_shape
from capset_server.followers import Gap, follow_run
from capset_server.runs.inner_messages import InnerStep, StepCall, inner_steps
from capset_server.runs.observation import first_id, masked_run

if TYPE_CHECKING:
    from capset_server.service import Service

MAX_RECORDS: Final = 1_000
"""The maximum number of records of a run that its trace shows."""
_MAX_LINKS: Final = 200
_CLOCK_SKEW: Final = timedelta(minutes=1)
"""The maximum difference between the clocks of the processes that ran a turn."""
_BATCH: Final = 16


async def trace_run(service: Service, row: RunRow) -> RunTraceShape:
    """Return the trace of a run."""
    kernel = service.kernel
    builder, has_gap = _TraceBuilder(kernel.redactor), False
    async with aclosing(follow_run(kernel, service.turns.bell, row, waits=False)) as events:
        async for event in events:
            if isinstance(event, Gap):
                has_gap = True
            else:
                builder.add(event_shape(event))
    prompt: str | None = None
    agents: Mapping[str, Sequence[InnerStep]] = {}
    try:
        prompt = await _prompt(service, row)
        agents = await inner_steps(kernel.store.events, row.session, row.id, builder.mask)
    except StateError as error:
        if error.status != 404:  # the session was deleted at this moment
            raise
    await kernel.audit.flush()
    # By the session, too: clients may choose the correlation of the calls in their own sessions.
    query = AuditQuery(org=row.org or "", session=row.session, correlation=row.id, limit=MAX_RECORDS)
    page = await kernel.audit.query(query)
    records = sorted(page.items, key=lambda record: record.seq)
    ids = [*(record.approval for record in records), *builder.approvals, row.approval]
    approvals = await _approvals(service, row, dict.fromkeys(filter(None, ids)), builder.mask)
    tree = _Tree(builder, records, agents, approvals)
    steps = tree.steps()
    is_whole = row.kind == "call" or row.begun_at is None or (builder.has_start and not has_gap)
    return RunTraceShape(
        run=masked_run(run_shape(row), kernel.redactor),
        prompt=prompt,
        versions=await _versions(service, row),
        steps=steps,
        calls=tree.other_calls(),
        waits=builder.waits,
        is_complete=is_whole and page.next is None,
    )


async def _prompt(service: Service, row: RunRow) -> str | None:
    """Return the message that a turn answers, masked and cut; ``None`` if its runner keeps no conversation."""
    events = service.kernel.store.events
    span = await events.span(row.session, row.id)
    if span is None:
        return None
    page = await events.messages(row.session, after=span[0] - 1, limit=1)
    entries = [entry for message in page.items for entry in conversation_entries(message, service.kernel.redactor)]
    return next((entry.text for entry in entries if entry.kind == "user"), None)


async def _versions(service: Service, row: RunRow) -> list[TraceVersionShape]:
    """Return the exact versions that a turn ran, oldest first: among the links from the time of its run."""
    if row.kind == "call" or row.begun_at is None:
        return []
    begin = first_id(datetime.fromisoformat(row.begun_at) - _CLOCK_SKEW)
    before = None if row.ended_at is None else first_id(datetime.fromisoformat(row.ended_at) + _CLOCK_SKEW)
    versions: list[TraceVersionShape] = []
    while True:
        query = LinkQuery(row.org, session=row.session, limit=_MAX_LINKS, before=before, max_bytes=PAGE_BYTES)
        page = await service.kernel.store.lineage.links(query)
        versions += [
            TraceVersionShape(
                link=link.id,
                at=link.created_at,
                static_hash=link.static_hash,
                runtime_hash=link.runtime_hash,
                prompt_hash=link.prompt_hash,
            )
            for link in page.items
            if from_json(link.metadata).get("turn") == row.id
        ]
        before = page.next
        if before is None or before < begin:
            return versions[::-1]


async def _approvals(
    service: Service, row: RunRow, ids: Iterable[str], mask: Callable[[Any], Any]
) -> dict[str, TracedApprovalShape]:
    """Return the approval requests of a run's calls, by id."""
    store, remaining = service.kernel.store.approvals, [*ids]
    approvals: dict[str, TracedApprovalShape] = {}
    while remaining:
        batch, remaining = remaining[:_BATCH], remaining[_BATCH:]
        requests = await asyncio.gather(*[store.get(row.org, approval) for approval in batch])
        approvals |= {
            request.id: TracedApprovalShape(
                id=request.id,
                status=request.status,
                created_at=request.created_at,
                decided_by=request.decided_by,
                decided_at=request.decided_at,
                note=mask(request.note),
            )
            for request in requests
            if request is not None
        }
    return approvals


@dataclass(slots=True)
class _Step:
    """A step while its events are read. Its texts are masked once it has ended."""

    started_at: str
    kind: Literal["step", "summary"] = "step"
    ended_at: str | None = None
    model: ModelCallShape | None = None
    text: str = ""
    reasoning: str = ""
    calls: list[StepCall] = field(default_factory=list[StepCall])


class _TraceBuilder:
    """Collects the steps of a run from its events, which it masks and cuts as they come."""

    def __init__(self, redact: Redactor | None) -> None:
        self.steps: list[_Step] = []
        self.waits: list[TraceWaitShape] = []
        self.requests: dict[str, str] = {}
        """The request of each waiting call, by the model's id."""
        self.approvals: list[str] = []
        """The ids of the approval requests."""
        self.has_start = False
        """Whether the first event of the turn is stored."""
        self._redact = redact
        self._open: _Step | None = None
        self._calls: dict[str, StepCall] = {}
        self._idle = ""
        """When the last step, call or wait ended."""

    def add(self, event: EventShape) -> None:
        """Add an event of the turn; they come in order."""
        data, self._idle = event.data, self._idle or event.at
        match event.type:
            case "turn.started":
                self.has_start = True
            case "text.delta" | "reasoning.delta" | "text.discarded":
                self._add_text(event.type, data)
            case "tool.called" | "tool.result":
                self._add_call(event)
            case "usage":
                step = self._current()
                step.model, step.ended_at, self._idle = _usage_of(data), event.at, event.at
                self.close()
            case "conversation.summarised":
                if self.steps:
                    self.steps[-1].kind = "summary"
            case "approval.requested":
                self.approvals.append(data["id"])
            case "turn.suspended":
                self.requests |= data["calls"]
                self.waits.append(TraceWaitShape(started_at=event.at, approvals=data["approvals"]))
            case "turn.resumed" | "turn.ended" | "turn.failed" | "turn.cancelled":
                if self.waits and self.waits[-1].ended_at is None:
                    self.waits[-1] = self.waits[-1].model_copy(update={"ended_at": event.at})
                if event.type == "turn.resumed":
                    self.close()
                    self._idle = event.at
            case _:
                pass

    def _add_text(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "text.delta":
            self._current().text += data["text"]
        elif kind == "reasoning.delta":
            self._current().reasoning += data["text"]
        elif self._open is not None:
            self._open.text = self._open.reasoning = ""

    def _add_call(self, event: EventShape) -> None:
        data = event.data
        if event.type == "tool.called":
            call = StepCall(data["call"], data["tool"], self.mask(data["arguments"]))
            self._calls[call.id] = call
            self._current().calls.append(call)
            return
        if (requested := self._calls.get(data["call"])) is not None:
            requested.result = self.mask(data.get("data", data.get("text")))
            requested.ended_at, requested.code = event.at, data.get("code")
        self._idle = event.at

    def close(self) -> None:
        """Mask the texts of the current step, if there is one: they are complete."""
        if self._open is not None:
            self._open.text, self._open.reasoning = self.mask(self._open.text), self.mask(self._open.reasoning)
            self._open = None

    def mask(self, value: Any) -> Any:  # any JSON
        """Return JSON data masked: by names, in URLs, and by the host's patterns. Long texts and large data are cut."""
        masked = fully_redacted(value, self._redact, longest=MAX_RECORDED_TEXT)
        if masked is None or isinstance(masked, str | int | float):
            return masked
        text = to_json(masked).decode()
        excess = len(text) - MAX_RECORDED_TEXT
        return masked if len(text) <= MAX_RECORDED_BYTES else f"{text[:MAX_RECORDED_TEXT]}… [{excess} more characters]"

    def _current(self) -> _Step:
        if self._open is None:
            self._open = _Step(self._idle)
            self.steps.append(self._open)
        return self._open


class _Tree:
    """The tree of a run. Records are placed by what caused them."""

    def __init__(
        self,
        builder: _TraceBuilder,
        records: Sequence[Record],
        agents: Mapping[str, Sequence[InnerStep]],
        approvals: Mapping[str, TracedApprovalShape],
    ) -> None:
        builder.close()
        self._steps = builder.steps
        self._requests = builder.requests
        self._records = records
        self._agent_steps = agents
        self._approvals = approvals
        self._by_cause: dict[str | None, list[Record]] = {}
        for record in records:
            self._by_cause.setdefault(record.causation, []).append(record)
        self._placed: set[str] = set()

    def steps(self) -> list[TraceStepShape]:
        """Return the steps, with everything that they caused."""
        return [self._step(number, step, "") for number, step in enumerate(self._steps, 1)]

    def other_calls(self) -> list[TracedCallShape]:
        """Return the calls that no step has asked for. Call this after ``steps``."""
        ids = {record.id for record in self._records}
        return [
            self._recorded_call(record)
            for record in self._records
            if record.id not in self._placed and record.causation not in ids
        ]

    def _step(self, number: int, step: _Step | InnerStep, prefix: str) -> TraceStepShape:
        """Return a step. The causation of its calls begins with the prefix, which is empty for those of the turn."""
        return TraceStepShape(
            number=number,
            kind=step.kind if isinstance(step, _Step) else "step",
            started_at=step.started_at,
            ended_at=step.ended_at,
            model=step.model,
            reasoning=step.reasoning or None,
            text=step.text or None,
            calls=[self._model_call(call, step.ended_at, prefix) for call in step.calls],
        )

    def _model_call(self, call: StepCall, started_at: str | None, prefix: str) -> TracedCallShape:
        """Return a call that a model asked for: its last attempt on record, or what is known without one."""
        cause = prefix + call.id
        attempts = self._by_cause.get(cause, [])
        self._placed |= {record.id for record in attempts}
        agents = self._agents(cause)
        if not attempts:
            return TracedCallShape(
                tool=call.tool,
                call=call.id,
                started_at=started_at,
                ended_at=call.ended_at,
                code=call.code,
                arguments=call.arguments,
                result=call.result,
                approvals=self._decisions([self._requests.get(call.id)] if not prefix else []),
                agents=agents,
            )
        shape = self._recorded_call(attempts[-1])
        return shape.model_copy(
            update={
                "call": call.id,
                "result": call.result,
                "approvals": self._decisions([record.approval for record in attempts]),
                "agents": agents,
            }
        )

    def _recorded_call(self, record: Record) -> TracedCallShape:
        """Return a call as its record describes it, with the calls that its handler made."""
        self._placed.add(record.id)
        caused = [inner for inner in self._by_cause.get(record.id, []) if inner.id != record.id]
        return TracedCallShape(
            tool=record.tool,
            record=record.id,
            agent=record.agent,
            capability=record.capability,
            effect=record.effect,
            started_at=_begin(record),
            ended_at=record.time,
            duration_us=record.duration_us,
            decision=record.decision,
            policies=from_json(record.policies),
            reason=record.reason,
            outcome=record.outcome,
            code=record.code,
            arguments=from_json(record.arguments),
            tool_hash=record.tool_hash,
            code_hash=record.code_hash,
            approvals=self._decisions([record.approval]),
            calls=[self._recorded_call(inner) for inner in caused if inner.id not in self._placed],
        )

    def _agents(self, cause: str) -> list[TracedAgentShape]:
        """Return the agents that ran within a call, with their steps."""
        return [
            TracedAgentShape(
                agent=place[len(cause) + 1 :],
                steps=[self._step(number, step, f"{place}/") for number, step in enumerate(steps, 1)],
            )
            for place, steps in self._agent_steps.items()
            if place.startswith(f"{cause}/") and "/" not in place[len(cause) + 1 :]
        ]

    def _decisions(self, ids: Sequence[str | None]) -> list[TracedApprovalShape]:
        return [
            self._approvals[approval] for approval in dict.fromkeys(filter(None, ids)) if approval in self._approvals
        ]


def _usage_of(data: Mapping[str, Any]) -> ModelCallShape:
    members = {name: data[name] for name in ModelCallShape.model_fields if data.get(name) is not None}
    return ModelCallShape.model_validate(members)


def _begin(record: Record) -> str | None:
    """Return when a call began: the time of its record less its duration, which leaves out waits for approvals."""
    if record.duration_us is None:
        return record.time
    return iso_of(datetime.fromisoformat(record.time) - timedelta(microseconds=record.duration_us))
