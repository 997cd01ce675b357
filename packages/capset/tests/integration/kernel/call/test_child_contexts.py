"""Dynamic ``uses``: decided before every run, without anything left behind (spec 1, C27–C29)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, CapabilityRef, Context, Preset, Resource, Snapshot, tool
from capset.errors import CapsetError, ContextError, DefinitionError
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


class Depth:
    def __init__(self, ctx: Context) -> None:
        self.word = "deep"


@tool(effect="write")
async def deep(ctx: Context) -> str:
    """Do it as experts do."""
    return ctx.use(for_experts).word


basics = Capability("basics", state={"session": Flags}, tools=[promote])
for_users = Capability("for_users", tools=[plain])
for_experts: Capability[Depth] = Capability(
    "for_experts",
    tools=[deep],
    helpers=Depth,
    instructions="Be deep.",
    context=[lambda ctx: {"depth": ctx.cap.for_experts.word}],
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
        refused = await session.try_call(deep)
        assert refused.error is not None
        assert refused.error.status == 404
        await session.call(promote)
        experts = await session.current()
        assert set(experts.tools) == {"promote", "deep"}
        assert await session.call(deep) == "deep"
        assert (await session.try_call(plain)).error is not None
        assert len({session.snapshot.runtime_hash, users.runtime_hash, experts.runtime_hash}) == 3
        records = await desk.records()
        assert [(record.tool, record.outcome, record.runtime_hash) for record in records] == [
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


@pytest.mark.spec("C27")
async def test_a_function_may_stand_for_the_whole_of_uses_and_bring_others() -> None:
    inner = Capability("inner", uses=lambda ctx: [for_users])
    dynamic_agent = Agent("whole", uses=lambda ctx: [inner])
    async with opened(dynamic_agent) as desk:
        assert set((await desk.session.current()).tools) == {"plain"}
        assert await desk.session.call(plain) == "plain"


@pytest.mark.spec("C28")
async def test_resources_and_state_must_be_declared_statically() -> None:
    counter = Resource("kept", int, scope="session", default=0)

    @tool
    async def count(ctx: Context) -> int:
        """Count."""
        return await ctx.resource(counter).increment()

    counting = Capability("counting", resources=[counter], presets={"tools": Preset(tools=[count])})
    undeclared = Agent("tester", uses=[lambda ctx: [counting]])
    async with opened(undeclared) as desk:
        with pytest.raises(DefinitionError, match="declares 'kept', which nothing declares statically") as caught:
            await desk.session.current()
        assert "use counting statically too" in str(caught.value.hint)
        failed = await desk.session.try_call(count)
        assert failed.error is not None
    off: CapabilityRef = counting.with_presets(tools=False)
    declared = Agent("tester", uses=[off, lambda ctx: [counting.with_presets(tools=True)]])
    async with opened(declared) as desk:
        assert set(desk.session.snapshot.tools) == set()
        assert await desk.session.call(count) == 1


@pytest.mark.spec("C29")
async def test_what_is_there_already_is_not_contributed_twice() -> None:
    inner = Capability("told", instructions="Once.", context=["Only once."], tools=[plain])
    outer = Capability("outer", uses=[inner], instructions="Around.")
    twice = Agent("tester", uses=[inner, lambda ctx: [inner, outer], lambda ctx: [outer]])
    async with opened(twice) as desk:
        text = await desk.session.system_text()
        assert [text.count(phrase) for phrase in ("Once.", "Only once.", "Around.")] == [1, 1, 1]


def _fails(ctx: Context) -> Iterable[Capability[Any, Any]]:
    raise ZeroDivisionError


async def _waits(ctx: Context) -> Iterable[Capability[Any, Any]]:
    return []


@pytest.mark.spec("C27")
@pytest.mark.parametrize("function", [_fails, lambda ctx: ["for_users"], lambda ctx: None])
async def test_a_function_that_fails_fails_the_run_by_its_name_and_leaves_a_record(function: Any) -> None:
    function.__name__ = "choosing"
    async with opened(Agent("tester", uses=[function])) as desk:
        with pytest.raises(ContextError, match="dynamic uses 'choosing'"):
            await desk.session.current()
        result = await desk.session.try_call(plain)
        assert isinstance(result.error, ContextError)
        assert (await desk.record()).outcome == "failed"


@pytest.mark.spec("C27")
def test_a_function_that_waits_is_refused_at_definition() -> None:
    with pytest.raises(DefinitionError, match="'_waits' must be a plain function"):
        Agent("tester", uses=[_waits])  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("C27")
async def test_equal_sets_share_one_snapshot() -> None:
    chosen = Agent("tester", uses=[lambda ctx: [for_users.with_names(prefix="x_")]])
    async with opened(chosen) as desk:
        first: Snapshot = await desk.session.current()
        assert await desk.session.current() is first


@pytest.mark.spec("C29")
async def test_dynamic_uses_only_add() -> None:
    switched = Capability("switched", presets={"more": Preset(tools=[plain])})
    off = Agent("tester", uses=[switched, lambda ctx: [switched.with_presets(more=False)]])
    async with opened(off) as desk:
        with pytest.raises(CapsetError, match="dynamic uses only add"):
            await desk.session.current()


@pytest.mark.spec("C27")
@pytest.mark.parametrize("returned", [None, for_users, "for_users"])
async def test_what_is_no_list_is_said_to_be_none(returned: Any) -> None:
    async with opened(Agent("tester", uses=[lambda ctx: returned])) as desk:
        with pytest.raises(ContextError, match="must return a list of capabilities; got"):
            await desk.session.current()


@pytest.mark.spec("C3")
async def test_a_tool_of_a_preset_that_is_off_is_named_with_what_switches_it_on() -> None:
    switched = Capability("switched", presets={"more": Preset(tools=[plain])}, default=[])
    async with opened(Agent("tester", uses=[switched])) as desk:
        result = await desk.session.try_call(plain)
        assert result.error is not None
        assert result.error.message == "the tool 'plain' belongs to the preset 'more' of 'switched', which is off here"
        assert result.error.hint == "use switched.with_presets(more=True)"


@pytest.mark.spec("C15")
async def test_instructions_name_tools_as_they_are_named_here() -> None:
    capability = Capability("told", tools=[plain], instructions="Use `plain`, in plain words, not `other`.")
    async with opened(Agent("tester", uses=[capability.with_names(prefix="x_")])) as desk:
        assert "Use `x_plain`, in plain words, not `other`." in await desk.session.system_text()
