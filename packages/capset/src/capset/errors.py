"""The tree of all errors that capset raises.

::

    CapsetError                    code, status, message, retryable, hint
    ├── DefinitionError            422  a malformed tool, policy, capability or agent, or a malformed file of them
    │   ├── CapabilityConflict     422  two different capabilities under one name
    │   │   └── CapabilityCycle    422  a capability that needs itself, directly or through others
    │   ├── PresetConflict         422  two paths of the same depth to one capability, with different choices
    │   ├── ToolNameConflict       422  two different tools under one name
    │   ├── PolicyConflict         422  two different policies under one id
    │   ├── ResourceConflict       422  two different resources under one name in one scope
    │   ├── StateConflict          422  two fields of one name in one scope's state with incompatible types
    │   ├── TargetConflict         422  two different models for one target
    │   ├── HydrationRefused       422  an envelope's tool is missing, or has changed
    │   ├── MountConflict          422  two different contents for one file
    │   └── KindError              422  a block was given parts that its kind cannot have
    ├── Unauthenticated            401  the API key is missing, unknown, expired or revoked
    ├── Conflict                   409  the current state does not allow it: read-only, archived, in progress
    │   ├── Outdated               412  it has changed since the expected version
    │   ├── ApprovalVoid           409  the approval was used, or is for another call, or for a tool that has changed
    │   ├── TurnRunning            409  the session is already in a turn, and runs only one at a time
    │   ├── TurnLost               409  another process has taken over the turn: the call was not made
    │   └── TurnSuspended          409  the turn waits for approvals; ``approvals`` are the ids of the requests
    ├── NotFound                   404  nothing with that name exists here for this principal
    ├── PermissionDenied           403  a permission is missing, a policy denied, or a snapshot pruned the tool
    │   ├── ApprovalRequired       403  the call needs approval first; ``approval`` is the request's id
    │   │   └── ConnectionRequired 403  the user has to connect an account first, named by ``connection``
    │   └── ApprovalRejected       403  the approver rejected the call
    │       └── ApprovalExpired    403  the request was not answered in time
    ├── LimitExceeded              429  a limit is used up; ``retry_after`` says for how long
    │   ├── BudgetExceeded         429  the budget of a session, or of a run, is used up
    │   ├── NoFreeSlot             429  no thread became free in time for a sync handler to start
    │   └── TooManyRefusals        429  so many calls were refused that further ones are ignored for a while
    ├── InvalidArguments           422  the arguments do not fit the tool's schema; every field is listed
    │   └── ArgumentsTooLarge      413  the arguments have more bytes than the tool takes
    ├── ToolError                  400  raised by handlers: the model reads the message word for word
    │   ├── TransientError         503  a retry may succeed
    │   ├── ClientInputRequired    409  the call must be repeated, with the answer of the person who makes it
    │   ├── ClientCapabilityMissing 400  the client of the call lacks a capability that the tool needs
    │   ├── FileError              400  an impossible file operation; 404 if the file does not exist
    │   │   ├── VersionMismatch    412  the file does not have the expected version
    │   │   └── QuotaExceeded      413  the file, or all files of the session together, would exceed the quota
    │   └── StateError             400  state or a resource cannot be read or written; 404 if its scope is missing
    │       ├── ConcurrentModificationError  409  others kept changing the value until the deadline
    │       └── StoredValueMisfit  500  the stored value no longer fits its type; it is left unchanged
    ├── InternalError              500  a handler raised something else; details stay in the log
    │   ├── InvalidOutput          500  a handler returned or emitted data that its schema does not allow
    │   ├── NoOutcome              500  the handler ended without the reply that the call needs
    │   ├── ToolkitFailed          500  a dynamic toolkit could not be made
    │   └── ContextError           500  a context entry failed, or returned invalid context
    │       └── ContextShapeConflict  500  text from one contributor, a mapping from another, under one key
    ├── DeadlineExceeded           504  the deadline of the call has passed
    │   └── ConsumerTimeout        504  the consumer has not read the call's messages for too long
    ├── Cancelled                  503  the call was cancelled before it ended
    │   └── Interrupted            503  the process that ran it died
    ├── StoreError                 503  the database is missing, corrupt, full, or of a newer version
    │   └── StoreBusy              503  another process has been writing to the database for too long
    ├── Unreachable                503  a server cannot be reached, or the connection to it broke
    └── ForeignAnswer              502  the response is not from capset, or from an unknown version of it

``message`` is always safe to show to a model or a client: no stack trace, path on the host or SQL (spec 4, G24).
``hint`` suggests what to do next and is for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from typing import ClassVar, Final, Self


@dataclass(frozen=True, slots=True)
class Field:
    """An invalid field: its place, what was expected, and a suggestion, if any."""

    path: str
    expected: str
    did_you_mean: str | None = None

    def __str__(self) -> str:
        suggestion = f" (did you mean {self.did_you_mean!r}?)" if self.did_you_mean else ""
        return f"{self.path}: {self.expected}{suggestion}"


class CapsetError(Exception):
    """The root of the tree. Subclasses fix ``code`` (snake_case) and ``status`` (400–599)."""

    code: str = "error"
    status: int = 500
    retryable: bool = False
    refusal: ClassVar[bool] = False
    """Whether the error means that governance refused a call, rather than that something failed."""
    retry_after: float | None = None
    """Seconds after which the same call may pass, if known."""
    answer_lost: bool = False
    """Whether a request was sent to another system and its response was lost, so that its effect is unknown.

    A handler sets it on the error that it raises; the record of its call then has the outcome ``unknown``.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, fields: Iterable[Field] = (), correlation: str | None = None
    ) -> None:
        message = _encodable(str(message))
        super().__init__(message)
        self.message = message
        self.hint = hint and _encodable(hint)
        self.fields = tuple(map(_encodable_field, fields))
        self.correlation = correlation

    def copy(self) -> Self:
        """Return a copy with the same class, attributes, cause and traceback.

        ``__init__`` is not called, since that of a subclass may take other arguments than those in ``args``.
        """
        duplicate = type(self).__new__(type(self), *self.args)
        duplicate.__dict__.update(vars(self))
        duplicate.__cause__, duplicate.__context__ = self.__cause__, self.__context__
        duplicate.__suppress_context__ = self.__suppress_context__
        return duplicate.with_traceback(self.__traceback__)


