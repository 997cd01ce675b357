"""One call on its way through the pipeline: its parts, each written in one place, and the protocol of observers."""

from __future__ import annotations

from asyncio import Timeout
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Never, Protocol

from capset.definitions.calls.contents import ForeignResult
from capset.definitions.calls.messages import Json, Message
from capset.definitions.calls.records import Outcome
from capset.definitions.credentials import LentCredential, MissingCredential
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.tools.contracts import Contract
from capset.errors import CapsetError, NoOutcome, ToolError
from capset.evaluation.policies import Ruling
from capset.kernel.call.execution import NO_OPTIONS, CallOptions, Execution, no_credential
from capset.kernel.call.session_context import SessionContext
from capset.kernel.governance.file_arguments import FileArgument
from capset.kernel.governance.quotas import WindowReservation
from capset.kernel.named_tuples import new_tuple
from capset.kernel.state.files import SessionFiles
from capset.kernel.streams.channel import Channel
from capset.stores.base import Claim

if TYPE_CHECKING:
    from pydantic import Secret

    from capset.kernel.call.compiled_tools import CompiledTool
    from capset.kernel.governance.audit import CallEntry

MISSING: Final = object()
"""The value of a call whose handler returned no result."""


class CallArguments(NamedTuple):
    """The validated arguments of a call. Written by the arguments stage."""

    values: dict[str, Any]
    """Values of the tool's own types, as passed to the handler."""
    recorded: Any
    """Plain data for the record, out of reach of any handler (spec 4, G12)."""
    source: Mapping[str, Any] | Json
    """The data that they were validated from; if the call's data is another object, it is validated again."""
    inbound: Any = None
    """The message for a processor, of the type that its contract declares."""
    secrets: Secret[list[Any]] | None = None
    """The secrets that ``recorded`` masks, as returned by ``secrets_in``: the digest covers them too."""


class CallDecision(NamedTuple):
    """The decision on a call so far. A stage that decides replaces the whole value, usually by ``Invocation.deny``."""

    kind: Literal["allow", "deny"] | None = None
    """Whether the handler may run; ``None`` while undecided."""
    policies: tuple[str, ...] = ()
    """Ids of the policies that determined it."""
    reason: str | None = None
    approval: str | None = None
    """Id of the approval request that was opened, approved or rejected."""
    question: Ruling | None = None
    """The ruling of the policies that ask for an approval."""

    def allowed(self) -> CallDecision:
        """Return this decision, changed to allow the call."""
        return new_tuple(CallDecision, ("allow", self.policies, self.reason, self.approval, None))


class Admitted(NamedTuple):
    """The capacity that a call has taken, released unless its handler starts. Written by the admission stage."""

    reservation: WindowReservation | None = None
    """Capacity of the limits that are counted in this process."""
    claim: Claim | None = None
    """Capacity that the store counts, and the approval that the call uses up."""


class StreamProcessor(Protocol):
    """A running processor that handles all messages of a duplex stream (``DuplexProcessor``)."""

    def implements(self, contract: Contract) -> bool:
        """Whether the processor implements ``contract``."""
        ...

    def process(self, call: Invocation) -> Awaitable[Any]:
        """Pass a call's message to the processor, and return the data of its reply, or ``MISSING``."""
        ...


class CallStream:
    """The messages of one call: where they go, and the waits for its consumer. Written by ``emission``."""

    __slots__ = (
        "blocked_emissions",
        "channel",
        "consumer_error",
        "has_emitted",
        "listener",
        "processor",
        "time_left",
        "unconsumed",
    )

    def __init__(
        self,
        channel: Channel | None = None,
        processor: StreamProcessor | None = None,
        listener: Callable[[Message], None] | None = None,
    ) -> None:
        """``channel`` is ``None`` without a consumer; ``processor`` is the running one of a duplex stream.

        Without a channel, ``listener`` receives the events; it never makes a sender wait.
        """
        self.channel = channel
        self.listener = listener
        self.processor = processor
        self.has_emitted = False
        self.unconsumed = 0
        """Number of events emitted without a consumer."""
        self.blocked_emissions = 0
        """Number of emissions waiting for the consumer."""
        self.time_left: float | None = None
        """Seconds left of the tool's own timeout, which is paused while an emission waits."""
        self.consumer_error: CapsetError | None = None
        """The error that ended the call because its consumer read nothing for too long."""


class _NotValidated(CallArguments):
    """The arguments of a call before its phase ``arguments``. Reading them raises, so no check can pass by mistake."""

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
    return RuntimeError(
        "arguments are validated in the phase 'arguments'; an earlier stage must read call.raw_arguments"
    )


NOT_VALIDATED: Final = _NotValidated({}, None, Json(b""))
UNDECIDED: Final = CallDecision()
ALLOWED: Final = CallDecision("allow")
NOT_ADMITTED: Final = Admitted()


