"""Approvals: requests and answers, and when two calls are equal (spec 4, G16–G18)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from capset.errors import DefinitionError

ApprovalStatus = Literal["pending", "approved", "rejected", "expired", "used"]
"""An approval for one call becomes ``used``; one for the session stays ``approved`` until it expires."""
ApprovalScope = Literal["once", "session"]
"""For the one call, or for every call in the session to the same unchanged tool with the same arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """An approval request, and its outcome.

    ``call`` is the id of the attempt, and of its record. ``arguments`` is the canonical JSON text of all arguments,
    masked as in a record; ``digest`` is the keyed digest of the unmasked arguments and of the files that they name,
    ``tool_hash`` the hash of the tool at that time. ``policies`` is a JSON list of the ids of the policies that asked.
    ``modified`` is the JSON text of the arguments with which the approver replaced them. Times are ISO 8601 UTC with
    microseconds; principals are ``kind:id``.
    """

    id: str
    call: str
    org: str | None
    session: str
    agent: str
    principal: str
    on_behalf_of: str | None
    tool: str
    tool_hash: str
    runtime_hash: str
    arguments: str
    digest: str
    reason: str
    policies: str
    created_at: str
    expires_at: str
    status: ApprovalStatus = "pending"
    scope: ApprovalScope = "once"
    modified: str | None = None
    decided_by: str | None = None
    decided_at: str | None = None
    note: str | None = None
    """The approver's note: for a rejection, the reason."""
    code_hash: str | None = None
    """The hash of the tool's code at that time, where it could be determined."""
    needs: str | None = None
    """The requirements of the rules for approvers at that time, as JSON; ``None`` if no rule applied."""
    approvals: str | None = None
    """The approvals so far of the current arguments, as a JSON list."""
    escalates_at: str | None = None
    """The time of the next escalation that has not been processed."""
    escalated_at: str | None = None
    """The time at which the last escalation was processed."""
    makers: str | None = None
    """The makers of the principal's key, and their makers in turn, as a JSON list; ``None`` if there are none."""
    unmasked: str | None = field(default=None, repr=False)
    """The arguments with only the secrets of the tool's schema masked, as long as the request is pending.

    ``None`` if nothing else is masked in ``arguments``.
    """
    files: str | None = None
    """The session files that the arguments name, as a JSON list of ``FileArgument``; ``None`` for no files."""

    @property
    def argument_bytes(self) -> int:
        """The size of its arguments in the store."""
        return len(self.arguments.encode()) + len((self.unmasked or "").encode())

    @property
    def call_key(self) -> CallKey:
        """The fields that the requesting call shares with every equal call."""
        shared = {name: getattr(self, name) for name in CallKey.__slots__ if name != "code_hash"}
        return CallKey(**shared)

    @property
    def call_key_with_code(self) -> CallKey:
        """Like ``call_key``, but a call with different code is a different call."""
        return replace(self.call_key, code_hash=self.code_hash or "")


@dataclass(frozen=True, slots=True)
class CallKey:
    """The fields that two calls share if one request covers both: caller, session, tool and arguments.

    The names are those of an ``ApprovalRow``. The name of the tool counts because two capabilities may have tools that
    differ in nothing else. ``needs`` are the requirements for approvers by the current rules. ``code_hash`` is ``None``
    if the code does not count, and empty if the code has no hash.
    """

    org: str | None
    session: str
    agent: str
    principal: str
    on_behalf_of: str | None
    tool: str
    tool_hash: str
    digest: str
    needs: str | None = None
    code_hash: str | None = None


class Approver(Protocol):
    """An approver of the host that is asked immediately, such as a prompt in a terminal (one method, on purpose)."""

    async def decide(self, request: ApprovalRow) -> Answer | None:
        """Return the answer, or ``None`` to leave it to those who read the list of open requests.

        An exception rejects the request.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to an approval request: yes, for this call or for the session, perhaps with other arguments; or no.

    ``arguments`` replace the requested ones; ``note`` gives the reason. If several approvals are needed, ``round`` says
    that this one is for the arguments of that round, after the changes of earlier approvers. Without ``arguments`` and
    ``round``, it is for the requested arguments.
    """

    approved: bool
    scope: ApprovalScope = "once"
    arguments: Mapping[str, Any] | None = None  # of the tool's own schema
    note: str | None = None
    round: int | None = None

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for a contradictory answer."""
        if not self.approved and (self.arguments is not None or self.scope != "once"):
            raise DefinitionError("a rejection cannot change arguments, and is for one call")
        if self.arguments is not None and self.scope == "session":
            raise DefinitionError(
                "an approval with other arguments is for one call", hint="approve it once, or leave the arguments"
            )
        if self.round is not None and (not self.approved or self.arguments is not None):
            raise DefinitionError(
                "round is for an approval of unchanged arguments, not for a rejection or for other arguments"
            )
