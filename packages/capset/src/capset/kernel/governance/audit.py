"""The contents of a call's records, and the redaction of secrets in them (spec 4, G19, G20, G23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from json import dumps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from capset.clock import iso
from capset.definitions.calls.messages import Json
from capset.definitions.calls.records import Columns, Outcome
from capset.definitions.credentials import LentCredential
from capset.definitions.secrets import MASK, is_secret_name, mask_urls
from capset.definitions.tools.definition import AnyTool
from capset.errors import (
    ApprovalRejected,
    ApprovalRequired,
    ApprovalVoid,
    CapsetError,
    ClientCapabilityMissing,
    ClientInputRequired,
    DeadlineExceeded,
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    StoreError,
    TurnLost,
    TurnSuspended,
    Unauthenticated,
)
from capset.evaluation.code import code_of
from capset.fingerprint.canonical import PROFILE, canonical, flat
from capset.ids import time_of
from capset.kernel.call.compiled_tools import CompiledTool
from capset.kernel.call.invocation import NOT_VALIDATED, CallDecision, Invocation
from capset.kernel.call.session_context import SessionContext
from capset.kernel.governance.file_arguments import with_files
from capset.kernel.governance.marked_values import without_secrets
from capset.kernel.governance.redaction import (
    MAX_RECORDED_BYTES,
    MAX_RECORDED_TEXT,
    Redactor,
    redacted,
    storable_text,
)
from capset.schemas.json_schema import graph_of
from capset.schemas.plain_data import is_flat, plain, plain_json, reveal_secrets

if TYPE_CHECKING:
    from pydantic import Secret

_OUTCOMES: tuple[tuple[type[CapsetError], Outcome], ...] = (
    (Unauthenticated, "unauthenticated"),
    (ApprovalRejected, "rejected"),
    (ApprovalVoid, "rejected"),
    (ApprovalRequired, "pending"),
    (TurnSuspended, "pending"),  # of an agent in whose run a call needs an approval first
    (ClientInputRequired, "pending"),  # the call is made again, with the answer
    (PermissionDenied, "denied"),
    (TurnLost, "denied"),
    (ClientCapabilityMissing, "denied"),
    (LimitExceeded, "limited"),
    (NotFound, "not_found"),
    (InvalidArguments, "invalid"),
    (DeadlineExceeded, "timed_out"),
    (StoreError, "unavailable"),
)


def outcome_of(error: CapsetError | None) -> Outcome:
    """Return the outcome for an error; without one, success."""
    if error is None:
        return "succeeded"
    if error.answer_lost:
        return "unknown"
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            return outcome
    return "failed"


class CallEntry(NamedTuple):
    """One entry of a call, copied from it before it is queued: the writer, on another thread, reads nothing else."""

    phase: Literal["intent", "outcome"]
    context: SessionContext
    compiled: CompiledTool
    mark: int
    """The time and the id of the call, as made by ``Ids``."""
    cause: tuple[str, str] | None
    """The correlation and the id of what caused the call."""
    arguments: Any
    """A snapshot of the arguments; ``None`` for JSON text that was never validated."""
    secrets: Secret[list[Any]] | None
    """The secrets that the snapshot masks."""
    raw_arguments: Mapping[str, Any] | Json
    """The arguments as received; the writer reads them only if they are JSON text."""
    decision: CallDecision
    attempts: int
    outcome: Outcome | None = None
    code: str | None = None
    """The code of its error."""
    duration_us: int = 0
    credential: LentCredential | None = None
    repeats: int | None = None
    """The number of refused calls that the entry stands for, if more than one."""

    def repeated(self, times: int) -> CallEntry:
        """Return the entry of several refused calls like this one."""
        return self._replace(repeats=times)

    def columns(self) -> Columns:
        """Return the columns of the record; the audit writer calls this, off the hot path."""
        context, compiled, is_intent = self.context, self.compiled, self.phase == "intent"
        runtime, decision = context.runtime, self.decision
        own_id = runtime.ids.text(self.mark)
        arguments, canonical_form = _recorded_arguments(self, compiled.tool, runtime.redactor)
        return {
            **_constant_columns(context, compiled),
            "id": own_id,
            "phase": self.phase,
            "time": iso(time_of(self.mark) + self.duration_us * 1000),
            "correlation": storable_text(self.cause[0]) if self.cause else own_id,
            "causation": storable_text(self.cause[1]) if self.cause else None,
            "arguments": arguments,
            "arguments_digest": runtime.digest(canonical_form),
            "decision": "allow" if is_intent else decision.kind,
            "policies": _policies_json(decision.policies),
            "reason": None if is_intent else storable_text(_redact_text(decision.reason, runtime.redactor)),
            "outcome": self.outcome,
            "code": storable_text(self.code),
            "duration_us": None if is_intent else self.duration_us,
            "approval": decision.approval,
            "attempts": self.attempts or None,
            "repeats": self.repeats,
            "code_hash": None if compiled.tool is None else code_of(compiled.tool).hash,
            "credential": self.credential and f"{self.credential.reference} {self.credential.owner}",
        }


def _constant_columns(context: SessionContext, compiled: CompiledTool) -> Columns:
    """Return the columns that are the same for every call of a tool in a session, cached in its context."""
    cached = context.record_columns.get(compiled)
    if cached is not None:
        return cached
    principal, tool, snapshot = context.principal, compiled.tool, context.snapshot
    columns: Columns = {
        "principal": storable_text(principal.id),
        "principal_kind": principal.kind,
        "org": storable_text(principal.org),
        "session": context.id,
        "agent": context.block.name,
        "capability": compiled.capability,
        # The name of an unknown tool is the caller's text.
        "tool": storable_text(compiled.name if tool else _redact_text(compiled.name, context.runtime.redactor)),
        "effect": tool.effect if tool else None,
        "tool_hash": compiled.hash,
        "static_hash": snapshot.static_hash,
        "runtime_hash": snapshot.runtime_hash,
        "prompt_hash": snapshot.prompt_hash,
        "profile": PROFILE,
        "on_behalf_of": storable_text(principal.on_behalf_of),
        "attributes_digest": _attributes_digest(context),
        "act": None,
        "source": None,
    }
    if context.compiled.by_name.get(compiled.name) is compiled:  # a tool that only refuses is made for one call
        context.record_columns[compiled] = columns
    return columns


def _recorded_arguments(entry: CallEntry, tool: AnyTool | None, redactor: Redactor | None) -> tuple[str, bytes]:
    """Return the arguments as stored in a record, and the canonical form that its digest covers."""
    recorded, canonical_form = entry.arguments, None
    if tool is not None and redactor is None and not tool.arguments.write_only and not tool.arguments.digested:
        canonical_form = flat(recorded) if entry.secrets is None else None
    if canonical_form is not None:
        text = canonical_form.decode()
        # No URL, no secret, and nothing to truncate: the text is stored unchanged.
        if "/" not in text and len(text) <= MAX_RECORDED_TEXT and not any(map(is_secret_name, recorded)):
            return text, canonical_form
        return _stored_arguments(recorded, tool, canonical_form, redactor), canonical_form
    plain_arguments = _plain_arguments(recorded, entry.raw_arguments)
    covered = _digested_arguments(recorded, plain_arguments, entry.secrets)
    canonical_form = canonical(covered)
    return _stored_arguments(
        plain_arguments, tool, canonical_form if covered is plain_arguments else None, redactor
    ), canonical_form


def intent_of(call: Invocation) -> CallEntry:
    """Return the entry that must be durable before a side-effecting handler starts: the call as it was allowed."""
    return CallEntry(
        "intent",
        call.context,
        call.compiled,
        call.mark,
        call.options.cause,
        call.arguments.recorded,
        call.arguments.secrets,
        call.raw_arguments,
        call.decision,
        call.attempts,
        credential=call.lent_credential,
    )


def digest_of(call: Invocation) -> str:
    """Return the keyed digest of a call's arguments, as in its record, and of the files that its approval covers."""
    recorded, secrets = call.arguments.recorded, call.arguments.secrets
    covered = _digested_arguments(recorded, _plain_arguments(recorded, call.raw_arguments), secrets)
    return call.context.runtime.digest(canonical(with_files(covered, call.named_files)))


