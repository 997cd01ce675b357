"""Approvals: what has to be asked for, what was asked, and what was answered (spec 4, G16–G18)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast

from capset.definitions.policies import Decision, Request
from capset.errors import DefinitionError

NeedsApproval = Callable[[Request], bool | Decision | Awaitable[bool | Decision]]
"""Says of one call whether it has to be approved: ``True`` or ``ask(reason)`` if so, ``False`` or ``allow()`` if not.

What raises, or returns anything else, denies the call.
"""
ApprovalRule = Literal["auto", "ask"] | NeedsApproval
"""Whether calls of a tool have to be approved: never, always, or as a function says."""

ApprovalStatus = Literal["pending", "approved", "rejected", "expired", "used"]
"""``used`` is what became of an approval for one call; one for the session stays ``approved`` until it expires."""
ApprovalScope = Literal["once", "session"]
"""For the one call, or for every call of the session with the same tool, unchanged, and the same arguments (G17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """A request for an approval, and what became of it.

    ``call`` is the id of the attempt, and of its record. ``arguments`` is the canonical JSON text of the whole
    arguments but for secrets, which are masked; ``digest`` the keyed digest of all of them, ``tool_hash`` the hash of
    the tool as it was. ``policies`` is a JSON list of the ids of the policies that asked. ``modified`` is the JSON text
    of the arguments that whoever decided put in their place. Times are ISO 8601 UTC with microseconds; principals
    are ``kind:id``.
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
    """What whoever decided said: of a rejection, why."""
    code_hash: str | None = None
    """The hash of the tool's code as it was, where it could be told."""

    @property
    def equal(self) -> EqualCall:
        """What the call that it was made for shares with every equal one."""
        shared = {name: getattr(self, name) for name in EqualCall.__slots__ if name != "code_hash"}
        return EqualCall(**shared)

    @property
    def equal_in_code(self) -> EqualCall:
        """The same where a call of other code is another call."""
        return replace(self.equal, code_hash=self.code_hash or "")


@dataclass(frozen=True, slots=True)
class EqualCall:
    """What two calls share that one request is for: whose they are, where, of which tool, with which arguments.

    The names are those of an ``ApprovalRow``. Two capabilities may have tools that are equal in all but their names
    here, so these count too. ``code_hash`` is ``None`` where the code does not count, and empty where the code has no
    hash.
    """

    org: str | None
    session: str
    agent: str
    principal: str
    on_behalf_of: str | None
    tool: str
    tool_hash: str
    digest: str
    code_hash: str | None = None


class Approver(Protocol):
    """Somebody of the host's own who is asked at once, such as a prompt in a terminal (one method, on purpose)."""

    async def decide(self, request: ApprovalRow) -> Answer | None:
        """Return the answer, or ``None`` to leave it to those who read the list of open requests.

        What it raises rejects.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody says to a request: yes, for this call or for the session, with other arguments perhaps; or no.

    ``arguments`` are to take the place of those that were asked for; ``note`` says why.
    """

    approved: bool
    scope: ApprovalScope = "once"
    arguments: Mapping[str, Any] | None = None  # of the tool's own schema
    note: str | None = None

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for an answer that says two things at once."""
        if not self.approved and (self.arguments is not None or self.scope != "once"):
            raise DefinitionError("a rejection changes no arguments and is for one call")
        if self.arguments is not None and self.scope == "session":
            raise DefinitionError(
                "an approval with other arguments is for one call", hint="approve it once, or leave the arguments"
            )


def checked_approval(owner: str, rule: object) -> ApprovalRule:
    """Return a tool's rule. Raises ``DefinitionError`` for what is none."""
    if isinstance(rule, str) and rule not in ("auto", "ask"):
        raise DefinitionError(f"{owner}: approval is 'auto', 'ask' or a function of a Request; got {rule!r}")
    if isinstance(rule, str) or callable(rule):
        return cast("ApprovalRule", rule)
    raise DefinitionError(f"{owner}: approval is 'auto', 'ask' or a function of a Request; got {rule!r:.80}")
