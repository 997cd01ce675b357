from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, CapsetError, Context, DefinitionError, Kernel, Policy, Resource, tool
from capset.errors import InternalError, InvalidArguments, InvalidOutput, PermissionDenied
from capset.flows import Generator
from capset.kernel.blocks.generation import Turn
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.flows.support import ADA, records, run


class Verdict(BaseModel):
    good: bool
    why: str


class Draft(BaseModel):
    text: str


drafts = Resource("drafts", list[str], scope="session", default=list)


@tool
async def keep(ctx: Context, text: str) -> int:
    """Keep a draft."""
    return len(await ctx.resource(drafts).push(text))


def shown(input: Draft, ctx: Context) -> dict[str, str]:
    return {"draft": input.text, "reader": ctx.principal.id}


PROMPT: Any = {"system_prompt": "You judge drafts.", "instructions": ["Be fair."], "model_settings": {"temperature": 0}}
JUDGE = Generator("judge", tools=[keep], context=[shown], resources=[drafts], input=Draft, output=Verdict, **PROMPT)


@pytest.mark.spec("C37")
async def test_a_generator_is_told_everything_and_works_with_its_tools(store: str) -> None:
    runner = ScriptedRunner({"judge": [Call("keep", text="a"), Say(Verdict(good=True, why="short"))]})
    async with Kernel(store, generator=runner) as kernel, kernel.open(JUDGE, principal=ADA) as session:
        assert await session.run(Draft(text="hello")) == Verdict(good=True, why="short")
        (record,) = await records(kernel)
    first, second = runner.steps
    context = "<draft>\n  hello\n</draft>\n<reader>\n  ada\n</reader>"
    assert first.system_text == f"You judge drafts.\n\nBe fair.\n\n{context}"
    assert (first.tools, first.model_settings) == (("keep",), {"temperature": 0})
    assert [result.data for result in second.results] == [1]
    assert (record.tool, record.runtime_hash) == ("keep", second.runtime_hash)


@pytest.mark.spec("C37")
@pytest.mark.parametrize("output", ["nice", {"good": "yes", "why": ""}, None, Draft(text="no")])
async def test_its_output_is_checked_whatever_the_runner_says(output: Any) -> None:
    with pytest.raises(InvalidOutput, match="The block 'judge' returned an output that does not match its type"):
        await run(JUDGE, Draft(text=""), runner=ScriptedRunner({"judge": [Say(output)]}))


@pytest.mark.spec("C37")
async def test_without_an_output_type_it_gives_text() -> None:
    plain = Generator("plain")
    assert await run(plain, 3, runner=ScriptedRunner({"plain": [Say("three")]})) == "three"
    with pytest.raises(InvalidOutput):
        await run(plain, 3, runner=ScriptedRunner({"plain": [Say(3)]}))


@pytest.mark.spec("C37", "P4")
async def test_the_runner_is_told_what_is_wanted_and_which_model_an_agent_names() -> None:
    turns: list[Turn] = []

    class Asking:
        async def run(self, turn: Turn) -> Any:
            turns.append(turn)
            return "said" if turn.output is None else Verdict(good=False, why="")

    draft = Draft(text="x")
    for block, value in ((JUDGE, draft), (Generator("plain"), "x"), (Agent("named", model="openai:gpt-9"), "x")):
        await run(block, value, runner=Asking())
    assert [(turn.name, turn.input, turn.model) for turn in turns] == [
        *(("judge", draft, None), ("plain", "x", None), ("named", "x", "openai:gpt-9")),
    ]
    assert [turn.output and turn.output.json_schema["required"] for turn in turns] == [["good", "why"], None, None]


async def test_its_input_is_checked_before_any_step() -> None:
    runner = ScriptedRunner({"judge": [Say("never")]})
    with pytest.raises(InvalidArguments, match="Invalid input for the block 'judge'"):
        await run(JUDGE, "hello", runner=runner)
    assert runner.steps == []


