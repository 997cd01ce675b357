"""What all tools of a capability, and a principal, may use (spec 4, G9, G13, G36; spec 7, M22)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Preset, Principal
from capset.definitions.capabilities import AnyCapability, narrow_capability
from capset.definitions.governance.limits import Limit
from capset.definitions.tools.toolkits import Toolkit
from capset.errors import DefinitionError, InvalidArguments, LimitExceeded
from capset.ext import Allowance, Budget, Governance
from tests.helpers.evaluation.things import make

ADA, BOB = Principal("ada", org="acme"), Principal("bob", org="acme")


READ, WRITE, INSIDE = make("read"), make("write", effect="write"), make("inside")


def mail(limits: Any) -> AnyCapability:
    presets = {"sending": Preset(tools=[WRITE])}
    return Capability("mail", tools=[READ, Toolkit("box", [INSIDE])], presets=presets, limits=limits)


@pytest.mark.spec("G13", "M22")
@pytest.mark.parametrize("scope", ["shared", "process"])
async def test_all_its_tools_share_them(scope: Any) -> None:
    agent = Agent("a", uses=[mail(Limit(3, "1h", scope=scope))])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=ADA) as session:
        for mail_tool in (READ, WRITE, INSIDE):
            await session.call(mail_tool)
        for mail_tool in (READ, WRITE, INSIDE):
            with pytest.raises(LimitExceeded, match="the capability 'mail' is limited to 3/1h") as error:
                await session.call(mail_tool)
            assert 3_500 < (error.value.retry_after or 0) <= 3_600
        async with kernel.open(agent, principal=BOB) as other:
            assert await other.call(READ) == "read", "each principal has its own"


@pytest.mark.spec("G13", "G14", "M22")
async def test_what_reaches_no_handler_does_not_count(tmp_path: Path) -> None:
    agent, store = Agent("a", uses=[mail("2/1h")]), f"sqlite:///{tmp_path}/capset.db"
    async with Kernel(store=store) as kernel, kernel.open(agent, principal=ADA) as session:
        with pytest.raises(InvalidArguments):
            await session.call(READ, "no number")  # pyright: ignore[reportCallIssue]
        await session.call(READ)
    async with Kernel(store=store) as kernel, kernel.open(agent, principal=ADA) as session:
        await session.call(WRITE)
        with pytest.raises(LimitExceeded):
            await session.call(READ)


@pytest.mark.spec("G13", "M22")
async def test_no_second_name_agent_or_form_of_it_gives_a_second_allowance() -> None:
    full = mail({"requests": 3, "window": "1h", "per": "org"})
    less = narrow_capability(full, {READ: [READ], WRITE: []})
    async with Kernel(store="memory://") as kernel:
        for principal, uses in ((ADA, full), (BOB, full.with_names(prefix="x_")), (ADA, less)):
            async with kernel.open(Agent(f"of-{principal.id}", uses=[uses]), principal=principal) as session:
                await session.call(READ)
        async with kernel.open(Agent("last", uses=[full]), principal=BOB) as session:
            with pytest.raises(LimitExceeded):
                await session.call(INSIDE)


@pytest.mark.spec("G13", "M22")
async def test_a_tool_is_held_by_its_own_limits_and_those_of_each_capability_that_brings_it() -> None:
    limited_tool = make("own", limits="5/1h")
    first, two = [
        Capability(name, tools=[limited_tool], limits=limits) for name, limits in (("one", "4/1h"), ("two", "1/1h"))
    ]
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(Agent("a", uses=[first, two]), principal=ADA) as session:
            await session.call(limited_tool)
            with pytest.raises(LimitExceeded, match="the capability 'two' is limited to 1/1h"):
                await session.call(limited_tool)
        async with kernel.open(Agent("b", uses=[first]), principal=ADA) as session:
            for _ in range(3):
                await session.call(limited_tool)
            with pytest.raises(LimitExceeded, match="the capability 'one' is limited to 4/1h"):
                await session.call(limited_tool)


@pytest.mark.spec("G13")
@pytest.mark.parametrize("limits", ["often", 5, {"requests": 0, "window": "1h"}])
def test_what_is_no_limit_is_refused_with_the_name_of_the_capability(limits: Any) -> None:
    with pytest.raises(DefinitionError, match="capability 'mail': limits"):
        mail(limits)


WORKER = Agent("worker", uses=[Capability("kit", tools=[READ])])


@pytest.mark.spec("G36")
async def test_what_a_principal_may_use_is_held_beside_the_agents_and_the_servers() -> None:
    generous = Allowance(limits="100/1h", session=Budget(calls=100))
    agent = Agent("worker", uses=WORKER.uses, allowance=generous)
    principal = Principal("ada", allowance=Allowance(limits=["3/1h", "2/1m"], session=Budget(calls=4)))
    async with Kernel(store="memory://", governance=Governance(allowance=generous)) as kernel:
        async with kernel.open(agent, principal=principal) as session:
            results = [await session.try_call(READ) for _ in range(3)]
        assert [result.success for result in results] == [True, True, False]
        assert "this principal is limited to 2/1m" in str(results[2].error)


@pytest.mark.spec("G9", "G36")
async def test_who_acts_for_somebody_may_use_what_both_may() -> None:
    bot = Principal("bot", kind="agent", allowance=Allowance(limits="9/1h", session=Budget(calls=9)))
    ada = Principal("ada", allowance=Allowance(session=Budget(calls=1), run=Budget(cost=2)))
    both = Allowance(limits="9/1h", session=Budget(calls=1), run=Budget(cost=2))
    assert bot.acting_for(ada).allowance == ada.acting_for(bot).allowance == both
    assert ADA.acting_for(BOB).allowance is None
    async with Kernel(store="memory://") as kernel, kernel.open(WORKER, principal=bot.acting_for(ada)) as session:
        assert [(await session.try_call(READ)).success for _ in range(2)] == [True, False]