def masked_arguments(call: Invocation) -> str:
    """Return a call's complete arguments as canonical JSON text, secrets masked and nothing truncated."""
    recorded = None if call.arguments is NOT_VALIDATED else call.arguments.recorded
    arguments = _plain_arguments(recorded, call.raw_arguments)
    return canonical(_mask(arguments, call.compiled.tool, call.context.runtime.redactor, longest=None)).decode()


def arguments_to_approve(call: Invocation) -> tuple[str, str | None]:
    """Return a call's complete arguments for approvers, as canonical JSON texts.

    In the first, everything is masked that a record would mask. In the second, only the secrets are masked that the
    tool's schema declares; it is ``None`` if both are the same.
    """
    tool, redactor = call.compiled.tool, call.context.runtime.redactor
    unmasked = _plain_arguments(call.arguments.recorded, call.raw_arguments)
    if tool is not None:
        unmasked = without_secrets(graph_of(tool.arguments), unmasked)
    masked = redacted(unmasked if redactor is None else redactor(unmasked), longest=None)
    return canonical(masked).decode(), None if masked == unmasked else canonical(unmasked).decode()


def _attributes_digest(context: SessionContext) -> str | None:
    """Return the keyed digest of the principal's attributes; if it acts for others, of a list with theirs added.

    ``None`` if there are no attributes at all.
    """
    attributes, others = context.principal.attributes, context.principal.on_behalf_of_attributes
    if not attributes and not any(others):
        return None
    return context.runtime.digest(canonical([dict(attributes), *map(dict, others)] if others else dict(attributes)))


