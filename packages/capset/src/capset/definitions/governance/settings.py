"""Governance settings, and roles: names for permissions, expanded before a principal is made (spec 4, G8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from capset.definitions.calls.files import MAX_FILE_BYTES, SESSION_BYTES, SESSION_FILES, FileQuota
from capset.definitions.fields import POSITIVE, REAL, checked_field, instance_of, requiring, store_checked, within
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.approvals import Approver
from capset.definitions.governance.approvers import ApproverRule, checked_approver_rules
from capset.definitions.governance.limits import Limit
from capset.definitions.identity import FrozenValue
from capset.definitions.names import (
    PERMISSION,
    checked_flag,
    checked_list,
    checked_mapping,
    checked_permissions,
    checked_text,
)
from capset.errors import DefinitionError, unknown


@dataclass(frozen=True, slots=True, init=False)
class Roles(FrozenValue):
    """Permissions by role: ``Roles({"reader": ["notes:read"], "editor": ["reader", "notes:write"]})``.

    A member of a role is a permission if it contains a colon, otherwise another role. Raises ``DefinitionError`` for an
    unknown role, a role that contains itself, and a malformed permission.
    """

    permissions: Mapping[str, frozenset[str]]

    def __init__(self, roles: Mapping[str, Iterable[str]] | None = None) -> None:
        members_by_role = {
            _checked_role(name): _checked_members(name, members)
            for name, members in checked_mapping("roles", {} if roles is None else roles).items()
        }
        permissions = {name: _expand(name, members_by_role, ()) for name in members_by_role}
        object.__setattr__(self, "permissions", MappingProxyType(permissions))

    def expand(self, *names: str) -> frozenset[str]:
        """Return the permissions of these roles. Raises ``DefinitionError`` for an unknown role."""
        if wrong := [name for name in names if name not in self.permissions]:
            raise DefinitionError(unknown("role", wrong[0], self.permissions))
        return frozenset[str]().union(*(self.permissions[name] for name in names))


def _checked_role(name: object) -> str:
    text = checked_text("a role's name", name)
    if not text or ":" in text or not text.isprintable():
        raise DefinitionError(f"a role's name is printable text without a colon, and not empty; got {name!r}")
    return text


def _checked_members(name: object, members: object) -> list[str]:
    entries: Iterable[object] = (
        cast("Set[object]", members) if isinstance(members, Set) else checked_list(f"role {name!r}", members)
    )
    names: list[str] = []
    for entry in entries:
        if not isinstance(entry, str) or (":" in entry and not PERMISSION.fullmatch(entry)):
            raise DefinitionError(f"role {name!r}: a permission is resource:verb; got {entry!r}")
        names.append(entry)
    return names


def _expand(name: str, members_by_role: Mapping[str, list[str]], above: tuple[str, ...]) -> frozenset[str]:
    if name in above:
        raise DefinitionError(f"the role {name!r} contains itself: {' → '.join((*above, name))}")
    if name not in members_by_role:
        raise DefinitionError(f"role {above[-1]!r}: {unknown('role', name, members_by_role)}")
    permissions: set[str] = set()
    for member in members_by_role[name]:
        permissions |= {member} if ":" in member else _expand(member, members_by_role, (*above, name))
    return frozenset(permissions)


RESULT_BYTES: Final = 65_536
"""The default maximum size of a result for a model, in bytes."""
REFUSALS: Final = Limit(600, "1m", scope="process")
"""The default limit on refused calls of one principal."""


def _checked_roles(name: str, roles: Roles | None) -> Roles:
    return requiring("{} must be Roles(…)", instance_of(Roles))(name, Roles() if roles is None else roles)


def _checked_seconds(name: str, seconds: float) -> float:
    check = requiring("{} is a number of seconds, up to a year", within(REAL, POSITIVE, 366 * 86_400))
    return float(check(name, seconds))


def _checked_patterns(name: str, patterns: Iterable[str]) -> tuple[str, ...]:
    # Not trimmed: a space at the end of a pattern is part of the pattern.
    return tuple(checked_text(name, pattern) for pattern in checked_list(name, patterns))


def _checked_refusals(name: str, refusals: Limit | None) -> Limit | None:
    limit = requiring("{} must be Limit(…)", instance_of(Limit), optional=True)(name, refusals)
    if limit is not None and limit.per != "principal":
        raise DefinitionError(f"refusals are counted by principal, not per {limit.per}; got {limit}")
    # Refusals are always counted per process, despite the limit's scope: a flood must not cost writes.
    return limit and Limit(limit.requests, f"{limit.window}s", scope="process")


def _checked_quota(name: str, quota: int) -> int:
    return getattr(FileQuota(**{name: quota}), name)


@dataclass(frozen=True, slots=True, init=False)
class Governance(FrozenValue):
    """Default permissions, authentication, recording, approvals and limits of a kernel.

    Args:
        default_permissions: held by every principal; none by default.
        require_auth: whether unauthenticated principals are refused, before any other check.
        roles: names for permissions, for code that makes principals.
        record_reads: whether calls of tools that only read are recorded; all others always are.
        redact: regular expressions (RE2); their matches are masked in records, in results and in errors.
        error_causes: whether errors keep the exceptions behind them as ``__cause__``, with their frames, which may hold
            secrets: for debugging. Without it, only the log has the details of unexpected errors.
        result_bytes: the maximum size of a result for a model; a longer one is cut, and stored in the session's files.
        approval_seconds: how long an approval request stays open; then it counts as rejected.
        own_approvals: whether requesters may approve their own requests.
        code_voids_approvals: whether an approval becomes void when the tool's code changes; true by default.
        approver: an approver that is asked immediately; others can still answer.
        approvers: rules for who may approve what; without any, everybody but the requester may.
        refusals: how many calls of a principal may be refused, in each process, before further ones are refused without
            being checked; ``None`` for no limit.
        pending_approvals: how many approval requests of one principal may be open at once.
        allowance: what every session and every run may use, and limits on all calls.
        file_bytes: the maximum size of a file in a session, 100 MB or less.
        session_bytes: the maximum size of all files of a session together.
        session_files: the maximum number of files in a session; the same number of directories is allowed, too.

    Raises ``DefinitionError`` for a value of another type.
    """

    default_permissions: frozenset[str] = checked_field(checked_permissions)
    require_auth: bool = checked_field(checked_flag)
    roles: Roles = checked_field(_checked_roles)
    record_reads: bool = checked_field(checked_flag)
    redact: tuple[str, ...] = checked_field(_checked_patterns)
    error_causes: bool = checked_field(checked_flag)
    result_bytes: int = checked_field(requiring("{} is a whole number, 1,024 or more", within(int, 1_024)))
    approval_seconds: float = checked_field(_checked_seconds)
    own_approvals: bool = checked_field(checked_flag)
    code_voids_approvals: bool = checked_field(checked_flag)
    approver: Approver | None = checked_field(
        requiring(
            "{} must be an Approver, with async def decide(request)",
            lambda approver: callable(getattr(approver, "decide", None)),
            optional=True,
        )
    )
    approvers: tuple[ApproverRule, ...] = checked_field(lambda name, value: value)
    refusals: Limit | None = checked_field(_checked_refusals)
    pending_approvals: int = checked_field(requiring("{} is a whole number, 1 or more", within(int, 1)))
    allowance: Allowance | None = checked_field(
        requiring("{} must be Allowance(…)", instance_of(Allowance), optional=True)
    )
    file_bytes: int = checked_field(_checked_quota)
    session_bytes: int = checked_field(_checked_quota)
    session_files: int = checked_field(_checked_quota)

    def __init__(
        self,
        *,
        default_permissions: Iterable[str] = (),
        require_auth: bool = False,
        roles: Roles | None = None,
        record_reads: bool = True,
        redact: Iterable[str] = (),
        error_causes: bool = False,
        result_bytes: int = RESULT_BYTES,
        approval_seconds: float = 3_600.0,  # an hour
        own_approvals: bool = False,
        code_voids_approvals: bool = True,
        approver: Approver | None = None,
        approvers: Iterable[ApproverRule] = (),
        refusals: Limit | None = REFUSALS,
        pending_approvals: int = 100,
        allowance: Allowance | None = None,
        file_bytes: int = MAX_FILE_BYTES,
        session_bytes: int = SESSION_BYTES,
        session_files: int = SESSION_FILES,
    ) -> None:
        store_checked(self, locals())
        rules = checked_approver_rules(
            approvers, seconds=self.approval_seconds, default_permissions=self.default_permissions
        )
        object.__setattr__(self, "approvers", rules)

    @property
    def file_quota(self) -> FileQuota:
        """The limits on the files of a session."""
        return FileQuota(self.file_bytes, self.session_bytes, self.session_files)
