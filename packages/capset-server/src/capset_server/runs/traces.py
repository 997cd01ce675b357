"""The trace of a run, assembled from its events, its records, and the messages of agents within it (spec 5, P99)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic_core import from_json, to_json

from capset.clock import iso_of
from capset.definitions.calls.records import Record
from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import StateError
from capset.kernel.governance.redaction import Redactor, redacted
from capset.stores.base import AuditQuery, LinkQuery, RunRow
from capset.wire.approvals import conversation_entries
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
from capset_server.runs.inner_messages import InnerMessage, inner_messages, inner_steps

if TYPE_CHECKING:
    from capset_server.service import Service

MAX_RECORDS: Final = 1_000
"""The maximum number of records of a run that its trace shows."""
_MAX_LINKS: Final = 200
_MAX_TEXT: Final = 2_000
_PAGE: Final = 1_000


async def trace_run(service: Service, row: RunRow) -> RunTraceShape:
    """Return the trace of a run."""
    kernel = service.kernel
    try:
        events = [event async for event in _events(service, row)]
        prompt = await _prompt(service, row)
        messages = await inner_messages(kernel.store.events, row.session, row.id)
    except StateError as error:
        if error.status != 404:
            raise
        events, prompt, messages = [], None, []  # the session was deleted at this moment
    await kernel.audit.flush()
    page = await kernel.audit.query(AuditQuery(org=row.org or "", correlation=row.id, limit=MAX_RECORDS))
    records = sorted(page.items, key=lambda record: record.seq)
    approvals = await _approvals(service, row, records, events)
    builder = _TraceBuilder(records, messages, approvals, kernel.redactor)
    for event in events:
        builder.add(event)
    steps = builder.steps()
    is_whole = row.kind == "call" or row.state == "queued" or (bool(events) and events[0].type == "turn.started")
    shape = run_shape(replace(row, outcome=builder.masked_json(row.outcome)))
    return RunTraceShape(
        run=shape,
        prompt=prompt,
        versions=await _versions(service, row),
        steps=steps,
        calls=builder.other_calls(),
        waits=builder.waits,
        is_complete=is_whole and page.next is None,
    )


async def _events(service: Service, row: RunRow) -> AsyncGenerator[EventShape]:
    after = 0
    while True:
        page = await service.kernel.store.events.read(row.session, after=after, limit=_PAGE)
        for event_row in page.items:
            if event_row.turn == row.id:
                yield event_shape(event_row)
        if not page.items or page.items[-1].seq >= page.last:
            return
        after = page.items[-1].seq


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
    """Return the exact versions that a turn ran, oldest first."""
    query = LinkQuery(row.org, session=row.session, limit=_MAX_LINKS)
    links = (await service.kernel.store.lineage.links(query)).items
    return [
        TraceVersionShape(
            link=link.id,
            at=link.created_at,
            static_hash=link.static_hash,
            runtime_hash=link.runtime_hash,
            prompt_hash=link.prompt_hash,
        )
        for link in reversed(links)
        if from_json(link.metadata).get("turn") == row.id
    ]


async def _approvals(
    service: Service, row: RunRow, records: Sequence[Record], events: Sequence[EventShape]
) -> dict[str | None, ApprovalRow]:
    """Return the approval requests of a run's calls, by id."""
    ids = {record.approval: None for record in records if record.approval is not None}
    ids |= {event.data["id"]: None for event in events if event.type == "approval.requested"}
    ids |= {} if row.approval is None else {row.approval: None}
    requests = [await service.kernel.store.approvals.get(row.org, approval) for approval in ids]
    return {request.id: request for request in requests if request is not None}


@dataclass(slots=True)
class _Step:
    """A step while its events are read."""

    started_at: str
    kind: Literal["step", "summary"] = "step"
    ended_at: str | None = None
    model: ModelCallShape | None = None
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """The model's id, the tool and the arguments of each call."""


