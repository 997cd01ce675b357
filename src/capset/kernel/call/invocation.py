"""One call on its way through the pipeline; stages write to it, and its record reads it."""

from __future__ import annotations

from asyncio import Timeout
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from capset.definitions.messages import Json
from capset.definitions.records import Outcome
from capset.errors import CapsetError
from capset.kernel.call.session_context import Credential, SessionContext
from capset.kernel.streams.channel import Channel
from capset.kernel.telemetry.observers import Observer, tell_ended
from capset.schemas.plain_data import plain_unvalidated

if TYPE_CHECKING:
    from capset.definitions.approvals import ApprovalRow
    from capset.evaluation.policies import Ruling
    from capset.kernel.call.compiled_tools import CompiledTool
    from capset.kernel.call.execution import Execution
    from capset.kernel.governance.quotas import Reserved
    from capset.kernel.streams.processors import Processing
    from capset.stores.base import Claim, Quota

MISSING: Final = object()
"""The result of a handler that gave none."""


class Invocation:
    """The state of one call. Once ``outcome`` is set, nothing that a record shows changes any more.

    ``arguments``, ``value`` and ``data`` are of the tool's own types: as validated, as the handler gave it, and as
    plain JSON data. ``recorded`` is a snapshot of the arguments that no handler can reach (DESIGN §6). What most calls
    never set stands on the class, so that starting a call costs little.
    """

    arguments: dict[str, Any]
    recorded: Any = None
    decision: Literal["allow", "deny"] | None = None
    policies: tuple[str, ...] = ()
    reason: str | None = None
    value: Any = MISSING
    data: Any = None
    error: CapsetError | None = None
    outcome: Outcome | None = None
    duration_us: int = 0
    quota: Quota | None = None
    """Of the run that it belongs to, if that has a budget."""
    reserved: Reserved | None = None
    """What it has reserved of the limits of its process."""
    claim: Claim | None = None
    """What it counts in, and the approval that it uses up, unless its handler is never started."""
    is_flood: bool = False
    """Whether it was not looked at, since too many before it were refused."""
    attempts: int = 0
    """How often the handler was started."""
    asked: Ruling | None = None
    """What policies said that asks for an approval."""
    ticket: ApprovalRow | None = None
    """The approval that it has."""
    presented: str | None = None
    """The id of the request for an approval that its caller says was approved."""
    defers: bool = False
    """Whether it is refused, to be made again, where it has to be approved; else it waits for that."""
    credential: Credential | None = None
    """Says whether its caller is still known, once it has waited."""
    approval: str | None = None
    """The id of the request that was approved, or rejected."""
    repeats: int | None = None
    """How many refused calls its record stands for, where that is more than this one."""
    deadline: float | None = None
    """In the event loop's time."""
    scope: Timeout | None = None
    channel: Channel | None = None
    """Where the call's messages go, if anybody listens."""
    consumer_timeout: float | None = None
    """Seconds that its consumer may let it wait."""
    stalled: CapsetError | None = None
    """What ended it where the consumer did so for longer."""
    has_emitted: bool = False
    """Whether it has said anything, so that it is not tried again."""
    unheard: int = 0
    """How many events it emitted without a listener."""
    blocked: int = 0
    """How many of its emissions wait for the consumer."""
    time_left: float | None = None
    """Seconds of the tool's own timeout that are left once they do not wait any more."""
    validated: Any = None
    """The arguments as given, once they were validated: other ones are validated again."""
    inbound: Any = None
    """What a processor is given: the message, of the type that its contract declares."""
    reply_type: str | None = None
    """The type of the reply, where a processor gave one."""
    processor: Processing | None = None
    """The processor that is running already, on a duplex stream."""
    traceparent: str | None = None
    depth: int = 0
    """How many calls this one is nested in."""
    above: Execution | None = None
    """The execution that made this call."""
    execution: Execution | None = None
    """What this call's handler has built and read so far."""
    cause: tuple[str, str] | None = None
    """The correlation and the id of what caused this call."""
    observed: tuple[tuple[Observer, Any], ...] | None = None
    """The observers that were notified of its start, each with its own data; ``None`` where there are none."""

    def __init__(self, context: SessionContext, compiled: CompiledTool, given: Mapping[str, Any] | Json) -> None:
        runtime = context.runtime
        self.context = context
        self.compiled = compiled
        self.given = given
        self.mark = runtime.mark()
        self.started_ns = runtime.monotonic_ns()

    @property
    def id(self) -> str:
        """The id of the call's record."""
        return self.context.runtime.ids.text(self.mark)

    @property
    def correlation(self) -> str:
        """The id that ties this call to its cause; its own if nothing caused it."""
        return self.cause[0] if self.cause else self.id

    @property
    def causation(self) -> str | None:
        """The id of the call or the message that caused this call."""
        return self.cause[1] if self.cause else None

    @property
    def causing(self) -> str:
        """The causation of the calls that this one makes: its id."""
        return self.id

    def end(self, outcome: Outcome) -> None:
        """Say how the call ended, and when; it was counted in ``runtime.calls`` when it began."""
        if self.recorded is None and not isinstance(self.given, Json):
            # Never validated, so it may still be the caller's own lists, which the caller may go on to change.
            self.recorded = plain_unvalidated(self.given)
        self.outcome = outcome
        runtime = self.context.runtime
        self.duration_us = (runtime.monotonic_ns() - self.started_ns) // 1000
        runtime.end_call()
        if self.observed:
            tell_ended(self)