def _encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: undecodable bytes in file names become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _encodable_field(field: Field) -> Field:
    suggestion = field.did_you_mean
    return Field(_encodable(field.path), _encodable(field.expected), suggestion and _encodable(suggestion))


class DefinitionError(CapsetError):
    code = "invalid_definition"
    status = 422


class CapabilityConflict(DefinitionError):
    code = "capability_conflict"


class CapabilityCycle(CapabilityConflict):
    code = "capability_cycle"


class PresetConflict(DefinitionError):
    code = "preset_conflict"


class ToolNameConflict(DefinitionError):
    code = "tool_name_conflict"


class PolicyConflict(DefinitionError):
    code = "policy_conflict"


class ResourceConflict(DefinitionError):
    code = "resource_conflict"


class StateConflict(DefinitionError):
    code = "state_conflict"


class HydrationRefused(DefinitionError):
    code = "hydration_refused"


class TargetConflict(DefinitionError):
    code = "target_conflict"


class MountConflict(DefinitionError):
    code = "mount_conflict"


class KindError(DefinitionError):
    code = "kind_error"


class Unauthenticated(CapsetError):
    code = "unauthenticated"
    status = 401
    refusal = True


class Conflict(CapsetError):
    code = "conflict"
    status = 409


class Outdated(Conflict):
    code = "outdated"
    status = 412


class ApprovalVoid(Conflict):
    code = "approval_void"
    refusal = True


class TurnRunning(Conflict):
    code = "turn_running"


class TurnLost(Conflict):
    code = "turn_lost"