class _TraceBuilder:
    """Builds the tree of a run from its events. Records are placed by what caused them."""

    def __init__(
        self,
        records: Sequence[Record],
        messages: Sequence[InnerMessage],
        approvals: Mapping[str | None, ApprovalRow],
        redact: Redactor | None,
    ) -> None:
        self.waits: list[TraceWaitShape] = []
        self._records = records
        self._messages = messages
        self._approvals = approvals
        self._redact = redact
        self._by_cause: dict[str | None, list[Record]] = {}
        for record in records:
            self._by_cause.setdefault(record.causation, []).append(record)
        self._placed: set[str] = set()
        self._steps: list[_Step] = []
        self._open: _Step | None = None
        self._results: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """When each call of the turn's model ended, and the data of its result, by the model's id."""
        self._requests: dict[str, str] = {}
        """The request of each waiting call, by the model's id."""
        self._idle = ""
        """When the last step, call or wait ended."""

    def add(self, event: EventShape) -> None:
        """Add an event of the turn; they come in order."""
        data, self._idle = event.data, self._idle or event.at
        match event.type:
            case "text.delta":
                self._current().text += data["text"]
            case "reasoning.delta":
                self._current().reasoning += data["text"]
            case "text.discarded":
                step = self._current()
                step.text = step.reasoning = ""
            case "tool.called":
                self._current().calls.append((data["call"], data["tool"], data["arguments"]))
            case "usage":
                step = self._current()
                step.model, step.ended_at, self._open, self._idle = _usage_of(data), event.at, None, event.at
            case "conversation.summarised":
                if self._steps:
                    self._steps[-1].kind = "summary"
            case "tool.result":
                self._results[data["call"]] = (event.at, data)
                self._idle = event.at
            case "turn.suspended":
                self._requests |= data["calls"]
                self.waits.append(TraceWaitShape(started_at=event.at, approvals=data["approvals"]))
            case "turn.resumed" | "turn.retried":
                self._end_wait(event.at)
                self._open, self._idle = None, event.at
            case "turn.ended" | "turn.failed" | "turn.cancelled":
                self._end_wait(event.at)
            case _:
                pass

    def steps(self) -> list[TraceStepShape]:
        """Return the steps, with everything that they caused."""
        return [
            TraceStepShape(
                number=number,
                kind=step.kind,
                started_at=step.started_at,
                ended_at=step.ended_at,
                model=step.model,
                reasoning=self._mask(step.reasoning) or None,
                text=self._mask(step.text) or None,
                calls=[self._model_call(*call, started_at=step.ended_at) for call in step.calls],
            )
            for number, step in enumerate(self._steps, 1)
        ]

    def other_calls(self) -> list[TracedCallShape]:
        """Return the calls that no step has asked for. Call this after ``steps``."""
        ids = {record.id for record in self._records}
        return [
            self._recorded_call(record)
            for record in self._records
            if record.id not in self._placed and record.causation not in ids
        ]

    def masked_json(self, text: str | None) -> str | None:
        """Return JSON text with secrets masked and long texts cut."""
        return None if text is None else to_json(self._mask(from_json(text))).decode()

    def _current(self) -> _Step:
        if self._open is None:
            self._open = _Step(self._idle)
            self._steps.append(self._open)
        return self._open

    def _end_wait(self, at: str) -> None:
        if self.waits and self.waits[-1].ended_at is None:
            self.waits[-1] = self.waits[-1].model_copy(update={"ended_at": at})

    def _model_call(
        self, call: str, tool: str, arguments: Any, *, started_at: str | None, prefix: str = "", result: Any = None
    ) -> TracedCallShape:  # arguments and result are any JSON
        """Return a call that a model asked for: its last attempt on record, or what is known without one."""
        cause = prefix + call
        attempts = self._by_cause.get(cause, [])
        self._placed |= {record.id for record in attempts}
        at: str | None = None
        data: Mapping[str, Any] = {}
        if not prefix and call in self._results:
            at, data = self._results[call]
        outcome = data.get("data", data.get("text")) if data else result
        agents = self._agents(cause)
        if not attempts:
            return TracedCallShape(
                tool=tool,
                call=call,
                started_at=started_at,
                ended_at=at,
                code=data.get("code"),
                arguments=self._mask(arguments),
                result=self._mask(outcome),
                approvals=self._decisions([self._requests.get(call)] if not prefix else []),
                agents=agents,
            )
        shape = self._recorded_call(attempts[-1])
        return shape.model_copy(
            update={
                "call": call,
                "result": self._mask(outcome),
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
        places = dict.fromkeys(
            message.within
            for message in self._messages
            if message.within.startswith(f"{cause}/") and "/" not in message.within[len(cause) + 1 :]
        )
        return [
            TracedAgentShape(agent=place[len(cause) + 1 :], steps=list(self._inner_steps(place))) for place in places
        ]

    def _inner_steps(self, place: str) -> Iterator[TraceStepShape]:
        own = [message for message in self._messages if message.within == place]
        for number, step in enumerate(inner_steps(own), 1):
            yield TraceStepShape(
                number=number,
                started_at=step.started_at,
                ended_at=step.ended_at,
                model=step.model,
                reasoning=self._mask(step.reasoning) or None,
                text=self._mask(step.text) or None,
                calls=[
                    self._model_call(
                        call.id,
                        call.tool,
                        call.arguments,
                        started_at=step.ended_at,
                        prefix=f"{place}/",
                        result=call.result,
                    )
                    for call in step.calls
                ],
            )

    def _decisions(self, ids: Sequence[str | None]) -> list[TracedApprovalShape]:
        requests = [self._approvals[approval] for approval in dict.fromkeys(ids) if approval in self._approvals]
        return [
            TracedApprovalShape(
                id=request.id,
                status=request.status,
                created_at=request.created_at,
                decided_by=request.decided_by,
                decided_at=request.decided_at,
                note=self._mask(request.note),
            )
            for request in requests
        ]

    def _mask(self, value: Any) -> Any:  # any JSON
        """Return JSON data masked: by names, in URLs, and by the host's patterns, with long texts cut."""
        return redacted(value if self._redact is None else self._redact(value), longest=_MAX_TEXT)


def _usage_of(data: Mapping[str, Any]) -> ModelCallShape:
    members = {name: data[name] for name in ModelCallShape.model_fields if data.get(name) is not None}
    return ModelCallShape.model_validate(members)


def _begin(record: Record) -> str | None:
    """Return when a call began: the time of its record less its duration, which leaves out waits for approvals."""
    if record.duration_us is None:
        return record.time
    return iso_of(datetime.fromisoformat(record.time) - timedelta(microseconds=record.duration_us))
