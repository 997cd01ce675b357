from __future__ import annotations

import functools
import operator
import re
from typing import Any

import pytest

from capset import Decision, DefinitionError, Policy, Principal, Request, allow, ask, deny, policy, tool

REQUEST = Request({}, Principal("p"))


def work() -> None:
    """Work."""


@pytest.mark.spec("F15")
def test_a_policy_is_made_of_a_function_under_its_name() -> None:
    @policy
    def by_day(request: Request) -> bool:
        return True

    @policy(id="team.billing:v2")
    async def billing(request: Request) -> Decision:
        return allow()

    assert (by_day.id, billing.id) == ("by_day", "team.billing:v2")
    assert by_day.evaluate(REQUEST) is True


class Gate:
    def __call__(self, request: Request) -> bool:
        return False

    def method(self, request: Request) -> bool:
        return True


@pytest.mark.spec("F15")
def test_anything_that_takes_one_request_will_do() -> None:
    def with_level(level: int, request: Request) -> bool:
        return level > 2

    for function in (Gate(), Gate().method, functools.partial(with_level, 3), lambda request, more=1: True):
        assert policy(id="gate")(function).evaluate is function


@pytest.mark.spec("F15")
@pytest.mark.parametrize(
    "wrong",
    [lambda: True, lambda first, two: True, lambda *, request: True, 5, None, "by_day", Policy("inner", Gate())],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_cannot_take_one_request_is_refused(wrong: Any) -> None:
    for make in (policy(id="gate"), lambda function: Policy("gate", function)):
        with pytest.raises(DefinitionError, match=r"policy 'gate' must (take exactly|be a function of) one argument"):
            make(wrong)


@pytest.mark.spec("F15")
@pytest.mark.parametrize(
    "wrong",
    [bool, str, dict, Gate, any, callable, operator.truth, functools.partial(isinstance, 1), functools.cache(bool)],
    ids=lambda parameter: re.sub(r" at 0x\w+", "", repr(parameter)),
)
def test_what_takes_anything_is_no_function_of_a_request(wrong: Any) -> None:
    for make in (
        policy,
        policy(id="gate"),
        lambda function: Policy("gate", function),
        lambda rule: tool(approval=rule)(work),
    ):
        with pytest.raises(
            DefinitionError, match=r"must be a function of one argument, the request; \w+ takes anything"
        ):
            make(wrong)


def test_a_policy_without_a_function_is_refused() -> None:
    with pytest.raises(DefinitionError, match="policy 'gate'"):
        Policy("gate", 5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("id", ["", "a b", "<lambda>", 5])
def test_an_id_that_is_given_is_never_replaced(id: Any) -> None:
    def fine(request: Request) -> bool:
        return True

    with pytest.raises(DefinitionError, match="a policy's id must match"):
        policy(id=id)(fine)


@pytest.mark.spec("F20")
def test_a_decision_is_one_of_those_that_are_built() -> None:
    assert (allow().kind, allow().reason) == ("allow", None)
    assert (deny("not now").kind, deny("not now").reason) == ("deny", "not now")
    assert (ask("who pays?").kind, ask("who pays?").reason) == ("ask", "who pays?")


@pytest.mark.spec("F20", "G7")
@pytest.mark.parametrize("kind", ["Ask", "Deny", "DENY", "denied", "", None, True, ["deny"]])
def test_any_other_decision_is_refused_rather_than_taken_for_an_allowance(kind: Any) -> None:
    with pytest.raises(DefinitionError, match="a decision is allow, deny or ask"):
        Decision(kind)


@pytest.mark.parametrize("reason", [None, 5, "\ud800"])
def test_a_denial_says_why_in_text(reason: Any) -> None:
    with pytest.raises(DefinitionError, match="a denial's reason"):
        deny(reason)


@pytest.mark.spec("G7")
@pytest.mark.parametrize("option", ["hooks", "timeout"])
def test_what_is_not_built_yet_is_refused(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        policy(id="x", **{option: "live"})  # pyright: ignore[reportArgumentType]
