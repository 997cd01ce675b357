from __future__ import annotations

import functools
import operator
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from capset import Decision, DefinitionError, Policy, Principal, Request, allow, ask, deny, policy, tool


def gate(request: Request) -> bool:
    return True


def work() -> None:
    """Work."""


class Gate:
    def __call__(self, request: Request) -> bool:
        return False

    def method(self, request: Request) -> bool:
        return True


@pytest.mark.spec("F15")
def test_every_form_makes_the_same_policy() -> None:
    forms = [
        policy("gate", gate, binding="snapshot", phase="evaluate"),
        policy(id="gate", binding="snapshot", phase="evaluate")(gate),
        policy(binding="snapshot", phase="evaluate")(gate),
        Policy("gate", gate, "snapshot", "evaluate"),
    ]
    values = {(form.id, form.evaluate, form.binding, form.phase) for form in forms}
    assert values == {("gate", gate, "snapshot", "evaluate")}
    assert len(set(forms)) == len(forms), "policies are told apart by identity"
    plain = [policy(gate), policy()(gate), policy("gate", gate), Policy("gate", gate)]
    assert {(form.id, form.binding, form.phase) for form in plain} == {("gate", "live", "both")}
    assert policy(id="team.billing:v2")(gate).id == "team.billing:v2"
    with pytest.raises((FrozenInstanceError, AttributeError)):
        policy(gate).phase = "call"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.spec("F15")
def test_anything_that_takes_one_request_will_do() -> None:
    def with_level(level: int, request: Request) -> bool:
        return level > 2

    for function in (Gate(), Gate().method, functools.partial(with_level, 3), lambda request, more=1: True):
        assert policy(id="gate")(function).evaluate is function
    assert policy(gate).evaluate(Request({}, Principal("p"))) is True


@pytest.mark.spec("F15")
@pytest.mark.parametrize(
    "wrong",
    [lambda: True, lambda first, two: True, lambda *, request: True, 5, None, "by_day", Policy("inner", Gate())],
)
def test_what_cannot_take_one_request_is_refused(wrong: Any) -> None:
    for make in (policy(id="gate"), lambda function: Policy("gate", function)):
        with pytest.raises(DefinitionError, match=r"policy 'gate' must (take exactly|be a function of) one argument"):
            make(wrong)


@pytest.mark.spec("F15")
@pytest.mark.parametrize(
    "wrong",
    [bool, str, dict, Gate, any, callable, operator.truth, functools.partial(isinstance, 1), functools.cache(bool)],
)
def test_what_takes_anything_is_no_function_of_a_request(wrong: Any) -> None:
    makers = (
        policy,
        policy(id="gate"),
        lambda function: Policy("gate", function),
        lambda rule: tool(approval=rule)(work),
    )
    for make in makers:
        with pytest.raises(DefinitionError, match=r"function of one argument, the request; \w+ takes anything"):
            make(wrong)


@pytest.mark.spec("F15", "F19")
@pytest.mark.parametrize(
    ("binding", "phase", "at_evaluation", "live"),
    [
        ("live", "both", True, True),
        ("live", "evaluate", True, False),
        ("live", "call", False, True),
        ("snapshot", "both", True, False),
        ("snapshot", "evaluate", True, False),
    ],
)
def test_binding_and_phase_say_who_asks(binding: Any, phase: Any, at_evaluation: bool, live: bool) -> None:
    gate_policy = policy("gate", gate, binding=binding, phase=phase)
    assert (gate_policy.is_asked_at_evaluation, gate_policy.is_live) == (at_evaluation, live)


@pytest.mark.spec("F15", "G7")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"binding": wrong}, "binding must be one of") for wrong in ("late", None, ["live"])),
        *(({"phase": wrong}, "phase must be one of") for wrong in ("all", True)),
        ({"binding": "snapshot", "phase": "call"}, "is evaluated at calls only"),
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    for make in (lambda: policy("gate", gate, **options), lambda: policy(**options)(gate)):
        with pytest.raises(DefinitionError, match=f"policy 'gate':? {message}"):
            make()


@pytest.mark.parametrize(
    "build",
    [
        lambda: policy("gate"),  # pyright: ignore[reportArgumentType]
        lambda: policy("gate", gate, id="other"),  # pyright: ignore[reportCallIssue]
        lambda: policy(gate, gate),  # pyright: ignore[reportArgumentType]
        lambda: policy(None, gate),  # pyright: ignore[reportArgumentType]
    ],
)
def test_half_a_form_and_two_of_one_thing_are_refused(build: Any) -> None:
    with pytest.raises(DefinitionError, match="function"):
        build()


@pytest.mark.spec("F20")
def test_a_decision_is_one_of_those_that_are_built() -> None:
    assert (allow().kind, allow().reason) == ("allow", None)
    assert (deny("not now"), ask("who pays?")) == (Decision("deny", "not now"), Decision("ask", "who pays?"))


@pytest.mark.spec("F20", "G7")
@pytest.mark.parametrize("kind", ["Ask", "Deny", "DENY", "denied", "", None, True, ["deny"]])
def test_any_other_decision_is_refused_rather_than_taken_for_an_allowance(kind: Any) -> None:
    with pytest.raises(DefinitionError, match="a decision is allow, deny or ask"):
        Decision(kind)


@pytest.mark.parametrize("reason", [None, 5, "\ud800"])
def test_a_denial_says_why_in_text(reason: Any) -> None:
    with pytest.raises(DefinitionError, match="a denial's reason"):
        deny(reason)
