"""One call on its way through the pipeline: parts that are each written in one place, and who observes it."""

from __future__ import annotations

from asyncio import Timeout
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Never, Protocol

from capset.definitions.calls.contents import ForeignResult
from capset.definitions.calls.messages import Json, Message
from capset.definitions.calls.records import Outcome
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.tools.contracts import Contract
from capset.errors import CapsetError, NoOutcome
from capset.evaluation.policies import Ruling
from capset.kernel.call.execution import NO_OPTIONS, CallOptions, Execution
from capset.kernel.call.session_context import SessionContext
from capset.kernel.governance.file_arguments import FileArgument
from capset.kernel.governance.quotas import Reserved
from capset.kernel.named_tuples import new_tuple
from capset.kernel.state.files import SessionFiles
from capset.kernel.streams.channel import Channel
from capset.stores.base import Claim

if TYPE_CHECKING:
    from pydantic import Secret

    from capset.kernel.call.compiled_tools import CompiledTool

MISSING: Final = object()
"""The result of a handler that gave none."""


class CallArguments(NamedTuple):
    """The arguments of a call, as validated. The arguments stage writes them."""

    values: dict[str, Any]
    """Of the tool's own types, as its handler gets them."""
    recorded: Any
    """Plain data that no handler can reach, for the record (spec 4, G12)."""
    given: Mapping[str, Any] | Json
    """The data that they were validated from: anything else is validated again."""
    inbound: Any = None
    """The message for a processor, of the type that its contract declares."""
    secrets: Secret[list[Any]] | None = None
    """The secrets that ``recorded`` has as masks only, by ``secrets_in``: the digest covers them, too."""


class CallDecision(NamedTuple):
    """The decision on a call so far. Each stage that decides replaces it as a whole, most by ``Invocation.deny``."""

    kind: Literal["allow", "deny"] | None = None
    policies: tuple[str, ...] = ()
    """The ids of those that determined it."""
    reason: str | None = None
    approval: str | None = None
    """The id of the request for an approval that was opened, approved or rejected."""
    question: Ruling | None = None
    """The ruling of the policies that ask for an approval."""

    def allowed(self) -> CallDecision:
        """Return the decision that the call's handler may run."""
        return new_tuple(CallDecision, ("allow", self.policies, self.reason, self.approval, None))


class Admitted(NamedTuple):
    """The capacity that a call has taken, and gives back unless its handler starts. The admission stage writes it."""

    reserved: Reserved | None = None
    """Of the limits of its process."""
    claim: Claim | None = None
    """Of what the store counts, and the approval that it uses up."""


class StreamProcessor(Protocol):
    """A processor that runs already, for all messages of a duplex stream (``Processing``)."""

    def serves(self, contract: Contract) -> bool:
        """Whether it is a processor of that contract."""
        ...

    def work_on(self, call: Invocation) -> Awaitable[Any]:
        """Pass a call's message to the processor, and return its reply's data, or ``MISSING``."""
        ...


class CallStream:
    """The messages of one call: where they go, and the waits for its consumer. ``emission`` writes it."""

    __slots__ = ("blocked", "channel", "has_emitted", "listener", "processor", "stalled", "time_left", "unheard")

    def __init__(
        self,
        channel: Channel | None = None,
        processor: StreamProcessor | None = None,
        listener: Callable[[Message], None] | None = None,
    ) -> None:
        """``channel`` is ``None`` without a consumer; ``processor`` runs already, on a duplex stream.

        Where there is no channel, a ``listener`` gets the events, and makes no sender wait.
        """
        self.channel = channel
        self.listener = listener
        self.processor = processor
        self.has_emitted = False
        self.unheard = 0
        """Number of events that were emitted without a consumer."""
        self.blocked = 0
        """Number of emissions that wait for the consumer."""
        self.time_left: float | None = None
        """Seconds of the tool's own timeout that are left once none waits."""
        self.stalled: CapsetError | None = None
        """The error that ended the call because its consumer took nothing for too long."""


class OutcomeEntry(Protocol):
    """The entry of a call's outcome, for the record (``CallEntry``)."""

    @property
    def outcome(self) -> Outcome | None:
        """How the call ended."""
        ...

    @property
    def duration_us(self) -> int:
        """How long it took, in microseconds."""
        ...


class _NotValidated(CallArguments):
    """The arguments of a call before its phase ``arguments``: reading them raises, so that no check of them passes."""

    @property
    def values(self) -> Never:  # pyright: ignore[reportIncompatibleVariableOverride]  # nothing must read them
        raise _read_too_early()

    @property
    def recorded(self) -> Never:
        raise _read_too_early()

    @property
    def inbound(self) -> Never:
        raise _read_too_early()

    @property
    def secrets(self) -> Never:  # pyright: ignore[reportIncompatibleVariableOverride]  # as ``values``
        raise _read_too_early()


def _read_too_early() -> RuntimeError:
    return RuntimeError("arguments are validated in the phase 'arguments'; a stage before that reads call.given")


NOT_VALIDATED: Final = _NotValidated({}, None, Json(b""))
UNDECIDED: Final = CallDecision()
ALLOWED: Final = CallDecision("allow")
NOT_ADMITTED: Final = Admitted()


