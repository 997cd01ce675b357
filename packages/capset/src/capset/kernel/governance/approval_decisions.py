"""Decisions on approval requests: who may approve, and how an answer changes a request (spec 4, G16–G17, G46–G48)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from capset.clock import iso
from capset.definitions.governance.approvals import Answer, ApprovalRow, ApprovalStatus
from capset.definitions.governance.settings import Governance
from capset.definitions.principals import Principal
from capset.errors import Conflict, InvalidArguments, PermissionDenied
from capset.kernel.governance.approval_arguments import arguments_json
from capset.kernel.governance.approval_needs import (
    ApprovalNeeds,
    GivenApproval,
    People,
    approvals_json,
    approvals_of,
    needed_connection,
    requesters_of,
    round_of,
)

Decider = Principal | None
"""The principal who decides a request; ``None`` is the host's own approver."""
_HOST: Final = "host:approver"
_NO_RIGHTS: Final = Principal("approver")
"""The host's own approver as the rules see it: it has neither permissions nor attributes."""
_OWN: Final = "a request must be approved by a principal other than the one who made it"
_REPEATED: Final = "you have approved it already, and it needs the approval of a different principal, too"
_MAKERS: Final = "the principal that made a key, or added a person, counts as its holder"


def refusal_of(row: ApprovalRow, by: Decider, governance: Governance, now: str) -> str | None:
    """Return why a principal may not approve a request of any status, or ``None`` if it may."""
    needs = ApprovalNeeds.of_row(row)
    if needs.connect is not None:
        return needs.refusal(row, _NO_RIGHTS, frozenset(), now)
    if by is None:
        return needs.refusal(row, _NO_RIGHTS, frozenset(), now)
    if by.kind == "anonymous":
        return "an approval names its approver, so an anonymous principal cannot approve"
    is_own = people_behind(by).overlaps(requesters_of(row))
    if is_own and (needs.forbid_own or not governance.own_approvals):
        return _OWN if row.makers is None and not by.makers else f"{_OWN}, and {_MAKERS}"
    return needs.refusal(row, by, by.permissions | governance.default_permissions, now)


def repetition_reason(earlier: Sequence[GivenApproval], by: Decider) -> str | None:
    """Return why a principal's approval would not count in addition to earlier ones, or ``None`` if it would."""
    people = people_behind(by)
    shared = [approval for approval in earlier if people.overlaps(approval.people)]
    if not shared:
        return None
    has_makers = any(approval.makers for approval in shared) or (by is not None and by.makers)
    return f"{_REPEATED}, and {_MAKERS}" if has_makers else _REPEATED


def closed_reason(row: ApprovalRow) -> str:
    """Return why a request is no longer open."""
    if row.status == "pending":
        return "it has expired"
    return f"it was {row.status}" + (f" by {row.decided_by}" if row.decided_by else "")


def apply_answer(row: ApprovalRow, answer: Answer, by: Decider, governance: Governance, now: int) -> ApprovalRow:
    """Return an open request as changed by an answer; ``now`` is in nanoseconds.

    An approval of other arguments than those approved before restarts the count. Raises ``PermissionDenied`` for an
    approval that the decider may not give, and for any answer where a user has to connect something;
    ``InvalidArguments`` for an approval of changed arguments for the whole session; and ``Conflict`` if the arguments
    have been changed since, or the same principal has approved before.
    """
    has_rules = answer.approved or needed_connection(row) is not None
    if has_rules and (reason := refusal_of(row, by, governance, iso(now))) is not None:
        raise PermissionDenied(f"Permission denied: {reason}.")
    if not answer.approved:
        return _close(row, "rejected", answer, by, governance, now)
    earlier, current_round = approvals_of(row), round_of(row)
    if answer.round is not None and answer.round != current_round:
        raise Conflict(
            f"the arguments of the request {row.id!r} have been changed since (it is in round {current_round}, not "
            f"{answer.round}): read the request again before you approve it"
        )
    modified = None if answer.arguments is None else arguments_json(answer.arguments)
    if answer.round is not None:
        modified = row.modified
    elif modified != row.modified:
        earlier, current_round = (), current_round + 1
    if (reason := repetition_reason(earlier, by)) is not None:
        raise Conflict(f"the request {row.id!r} is still open: {reason}")
    if modified is not None and answer.scope == "session":
        raise InvalidArguments(
            f"Invalid request: an approver has changed the arguments of {row.id!r}, so its approval is for one call, "
            "not for the session"
        )
    on_behalf_of, makers = (None, ()) if by is None else (by.on_behalf_of, by.makers)
    approvals = (
        *earlier,
        GivenApproval(_decider_id(by), on_behalf_of, iso(now), answer.note, answer.scope, current_round, makers),
    )
    row = replace(row, modified=modified, approvals=approvals_json(approvals))
    if len(approvals) < ApprovalNeeds.of_row(row).approvals:
        return row
    scope = "session" if all(approval.scope == "session" for approval in approvals) else "once"
    return _close(row, "approved", replace(answer, scope=scope), by, governance, now)


def people_behind(by: Decider) -> People:
    """Return the people behind a decider."""
    return People.of(_HOST, None) if by is None else People.of(_decider_id(by), by.on_behalf_of, by.makers)


def _close(
    row: ApprovalRow, status: ApprovalStatus, answer: Answer, by: Decider, governance: Governance, now: int
) -> ApprovalRow:
    longest = governance.approval_seconds
    seconds = min(longest, ApprovalNeeds.of_row(row).expires_after or longest)
    return replace(
        row,
        status=status,
        scope=answer.scope,
        note=answer.note,
        decided_by=_decider_id(by),
        decided_at=iso(now),
        expires_at=iso(now + round(seconds * 1e9)),
    )


def _decider_id(by: Decider) -> str:
    return _HOST if by is None else by.qualified_id
