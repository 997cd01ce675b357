"""What clients may read of a session's data (spec 1, C36)."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, Context, Preset, Resource
from tests.helpers.kernel.state.states import Counts, Later, Mood, agent_of
from tests.helpers.kernel.support import opened


@pytest.mark.spec("C36")
async def test_clients_may_read_what_is_exposed_and_nothing_else(store: str) -> None:
    visited = Resource("seen", list[str], scope="user", default=list)
    hidden = Resource("hidden", int, scope="session", default=1)

    async def do(ctx: Context) -> None:
        await ctx.state(Counts).increment("hits")
        await ctx.resource(visited).push("x")

    kit = Capability(
        "shown", resources=[visited, hidden], state={"session": Mood, "org": Later}, expose=["seen", "mood"]
    )
    agent, run = agent_of(do, uses=[kit], state={"session": Counts}, expose=["hits"])
    async with opened(agent, store=store) as desk:
        assert await desk.session.exposed() == {"session": {"hits": 0, "mood": "calm"}, "user": {"seen": []}}
        await run(desk.session)
        assert await desk.session.exposed() == {"session": {"hits": 1, "mood": "calm"}, "user": {"seen": ["x"]}}


@pytest.mark.spec("C36")
async def test_nothing_is_exposed_unless_it_is_named() -> None:
    preset = Preset(resources=[Resource("kept", int, scope="session", default=1)])
    agent, run = agent_of(
        lambda ctx: ctx.state(Counts).increment("hits"), state={"session": Counts}, presets={"more": preset}
    )
    async with opened(agent) as desk:
        await run(desk.session)
        assert await desk.session.exposed() == {}


async def exposed_of(*uses: Capability[Any, Any]) -> Any:
    async with opened(Agent("tester", uses=uses)) as desk:
        return await desk.session.exposed()


@pytest.mark.spec("C36")
async def test_a_name_exposes_only_what_its_own_capability_has_under_it() -> None:
    private = Resource("mood", str, scope="session", default="private")
    abroad = Resource("mood", str, scope="user", default="private")
    shows_state = Capability("shows", state={"session": Mood}, expose=["mood"])
    others = (Capability("one", resources=[private]), Capability("two", resources=[abroad]))
    assert await exposed_of(shows_state, *others) == {"session": {"mood": "calm"}}
    public = Resource("mood", str, scope="session", default="public")
    shows_resource = Capability("shows", resources=[public], expose=["mood"])
    assert await exposed_of(Capability("hides", state={"session": Mood}), shows_resource) == {
        "session": {"mood": "public"}
    }


@pytest.mark.spec("C36")
async def test_a_resource_that_has_no_value_yet_hides_no_others() -> None:
    bare, full = Resource("bare", int, scope="session"), Resource("full", int, scope="session", default=1)
    shows = Capability("shows", resources=[bare, full], expose=["bare", "full"])
    assert await exposed_of(shows) == {"session": {"full": 1}}
