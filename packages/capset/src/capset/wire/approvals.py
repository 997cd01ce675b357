"""Approval requests on the wire, and the conversations that led to them (spec 4, G16, G17; spec 5, P12, P60)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field
from pydantic_core import from_json

from capset.definitions.governance.approvals import ApprovalRow, ApprovalScope, ApprovalStatus
from capset.errors import StoreError
from capset.evaluation.code import known_code
from capset.fingerprint.canonical import read
from capset.kernel.governance.approval_needs import ApprovalNeeds, approvals_of, round_of
from capset.kernel.governance.file_arguments import files_of
from capset.kernel.governance.redaction import Redactor, fully_redacted, redacted
from capset.stores.base import ApprovalQuery, MessageRow, Page, PendingSummary
from capset.wire.agents import Text
from capset.wire.errors import ErrorShape
from capset.wire.fingerprints import CodeShape, code_shape
from capset.wire.pages import read_page
from capset.wire.shapes import PageShape, Shape, StrictShape, WholeNumber


class ApproveInput(StrictShape):
    """An approval: ``once``, or for the whole ``session`` as long as the tool and the arguments stay the same.

    ``arguments`` replace all the requested arguments, for one call only. ``note`` gives the reason. If an earlier
    approver has changed the arguments, send the request's ``round`` to approve the changed ones; without it, the count
    of approvals starts over with the requested arguments.
    """

    scope: ApprovalScope = "once"
    arguments: dict[str, Any] | None = None  # of the tool's own schema
    round: Annotated[int, Field(ge=0), WholeNumber] | None = None
    note: Annotated[Text, Field(max_length=1_000)] | None = None


class RejectInput(StrictShape):
    """A rejection. ``note`` gives the reason, which the caller can read."""

    note: Annotated[Text, Field(max_length=1_000)] | None = None


class SelectedApproval(StrictShape):
    """A request to decide. An approval is for the arguments of the ``round``, as ``ApproveInput`` describes it."""

    id: Annotated[Text, Field(min_length=1, max_length=200)]
    round: Annotated[int, Field(ge=0), WholeNumber] | None = None


class DecisionsInput(StrictShape):
    """One answer to several requests, with one reason. An approval is for one call of each."""

    answer: Literal["approve", "reject"]
    requests: Annotated[list[SelectedApproval], Field(min_length=1, max_length=200)]
    note: Annotated[Text, Field(max_length=1_000)] | None = None


class ApproverRequirementShape(Shape):
    """The requirements of one rule for each approver: a permission, and the allowed values of attributes.

    ``same_attributes`` names attributes for which approvers must have the requester's value. If the requester has none,
    no approver qualifies. From ``escalates_at`` on, principals with the permission ``escalate_to`` may approve, too.
    """

    permission: str | None = None
    attributes: dict[str, list[Any]] = Field(default_factory=dict[str, list[Any]])  # as attributes are
    same_attributes: list[str] = Field(default_factory=list[str])
    escalate_to: str | None = None
    escalates_at: str | None = None


class ApprovalNeedsShape(Shape):
    """The requirements of rules for approvers: a number of different approvers, each of whom satisfies every rule.

    ``text`` is a summary in one sentence. A request with ``connect`` waits for its ``owner`` to connect that, which no
    approval replaces.
    """

    approvals: int
    forbid_own: bool
    rules: list[ApproverRequirementShape]
    text: str
    connect: str | None = None
    owner: str | None = None


class GrantedApprovalShape(Shape):
    """One approval: who gave it, when, with which note, and for which scope."""

    by: str
    on_behalf_of: str | None = None
    at: str
    note: str | None = None
    scope: ApprovalScope


class FileArgumentShape(Shape):
    """A file of the session that an argument names, as it was when the approval was requested.

    ``argument`` is the path of the argument. ``size_bytes`` and ``sha256`` are null if the file did not exist. ``path``
    and ``name`` are empty if the tool's schema marks them as secret. The approval covers this content only.
    """

    argument: str
    path: str
    name: str
    size_bytes: int | None = None
    sha256: str | None = None


class ApprovalArgumentsShape(Shape):
    """The arguments of a request, in which only the secrets that the tool's schema declares are masked.

    ``modified`` are the arguments that an approver replaced them with, or null.
    """

    arguments: Any  # JSON data of the tool's own schema
    modified: Any = None


class ApprovalShape(Shape):
    """An approval request and its status; ``used`` means that the one approved call was made.

    ``arguments`` are complete, and masked as in a record. ``masked`` says whether more is masked than the secrets of
    the tool's schema; those who may decide can request it unmasked. ``digest`` identifies the exact arguments and the
    content of the ``files`` that they name. ``modified`` are the arguments that an approver replaced them with.
    ``call`` is the id of the attempt's record. Principals are ``kind:id``; times are ISO 8601 UTC. ``reason`` is why
    approval is required; ``note`` is the approver's. ``code_hash`` is the hash of the tool's code at that time, and
    ``code`` describes that code if this process runs it too. ``needs`` is what rules require of approvers, and
    ``approvals`` are those that count so far. ``round`` counts how often approvers have changed the arguments.
    ``escalates_at`` is the time of the next escalation, ``escalated_at`` that of the last one that was processed.
    ``decidable`` says whether the caller may approve the request, and ``refusal`` why not.
    """

    id: str
    status: ApprovalStatus
    scope: ApprovalScope
    tool: str
    arguments: Any  # JSON data of the tool's own schema
    masked: bool = False
    files: list[FileArgumentShape] = Field(default_factory=list[FileArgumentShape])
    modified: Any = None
    reason: str
    policies: list[str]
    principal: str
    on_behalf_of: str | None = None
    session: str
    agent: str
    call: str
    digest: str
    tool_hash: str
    runtime_hash: str
    code_hash: str | None = None
    code: CodeShape | None = None
    created_at: str
    expires_at: str
    decided_by: str | None = None
    decided_at: str | None = None
    note: str | None = None
    needs: ApprovalNeedsShape | None = None
    approvals: list[GrantedApprovalShape] = Field(default_factory=list[GrantedApprovalShape])
    round: int = 0
    escalates_at: str | None = None
    escalated_at: str | None = None
    decidable: bool | None = None
    refusal: str | None = None


class DecisionOutcomeShape(Shape):
    """The outcome of one of several decisions: the request after it, or the error for which it changed nothing."""

    id: str
    approval: ApprovalShape | None = None
    error: ErrorShape | None = None


class DecisionsShape(Shape):
    """The outcomes of several decisions, in the order in which the requests were named."""

    items: list[DecisionOutcomeShape]


class PendingAgesShape(Shape):
    """The number of requests by age. Each request counts once."""

    under_5_minutes: int
    under_1_hour: int
    under_1_day: int
    older: int


class PendingSummaryShape(Shape):
    """The number of pending requests of an organisation, the time of the oldest, and the numbers by age."""

    pending: int
    oldest_at: str | None = None
    by_age: PendingAgesShape


class ApprovalPageShape(PageShape[ApprovalShape]):
    """A page of requests, and the cursor of the next page, if any."""


Refusal = Callable[[ApprovalRow], str | None]
"""Returns the reason why the caller may not approve a request, or ``None`` if it may."""
_COMPUTED: Final = frozenset({"masked", "files", "code", "needs", "approvals", "round", "decidable", "refusal"})
"""The members of a request's shape that are not fields of its row."""


