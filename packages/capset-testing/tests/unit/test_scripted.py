from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from capset import Agent, Context, ContextMessage, Kernel, Principal, tool
from capset.errors import InvalidArguments
from capset.flows import Generator, as_tool
from capset_testing import Call, Say, ScriptedRunner, ScriptError, StepInput


@tool(effect="read")
def weekday(day: date) -> str:
    """Say which day of the week it is."""
    return day.strftime("%A")


async def run(block: Any, runner: ScriptedRunner, input: object = None) -> Any:
    async with (
        Kernel("memory://", generator=runner) as kernel,
        kernel.open(block, principal=Principal("ada")) as session,
    ):
        return await session.run(input)


PLANNER = Generator("planner", tools=[weekday], context=[ContextMessage("user", "Plan.")], model_settings={"seed": 1})


async def test_it_does_what_the_script_says_and_keeps_what_each_step_saw() -> None:
    runner = ScriptedRunner({"planner": [Call("weekday", day=date(2026, 1, 1)), Say("on Thursday")]})
    assert await run(PLANNER, runner, "when?") == "on Thursday"
    first, second = runner.steps
    assert (first.generator, first.input, first.tools, first.results) == ("planner", "when?", ("weekday",), ())
    assert first.messages == (ContextMessage("user", "Plan."),)
    assert first.model_settings == {"seed": 1}
    assert first.runtime_hash == second.runtime_hash
    assert [result.data for result in second.results] == ["Thursday"]
    assert runner.steps_of("planner") == [first, second]
    assert runner.steps_of("other") == []
    runner.assert_done()


async def test_every_step_asks_for_its_prompt_anew() -> None:
    prompts: list[int] = []

    def counts(ctx: Context) -> str:
        prompts.append(1)
        return f"step {len(prompts)}"

    block = Generator("g", tools=[weekday], context=[counts])
    runner = ScriptedRunner({"g": [Call("weekday", day="2026-01-01"), Call("weekday", day="2026-01-02"), Say("done")]})
    await run(block, runner)
    assert [step.system_text for step in runner.steps] == ["step 1", "step 2", "step 3"]


async def test_a_function_decides_by_what_it_sees() -> None:
    def answer(step: StepInput) -> Say:
        return Say(f"{step.input}: {step.results[-1].data}")

    runner = ScriptedRunner({"planner": [Call("weekday", day="2026-01-02"), answer]})
    assert await run(PLANNER, runner, "day") == "day: Friday"


async def test_a_call_that_fails_is_a_result_like_any_other() -> None:
    runner = ScriptedRunner({"planner": [Call("weekday", day="someday"), Call("nothing"), Say("sorry")]})
    assert await run(PLANNER, runner) == "sorry"
    assert [result.success for result in runner.steps[-1].results] == [False, False]
    assert isinstance(runner.steps[-1].results[0].error, InvalidArguments)


async def test_a_script_goes_on_in_the_next_run() -> None:
    runner = ScriptedRunner({"planner": [Say("one"), Say("two")]})
    assert [await run(PLANNER, runner), await run(PLANNER, runner)] == ["one", "two"]
    with pytest.raises(ScriptError, match=r"^the script of 'planner' is over, and no Say ended this run"):
        await run(PLANNER, runner)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"planer": [Say("x")]}, "the script has no steps for the generator 'planner'; it is for: planer"),
        ({}, "the script has no steps for the generator 'planner'; it is for: none"),
        ({"planner": []}, "the script of 'planner' is over"),
        ({"planner": [lambda step: "x"]}, "a step of a script is a Call or a Say; 'planner' has 'x'"),
    ],
)
async def test_what_does_not_fit_says_so(script: Any, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        await run(PLANNER, ScriptedRunner(script))


async def test_a_misfit_of_a_generator_inside_reaches_the_test_through_every_tool() -> None:
    block = Agent("outer", tools=[as_tool(Generator("inner", description="Help."))])
    runner = ScriptedRunner({"outer": [Call("inner", input="x"), Say("never mind")]})
    with pytest.raises(ScriptError, match="no steps for the generator 'inner'"):
        await run(block, runner)


async def test_what_was_not_reached_is_told() -> None:
    runner = ScriptedRunner({"planner": [Say("one"), Call("weekday", day="x"), Say("two")], "other": []})
    await run(PLANNER, runner)
    with pytest.raises(ScriptError, match=r"^these steps of the script were not reached: planner: Call\('weekday', "):
        runner.assert_done()


def test_a_call_takes_a_tool_for_its_name() -> None:
    @tool
    async def hint() -> str:
        """Give a hint."""
        return "think"

    assert repr(Call(hint)) == repr(Call("hint"))
