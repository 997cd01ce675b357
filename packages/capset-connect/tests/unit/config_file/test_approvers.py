"""Rules for approvers in configuration files (spec 4, G45)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.definitions.governance.approvers import ApproverRule
from tests.helpers.connect.config_file.support import read, refused


@pytest.mark.spec("G27", "G45")
def test_rules_are_those_of_code(tmp_path: Path) -> None:
    configuration = read(
        tmp_path,
        """\
        governance:
          approval_seconds: 86400
          approvers:
            - tools: [pay, "payments.*"]
              effects: [write, external]
              agents: [clerk]
              risks: [high]
              permission: payments:approve
              attributes: {department: [finance, legal], level: 3}
              same_attributes: [region]
              approvals: 2
              forbid_own: true
              expires_after: 7200
              escalate_after: 600
              escalate_to: payments:lead
            - permission: bills:approve
        """,
    )
    assert configuration.governance.approvers == (
        ApproverRule(
            tools=["pay", "payments.*"],
            effects=["write", "external"],
            agents=["clerk"],
            risks=["high"],
            permission="payments:approve",
            attributes={"department": ["finance", "legal"], "level": 3},
            same_attributes=["region"],
            approvals=2,
            forbid_own=True,
            expires_after=7200.0,
            escalate_after=600.0,
            escalate_to="payments:lead",
        ),
        ApproverRule(permission="bills:approve"),
    )


@pytest.mark.spec("G27", "G45")
@pytest.mark.parametrize(
    ("rule", "place", "expected"),
    [
        ("{permission: approve}", "governance.approvers.0.permission", "match pattern"),
        ("{approvals: 2.5}", "governance.approvers.0.approvals", "integer"),
        ("{permision: a:b}", "governance.approvers.0", "permision"),
        ("{effects: [writes], approvals: 2}", "governance.approvers.0.effects.0", "write"),
        ("{attributes: {a: {b: 1}}}", "governance.approvers.0.attributes.a", ""),
        ("{tools: [], approvals: 2}", "governance.approvers", "number 1: a rule for approvers: tools is empty"),
        ("{tools: [pay]}", "governance.approvers", "number 1: a rule for approvers requires nothing"),
        (
            "{permission: a:b, escalate_after: 4000, escalate_to: c:d}",
            "governance",
            "number 1 escalates after 4000 s, but requests expire after 3600 s",
        ),
    ],
)
def test_a_wrong_rule_is_named_with_its_place(tmp_path: Path, rule: str, place: str, expected: str) -> None:
    problems = refused(tmp_path, f"governance: {{approvers: [{rule}]}}")
    assert any(path.startswith(place) and expected in f"{path}: {message}" for _, path, message in problems), problems