@lru_cache(1024)
def _policies_json(policies: tuple[str, ...]) -> str:
    return dumps(policies, separators=(",", ":"))


def _plain_arguments(recorded: Any, received: Mapping[str, Any] | Json) -> Any:
    """Return the arguments as plain JSON data: as validated, or as received if they never fitted the schema."""
    if recorded is None and isinstance(received, Json):
        return plain_json(received.text)
    return plain(recorded)


def _digested_arguments(recorded: Any, arguments: Any, secrets: Secret[list[Any]] | None) -> Any:
    """Return the arguments for the digest: with the real values of secrets, since these distinguish calls."""
    if secrets is not None:
        return [arguments, secrets.get_secret_value()]  # a list, which arguments themselves never are
    if is_flat(recorded):  # so that it holds no masked secret
        return arguments
    bare = reveal_secrets(recorded)
    return arguments if bare == recorded else plain(bare)


def _stored_arguments(
    arguments: Any, tool: AnyTool | None, canonical_form: bytes | None, redactor: Redactor | None
) -> str:
    """Return the arguments as stored in a record: redacted, and bounded.

    ``canonical_form`` is their canonical form, if known; it is used if there is nothing to redact.
    """
    masked = _mask(arguments, tool, redactor)
    digests: dict[str, str] = {}
    if tool is not None and tool.arguments.digested and isinstance(masked, Mapping):
        digests = _digests(_mask(arguments, tool, redactor, longest=None), tool.arguments.digested)
        named = {_digest_name(name) for name in tool.arguments.digested}  # a caller must not provide these itself
        masked = {
            name: value for name, value in cast("Mapping[str, Any]", masked).items() if name not in named
        } | digests
    stored = canonical_form if canonical_form is not None and masked == arguments else canonical(masked)
    if len(stored) > MAX_RECORDED_BYTES:
        stored = canonical({"omitted": f"{len(stored)} bytes of arguments", **digests})
    return stored.decode()


def _digests(masked: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the UTF-8 of texts, under names that no parameter can have.

    The digest is of the masked text: from one of the whole text, a short secret could be found by brute force.
    """
    texts = {name: masked.get(name) for name in names}
    return {
        _digest_name(name): sha256(text.encode(errors="surrogatepass")).hexdigest()
        for name, text in texts.items()
        if isinstance(text, str)
    }


def _digest_name(name: str) -> str:
    return f"{name}#sha256"


def _mask(
    arguments: Any, tool: AnyTool | None, redactor: Redactor | None, *, longest: int | None = MAX_RECORDED_TEXT
) -> Any:  # JSON data of every type
    """Return arguments with secrets masked: by their schema, by their names, and by the host's patterns."""
    masked = arguments
    if tool is not None and (secrets := tool.arguments.write_only) and isinstance(arguments, Mapping):
        members = cast("Mapping[str, Any]", arguments)
        masked = {name: MASK if name in secrets else value for name, value in members.items()}
    if redactor is not None:  # first, since truncation might leave half a secret unmatched
        masked = redactor(masked)
    return redacted(masked, longest=longest)


def _redact_text(text: str | None, redactor: Redactor | None) -> str | None:
    if text is None:
        return None
    return mask_urls(text if redactor is None else redactor(text))
