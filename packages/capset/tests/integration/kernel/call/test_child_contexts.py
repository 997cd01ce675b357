"""Dynamic ``uses``: decided before every run, without anything left behind (spec 1, C27–C29)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, CapabilityRef, Context, Preset, Resource, tool
from capset.errors import ContextError, DefinitionError, NotFound
from tests.helpers.kernel.support import ask, opened


class Flags(BaseModel):
    expert: bool = False


@tool
async def promote(ctx: Context, expert: bool = True) -> bool:
    """Become an expert, or none any more."""
    await ctx.state(Flags).patch(expert=expert)
    return expert


@tool(effect="read")
async def plain(ctx: Context) -> str:
    """Do it as everybody does."""
    return "plain"


@tool(effect="write")
async def deep(ctx: Context) -> str:
    """Do it as experts do."""
    return ctx.use(for_experts)


basics = Capability("basics", state={"session": Flags}, tools=[promote])
for_users = Capability("for_users", tools=[plain])
for_experts: Capability[str] = Capability(
    "for_experts",
    tools=[deep],
    helpers=lambda ctx: "deep",
    instructions="Be deep.",
    context=[lambda ctx: {"depth": ctx.cap.for_experts}],
)


def by_flag(ctx: Context) -> list[Capability[Any, Any]]:
    return [for_experts if ctx.session.state.expert else for_users]


agent = Agent("tester", uses=[basics, by_flag])


@pytest.mark.spec("C27")
async def test_the_set_is_decided_anew_for_every_run_and_each_has_its_own_hash(store: str) -> None:
    async with opened(agent, store=store) as desk:
        session = desk.session
        assert set(session.snapshot.tools) == {"promote"}
        users = await session.current()
        assert set(users.tools) == {"promote", "plain"}
        assert await session.call(plain) == "plain"
        with pytest.raises(NotFound):
            await session.call(deep)
        await session.call(promote)
        experts = await session.current()
        assert set(experts.tools) == {"promote", "deep"}
        assert await session.call(deep) == "deep"
        with pytest.raises(NotFound):
            await session.call(plain)
        assert len({session.snapshot.runtime_hash, users.runtime_hash, experts.runtime_hash}) == 3
        assert [(record.tool, record.outcome, record.runtime_hash) for record in await desk.records()] == [
            ("plain", "succeeded", users.runtime_hash),
            ("deep", "not_found", users.runtime_hash),
            ("promote", "succeeded", users.runtime_hash),
            ("deep", "succeeded", experts.runtime_hash),
            ("plain", "not_found", experts.runtime_hash),
        ]


@pytest.mark.spec("C27")
async def test_streams_and_messages_are_decided_too(store: str) -> None:
    async with opened(agent, store=store) as desk:
        assert [message.kind for message in await ask(desk.session, "plain")] == ["reply"]
        assert [message.data["status"] for message in await ask(desk.session, "deep", {})] == [404]
        await desk.session.call(promote)
        (reply,) = await ask(desk.session, "for_experts.deep", {})
        assert reply.data == "deep"
        async with desk.session.stream(deep) as messages:
            assert [message.data async for message in messages] == ["deep"]
        (wrong,) = await ask(desk.session, "deep", {"no": 1})
        assert wrong.data["status"] == 422


@pytest.mark.spec("C28")
async def test_instructions_context_and_helpers_come_and_go() -> None:
    async with opened(agent) as desk:
        assert "deep" not in await desk.session.system_text()
        await desk.session.call(promote)
        text = await desk.session.system_text()
        assert "Be deep." in text
        assert "<depth>\n  deep\n</depth>" in text
        await desk.session.call(promote, expert=False)
        assert "deep" not in await desk.session.system_text()


@pytest.mark.spec("C28")
async def test_resources_and_state_must_be_declared_statically() -> None:
    counter = Resource("kept", int, scope="session", default=0)

    @tool
    async def count(ctx: Context) -> int:
        """Count."""
        return await ctx.resource(counter).increment()

    counting = Capability("counting", resources=[counter], presets={"tools": Preset(tools=[count])})
    async with opened(Agent("tester", uses=[lambda ctx: [counting]])) as desk:
        with pytest.raises(DefinitionError, match="declares 'kept', which nothing declares statically"):
            await desk.session.current()
        assert not (await desk.session.try_call(count)).success
    off: CapabilityRef = counting.with_presets(tools=False)
    declared = Agent("tester", uses=[off, lambda ctx: [counting.with_presets(tools=True)]])
    async with opened(declared) as desk:
        assert set(desk.session.snapshot.tools) == set()
        assert await desk.session.call(count) == 1


def fails(ctx: Context) -> Any:
    raise ZeroDivisionError


NO_LIST = "must return a list of capabilities; got"


@pytest.mark.spec("C27")
@pytest.mark.parametrize(
    ("function", "why"),
    [
        (fails, "failed: ZeroDivisionError"),
        (lambda ctx: ["for_users"], ""),
        (lambda ctx: None, NO_LIST),
        (lambda ctx: for_users, NO_LIST),
        (lambda ctx: "for_users", NO_LIST),
    ],
)
async def test_a_function_that_fails_fails_the_run_by_its_name_and_leaves_a_record(function: Any, why: str) -> None:
    function.__name__ = "choosing"
    async with opened(Agent("tester", uses=[function])) as desk:
        with pytest.raises(ContextError, match=f"dynamic uses 'choosing'.*{why}"):
            await desk.session.current()
        assert isinstance((await desk.session.try_call(plain)).error, ContextError)
        assert (await desk.record()).outcome == "failed"


@pytest.mark.spec("C27")
async def test_equal_sets_share_one_snapshot() -> None:
    async with opened(Agent("tester", uses=[lambda ctx: [for_users.with_names(prefix="x_")]])) as desk:
        assert await desk.session.current() is await desk.session.current()


@pytest.mark.spec("C3")
async def test_a_tool_of_a_preset_that_is_off_is_named_with_what_switches_it_on() -> None:
    switched = Capability("switched", presets={"more": Preset(tools=[plain])}, default=[])
    async with opened(Agent("tester", uses=[switched])) as desk:
        with pytest.raises(NotFound, match="belongs to the preset 'more' of 'switched', which is off here") as raised:
            await desk.session.call(plain)
        assert raised.value.hint == "use switched.with_presets(more=True)"


@pytest.mark.spec("C15")
async def test_instructions_name_tools_as_they_are_named_here() -> None:
    capability = Capability("told", tools=[plain], instructions="Use `plain`, in plain words, not `other`.")
    async with opened(Agent("tester", uses=[capability.with_names(prefix="x_")])) as desk:
        assert "Use `x_plain`, in plain words, not `other`." in await desk.session.system_text()