def approval_shape(row: ApprovalRow, refusal: Refusal | None = None) -> ApprovalShape:
    """Return the wire shape of a request, and whether the caller may decide it.

    Raises ``StoreError`` if its stored data is not JSON.
    """
    try:
        parsed = {name: read(getattr(row, name)) for name in ("arguments", "policies")}
        raw_modified = None if row.modified is None else read(row.modified)
        modified = redacted(raw_modified, longest=None)
    except ValueError:
        raise StoreError(f"the request {row.id} was changed: its arguments or policies are not JSON") from None
    columns = {name: getattr(row, name) for name in ApprovalShape.model_fields if name not in _COMPUTED}
    code, approvals = known_code(row.code_hash), approvals_of(row)
    refused = refusal and refusal(row)
    computed = {
        "modified": modified,
        "masked": row.status == "pending" and (row.unmasked is not None or modified != raw_modified),
        "files": [FileArgumentShape.model_validate(file, from_attributes=True) for file in files_of(row)],
        "code": code and code_shape(code),
        "needs": _needs_shape(row),
        "approvals": [GrantedApprovalShape.model_validate(approval, from_attributes=True) for approval in approvals],
        "round": round_of(row),
        "decidable": None if refusal is None else refused is None,
        "refusal": refused,
    }
    return ApprovalShape.model_validate({**columns, **parsed, **computed})


def pending_summary_shape(summary: PendingSummary) -> PendingSummaryShape:
    """Return the wire shape of counts by the ages in ``kernel.governance.approvals.AGE_BOUNDS_SECONDS``."""
    minutes, hour, day = summary.since
    ages = PendingAgesShape(
        under_5_minutes=minutes, under_1_hour=hour - minutes, under_1_day=day - hour, older=summary.pending - day
    )
    return PendingSummaryShape(pending=summary.pending, oldest_at=summary.oldest_at, by_age=ages)


def _needs_shape(row: ApprovalRow) -> ApprovalNeedsShape | None:
    if row.needs is None:
        return None
    needs = ApprovalNeeds.of_row(row)
    rules = [
        ApproverRequirementShape(
            permission=rule.permission,
            attributes={name: [*values] for name, values in rule.attributes.items()},
            same_attributes=[*rule.same_attributes],
            escalate_to=rule.escalate_to,
            escalates_at=rule.escalates_at(row.created_at),
        )
        for rule in needs.rules
    ]
    return ApprovalNeedsShape(
        approvals=needs.approvals,
        forbid_own=needs.forbid_own,
        rules=rules,
        text=needs.summary(),
        connect=needs.connect,
        owner=needs.owner,
    )


