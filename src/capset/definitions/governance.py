"""Governance settings, and roles: names for permissions, expanded before a principal is made (spec 4, G8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from capset.definitions.approvals import Approver
from capset.definitions.files import FILE_BYTES, SESSION_BYTES, SESSION_FILES, FileQuota
from capset.definitions.limits import Allowance, Limit
from capset.definitions.names import PERMISSION, checked_flag, checked_permissions, checked_text, listed, mapped
from capset.errors import DefinitionError, unknown


@dataclass(frozen=True, slots=True, init=False)
class Roles:
    """Permissions by role: ``Roles({"reader": ["notes:read"], "editor": ["reader", "notes:write"]})``.

    A member of a role is a permission if it contains a colon, otherwise another role. Raises ``DefinitionError`` for an
    unknown role, a role that contains itself, and a malformed permission.
    """

    permissions: Mapping[str, frozenset[str]]

    def __init__(self, roles: Mapping[str, Iterable[str]] | None = None) -> None:
        given = {
            _role(name): _members(name, members)
            for name, members in mapped("roles", {} if roles is None else roles).items()
        }
        found = {name: _expanded(name, given, ()) for name in given}
        object.__setattr__(self, "permissions", MappingProxyType(found))

    def expand(self, *names: str) -> frozenset[str]:
        """Return the permissions of some roles. Raises ``DefinitionError`` for an unknown role."""
        if wrong := [name for name in names if name not in self.permissions]:
            raise DefinitionError(unknown("role", wrong[0], self.permissions))
        return frozenset[str]().union(*(self.permissions[name] for name in names))


def _role(name: object) -> str:
    text = checked_text("a role's name", name)
    if not text or ":" in text or not text.isprintable():
        raise DefinitionError(f"a role's name is printable text without a colon, and not empty; got {name!r}")
    return text


def _members(name: object, members: object) -> list[str]:
    given: Iterable[object] = (
        cast("Set[object]", members) if isinstance(members, Set) else listed(f"role {name!r}", members)
    )
    found: list[str] = []
    for one in given:
        if not isinstance(one, str) or (":" in one and not PERMISSION.fullmatch(one)):
            raise DefinitionError(f"role {name!r}: a permission is resource:verb; got {one!r}")
        found.append(one)
    return found


def _expanded(name: str, given: Mapping[str, list[str]], above: tuple[str, ...]) -> frozenset[str]:
    if name in above:
        raise DefinitionError(f"the role {name!r} has itself: {' → '.join((*above, name))}")
    if name not in given:
        raise DefinitionError(f"role {above[-1]!r}: {unknown('role', name, given)}")
    found: set[str] = set()
    for one in given[name]:
        found |= {one} if ":" in one else _expanded(one, given, (*above, name))
    return frozenset(found)


APPROVAL_SECONDS: Final = 3_600.0
"""The default time that a request for an approval stays open, in seconds: an hour."""
RESULT_BYTES: Final = 65_536
"""The default number of bytes of a result that a model is given."""
PENDING_APPROVALS: Final = 100
"""The default limit on open requests for approvals of one principal."""
REFUSALS: Final = Limit(600, "1m", scope="process")
"""The default limit on refused calls of one principal."""


@dataclass(frozen=True, slots=True, init=False)
class Governance:
    """Default permissions, authentication, recording, approvals and limits of a kernel.

    Args:
        default_permissions: held by every principal; none by default.
        require_auth: refuse unauthenticated principals, before any other check.
        roles: names for permissions, for code that makes principals.
        record_reads: whether calls of tools that only read are recorded; all others always are.
        redact: regular expressions (RE2); their matches are masked in records, in results and in errors.
        result_bytes: how many bytes of a result a model is given; the rest is stored in the session's files.
        approval_seconds: how long a request for an approval stays open; then it counts as rejected.
        own_approvals: whether requesters may approve their own requests.
        code_voids_approvals: whether an approval becomes void when the tool's code changes; true by default.
        approver: an approver that is asked at once; others can still answer.
        refusals: how many calls of a principal may be refused before further ones are no longer looked at, in each
            process; ``None`` for no limit.
        pending_approvals: how many requests for approvals of one principal may be open at once.
        allowance: what every session and every run may use, and limits on all calls.
        file_bytes: the largest size of a file in a session, 100 MB or less.
        session_bytes: the largest size of all files of a session together.
        session_files: the maximum number of files in a session, and of directories besides.

    Raises ``DefinitionError`` for a value of another type.
    """

    default_permissions: frozenset[str]
    require_auth: bool
    roles: Roles
    record_reads: bool
    redact: tuple[str, ...]
    result_bytes: int
    approval_seconds: float
    own_approvals: bool
    code_voids_approvals: bool
    approver: Approver | None
    refusals: Limit | None
    pending_approvals: int
    allowance: Allowance | None
    file_bytes: int
    session_bytes: int
    session_files: int

    def __init__(
        self,
        *,
        default_permissions: Iterable[str] = (),
        require_auth: bool = False,
        roles: Roles | None = None,
        record_reads: bool = True,
        redact: Iterable[str] = (),
        result_bytes: int = RESULT_BYTES,
        approval_seconds: float = APPROVAL_SECONDS,
        own_approvals: bool = False,
        code_voids_approvals: bool = True,
        approver: Approver | None = None,
        refusals: Limit | None = REFUSALS,
        pending_approvals: int = PENDING_APPROVALS,
        allowance: Allowance | None = None,
        file_bytes: int = FILE_BYTES,
        session_bytes: int = SESSION_BYTES,
        session_files: int = SESSION_FILES,
    ) -> None:
        quota = FileQuota(file_bytes, session_bytes, session_files)
        if type(result_bytes) is not int or result_bytes < 1_024:
            raise DefinitionError(f"result_bytes is a whole number, 1,024 or more; got {result_bytes!r}")
        if type(approval_seconds) not in (int, float) or not 0 < approval_seconds <= 366 * 86_400:
            raise DefinitionError(f"approval_seconds is a number of seconds, up to a year; got {approval_seconds!r}")
        if type(pending_approvals) is not int or pending_approvals < 1:
            raise DefinitionError(f"pending_approvals is a whole number, 1 or more; got {pending_approvals!r}")
        checked = (("roles", roles, Roles), ("refusals", refusals, Limit), ("allowance", allowance, Allowance))
        for name, value, kind in checked:
            if value is not None and not isinstance(value, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DefinitionError(f"{name} must be {kind.__name__}(…); got {value!r:.80}")
        if refusals is not None and refusals.per != "principal":
            raise DefinitionError(f"refusals are counted by principal, not per {refusals.per}; got {refusals}")
        if approver is not None and not callable(getattr(approver, "decide", None)):
            raise DefinitionError(f"approver must be an Approver, with async def decide(request); got {approver!r:.80}")
        store = object.__setattr__
        store(self, "default_permissions", checked_permissions("default_permissions", default_permissions))
        store(self, "require_auth", checked_flag("require_auth", require_auth))
        store(self, "roles", Roles() if roles is None else roles)
        store(self, "record_reads", checked_flag("record_reads", record_reads))
        # Not trimmed: a space at the end of a pattern is part of the pattern.
        store(self, "redact", tuple(checked_text("redact", pattern) for pattern in listed("redact", redact)))
        store(self, "result_bytes", result_bytes)
        store(self, "approval_seconds", float(approval_seconds))
        store(self, "own_approvals", checked_flag("own_approvals", own_approvals))
        store(self, "code_voids_approvals", checked_flag("code_voids_approvals", code_voids_approvals))
        store(self, "approver", approver)
        # Refusals are always counted per process, despite the limit's scope: a flood must not cost writes.
        store(self, "refusals", refusals and Limit(refusals.requests, f"{refusals.window}s", scope="process"))
        store(self, "pending_approvals", pending_approvals)
        store(self, "allowance", allowance)
        for name in FileQuota.__slots__:
            store(self, name, getattr(quota, name))

    @property
    def file_quota(self) -> FileQuota:
        """The limits on the files of a session."""
        return FileQuota(self.file_bytes, self.session_bytes, self.session_files)
