from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from capset import DefinitionError
from capset.definitions.calls.files import FileQuota
from capset.definitions.governance.limits import Limit
from capset.definitions.governance.settings import Governance, Roles


@pytest.mark.spec("G8", "G15", "G17", "G26", "P25")
def test_unless_it_is_said_nobody_may_anything_and_everything_is_on_record() -> None:
    governance = Governance()
    assert governance.default_permissions == frozenset()
    assert governance.require_auth is False
    assert governance.roles == Roles()
    assert governance.record_reads is True
    assert governance.redact == ()
    assert governance.result_bytes == 64 * 1024
    assert governance.approval_seconds == 3_600
    assert governance.own_approvals is False
    assert governance.approver is None
    assert governance.refusals == Limit(600, "1m", scope="process")
    assert governance.file_quota == FileQuota(100_000_000, 500_000_000, 10_000)


def test_it_is_a_value() -> None:
    first, second = Governance(redact=["a"], refusals=None), Governance(redact=("a",), refusals=None)
    assert first == second
    assert first != Governance()
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.require_auth = True  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.spec("G8")
@pytest.mark.parametrize("permissions", ["notes:read", ["notes"], ["Notes:read"], ["*:*"], [None]])
def test_default_permissions_are_exact(permissions: Any) -> None:
    with pytest.raises(DefinitionError, match="default_permissions"):
        Governance(default_permissions=permissions)


@pytest.mark.parametrize("name", ["require_auth", "record_reads", "own_approvals"])
@pytest.mark.parametrize("value", [1, "yes", None, "false"])
def test_flags_are_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"{name} must be True or False"):
        Governance(**{name: value})


@pytest.mark.parametrize("size", [1_023, 0, -1, 65_536.0, True, "64KiB", None, math.inf])
def test_result_bytes_are_a_whole_number_that_leaves_room_to_say_what_was_cut(size: Any) -> None:
    with pytest.raises(DefinitionError, match="result_bytes is a whole number, 1,024 or more; got"):
        Governance(result_bytes=size)


@pytest.mark.spec("P25")
@pytest.mark.parametrize("name", ["file_bytes", "session_bytes", "session_files"])
@pytest.mark.parametrize("value", [-1, 1.0, True, "100MB", None])
def test_a_quota_is_a_whole_number(name: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"{name} is a whole number, 0 or more; got"):
        Governance(**{name: value})


@pytest.mark.spec("P25")
def test_a_file_is_no_longer_than_writers_can_wait_for() -> None:
    assert Governance(file_bytes=100_000_000, session_files=0).file_quota == FileQuota(session_files=0)
    with pytest.raises(DefinitionError, match="file_bytes is at most 100,000,000; got 100,000,001"):
        Governance(file_bytes=100_000_001)


@pytest.mark.parametrize("seconds", [0, -1, 366 * 86_400 + 1, math.inf, math.nan, True, "1h", None])
def test_approval_seconds_are_a_time_that_ends(seconds: Any) -> None:
    with pytest.raises(DefinitionError, match="approval_seconds is a number of seconds, up to a year; got"):
        Governance(approval_seconds=seconds)


@pytest.mark.parametrize(
    ("name", "value"),
    [("roles", {"reader": []}), ("refusals", "600/1m"), ("refusals", 600), ("approver", "ada"), ("approver", print)],
)
def test_what_is_of_another_kind_is_refused(name: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"^{name} must be"):
        Governance(**{name: value})


@pytest.mark.spec("G15")
@pytest.mark.parametrize("per", ["session", "org", "all"])
def test_refusals_are_counted_by_principal(per: Any) -> None:
    with pytest.raises(DefinitionError, match="refusals are counted by principal, not per"):
        Governance(refusals=Limit(600, "1m", per=per))