class Invocation:
    """One call. Once ``ended`` is set, that is what its record shows.

    Defaults that most calls never change stand on the class, so that starting a call costs little. All else is set by
    the constructor, because Python reads an attribute faster if the class has none of that name.
    """

    context: SessionContext
    """Where it happens; dynamic ``uses`` replace it, and ``compiled``, once they are known."""
    compiled: CompiledTool
    given: Mapping[str, Any] | Json
    """The arguments as received; the approval stage replaces them by those of an approver."""
    arguments: CallArguments
    decided: CallDecision
    ticket: ApprovalRow | None = None
    """The approved request that it uses. The approval stage writes it."""
    named_files: tuple[FileArgument, ...] = ()
    """The files that its arguments name, as its approval covers them. The approval stage writes it."""
    approved_files: SessionFiles | None = None
    """The session's files, those that its arguments name as they were approved. The approval stage writes it."""
    admitted: Admitted = NOT_ADMITTED
    stream: CallStream | None = None
    """Its messages, if anybody listens or it has emitted any."""
    scope: Timeout | None = None
    """The timeout that its handler runs under. The run stage writes it."""
    attempts: int
    """How often the handler was started."""
    value: Any
    """The result of the handler, of the tool's own type. The run and result stages write it, and ``data``."""
    data: Any = None
    """That as plain JSON data."""
    content: Sequence[Mapping[str, Any]] | None = None
    """The result as pieces of content, where it is content, JSON. The result stage writes it, and ``foreign``."""
    foreign: ForeignResult | None = None
    """The answer of a server of others that is the result, as it came."""
    reply_type: str | None = None
    """The type of the reply, where a processor gave one."""
    is_sent: bool = False
    """Whether its handler has sent a request on, and waits for the answer. ``sending`` writes it."""
    error: CapsetError | None
    """The error that the caller gets. The pipeline writes it, and ``ended``."""
    ended: OutcomeEntry | None = None
    """The entry of its outcome, for the record."""
    execution: Execution | None = None
    """The helpers built and the data read by its handler so far."""
    span: str | None = None
    """The ``traceparent`` of its own span. An observer writes it."""
    observed: tuple[tuple[Observer, Any], ...] | None = None
    """The observers that were notified of its start, each with its own data; ``None`` where there are none."""

    def __init__(
        self,
        context: SessionContext,
        compiled: CompiledTool,
        received: Mapping[str, Any] | Json,
        options: CallOptions = NO_OPTIONS,
    ) -> None:
        runtime = context.runtime
        self.context = context
        self.compiled = compiled
        self.given = received
        self.options: Final = options
        self.mark: Final = runtime.mark()
        self.started_ns: Final = runtime.monotonic_ns()
        self.arguments = NOT_VALIDATED
        self.decided = UNDECIDED
        self.attempts = 0
        self.value = MISSING
        self.error = None

    @property
    def id(self) -> str:
        """The id of the call's record."""
        return self.context.runtime.ids.text(self.mark)

    @property
    def correlation(self) -> str:
        """The id that ties this call to its cause; its own if nothing caused it."""
        return self.options.cause[0] if self.options.cause else self.id

    @property
    def causation(self) -> str | None:
        """The id of the call or the message that caused this call."""
        return self.options.cause[1] if self.options.cause else None

    @property
    def causing(self) -> str:
        """The causation of the calls that this one makes: its id."""
        return self.id

    @property
    def files(self) -> SessionFiles:
        """The session's files, for its handler."""
        return self.context.files if self.approved_files is None else self.approved_files

    @property
    def channel(self) -> Channel | None:
        """Where its messages go, if anybody listens."""
        return None if self.stream is None else self.stream.channel

    @property
    def decision(self) -> Literal["allow", "deny"] | None:
        """Whether its handler may run, once that is decided."""
        return self.decided.kind

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, once it has."""
        return None if self.ended is None else self.ended.outcome

    @property
    def duration_us(self) -> int:
        """How long it took until its outcome, in microseconds."""
        return 0 if self.ended is None else self.ended.duration_us

    @property
    def processor(self) -> StreamProcessor | None:
        """The processor that is running already, on a duplex stream."""
        return None if self.stream is None else self.stream.processor

    @property
    def has_emitted(self) -> bool:
        """Whether it has said anything, so that it is not tried again."""
        return self.stream is not None and self.stream.has_emitted

    def deny(self, reason: str | None, policies: tuple[str, ...] | None = None) -> None:
        """Decide that it is refused; ``policies`` are the ids that determined that, if any did."""
        so_far = self.decided
        self.decided = CallDecision("deny", so_far.policies if policies is None else policies, reason, so_far.approval)

    def result(self) -> Any:
        """Return what it gave, of the tool's own type. Raises its error, or ``NoOutcome`` if it gave nothing."""
        if self.error is not None:
            raise self.error
        if self.value is MISSING:
            raise NoOutcome(f"The tool {self.compiled.name!r} ended without a reply.", correlation=self.correlation)
        return self.value


class Observer(Protocol):
    """An observer of every call.

    It runs on the path of the call, so it has to be fast. Its exceptions are logged and affect no call.
    """

    def begun(self, call: Invocation) -> Any:  # the observer's own data about the call
        """Handle a call before its first stage, in the task that runs it. The result is passed to the other methods."""
        ...

    def joined(self, state: Any) -> None:
        """Handle the switch to another task that works for the call: that of a processor, which serves many calls."""
        ...

    def ended(self, call: Invocation, state: Any) -> None:
        """Handle the outcome of a call, ``call.ended``: once; the handler may still be running."""
        ...

    def left(self, state: Any) -> None:
        """Undo the changes of ``begun`` to the context of the task that ran the call."""
        ...