class TurnSuspended(Conflict):
    """The turn waits for approvals. ``approvals`` are the ids of the requests to be decided before it goes on.

    ``calls`` maps the model's id of each waiting call to the id of its request.
    """

    code = "turn_suspended"

    def __init__(
        self,
        message: str,
        *,
        approvals: Iterable[str] = (),
        calls: Mapping[str, str] | None = None,
        hint: str | None = None,
        fields: Iterable[Field] = (),
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        self.approvals = tuple(approvals)
        self.calls = dict(calls or {})


class NotFound(CapsetError):
    code = "not_found"
    status = 404
    refusal = True


class PermissionDenied(CapsetError):
    code = "permission_denied"
    status = 403
    refusal = True


class ApprovalRequired(PermissionDenied):
    """The call needs approval. ``approval`` is the id of the request to decide; ``None`` if none could be opened."""

    code = "approval_required"

    def __init__(
        self, message: str, *, approval: str | None = None, hint: str | None = None, fields: Iterable[Field] = ()
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        self.approval = approval


class ConnectionRequired(ApprovalRequired):
    """The call needs a credential of its user. ``connection`` names what the user has to connect."""

    code = "connection_required"

    def __init__(
        self,
        message: str,
        *,
        connection: str | None = None,
        approval: str | None = None,
        hint: str | None = None,
        fields: Iterable[Field] = (),
    ) -> None:
        super().__init__(message, approval=approval, hint=hint, fields=fields)
        self.connection = connection


class ApprovalRejected(PermissionDenied):
    code = "approval_rejected"


class ApprovalExpired(ApprovalRejected):
    code = "approval_expired"


class LimitExceeded(CapsetError):
    """A limit is used up. ``retry_after`` is in seconds and exact: calls pass from then on, and not before."""

    code = "limit_exceeded"
    status = 429
    retryable = True
    refusal = True

    def __init__(
        self, message: str, *, retry_after: float | None = None, hint: str | None = None, fields: Iterable[Field] = ()
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        self.retry_after = retry_after


class BudgetExceeded(LimitExceeded):
    code = "budget_exceeded"
    retryable = False


class NoFreeSlot(LimitExceeded):
    code = "no_free_slot"


class TooManyRefusals(LimitExceeded):
    code = "too_many_refusals"


class InvalidArguments(CapsetError):
    code = "invalid_arguments"
    status = 422
    refusal = True


class ArgumentsTooLarge(InvalidArguments):
    code = "arguments_too_large"
    status = 413


class ToolError(CapsetError):
    """An error for a model. Raise it in a handler to explain, in your own words, why the tool failed.

    ``code`` is snake_case and ``status`` lies in 400–599.
    """

    code = "tool_error"
    status = 400

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        hint: str | None = None,
        fields: Iterable[Field] = (),
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        if code is not None:
            if not re.fullmatch("[a-z][a-z0-9_]*", code):
                raise ValueError(f"a ToolError's code is snake_case, not {code!r}")
            self.code = code
        if status is not None:
            if type(status) is not int or not 400 <= status <= 599:
                raise ValueError(f"a ToolError's status lies in 400–599, not {status!r}")
            self.status = status


class TransientError(ToolError):
    """A temporary failure. Raise it in the handler of an idempotent tool with ``retry`` to have the call retried."""

    code = "transient"
    status = 503
    retryable = True


class ClientInputRequired(ToolError):
    """The call asks a question, and must be repeated with the answer; see ``ctx.ask_client``."""

    code = "input_required"
    status = 409


class ClientCapabilityMissing(ToolError):
    """The client of a call lacks a capability that its tool needs: ``required``, in MCP's terms."""

    code = "client_capability_missing"

    def __init__(
        self,
        message: str,
        *,
        required: Mapping[str, object] | None = None,
        hint: str | None = None,
        fields: Iterable[Field] = (),
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        self.required = dict(required or {})


class FileError(ToolError):
    code = "file_error"


class VersionMismatch(FileError):
    code = "version_mismatch"
    status = 412


class QuotaExceeded(FileError):
    code = "quota_exceeded"
    status = 413


class StateError(ToolError):
    code = "state_error"


class ConcurrentModificationError(StateError):
    """Other writers kept changing a value. ``attempts`` is how often the change was tried."""

    code = "concurrent_modification"
    status = 409
    retryable = True

    def __init__(
        self, message: str, *, attempts: int = 0, hint: str | None = None, fields: Iterable[Field] = ()
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        self.attempts = attempts


class StoredValueMisfit(StateError):
    code = "stored_value_misfit"
    status = 500


class InternalError(CapsetError):
    code = "internal_error"
    status = 500


class InvalidOutput(InternalError):
    code = "invalid_output"


class NoOutcome(InternalError):
    code = "no_outcome"


class ToolkitFailed(InternalError):
    code = "toolkit_failed"


class ContextError(InternalError):
    code = "context_error"


class ContextShapeConflict(ContextError):
    code = "context_shape_conflict"


class DeadlineExceeded(CapsetError):
    code = "deadline_exceeded"
    status = 504
    retryable = True


class ConsumerTimeout(DeadlineExceeded):
    code = "consumer_timeout"


class Cancelled(CapsetError):
    code = "cancelled"
    status = 503
    retryable = True


class Interrupted(Cancelled):
    code = "interrupted"
    retryable = False


class StoreError(CapsetError):
    code = "store_unavailable"
    status = 503
    retryable = True
    public: str = "The store is not available; the log has the details."
    """The message for clients; ``message`` may name a path."""


class StoreBusy(StoreError):
    code = "store_busy"


class Unreachable(CapsetError):
    code = "unreachable"
    status = 503
    retryable = True


class ForeignAnswer(CapsetError):
    code = "foreign_answer"
    status = 502


_MIN_SIMILARITY: Final = 0.6
"""The minimum similarity, from 0 to 1, of a name to a suggestion."""


def closest(name: str, candidates: Iterable[str], *, prefixes: str = "") -> str | None:
    """Return the known name closest to ``name``, or ``None`` if none is close.

    ``prefixes`` are the characters that end a prefix, such as ``_``. A prefix that two names share does not count.
    """
    # Names whose lengths differ by more are never close, and comparing a name of megabytes takes seconds.
    near = [
        candidate
        for candidate in candidates
        if 2 * min(len(candidate), len(name)) >= _MIN_SIMILARITY * (len(candidate) + len(name))
    ]
    matches = get_close_matches(name, near, n=10, cutoff=_MIN_SIMILARITY) if near else []
    return next((candidate for candidate in matches if _is_close_within(name, candidate, prefixes)), None)


def _is_close_within(name: str, other: str, prefixes: str) -> bool:
    """Whether names are close without the prefix that they share."""
    shared = takewhile(lambda both: both[0] == both[1], zip(name, other, strict=False))
    start = max((at for at, (character, _) in enumerate(shared, start=1) if character in prefixes), default=0)
    return start == 0 or bool(get_close_matches(name[start:], [other[start:]], cutoff=_MIN_SIMILARITY))


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: ``1 record`` or ``2 records``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def unknown(kind: str, name: str, candidates: Iterable[str]) -> str:
    """Return a message that ``name`` is unknown, with a suggestion or the known names."""
    names = sorted(candidates)
    # Tools of one source share a prefix: suggesting another of them could make a caller do something else.
    if suggestion := closest(name, names, prefixes="_." if kind == "tool" else ""):
        return f"unknown {kind} {name!r}; did you mean {suggestion!r}?"
    known_names = ", ".join(names[:12]) + (", …" if len(names) > 12 else "") if names else "none"
    return f"unknown {kind} {name!r}; available: {known_names}"


def refuse_unknown_keys(label: str, mapping: Mapping[str, object], allowed: Iterable[str]) -> None:
    """Raise ``DefinitionError`` for the first key of ``mapping`` that is not ``allowed``; keys may be of any type."""
    names = tuple(allowed)
    for key in mapping:
        if key not in names:
            raise DefinitionError(f"{label}: {unknown('field', str(key), names)}")
