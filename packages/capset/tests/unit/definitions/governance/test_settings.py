from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest

from capset import DefinitionError
from capset.definitions.calls.files import FileQuota
from capset.definitions.governance.limits import Limit
from capset.definitions.governance.settings import Governance, Roles


@pytest.mark.spec("G8", "G15", "G17", "G26", "P25")
def test_unless_it_is_said_nobody_may_anything_and_everything_is_on_record() -> None:
    assert Governance() == Governance(default_permissions=[], require_auth=False, roles=Roles(), record_reads=True)
    assert Governance() == Governance(redact=[], result_bytes=64 * 1024, approval_seconds=3_600, own_approvals=False)
    assert Governance() == Governance(approver=None, refusals=Limit(600, "1m", scope="process"))
    assert Governance().file_quota == FileQuota(100_000_000, 500_000_000, 10_000)
    assert Governance(file_bytes=100_000_000, session_files=0).file_quota == FileQuota(session_files=0)


def test_a_governance_is_a_value() -> None:
    first, second = Governance(redact=["a"], refusals=None), Governance(redact=("a",), refusals=None)
    assert first == second
    assert first != Governance()
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.require_auth = True  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.spec("G8", "G15", "P25")
@pytest.mark.parametrize(
    ("names", "values", "problem"),
    [
        (["default_permissions"], ["notes:read", ["notes"], ["Notes:read"], ["*:*"], [None]], ""),
        (["require_auth", "record_reads", "own_approvals"], [1, "yes", None, "false"], "must be True or False"),
        (["result_bytes"], [1_023, 0, -1, 65_536.0, True, "64KiB", None, math.inf], "is a whole number, 1,024 or more"),
        (["approval_seconds"], [0, -1, 366 * 86_400 + 1, math.inf, math.nan, True, "1h", None], "up to a year; got"),
        (["file_bytes", "session_bytes", "session_files"], [-1, 1.0, True, "100MB", None], "0 or more; got"),
        (["file_bytes"], [100_000_001], "is at most 100,000,000; got 100,000,001"),
        (["roles"], [{"reader": []}], "must be"),
        (["approver"], ["ada", print], "must be"),
        (["refusals"], ["600/1m", 600], "must be"),
        (["refusals"], [Limit(600, "1m", per=per) for per in ("session", "org", "all")], "counted by principal"),
    ],
)
def test_a_value_that_a_setting_cannot_have_is_refused_by_its_name(
    names: Sequence[str], values: Sequence[Any], problem: str
) -> None:
    for name in names:
        for value in values:
            with pytest.raises(DefinitionError, match=f"^{name}.*{problem}"):
                Governance(**{name: value})
