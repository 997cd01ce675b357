"""What changes from one model step to the next: context, dynamic ``uses``, names (spec 1, C21, C26, C27)."""

from __future__ import annotations

import pydantic_ai
import pytest

from capset import Agent, Capability, Context, Kernel, Message, Principal, tool
from capset.definitions.calls.messages import Kind
from capset.definitions.references import AnyRef
from capset.errors import ContextError
from capset_frameworks.pydantic_ai import CapsetToolset
from tests.helpers.frameworks.support import Scripted, returns
from tests.helpers.kernel.support import records_of

WHO = Principal("ada")
KINDS: tuple[Kind, ...] = ("command", "query")


class Door:
    """A door that a tool opens: behind it there are more tools."""

    def __init__(self) -> None:
        self.is_open = False
        self.asked = 0

    def agent(self) -> Agent:
        """Return the agent that stands before it."""

        @tool(effect="write")
        async def unlock() -> str:
            """Unlock."""
            self.is_open = True
            return "open"

        @tool(effect="read")
        async def peek() -> str:
            """Peek."""
            return "gold"

        @tool(effect="write")
        async def take() -> str:
            """Take."""
            return "taken"

        vault = Capability("vault", instructions="Gold is heavy.", tools=[peek, take])
        entry = Capability("entry", tools=[unlock], context=[self.door])

        def inside(ctx: Context) -> list[AnyRef]:
            return [vault.with_names(prefix="v_")] if self.is_open else []

        return Agent("thief", system_prompt="Be quiet.", uses=[entry, inside])

    def door(self) -> dict[str, str]:
        """Say how it stands."""
        self.asked += 1
        return {"door": "open" if self.is_open else "shut"}


@pytest.mark.spec("C26", "C27")
async def test_each_step_sees_the_tools_and_the_text_of_its_time() -> None:
    door = Door()
    script = Scripted([("unlock", {})], [("v_peek", {}), ("v_take", {})])
    async with Kernel("memory://") as kernel, kernel.open(door.agent(), principal=WHO) as session:
        agent = pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(session)])
        read = returns((await agent.run("go")).all_messages())
        records = await records_of(kernel.audit)
        static = session.snapshot.runtime_hash
    assert [part.content for part in read] == ["open", "gold", "taken"]
    first, second, third = script.shown
    assert [definition.name for definition in first.function_tools] == ["unlock"]
    assert [definition.name for definition in second.function_tools] == ["unlock", "v_peek", "v_take"]
    assert first.instructions is not None
    assert second.instructions is not None
    assert first.instructions.endswith("<door>\n  shut\n</door>")
    assert second.instructions.endswith("<door>\n  open\n</door>")
    assert ("Gold is heavy." in first.instructions, "Gold is heavy." in second.instructions) == (False, True)
    assert third.instructions == second.instructions
    assert [(record.tool, record.capability, record.outcome) for record in records] == [
        ("unlock", "entry", "succeeded"),
        ("v_peek", "vault", "succeeded"),
        ("v_take", "vault", "succeeded"),
    ]
    assert [record.runtime_hash == static for record in records] == [True, False, False]
    metadata = second.function_tools[1].metadata
    assert metadata is not None
    assert metadata["capability"] == "vault"
    parts = second.model_request_parameters.instruction_parts or ()
    assert [part.dynamic for part in parts] == [True], "what changes is not cached as what stays"


@pytest.mark.spec("C26")
async def test_a_context_that_fails_fails_the_step_named() -> None:
    def broken() -> str:
        raise RuntimeError("hunter2")

    agent = Agent("a", uses=[Capability("kit", context=[broken])])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=WHO) as session:
        with pytest.raises(ContextError, match=r"broken\(\) of capability 'kit'") as failed:
            await pydantic_ai.Agent(Scripted().model, toolsets=[CapsetToolset(session)]).run("go")
        assert "hunter2" not in failed.value.message
        quiet = CapsetToolset(session, include_instructions=False)
        await pydantic_ai.Agent(Scripted().model, toolsets=[quiet]).run("go")


@pytest.mark.spec("C22")
async def test_a_context_function_gets_what_the_run_was_asked() -> None:
    def show_input(input: object, ctx: Context) -> dict[str, str]:
        return {"asked": str(input)}

    agent = Agent("a", uses=[Capability("kit", context=[show_input])])
    script = Scripted()
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=WHO) as session:
        await pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(session)]).run("the way?")
    assert script.shown[0].instructions == "<asked>\n  the way?\n</asked>"


@pytest.mark.spec("C27")
async def test_what_is_not_added_any_more_is_neither_offered_nor_done() -> None:
    door = Door()
    async with Kernel("memory://") as kernel, kernel.open(door.agent(), principal=WHO) as session:
        agent = pydantic_ai.Agent(toolsets=[CapsetToolset(session)])
        for is_open, names, status in ((True, ["unlock", "v_peek", "v_take"], None), (False, ["unlock"], 404)):
            door.is_open = is_open
            script = Scripted()
            await agent.run("go", model=script.model)
            assert [definition.name for definition in script.shown[0].function_tools] == names
            result = await session.try_message(session.message("v_peek", {}))
            assert (result.error and result.error.status) == status


@pytest.mark.spec("C27", "K1")
async def test_a_tool_that_is_added_takes_a_command_and_one_that_writes_no_query() -> None:
    door = Door()
    door.is_open = True
    async with Kernel("memory://") as kernel, kernel.open(door.agent(), principal=WHO) as session:
        outcomes = {
            (kind, name): (await session.try_message(Message(kind, name, {}))).success
            for kind in KINDS
            for name in ("v_peek", "v_take", "unlock")
        }
    assert outcomes == {
        ("command", "v_peek"): True,
        ("query", "v_peek"): True,
        ("command", "v_take"): True,
        ("query", "v_take"): False,
        ("command", "unlock"): True,
        ("query", "unlock"): False,
    }