class Invocation:
    """One call. Once ``outcome_entry`` is set, its record shows that outcome.

    Defaults that most calls never change are class attributes, so that starting a call costs little. The constructor
    sets all others, because Python reads an attribute faster if the class has none of that name.
    """

    context: SessionContext
    """Where the call runs. Dynamic ``uses`` replace it, and ``compiled``, once they are known."""
    compiled: CompiledTool
    raw_arguments: Mapping[str, Any] | Json
    """The arguments as received; the approval stage replaces them if an approver has changed them."""
    arguments: CallArguments
    decision: CallDecision
    approved_request: ApprovalRow | None = None
    """The approved request that the call uses. Written by the approval stage."""
    named_files: tuple[FileArgument, ...] = ()
    """The files that the arguments name, as the approval covers them. Written by the approval stage."""
    lent_credential: LentCredential | None = None
    """The credential of a user that the handler may use. Written by the credential stage."""
    renew_credential: Callable[[str | None], Awaitable[LentCredential | MissingCredential]] | None = None
    """Returns the credential as it is now, another one than a refused one. Written by the credential stage."""
    approved_files: SessionFiles | None = None
    """The session's files, with the named ones held to their approved content. Written by the approval stage."""
    admitted: Admitted = NOT_ADMITTED
    stream: CallStream | None = None
    """Its messages, if there is a consumer or it has emitted any."""
    scope: Timeout | None = None
    """The timeout that the handler runs under. Written by the run stage."""
    attempts: int
    """Number of times that the handler was started."""
    value: Any
    """The handler's result, of the tool's own type. Written by the run and result stages, as is ``data``."""
    data: Any = None
    """The result as plain JSON data."""
    content: Sequence[Mapping[str, Any]] | None = None
    """The result as content pieces in JSON, if it is content. Written by the result stage, as is ``foreign``."""
    foreign: ForeignResult | None = None
    """The response of a third-party server in its original form, if that is the result."""
    reply_type: str | None = None
    """The type of a processor's reply."""
    awaits_response: bool = False
    """Whether the handler has sent a request upstream and waits for the response. Written by ``sending``."""
    error: CapsetError | None
    """The error that the caller gets. Written by the pipeline, as is ``outcome_entry``."""
    outcome_entry: CallEntry | None = None
    """The audit entry of its outcome."""
    execution: Execution | None = None
    """The helpers built and the data read by its handler so far."""
    span: str | None = None
    """The ``traceparent`` of the call's own span. Written by an observer."""
    observer_states: tuple[tuple[Observer, Any], ...] | None = None
    """The observers that were notified of its start, each with its own data; ``None`` without observers."""

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
        self.raw_arguments = received
        self.options: Final = options
        self.mark: Final = runtime.mark()
        self.started_ns: Final = runtime.monotonic_ns()
        self.arguments = NOT_VALIDATED
        self.decision = UNDECIDED
        self.attempts = 0
        self.value = MISSING
        self.error = None

    @property
    def id(self) -> str:
        """The id of the call's record."""
        return self.context.runtime.ids.text(self.mark)

    @property
    def correlation(self) -> str:
        """The id that ties this call to its cause; its own id if nothing caused it."""
        return self.options.cause[0] if self.options.cause else self.id

    @property
    def causation(self) -> str | None:
        """The id of the call or the message that caused this call."""
        return self.options.cause[1] if self.options.cause else None

    @property
    def child_causation(self) -> str:
        """The causation id of the calls that this call makes: its own id."""
        return self.id

    async def lend(self, refused: str | None) -> LentCredential:
        """Return the credential of its user, as it is now: the call may have waited since it obtained one.

        It is another one than ``refused``. The record shows the last one.
        """
        renew = self.renew_credential
        if renew is None or self.is_over:
            raise no_credential()
        lent = await renew(refused)
        if isinstance(lent, MissingCredential):
            raise ToolError(f"There is no credential any more: {lent.reason}.", code="credential_refused", status=403)
        self.lent_credential = lent
        return lent

    @property
    def is_over(self) -> bool:
        """Whether it has an outcome."""
        return self.outcome_entry is not None

    @property
    def files(self) -> SessionFiles:
        """The session's files, as the handler sees them."""
        return self.context.files if self.approved_files is None else self.approved_files

    @property
    def channel(self) -> Channel | None:
        """The channel to its consumer, if there is one."""
        return None if self.stream is None else self.stream.channel

    @property
    def outcome(self) -> Outcome | None:
        """How the call ended; ``None`` until then."""
        return None if self.outcome_entry is None else self.outcome_entry.outcome

    @property
    def duration_us(self) -> int:
        """Microseconds until its outcome; 0 while there is none."""
        return 0 if self.outcome_entry is None else self.outcome_entry.duration_us

    @property
    def processor(self) -> StreamProcessor | None:
        """The running processor of a duplex stream."""
        return None if self.stream is None else self.stream.processor

    @property
    def has_emitted(self) -> bool:
        """Whether the call has emitted anything; if so, it is not retried."""
        return self.stream is not None and self.stream.has_emitted

    def deny(self, reason: str | None, policies: tuple[str, ...] | None = None) -> None:
        """Refuse the call; ``policies`` are the ids of those that determined this, by default the ones so far."""
        previous = self.decision
        self.decision = CallDecision(
            "deny", previous.policies if policies is None else policies, reason, previous.approval
        )

    def result(self) -> Any:
        """Return the result, of the tool's own type. Raises the call's error, or ``NoOutcome`` without a result."""
        if self.error is not None:
            raise self.error
        if self.value is MISSING:
            raise NoOutcome(f"The tool {self.compiled.name!r} ended without a reply.", correlation=self.correlation)
        return self.value


class Observer(Protocol):
    """An observer of every call.

    It runs on the path of the call, so it must be fast. Its exceptions are logged and affect no call.
    """

    def on_start(self, call: Invocation) -> Any:  # the observer's own data about the call
        """Handle a call before its first stage, in the task that runs it. The result is passed to the other methods."""
        ...

    def on_attach(self, state: Any) -> None:
        """Handle the switch to another task that works on the call: that of a processor, which serves many calls."""
        ...

    def on_end(self, call: Invocation, state: Any) -> None:
        """Handle the outcome of a call, ``call.outcome_entry``. Called once; the handler may still be running."""
        ...

    def on_detach(self, state: Any) -> None:
        """Undo the changes of ``on_start`` to the context of the task that ran the call."""
        ...
