from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from fnmatch import fnmatchcase
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import DefinitionError
from capset.definitions.capabilities import Risk
from capset.definitions.governance.approvers import MAX_RULES, ApprovalSubject, ApproverRule
from capset.definitions.tools.options import Effect
from capset.ext import Governance

NAMES = st.text("abp_-", min_size=1, max_size=6)
SUBJECTS = st.builds(
    ApprovalSubject,
    st.frozensets(NAMES, min_size=1, max_size=2),
    st.frozensets(NAMES, min_size=1, max_size=2),
    st.sampled_from(get_args(Effect)),
    st.frozensets(st.sampled_from(get_args(Risk)), min_size=1),
)


def selecting(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.lists(strategy, min_size=1, max_size=3)


SELECTIONS = st.fixed_dictionaries(
    {
        "tools": selecting(NAMES | st.just("*") | st.just("a*")),
        "agents": selecting(st.text("abp", min_size=1, max_size=3) | st.just("*") | st.just("?")),
        "effects": selecting(st.sampled_from(get_args(Effect))),
        "risks": selecting(st.sampled_from(get_args(Risk))),
    }
)


@pytest.mark.spec("G45")
@given(SELECTIONS, SUBJECTS)
def test_a_rule_is_for_what_every_selection_has(selection: dict[str, Any], subject: ApprovalSubject) -> None:
    def fits(patterns: list[str] | None, names: frozenset[str]) -> bool:
        return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)

    expected = (
        fits(selection["tools"], subject.tools)
        and fits(selection["agents"], subject.agents)
        and (selection["effects"] is None or subject.effect in selection["effects"])
        and (selection["risks"] is None or bool(subject.risks & set(selection["risks"])))
    )
    assert ApproverRule(**selection, forbid_own=True).applies_to(subject) == expected


@pytest.mark.spec("G45")
def test_patterns_are_for_tools_and_for_those_of_a_capability() -> None:
    subject = ApprovalSubject(frozenset({"pay", "payments.pay"}), frozenset({"clerk"}), "write", frozenset({"low"}))
    for pattern in ("pay", "p*", "payments.*", "payments.p?y", "*"):
        assert ApproverRule(tools=[pattern], approvals=2).applies_to(subject), pattern
    for pattern in ("PAY", "ay", "payments", "payment.*"):
        assert not ApproverRule(tools=[pattern], approvals=2).applies_to(subject), pattern


def test_a_rule_is_a_value_that_keeps_what_it_was_given() -> None:
    values = ["finance", "legal"]
    rule = ApproverRule(permission="payments:approve", attributes={"department": values, "level": 3})
    values.append("anybody")
    assert rule.attributes == {"department": ("finance", "legal"), "level": (3,)}
    assert rule == ApproverRule(permission=rule.permission, attributes={"department": values[:2], "level": [3]})
    assert pickle.loads(pickle.dumps(rule)) == rule
    with pytest.raises(FrozenInstanceError):
        rule.approvals = 0  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        rule.attributes["department"] = ()  # pyright: ignore[reportIndexIssue]


@pytest.mark.spec("G45")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": ["pay"]}, "requires nothing"),
        ({"tools": [], "approvals": 2}, "tools is empty, so the rule applies to no request"),
        ({"tools": "pay", "approvals": 2}, "tools must be a list"),
        ({"tools": ["pay me"], "approvals": 2}, "no name fits 'pay me'"),
        ({"tools": ["x" * 65], "approvals": 2}, "no name fits"),
        ({"agents": ["-clerk"], "approvals": 2}, "no name fits '-clerk'"),
        ({"effects": [], "approvals": 2}, "effects is empty"),
        ({"risks": ["huge"], "approvals": 2}, "unknown risk 'huge'; available: high, low, medium"),
        ({"permission": "approve"}, "permission must match"),
        ({"attributes": {"department": []}}, "department has no values, so no approver can match"),
        ({"attributes": {"department": None}}, "department is null"),
        ({"attributes": {"department": {"a": 1}}}, "attributes are flat"),
        ({"attributes": {"a b": 1}}, "a name must match"),
        ({"attributes": {"api_token": "x"}}, "looks like the name of a secret"),
        ({"same_attributes": ["password"]}, "looks like the name of a secret"),
        ({"same_attributes": "department"}, "same_attributes must be a list"),
        ({"approvals": 0}, "approvals is a whole number, 1 to 10; got 0"),
        ({"approvals": 11}, "approvals is a whole number"),
        ({"forbid_own": 1}, "forbid_own must be True or False"),
        ({"expires_after": 0}, "expires_after is a number of seconds"),
        ({"permission": "a:b", "escalate_after": 5}, "escalate_after and escalate_to belong together"),
        ({"permission": "a:b", "escalate_to": "c:d"}, "escalate_after and escalate_to belong together"),
        ({"approvals": 2, "escalate_after": 5, "escalate_to": "c:d"}, "everybody may approve from the start"),
        ({"permission": "a:b", "escalate_after": 5, "escalate_to": "a:b"}, "to the same principals"),
        ({"permission": "a:b", "escalate_after": 5, "escalate_to": "c:d", "expires_after": 5}, "but requests expire"),
    ],
)
def test_a_rule_that_is_for_nothing_or_contradicts_itself_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        ApproverRule(**options)


PAY = ApproverRule(tools=["pay"], permission="payments:approve", escalate_after=600, escalate_to="payments:lead")
FINANCE = ApproverRule(tools=["pay"], attributes={"department": "finance"})


@pytest.mark.spec("G45")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"approvers": PAY}, "approvers must be a list"),
        ({"approvers": ["pay"]}, "number 1 is 'pay'"),
        ({"approvers": [PAY, FINANCE, PAY]}, "number 3 is the same rule as an earlier one"),
        ({"approvers": [PAY], "approval_seconds": 600}, "number 1 escalates after 600 s, but requests expire"),
        ({"approvers": [PAY], "default_permissions": ["payments:lead"]}, "every principal holds by default_perm"),
        (
            {"approvers": [FINANCE, ApproverRule(attributes={"department": ["legal", "board"]})]},
            "number 1 and number 2 apply to the same requests, but no value of 'department' is allowed",
        ),
        ({"approvers": [ApproverRule(permission=f"a:b{n}") for n in range(MAX_RULES + 1)]}, "at most 100 rules"),
    ],
)
def test_a_governance_refuses_rules_that_its_other_settings_contradict(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Governance(**options)


def test_rules_that_can_hold_together_are_taken() -> None:
    legal = ApproverRule(tools=["sign"], attributes={"department": "legal"})
    rescued = ApproverRule(attributes={"department": "legal"}, escalate_after=5, escalate_to="a:b")
    regional = ApproverRule(attributes={"region": "eu"})
    for rules in ([], [PAY, FINANCE], [FINANCE, legal], [FINANCE, rescued], [FINANCE, regional]):
        assert Governance(approvers=rules).approvers == tuple(rules)
