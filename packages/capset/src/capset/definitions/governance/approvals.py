"""Approvals: requests and answers, and what makes two calls equal (spec 4, G16–G18)."""

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
    """A request for an approval, and its outcome.

    ``call`` is the id of the attempt, and of its record. ``arguments`` is the canonical JSON text of all arguments,
    masked as in a record; ``digest`` is the keyed digest of the unmasked arguments and of the files that they name,
    ``tool_hash`` the hash of the tool at that time. ``policies`` is a JSON list of the ids of the policies that asked.
    ``modified`` is the JSON text of the arguments that the approver put in their place. Times are ISO 8601 UTC with
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
    """The demands of the rules for approvers at that time, as JSON; ``None`` if no rule was for it."""
    approvals: str | None = None
    """The approvals so far of the arguments as they are now, as a JSON list."""
    escalates_at: str | None = None
    """The time of the next escalation, as long as it was not noticed."""
    escalated_at: str | None = None
    """The time at which the last escalation was noticed."""
    makers: str | None = None
    """The makers of the principal's key, and of theirs, as a JSON list; ``None`` if there are none."""
    unmasked: str | None = field(default=None, repr=False)
    """The arguments with only those masked that the tool's schema says are secret, as long as the request is pending.

    ``None`` if nothing else is masked in ``arguments``.
    """
    files: str | None = None
    """The files of the session that the arguments name, as a JSON list of ``FileArgument``; ``None`` for no files."""

    @property
    def argument_bytes(self) -> int:
        """The size of its arguments in the store."""
        return len(self.arguments.encode()) + len((self.unmasked or "").encode())

    @property
    def equal(self) -> EqualCall:
        """The fields that the requesting call shares with every equal call."""
        shared = {name: getattr(self, name) for name in EqualCall.__slots__ if name != "code_hash"}
        return EqualCall(**shared)

    @property
    def equal_in_code(self) -> EqualCall:
        """The same, where a call of different code counts as a different call."""
        return replace(self.equal, code_hash=self.code_hash or "")


@dataclass(frozen=True, slots=True)
class EqualCall:
    """The fields that two calls share if one request covers both: caller, place, tool and arguments.

    The names are those of an ``ApprovalRow``. Names count here because two capabilities may have tools that differ in
    nothing else. ``needs`` are what its approvers have to be by the rules of now. ``code_hash`` is ``None`` where the
    code does not count, and empty where the code has no hash.
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
    """An approver of the host's own that is asked at once, such as a prompt in a terminal (one method, on purpose)."""

    async def decide(self, request: ApprovalRow) -> Answer | None:
        """Return the answer, or ``None`` to leave it to the readers of the list of open requests.

        An exception rejects the request.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request: yes, for this call or for the session, perhaps with other arguments; or no.

    ``arguments`` replace the requested ones; ``note`` gives the reason. Where several have to approve, ``round`` says
    that it is for the arguments as they are in that round, to which an earlier approver changed them. Without both, it
    is for the requested arguments.
    """

    approved: bool
    scope: ApprovalScope = "once"
    arguments: Mapping[str, Any] | None = None  # of the tool's own schema
    note: str | None = None
    round: int | None = None

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for a contradictory answer."""
        if not self.approved and (self.arguments is not None or self.scope != "once"):
            raise DefinitionError("a rejection changes no arguments and is for one call")
        if self.arguments is not None and self.scope == "session":
            raise DefinitionError(
                "an approval with other arguments is for one call", hint="approve it once, or leave the arguments"
            )
        if self.round is not None and (not self.approved or self.arguments is not None):
            raise DefinitionError(
                "round is of an approval of the arguments as they are: no rejection has one, nor other arguments"
            )
