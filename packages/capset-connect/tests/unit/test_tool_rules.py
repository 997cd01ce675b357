"""Rules of a host for tools that others wrote (spec 7, M6)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Principal
from capset.definitions.governance.policies import Decision, Policy, Request
from capset.errors import DefinitionError
from capset_connect.tool_rules import ToolRules, checked_rules, options_of, rules_of, unknown_arguments

PATHS: dict[str, Any] = {"path": {"type": "string", "pattern": "^/public/", "required": True}}


def decided(allowed: dict[str, Any], arguments: dict[str, Any], names: Collection[str] = ("path", "mode")) -> Decision:
    options = options_of(
        "mcp:files_read", {"arguments": allowed}, permissions=(), policies=(), timeout=1.0, names=names
    )
    (policy,) = options["policies"]
    decision = policy.evaluate(Request({}, Principal("ada"), None, arguments))
    assert isinstance(decision, Decision)
    return decision


@pytest.mark.spec("M6")
def test_rules_stay_as_they_were_given() -> None:
    allowed: dict[str, Any] = {"path": {"type": "string", "enum": ["/a"]}}
    rules = checked_rules("rules", {"read": {"arguments": allowed}})
    allowed["path"]["enum"].append("/b")
    assert rules["read"].get("arguments") == {"path": {"type": "string", "enum": ["/a"]}}


@pytest.mark.spec("M6")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"path": "/public/a"}, None),
        ({"path": "/public/a", "mode": 1}, None),
        ({"path": "/public/a", "file": "/private/a"}, "nor in its schema: 'file'"),
        ({"path": "/private/a"}, "These arguments are not allowed here: path: "),
        ({"path": ["/private/a"]}, "These arguments are not allowed here: path: "),
        ({}, "path: required, but missing"),
    ],
)
def test_arguments_that_are_not_allowed_are_denied(arguments: dict[str, Any], reason: str | None) -> None:
    decision = decided(PATHS, arguments)
    assert (decision.kind == "deny") is (reason is not None)
    assert (reason or "") in (decision.reason or "")


@pytest.mark.spec("M6", "T63")
@given(*[st.sets(st.sampled_from("abcdef")) for _ in range(3)])
def test_a_name_that_neither_the_rules_nor_the_schema_list_is_refused(
    ruled: set[str], names: set[str], given_names: set[str]
) -> None:
    rules: dict[str, Any] = {name: {"const": 1} for name in ruled}
    decision = decided(rules, dict.fromkeys(given_names, 1), sorted(names))
    assert (decision.kind == "deny") is bool(given_names - ruled - names)


@pytest.mark.spec("M6")
def test_an_argument_that_need_not_be_there_may_be_left_out() -> None:
    assert decided({"path": {"const": "/a"}}, {}).kind == "allow"


@pytest.mark.spec("M6")
def test_a_default_in_a_rule_stands_for_nothing() -> None:
    branch = {"enum": ["dev"], "default": "dev", "required": True}
    assert decided({"branch": branch}, {}).kind == "deny"
    nested = {"type": "object", "properties": {"b": {"const": 1, "default": 1}}, "required": ["b"]}
    assert decided({"a": {**nested}}, {"a": {}}).kind == "deny"
    assert decided({"a": {"enum": [{"default": 1}]}}, {"a": {"default": 1}}).kind == "allow", "data stays as it is"


@pytest.mark.spec("M6")
def test_a_rule_for_an_argument_that_the_tool_has_not_refuses_its_calls() -> None:
    rules = checked_rules("rules", {"push": {"arguments": {"repository": {"const": "mine"}}}, "*": {"arguments": {}}})
    assert unknown_arguments(rules, "push", ["repo"]) == ["repository"]
    assert unknown_arguments(rules, "push", []) == [], "a schema that names none may take any"
    assert unknown_arguments(rules, "pull", ["repo"]) == []
    options = options_of(
        "mcp:a",
        rules_of(rules, "push"),
        permissions=(),
        policies=(),
        timeout=1.0,
        names=["repo"],
        unknown=["repository"],
    )
    (policy,) = options["policies"]
    decision = policy.evaluate(Request({}, Principal("ada"), None, {"repo": "other"}))
    assert (decision.kind, "repository" in decision.reason) == ("deny", True)


@pytest.mark.spec("M6")
def test_rules_of_every_tool_hold_as_far_as_its_own_say_nothing_else() -> None:
    rules = checked_rules("rules", {"*": {"effect": "read", "approval": "ask"}, "write": {"effect": "write"}})
    assert rules_of(rules, "write") == {"effect": "write", "approval": "ask"}
    assert rules_of(rules, "look") == {"effect": "read", "approval": "ask"}


@pytest.mark.spec("M6")
def test_permissions_are_those_of_the_server_and_of_the_tool() -> None:
    policy = Policy("own", lambda _: True)
    given_rules: ToolRules = {"permissions": {"a:write"}, "timeout": 2.0}
    options = options_of("mcp:a", given_rules, permissions={"a:use"}, policies=[policy], timeout=1.0, names=())
    assert options["permissions"] == {"a:use", "a:write"}
    assert (options["timeout"], options["effect"], options["policies"]) == (2.0, "destructive", [policy])


@pytest.mark.spec("M6")
@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"a": {"effcet": "read"}}, "did you mean 'effect'?"),
        ({"a": {"approval": "maybe"}}, "approval is auto or ask"),
        ({"a": {"limits": "often"}}, "limit"),
        ({"a": {"unchecked_patterns": "ask"}}, "unchecked_patterns is allow or refuse"),
        ({"a": {"permissions": ["x y"]}}, "permission"),
        ({"a": {"arguments": {"path": {"pattern": "^/a"}}}}, "a type, a const or an enum is needed"),
        ({"a": {"arguments": {"path": {"type": "string", "pattern": "(?<=a)"}}}}, "arguments"),
        ({"a": "read"}, "must be a mapping"),
    ],
)
def test_what_a_rule_says_is_checked(rules: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        checked_rules("rules", rules)
    assert raised.value.message.startswith("rules of 'a'")
    assert problem in raised.value.message