async def approval_page_shape(
    read: Callable[[ApprovalQuery], Awaitable[Page[ApprovalRow]]], query: ApprovalQuery, refusal: Refusal | None = None
) -> ApprovalPageShape:
    """Return the wire shape of a page of requests, and whether the caller may decide each."""
    items, next_cursor = await read_page(read, query, lambda row: approval_shape(row, refusal), attrgetter("id"))
    return ApprovalPageShape(items=items, next=next_cursor)


EntryKind = Literal["instructions", "user", "agent", "reasoning", "call", "result", "summary", "other"]
MAX_TEXT_CHARACTERS: Final = 2_000
"""The maximum length of an entry's text, in characters."""
_MAX_PARSED_CHARACTERS: Final = 1024 * 1024
"""The maximum length of a message that is split into parts, in characters."""
_KINDS: Final[Mapping[str, EntryKind]] = {
    "system-prompt": "instructions",
    "user-prompt": "user",
    "text": "agent",
    "thinking": "reasoning",
    "tool-call": "call",
    "builtin-tool-call": "call",
    "tool-return": "result",
    "builtin-tool-return": "result",
    "retry-prompt": "result",
}


class ConversationEntryShape(Shape):
    """A part of a message by a person, the agent or a tool. Secrets are masked, and long text is truncated.

    A ``call`` has only the name of its ``tool``; its arguments are in its record. ``within`` names the call and the
    agent for messages of an agent that runs within a call. ``other`` is a message of an unknown form.
    """

    seq: int
    turn: str
    at: str
    kind: EntryKind
    text: str | None = None
    tool: str | None = None
    within: str | None = None


class ApprovalConversationShape(Shape):
    """The last messages before a request, in order. ``earlier`` is the number of messages before them."""

    items: list[ConversationEntryShape]
    earlier: int


def conversation_entries(row: MessageRow, redact: Redactor | None) -> list[ConversationEntryShape]:
    """Return the entries of a message. Raises ``StoreError`` if it was altered."""
    if len(row.data) > _MAX_PARSED_CHARACTERS:
        parts: list[tuple[EntryKind, str | None, str | None]] = [("other", None, f"{len(row.data):,} characters")]
        within = None
    else:
        try:
            message: Any = from_json(row.data)
        except ValueError:
            raise StoreError(f"the message {row.seq} of the session {row.session} was changed: no JSON") from None
        within = message["within"] if row.kind == "inner" else None
        parts = [*_parts(message["message"] if row.kind == "inner" else message, redact)]
    return [
        ConversationEntryShape(
            seq=row.seq,
            turn=row.turn,
            at=row.created_at,
            kind="summary" if row.kind == "summary" and kind == "user" else kind,
            text=text,
            tool=tool,
            within=within,
        )
        for kind, tool, text in parts
    ]


def _parts(message: Any, redact: Redactor | None) -> Iterator[tuple[EntryKind, str | None, str | None]]:  # JSON data
    """Yield the kind, the tool and the text of each part of a message, as the runner of agents stores it."""
    parts = cast("dict[str, object]", message).get("parts") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        yield "other", None, _text(cast("object", message), redact)
        return
    for part in cast("list[object]", parts):
        fields = cast("dict[str, object]", part) if isinstance(part, dict) else {}
        kind = _KINDS.get(str(fields.get("part_kind")))
        if kind is None:
            continue  # such as model settings, which mean nothing to readers
        name = fields.get("tool_name")
        tool = None if name is None else _text(name, redact)
        yield kind, tool, None if kind == "call" else _text(_content_text(fields.get("content")), redact)


def _content_text(content: object) -> object:
    """Return a person's content as text, with placeholders for media."""
    items = cast("list[object]", content) if isinstance(content, list) else []
    if not any(isinstance(part, str) for part in items):
        return cast("object", content)
    return "\n".join(part if isinstance(part, str) else f"[{_media_kind(part)}]" for part in items)


def _media_kind(item: object) -> str:
    return str(cast("dict[str, object]", item).get("kind", "media")) if isinstance(item, dict) else "media"


def _text(value: object, redact: Redactor | None) -> str:
    """Return data as text with secrets masked, also those in JSON within a string."""
    masked = fully_redacted(value, redact, longest=None)
    masked = masked if isinstance(masked, str) else json.dumps(masked, ensure_ascii=False)
    excess = len(masked) - MAX_TEXT_CHARACTERS
    return f"{masked[:MAX_TEXT_CHARACTERS]}… [{excess:,} more characters]" if excess > 0 else masked
