"""The approvals that a request needs by the rules for approvers, and those that it has (spec 4, G45–G49)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self, get_args

from capset.clock import iso_of
from capset.definitions.governance.approvals import ApprovalRow, ApprovalScope
from capset.definitions.governance.approvers import attribute_json
from capset.definitions.principals import Principal, PrincipalKind
from capset.errors import StoreError, counted


@dataclass(frozen=True, slots=True)
class ApproverNeed:
    """The demands of one rule on each approver of a request, with the attributes of its requester filled in.

    ``attributes`` has the allowed values of each attribute; an attribute without any excludes every approver.
    ``same_attributes`` names those that must equal the requester's.
    """

    permission: str | None
    attributes: Mapping[str, Sequence[Any]]  # as attributes are
    same_attributes: Sequence[str]
    escalate_after: float | None
    escalate_to: str | None

    def escalates_at(self, created_at: str) -> str | None:
        """Return the time from which holders of ``escalate_to`` may approve too, or ``None``."""
        if self.escalate_after is None:
            return None
        return iso_of(datetime.fromisoformat(created_at) + timedelta(seconds=self.escalate_after))

    def is_met(self, by: Principal, permissions: frozenset[str], *, is_escalated: bool) -> bool:
        """Whether a principal may approve by this rule. Everyone that it acts for must have the attributes too."""
        if is_escalated and self.escalate_to in permissions:
            return True
        people = (by.attributes, *by.on_behalf_of_attributes)
        has_attributes = all(
            name in attributes and attribute_json(attributes[name]) in map(attribute_json, values)
            for name, values in self.attributes.items()
            for attributes in people
        )
        return has_attributes and (self.permission is None or self.permission in permissions)

    def describe(self, *, is_escalated: bool = False) -> str:
        """Return the demands as part of a sentence, ``an approver with …``."""
        parts = [] if self.permission is None else [f"the permission {self.permission}"]
        for name, values in self.attributes.items():
            like = ", as the requester's" if name in self.same_attributes else ""
            options = " or ".join(map(_value_text, values))
            parts.append(f"the {name} {options}{like}" if values else f"the requester's {name}, which is not known")
        text = " and ".join(parts)
        return f"{text} (or the permission {self.escalate_to})" if is_escalated else text


@dataclass(frozen=True, slots=True)
class ApprovalNeeds:
    """The demands of all rules together on the approvals of one request. Each approver must meet every rule."""

    rules: Sequence[ApproverNeed]
    approvals: int = 1
    forbid_own: bool = False
    expires_after: float | None = None
    connect: str | None = None
    """What the ``owner`` has to connect; that alone decides the request, and no approval does."""
    owner: str | None = None

    @classmethod
    def of_row(cls, row: ApprovalRow) -> Self:
        """Return the needs of a request. Raises ``StoreError`` if they cannot be read."""
        if row.needs is None:
            return cls(())
        try:
            stored: dict[str, Any] = json.loads(row.needs)
            rules = tuple(ApproverNeed(**rule) for rule in stored["rules"])
            counted = stored["approvals"], stored["forbid_own"], stored["expires_after"]
            return cls(rules, *counted, stored.get("connect"), stored.get("owner"))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise StoreError(f"the request {row.id} was changed: what its approvals need cannot be read") from None

    def to_json(self) -> str:
        """Return the needs as JSON text, which is the same for equal needs."""
        members = {name: value for name, value in asdict(self).items() if name not in _OPTIONAL or value is not None}
        return json.dumps(members, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    def next_escalation(self, created_at: str, after: str = "") -> str | None:
        """Return the time of the first escalation later than ``after``, or ``None``."""
        times = [rule.escalates_at(created_at) for rule in self.rules]
        return min((at for at in times if at is not None and at > after), default=None)

    def summary(self) -> str:
        """Return the needs as one readable sentence."""
        if self.connect is not None:
            return f"{self.owner} to connect {self.connect}"
        approvers = "two different approvers" if self.approvals == 2 else counted(self.approvals, "approver")
        demands = "; ".join(filter(None, (rule.describe() for rule in self.rules)))
        restriction = ", none of them the requester" if self.forbid_own else ""
        return f"{approvers}{' with ' if demands else ''}{demands}{restriction}"

    def refusal(self, row: ApprovalRow, by: Principal, permissions: frozenset[str], now: str) -> str | None:
        """Return one sentence on why a principal with these permissions may not approve, or ``None`` if it may."""
        if self.connect is not None:
            return f"this request waits for {self.owner} to connect {self.connect}, which no approval replaces"
        for rule in self.rules:
            at = rule.escalates_at(row.created_at)
            is_escalated = at is not None and at <= now
            if not rule.is_met(by, permissions, is_escalated=is_escalated):
                needed = rule.describe(is_escalated=is_escalated)
                return f"this request needs an approver with {needed}; you have {_describe_held(rule, by, permissions)}"
        return None


def needed_connection(row: ApprovalRow) -> str | None:
    """Return what the owner of a request has to connect; ``None`` for a request that approvers decide."""
    return None if row.needs is None else ApprovalNeeds.of_row(row).connect


_OPTIONAL: Final = ("connect", "owner")
"""The members that most needs do not have, and that are left out then."""


@dataclass(frozen=True, slots=True)
class GivenApproval:
    """One of the approvals of a request: who gave it, when, and with which note.

    ``round`` is how often approvers had changed the arguments by then. ``by`` and the ``makers`` of its key are
    ``kind:id``.
    """

    by: str
    on_behalf_of: str | None
    at: str
    note: str | None
    scope: ApprovalScope
    round: int
    makers: tuple[str, ...] = ()

    @property
    def people(self) -> People:
        """The people behind the approval."""
        return People.of(self.by, self.on_behalf_of, self.makers)


def approvals_of(row: ApprovalRow) -> tuple[GivenApproval, ...]:
    """Return the approvals that count so far. Raises ``StoreError`` if they cannot be read."""
    if row.approvals is None:
        return ()
    try:
        stored = json.loads(row.approvals)
        return tuple(GivenApproval(**item | {"makers": tuple(item.get("makers", ()))}) for item in stored)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise StoreError(f"the request {row.id} was changed: its approvals cannot be read") from None


def approvals_json(approvals: Iterable[GivenApproval]) -> str:
    """Return approvals as they are stored."""
    return json.dumps([asdict(approval) for approval in approvals], ensure_ascii=False, separators=(",", ":"))


def round_of(row: ApprovalRow) -> int:
    """Return how often approvers have changed the arguments of a request so far."""
    return max((approval.round for approval in approvals_of(row)), default=0)


def has_enough_approvals(row: ApprovalRow) -> bool:
    """Whether an approved request has all approvals that it needs.

    It may lack some if a server of an earlier version, which has no rules for approvers, has decided it.
    """
    return row.needs is None or _count_distinct(approvals_of(row)) >= ApprovalNeeds.of_row(row).approvals


@dataclass(frozen=True, slots=True)
class People:
    """The people behind a request or an approval: ``ids`` are those of a principal and of everyone it acts for.

    ``makers`` are the ids of those who made its key, and of those who made theirs.
    """

    ids: frozenset[str]
    makers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, principal: str, on_behalf_of: str | None, makers: Iterable[str] = ()) -> Self:
        """Return the people behind a principal.

        The kind is dropped: ``agent:ada`` must not decide for ``user:ada``. Since an id may contain " for ", all names
        are split there, so that no principal can hide behind another.
        """
        return cls(_ids_of((principal, on_behalf_of or "")), _ids_of(makers))

    def overlaps(self, others: People) -> bool:
        """Return whether they share an id, or one made the key of the other.

        Two keys made by a third principal belong to two people: an administrator makes the keys of many.
        """
        return not (self.ids.isdisjoint(others.ids | others.makers) and others.ids.isdisjoint(self.makers))


def requesters_of(row: ApprovalRow) -> People:
    """Return the people behind a request. Raises ``StoreError`` if its stored makers cannot be read."""
    try:
        makers: list[str] = [] if row.makers is None else json.loads(row.makers)
        return People.of(row.principal, row.on_behalf_of, makers)
    except (ValueError, TypeError, RecursionError):
        raise StoreError(f"the request {row.id} was changed: the makers of its key cannot be read") from None


def _ids_of(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_id_of, " for ".join(names).split(" for "))) - {""}


def _id_of(name: str) -> str:
    """Return the id in ``kind:id``; anything else, such as a part of an id, is returned whole."""
    kind, colon, rest = name.partition(":")
    return rest if colon and kind in get_args(PrincipalKind) else name


def _count_distinct(approvals: Sequence[GivenApproval]) -> int:
    """Return the number of approvals by people different from those of all earlier approvals."""
    return sum(
        not any(approval.people.overlaps(earlier.people) for earlier in approvals[:place])
        for place, approval in enumerate(approvals)
    )


def _describe_held(need: ApproverNeed, by: Principal, permissions: frozenset[str]) -> str:
    """Return the decider's permissions and attributes that a rule compares, as part of a sentence."""
    parts: list[str] = []
    if need.permission is not None or need.escalate_to is not None:
        names, max_listed = sorted(permissions), 10
        more = f" and {len(names) - max_listed} more" if len(names) > max_listed else ""
        parts.append(f"{', '.join(names[:max_listed])}{more}" if names else "no permissions")
    for name in need.attributes:
        people = (by.attributes, *by.on_behalf_of_attributes)
        parts += sorted(
            {
                f"the {name} {_value_text(attributes[name])}" if name in attributes else f"no {name}"
                for attributes in people
            }
        )
    return " and ".join(parts)


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else attribute_json(value)
