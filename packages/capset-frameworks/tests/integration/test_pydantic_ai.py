"""A session in the hands of a pydantic-ai agent: what its model is shown, and what comes of its calls."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pydantic_ai
import pytest
from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition

from capset import Agent, Capability, Kernel, Principal, tool
from capset.extras import install_command
from capset.fingerprint.hashes import tool_hash
from capset_frameworks.pydantic_ai import CapsetToolset
from tests.helpers.frameworks.support import (
    Scripted,
    add,
    context,
    count,
    export,
    fail,
    order,
    returns,
    run,
    save,
    watch,
)
from tests.helpers.kernel.support import desk, opened, records_of

# What the model is shown


async def test_the_model_is_shown_exactly_what_is_in_play() -> None:
    async with desk(save, order, add, export, permissions={"notes:write"}) as open_desk:
        snapshot = open_desk.session.snapshot
        script = Scripted()
        await pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(open_desk.session, id="kit")]).run("go")
        (info,) = script.shown
        assert [definition.name for definition in info.function_tools] == ["add", "order", "save"]
        for definition in info.function_tools:
            original = snapshot.tools[definition.name].tool
            assert definition.description == original.description
            assert definition.parameters_json_schema == original.arguments.json_schema
            assert (definition.kind, definition.strict, definition.toolset_id) == ("function", None, "kit")
            assert definition.metadata == {
                "capability": "kit",
                "effect": original.effect,
                "tool_hash": tool_hash(original),
            }


async def test_two_sessions_of_one_runtime_hash_show_the_same_list() -> None:
    lists: list[list[ToolDefinition]] = []
    hashes: set[str] = set()
    for tools in ([add, order, fail], [fail, order, add]):
        async with desk(*tools) as open_desk:
            script = Scripted()
            await pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(open_desk.session)]).run("go")
            lists.append(script.shown[0].function_tools)
            hashes.add(open_desk.session.snapshot.runtime_hash)
    assert len(hashes) == 1
    assert lists[0] == lists[1]


async def test_what_prepares_a_tool_for_a_step_changes_nothing_of_capsets() -> None:
    async def prepare(ctx: RunContext[object], tools: list[ToolDefinition]) -> list[ToolDefinition]:
        for definition in tools:
            definition.parameters_json_schema["properties"]["a"]["description"] = "changed"
            assert definition.return_schema is not None
            definition.return_schema["description"] = "changed"
        return tools

    async with desk(add) as open_desk:
        script = Scripted()
        await pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(open_desk.session).prepared(prepare)]).run("go")
        assert "changed" in str(script.shown[0].function_tools)
    assert "changed" not in str((add.arguments.json_schema, add.output.json_schema))


async def test_return_schemas_are_sent_where_the_user_asks_for_them() -> None:
    async with desk(add) as open_desk:
        script = Scripted()
        toolset = CapsetToolset(open_desk.session).include_return_schemas()
        await pydantic_ai.Agent(script.model, toolsets=[toolset]).run("go")
        (definition,) = script.shown[0].function_tools
        assert json.loads((definition.description or "").partition("Return schema:")[2]) == add.output.json_schema


async def test_the_session_s_text_is_among_the_instructions_unless_it_is_not_wanted() -> None:
    kit = Capability("kit", instructions="One note a thought.", tools=[add])
    scribe = Agent("scribe", system_prompt="Keep tidy notes.", instructions=["Be brief."], uses=[kit])
    async with Kernel("memory://") as kernel, kernel.open(scribe, principal=Principal("ada")) as session:
        instructions: list[str | None] = []
        cacheable: list[bool] = []
        for toolset in (CapsetToolset(session), CapsetToolset(session, include_instructions=False)):
            script = Scripted([("add", {"a": 1})])
            await pydantic_ai.Agent(script.model, instructions="Be kind.", toolsets=[toolset]).run("go")
            assert len({info.instructions for info in script.shown}) == 1, "every step is told the same"
            instructions.append(script.shown[0].instructions)
            cacheable += [not part.dynamic for part in script.shown[0].model_request_parameters.instruction_parts or ()]
        text = session.snapshot.composition.system_text
        assert text.startswith('<capability id="kit">\nOne note a thought.')
        assert text.endswith("Keep tidy notes.\n\nBe brief.")
        assert instructions == [f"Be kind.\n\n{text}", "Be kind."]
        assert cacheable == [True, True, True]


async def test_a_session_without_text_adds_none() -> None:
    async with desk(add) as open_desk:
        assert await CapsetToolset(open_desk.session).get_instructions(context()) is None


async def test_an_agent_with_dependencies_of_its_own_takes_it() -> None:
    async with desk(add) as open_desk:
        script = Scripted([("add", {"a": 1})])
        agent = pydantic_ai.Agent(script.model, deps_type=int, toolsets=[CapsetToolset(open_desk.session)])
        result = await agent.run("go", deps=7)
        assert [part.content for part in returns(result.all_messages())] == [2]


async def test_pydantic_ai_s_own_test_model_can_call_every_tool() -> None:
    async with desk(add, save, order, permissions={"notes:write"}) as open_desk:
        await pydantic_ai.Agent(TestModel(), toolsets=[CapsetToolset(open_desk.session)]).run("go")
        assert {record.tool: record.outcome for record in await open_desk.records()} == {
            "add": "succeeded",
            "save": "succeeded",
            "order": "succeeded",
        }


@pytest.mark.spec("C15")
async def test_a_tool_under_two_names_is_two_tools_to_a_model() -> None:
    twice = Agent("a", uses=[Capability("one", tools=[add]), Capability("two", tools=[add]).with_names(prefix="x_")])
    async with opened(twice) as open_desk:
        script = Scripted([("add", {"a": 1}), ("x_add", {"a": 2})])
        result = await pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(open_desk.session)]).run("go")
        assert [definition.name for definition in script.shown[0].function_tools] == ["add", "x_add"]
        assert [part.content for part in returns(result.all_messages())] == [2, 3]
        assert {(record.tool, record.outcome) for record in await open_desk.records()} == {
            ("add", "succeeded"),
            ("x_add", "succeeded"),
        }


# Calls that succeed


async def test_results_are_plain_json_data_and_a_run_s_records_share_its_id(store: str) -> None:
    async with desk(add, save, store=store, permissions={"notes:write"}) as open_desk:
        first = await run(open_desk.session, [("add", '{"a": 2}')], [("save", {"text": "milk"})], run_id="run-1")
        await run(open_desk.session, [("add", '{"a": 3}')], run_id="run-2")
        assert [(part.outcome, part.content) for part in first] == [("success", 3), ("success", {"saved": "milk"})]

        records = await open_desk.records(correlation="run-1")
        assert [(record.tool, record.outcome, record.causation) for record in records] == [
            ("add", "succeeded", "call-1-1"),
            ("save", "succeeded", "call-2-1"),
        ]
        assert [record.tool for record in await open_desk.records(correlation="run-2")] == ["add"]
        everything = await open_desk.records()
        assert len(everything) == 3
        assert {record.runtime_hash for record in everything} == {open_desk.session.snapshot.runtime_hash}
        assert {record.prompt_hash for record in everything} == {open_desk.session.snapshot.prompt_hash}
        assert (await open_desk.kernel.audit.verify()).ok


async def test_a_streaming_tool_gives_the_model_its_reply_alone() -> None:
    async with desk(count, watch) as open_desk:
        read = await run(open_desk.session, [("count", {"texts": ["to be", "or not"]})], [("watch", {})])
        assert [(part.outcome, part.content) for part in read] == [("success", 4), ("success", None)]


async def test_calls_of_one_step_run_side_by_side(store: str) -> None:
    arrived: list[int] = []
    everybody = asyncio.Event()

    @tool(effect="write")
    async def meet(who: int) -> int:
        """Wait for the others."""
        arrived.append(who)
        if len(arrived) == 3:
            everybody.set()
        async with asyncio.timeout(60):
            await everybody.wait()
        return who

    async with desk(meet, store=store) as open_desk:
        read = await run(open_desk.session, [("meet", {"who": 1}), ("meet", {"who": 2}), ("meet", {"who": 3})])
        assert [part.content for part in read] == [1, 2, 3]
        assert {record.causation for record in await open_desk.records()} == {"call-1-1", "call-1-2", "call-1-3"}


async def test_one_agent_serves_many_sessions() -> None:
    agent = pydantic_ai.Agent(TestModel())
    scribe = Agent("scribe", uses=[Capability("kit", tools=[add])])
    async with Kernel("memory://") as kernel:

        async def serve(principal_id: str) -> None:
            async with kernel.open(scribe, principal=Principal(principal_id)) as session:
                await agent.run("go", toolsets=[CapsetToolset(session)], run_id=f"run-of-{principal_id}")

        await asyncio.gather(*(serve(f"user-{number}") for number in range(5)))
        for record in await records_of(kernel.audit):
            assert record.correlation == f"run-of-{record.principal}"
        assert len(await records_of(kernel.audit)) == 5


# The extra


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("missing", "expected"), [("pydantic_ai", install_command("agent")), ("pydantic_graph", "pydantic_graph")]
)
def test_without_the_extra_the_import_says_what_to_install(missing: str, expected: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import capset; import capset_frameworks.pydantic_ai"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert (last.split(":")[0], expected in last) == ("ModuleNotFoundError", True)
    assert ("[agent]" in done.stderr) == (missing == "pydantic_ai")
