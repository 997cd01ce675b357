"""A model that follows a script, as pydantic-ai runs it, and what a script's file may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent

from capset import Kernel, Principal
from capset.errors import DefinitionError, InvalidOutput
from capset.flows import Generator
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call, Condition, Script, ScriptError, ScriptStep, build_script
from capset_agents.runner import AgentRunner
from capset_connect.scripts import read_script
from capset_testing import ScriptedModel as Public


class Report(BaseModel):
    """What a generator gives."""

    title: str
    pages: int


def look(number: int) -> int:
    """Look at a number."""
    if number < 0:
        raise ValueError("it is negative")
    return number


@pytest.mark.spec("R12")
async def test_it_works_wherever_pydantic_ai_takes_a_model() -> None:
    model = ScriptedModel([Call("look", number=1), Call("look", number=2)], ScriptStep(reasoning="hm", text="Three."))
    agent = PydanticAgent(model, tools=[look])
    done = await agent.run("add")
    assert done.output == "Three."
    assert [part.part_kind for part in done.all_messages()[-1].parts] == ["thinking", "text"]
    async with agent.run_stream("add") as streamed:
        assert await streamed.get_output() == "Three."
    assert Public is ScriptedModel


@pytest.mark.spec("R12")
async def test_where_it_stands_is_read_from_the_messages() -> None:
    """Another object with the same script goes on."""
    moves = (Call("look", number=1), "One.", "Two.")
    agent = PydanticAgent(ScriptedModel(*moves), tools=[look])
    first = await agent.run("go")
    resumed = await agent.run("on", model=ScriptedModel(*moves), message_history=first.all_messages())
    assert (first.output, resumed.output) == ("One.", "Two.")
    with pytest.raises(ScriptError, match="is over after 3 of 3 steps"):
        await agent.run("and?", message_history=resumed.all_messages())


@pytest.mark.spec("R12")
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (Condition(contains="seen"), True),
        (Condition(contains="lost"), False),
        (Condition(lacks="lost"), True),
        (Condition(succeeded=True), True),
        (Condition(succeeded=False), False),
        (Condition(tool="look", contains="seen 2"), True),
        (Condition(tool="other", contains="seen"), False),
        (Condition(tool="other", lacks="seen"), True),
    ],
)
async def test_a_step_is_skipped_unless_its_condition_holds(condition: Condition, holds: bool) -> None:
    def look(number: int) -> str:
        """Look."""
        return f"seen {number}"

    steps = (Call("look", number=2), ScriptStep(when=condition, text="It holds."), "It does not.")
    done = await PydanticAgent(ScriptedModel(*steps), tools=[look]).run("go")
    assert done.output == ("It holds." if holds else "It does not.")


@pytest.mark.spec("R1", "R12")
async def test_a_generator_has_structured_output() -> None:
    """What does not fit is asked for again, twice at most."""
    good, bad = ScriptStep(output={"title": "A", "pages": 3}), ScriptStep(output={"title": "A"})
    writer = Generator("writer", system_prompt="Write.", output=Report)
    for steps, expected in (([good], Report(title="A", pages=3)), ([bad], InvalidOutput)):
        async with (
            Kernel("memory://", generator=AgentRunner(ScriptedModel(*steps))) as kernel,
            kernel.open(writer, principal=Principal("ada")) as session,
        ):
            if isinstance(expected, Report):
                assert await session.run("write") == expected
            else:
                with pytest.raises(expected):
                    await session.run("write")


def test_a_file_has_steps_for_each_agent(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("agents: {writer: [{text: I write.}], reader: [{text: I read., repeat: 2}]}", encoding="utf-8")
    script = read_script(path)
    assert [step.text for step in script.steps_for("writer")] == ["I write."]
    assert [step.text for step in script.steps_for("reader")] == ["I read.", "I read."]
    with pytest.raises(ScriptError, match="writer, reader"):
        script.steps_for("editor")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"step": []}, "step"),
        ({"steps": [{"texts": "x"}]}, "texts"),
        ({"steps": [{"calls": [{"arguments": {}}]}]}, "tool"),
        ({"steps": [{"repeat": 0}]}, "repeat"),
        ({"steps": [{"fail": "maybe"}]}, "fail"),
        ("steps", "not a script"),
    ],
)
def test_what_does_not_fit_is_named(data: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem) as refused:
        build_script(data, "my.yaml")
    assert refused.value.message.startswith("my.yaml: not a script:")


def test_a_script_is_for_every_agent_unless_it_says_which() -> None:
    script = Script({"": [ScriptStep(text="x")]})
    assert script.steps_for("anybody") == (ScriptStep(text="x"),)
