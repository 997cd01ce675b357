from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.definitions.governance.allowances import Allowance, allowance_of, lowest_allowance
from capset.definitions.governance.usage import (
    INTEGER_QUANTITIES,
    QUANTITIES,
    AgentUsage,
    UsageLimit,
    usage_limit_of,
    usage_of,
)
from capset.errors import DefinitionError

amounts = st.fixed_dictionaries(
    {},
    optional={
        name: st.integers(1, 2**53) if name in INTEGER_QUANTITIES else st.floats(1e-9, 1e12, allow_subnormal=False)
        for name in QUANTITIES
    },
).filter(bool)
limits = st.builds(
    lambda window, per, amounts: UsageLimit(window, per=per, **amounts),
    st.sampled_from(["30s", "15m", "1h", "90m", "7d"]),
    st.sampled_from(["principal", "session", "org", "all"]),
    amounts,
)
used = st.builds(AgentUsage, **{name: st.integers(0, 1_000) for name in QUANTITIES})


@pytest.mark.spec("R24")
@given(limits)
def test_every_form_of_a_limit_makes_an_equal_one(limit: UsageLimit) -> None:
    assert usage_limit_of(str(limit)) == limit
    assert usage_limit_of(limit.plain()) == limit
    assert usage_limit_of(limit) is limit
    assert allowance_of(Allowance(usage=limit).plain()) == Allowance(usage=[limit, str(limit)])


@given(used, used, used)
def test_usage_is_summed(first: AgentUsage, second: AgentUsage, third: AgentUsage) -> None:
    assert (first + second) + third == first + (second + third)
    assert first + second == second + first
    assert first + AgentUsage() == first == usage_of(first.plain())


def test_before_a_next_step_something_must_be_left() -> None:
    limit = UsageLimit("1h", steps=2, cost=1.0, calls=3)
    for usage, now, later in (
        (AgentUsage(steps=1, cost=0.5), None, None),
        (AgentUsage(steps=2), None, "steps"),
        (AgentUsage(cost=1.0), None, "cost"),
        (AgentUsage(cost=1.5), "cost", "cost"),
        (AgentUsage(calls=3), None, None),
        (AgentUsage(calls=4), "calls", "calls"),
        (AgentUsage(tokens=10**9), None, None),
    ):
        assert limit.exceeded_quantity(usage, has_next=False) == now
        assert limit.exceeded_quantity(usage, has_next=True) == later


def test_an_allowance_of_several_has_the_limits_of_all() -> None:
    first, other = Allowance(usage="steps=5/1h"), Allowance(usage=["steps=5/1h", {"tokens": 9, "per": "session"}])
    assert str(lowest_allowance((first, None, other))) == "steps=5/1h; tokens=9 per session"


FORM = "written as 'tokens=1000000/1d'"


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("has a window, such as '1d'", ["tokens=5", "tokens=5 per org"]),
        ("a usage limit's tokens are 1 to", ["tokens=0/1d", "tokens=-5/1d", {"tokens": True, "window": "1d"}]),
        ("a usage limit's cost is a number above 0", ["cost=0/1d", "cost=nan/1d", "cost=inf/1d"]),
        (FORM, ["tokens=1.5/1d", "tokens=1_0/1d", "tokens=5,tokens=6/1d", "5/1d", "", 5, None]),
        ("of steps, calls, tokens, cost, seconds", ["words=5/1d"]),
        ("a window is a whole number and s, m, h or d", ["tokens=5/1w"]),
        ("a usage limit's per is one of", ["tokens=5/1d per team"]),
        ("a usage limit has one of steps, calls, tokens, cost, seconds", [{"window": "1d"}]),
        ("who", [{"tokens": 5, "window": "1d", "who": "ada"}]),
    ],
)
def test_a_limit_of_something_else_is_refused(message: str, wrong: list[object]) -> None:
    for value in wrong:
        with pytest.raises(DefinitionError, match=message):
            usage_limit_of(value)


def test_an_allowance_has_at_most_twenty_limits() -> None:
    with pytest.raises(DefinitionError, match="at most 20 limits on usage"):
        Allowance(usage=[f"tokens={number}/1d" for number in range(1, 22)])