async def test_a_kernel_without_a_runner_says_what_to_do() -> None:
    with pytest.raises(CapsetError, match="this kernel has no generator runner") as refused:
        await run(Generator("plain"))
    assert str(refused.value.hint).startswith("pass one: Kernel(generator=AgentRunner(")


async def test_a_runner_that_fails_is_contained() -> None:
    class Failing:
        async def run(self, turn: Turn) -> Any:
            raise ConnectionError("https://key@provider")

    with pytest.raises(InternalError, match="'plain' failed unexpectedly") as failed:
        await run(Generator("plain"), runner=Failing())
    assert failed.value.__cause__ is failed.value.__context__ is None


async def test_its_policies_gate_every_tool_that_it_has() -> None:
    shut = Policy("shut", lambda request: request.tool is None)
    block = Generator("gated", uses=[Capability("kit", tools=[keep], resources=[drafts])], policies=[shut])
    runner = ScriptedRunner({"gated": [Call("keep", text="a"), Say("done")]})
    assert await run(block, runner=runner) == "done"
    assert isinstance(runner.steps[-1].results[0].error, PermissionDenied)


@pytest.mark.spec("C38")
async def test_an_agent_is_a_generator_too() -> None:
    agent = Agent("Old hand", system_prompt="Be.", tools=[keep], context=["Shown."], resources=[drafts])
    assert agent.kind == "generator"
    assert await run(agent, runner=ScriptedRunner({"Old hand": [Call("keep", text="a"), Say("done")]})) == "done"


@pytest.mark.spec("C27")
async def test_dynamic_uses_are_asked_before_every_model_step_and_the_records_tell(store: str) -> None:
    class Mode(BaseModel):
        expert: bool = False

    @tool
    async def become_expert(ctx: Context) -> bool:
        """Become an expert."""
        return (await ctx.state(Mode).patch(expert=True)).expert

    @tool(effect="read")
    def deep_dive() -> str:
        """Dive deeply."""
        return "deep"

    expert = Capability("expert", tools=[deep_dive], instructions="Go deep.")
    block = Generator(
        "learner",
        uses=[Capability("kit", tools=[become_expert]), lambda ctx: [expert] if ctx.session.state.expert else []],
        state={"session": Mode},
    )
    runner = ScriptedRunner({"learner": [Call("deep_dive"), Call("become_expert"), Call("deep_dive"), Say("done")]})
    async with Kernel(store, generator=runner) as kernel, kernel.open(block, principal=ADA) as session:
        await session.run()
        audit_records = await records(kernel)
    before, after = ("become_expert",), ("become_expert", "deep_dive")
    assert [step.tools for step in runner.steps] == [before, before, after, after]
    assert ["Go deep." in step.system_text for step in runner.steps] == [False, False, True, True]
    first, second, third, last = [step.runtime_hash for step in runner.steps]
    assert first == second != third == last
    assert [(record.tool, record.outcome, record.runtime_hash) for record in audit_records] == [
        *(("deep_dive", "not_found", second), ("become_expert", "succeeded", second)),
        ("deep_dive", "succeeded", third),
    ]
    assert [result.success for result in runner.steps[-1].results] == [False, True, True]


@pytest.mark.spec("C37")
@pytest.mark.parametrize("named", [5, None, keep])
async def test_a_runner_that_calls_a_tool_by_anything_but_its_name_is_told_so(named: Any) -> None:
    class Careless:
        async def run(self, turn: Turn) -> Any:
            step = await turn.step()
            with pytest.raises(DefinitionError, match="a model calls a tool by its name"):
                await step.call(named, {})
            return Verdict(good=True, why="nothing happened")

    async with Kernel("memory://", generator=Careless()) as kernel, kernel.open(JUDGE, principal=ADA) as session:
        await session.run(Draft(text="hello"))
        assert await records(kernel) == []
