"""The state of a scope: fields of many models in one row, with a view that needs no waiting (spec 1, C13, C33–C36)."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, Kernel, Principal, tool
from capset.errors import StateError, StoredValueMisfit, ToolError
from tests.helpers.kernel.state.calls import done
from tests.helpers.kernel.state.states import Counts, Later, Mood, agent_of
from tests.helpers.kernel.support import opened


@pytest.mark.spec("C33")
async def test_the_view_is_there_without_waiting_and_follows_own_writes(store: str) -> None:
    async def do(ctx: Context) -> int:
        before = ctx.session.state.hits
        await ctx.state(Counts).increment("hits", 2)
        assert ctx.session.state.hits == before + 2
        await ctx.state(Counts).push("a", field="names")
        await ctx.state(Mood).patch(mood=" glad ")
        assert (ctx.session.state.names[-1], ctx.session.state.mood) == ("a", "glad")
        assert isinstance(await ctx.state(Mood).get(), Mood)
        await ctx.state(Counts).update(lambda counts: counts.model_copy(update={"hits": counts.hits * 10}))
        return ctx.session.state.hits

    agent, run = agent_of(do, uses=[Capability("other", state={"session": Mood})], state={"session": Counts})
    async with opened(agent, store=store) as desk:
        assert await run(desk.session) == 20
        principal = desk.session.snapshot.principal
        async with desk.kernel.open(agent, principal=principal, session_id=desk.session.id) as reopened:
            with pytest.raises(ToolError, match="hits"):  # 220 is more than the field takes
                await run(reopened)


@pytest.mark.spec("C13")
async def test_merged_defaults_and_validators_of_all_models_hold_at_run_time(store: str) -> None:
    async def do(ctx: Context) -> None:
        assert ctx.session.state.hits == 7  # the later default
        assert (await ctx.state(Counts).increment("hits")).hits == 8
        with pytest.raises(StateError, match="hits"):
            await ctx.state(Later).patch(hits=101)
        with pytest.raises(StateError, match="not that"):
            await ctx.state(Mood).patch(mood="furious")
        with pytest.raises(StateError, match=r"unknown field 'mod'; did you mean 'mood'\?"):
            await ctx.state(Mood).patch(mod="x")
        assert (await ctx.state(Mood).get()).mood == "calm"
        assert ctx.session.state.hits == 8

    uses = [Capability("a", state={"session": Counts}), Capability("b", state={"session": Mood})]
    agent, run = agent_of(do, uses=uses, state={"session": Later})
    async with opened(agent, store=store) as desk:
        await run(desk.session)


@pytest.mark.spec("C33")
async def test_the_fields_of_other_agents_in_a_shared_row_are_preserved(store: str) -> None:
    principal = Principal("ann")
    first, write = agent_of(lambda ctx: ctx.state(Counts).patch(hits=3, names=["kept"]), state={"user": Counts})
    second, other = agent_of(lambda ctx: ctx.state(Mood).set(Mood(mood="sad")), "other", state={"user": Mood})
    third, delete = agent_of(lambda ctx: ctx.state(Mood).delete(), "third", state={"user": Mood})
    fourth, read = agent_of(lambda ctx: ctx.state(Counts).get(), state={"user": Counts})
    async with Kernel(store=store) as kernel:
        for agent, run in ((first, write), (second, other), (third, delete), (fourth, read)):
            async with kernel.open(agent, principal=principal) as session:
                result = await run(session)
    assert result == Counts(hits=3, names=["kept"])


@pytest.mark.spec("C35")
async def test_state_that_no_longer_fits_is_reported_when_it_is_looked_at_and_kept(store: str) -> None:
    class Named(BaseModel):
        hits: str = ""

    async def looks(ctx: Context) -> None:
        assert ctx.principal.id == "ann"  # whoever does not look is not disturbed
        with pytest.raises(StoredValueMisfit, match="hits"):
            _ = ctx.user.state
        for attempt in (ctx.state(Named).get(), ctx.state(Named).update(lambda state: state)):
            with pytest.raises(StoredValueMisfit, match="hits") as caught:
                await attempt
            assert "let the type accept the old form too" in str(caught.value.hint)

    principal = Principal("ann")
    first, write = agent_of(lambda ctx: ctx.state(Counts).patch(hits=3), state={"user": Counts})
    second, look = agent_of(looks, "other", state={"user": Named})
    third, read = agent_of(lambda ctx: ctx.state(Counts).get(), "third", state={"user": Counts})
    async with Kernel(store=store) as kernel:
        for agent, run in ((first, write), (second, look), (third, read)):
            async with kernel.open(agent, principal=principal) as session:
                result = await run(session)
    assert result == Counts(hits=3)


@pytest.mark.spec("C33")
async def test_the_scope_request_lasts_for_one_call_with_all_that_it_calls() -> None:
    @tool
    async def inner(ctx: Context) -> str:
        """Count in the run."""
        await ctx.state(Counts).increment("hits")
        return ctx.request.id

    @tool
    async def outer(ctx: Context) -> int:
        """Count in the run, three times."""
        assert ctx.request.state.hits == 0
        await ctx.state(Counts).increment("hits")
        assert {await ctx.call(inner), await ctx.call(inner)} == {ctx.request.id}
        return ctx.request.state.hits

    agent = Agent("tester", uses=[Capability("kit", tools=[inner, outer], state={"request": Counts})])
    async with opened(agent) as desk:
        assert await desk.session.call(outer) == 3
        assert await desk.session.call(outer) == 3


@pytest.mark.spec("C33")
async def test_a_model_that_is_not_declared_or_stands_in_two_scopes_is_refused_with_advice() -> None:
    async def do(ctx: Context) -> None:
        with pytest.raises(StateError, match="no scope") as caught:
            ctx.state(Mood)
        assert "state=" in str(caught.value.hint)
        with pytest.raises(StateError, match="session and user") as caught:
            ctx.state(Counts)
        assert "scope=" in str(caught.value.hint)
        await ctx.state(Counts, scope="user").increment("hits")
        assert (ctx.user.state.hits, ctx.session.state.hits) == (1, 0)
        with pytest.raises(StateError, match="nothing declares state of the request scope"):
            _ = ctx.request.state
        with pytest.raises(StateError, match="name of a field"):
            await ctx.state(Counts, scope="user").increment(None)  # pyright: ignore[reportArgumentType]

    await done(do, state={"session": Counts, "user": Counts})


@pytest.mark.spec("C33")
async def test_the_view_can_only_be_looked_at() -> None:
    async def do(ctx: Context) -> None:
        with pytest.raises(StateError, match="is a read-only view") as caught:
            ctx.session.state.hits = 5
        assert "ctx.state(…).patch(hits=…)" in str(caught.value.hint)
        with pytest.raises(AttributeError, match=r"unknown field 'hit'; did you mean 'hits'\?"):
            _ = ctx.session.state.hit
        assert not hasattr(ctx.session.state, "nothing_like_it")
        assert ctx.session.state == Counts()
        assert "hits=0" in repr(ctx.session.state)

    await done(do, state={"session": Counts})
