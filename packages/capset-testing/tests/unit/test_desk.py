"""The session that tests are given."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, Context, DefinitionError, Principal, tool
from capset.ext import Turn
from capset_testing import session_for
from tests.helpers.testing.capability_suite.sound import Settings, sound


@tool(effect="read", permissions={"things:see"})
async def look(ctx: Context) -> list[str]:
    """Tell where this is."""
    return [ctx.principal.id, str(ctx.env.get("tier")), str(ctx.principal.org)]


seeing = Capability("seeing", tools=[look])


async def test_a_capability_gets_an_agent_and_a_user_who_holds_what_is_said() -> None:
    async with session_for(seeing, permissions=["things:see"], env={"tier": "pro"}) as desk:
        assert await desk.session.call(look) == ["user-1", "pro", "None"]
    async with session_for(seeing) as desk:
        assert not (await desk.session.try_call(look)).success


async def test_an_agent_and_a_principal_are_taken_as_they_are() -> None:
    principal = Principal("ada", permissions=["things:see"], org="acme")
    agent = Agent("seer", uses=[seeing.with_names(prefix="my_")])
    async with session_for(agent, principal=principal) as desk:
        assert desk.agent is agent
        assert set(desk.session.snapshot.tools) == {"my_look"}
        assert await desk.session.call(look) == ["ada", "None", "acme"]


async def test_time_passes_only_when_the_test_says_so() -> None:
    async with session_for(seeing, permissions=["things:see"]) as desk:
        await desk.session.call(look)
        desk.clock.advance(60)
        await desk.session.call(look)
        times = [record.time for record in await desk.records()]
    assert times == ["2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z"]


async def test_records_are_found_by_what_they_say() -> None:
    async with session_for(seeing) as desk:
        await desk.session.try_call(look)
        (record,) = await desk.records(tool="look", outcome="denied")
        assert record.principal == "user-1"
        assert await desk.records(tool="other") == []


async def test_a_config_is_that_of_the_capability() -> None:
    async with session_for(sound, config=Settings(most=3)) as desk:
        (chosen,) = desk.session.snapshot.composition.capability_uses
    assert chosen.config == Settings(most=3)


async def test_a_generator_runs_the_agent() -> None:
    class Echo:
        async def run(self, turn: Turn) -> Any:
            return f"{(await turn.step()).system_text}: {turn.input}"

    async with session_for(Agent("echo", system_prompt="Repeat"), generator=Echo()) as desk:
        assert await desk.session.run("hello") == "Repeat: hello"


async def test_another_session_can_be_opened_beside_it() -> None:
    async with session_for(seeing) as desk, desk.kernel.open(desk.agent, principal=Principal("bob")) as other:
        assert other.id != desk.session.id


async def test_a_store_outlives_its_session(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/desk.db"
    async with session_for(seeing, store=url) as desk:
        await desk.session.try_call(look)
    async with session_for(seeing, store=url) as desk:
        assert len(await desk.records(session=desk.session.id)) == 0
        assert len(await desk.records()) == 1


@pytest.mark.parametrize(
    ("subject", "options"),
    [
        (Agent("a"), {"config": Settings()}),
        (seeing, {"config": Settings()}),
        (seeing, {"principal": Principal("ada"), "permissions": ["things:see"]}),
        ("seeing", {}),
    ],
)
async def test_what_does_not_go_together_is_refused(subject: Any, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        async with session_for(subject, **options):
            pass
