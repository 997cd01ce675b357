"""The contract with the Claude Agent SDK, whose program talks to a stand-in for the Messages API."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypedDict
from unittest.mock import ANY

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, CLIConnectionError, HookContext, HookInput, HookMatcher
from claude_agent_sdk.types import HookJSONOutput, ResultMessage, SystemPromptPreset, ToolResultBlock, UserMessage
from mcp import Client

from capset import Agent, Capability
from capset.errors import DefinitionError
from capset_frameworks.claude_agent import CLAUDE_AGENT_SDK, CapsetClient, import_claude_tools
from capset_frameworks.session_tools import SessionTools
from scripts.packages import ROOT
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown
from tests.helpers.frameworks.kit import INSTRUCTIONS, add, decide, haste, hurry, look, office, paid
from tests.helpers.frameworks.messages_api import MessagesApi, Step, messages_api
from tests.helpers.frameworks.pages import run_page
from tests.helpers.kernel.support import opened
from tests.traces import Traces

pytestmark = [pytest.mark.clients, pytest.mark.nightly]

PREFIX = "mcp__capset__"


class ClaudeAgentDriver(Driver):
    framework = CLAUDE_AGENT_SDK
    misses: ClassVar = {
        "streamed": "the SDK passes no notifications of a server in its own process on to Claude Code",
        "no_object": "Claude Code itself refuses text that is not JSON, and there is no record of it",
    }

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.folder = Path(tempfile.mkdtemp())
        self.steps, self.ran = [*steps, "done"], Conversation()
        return await self._go("go")

    async def resume(self) -> Conversation:
        return await self._go(None)

    async def _go(self, prompt: str | None) -> Conversation:
        async with messages_api({"go": self.steps}, PREFIX) as api:
            options = replace(offline(api, self.folder), resume=self._run if prompt is None else None)
            async with CapsetClient(self.session, options, defers=self.defers) as client:
                if prompt is not None:
                    await client.query(prompt)
                await self._read(client)
            self.ran.shown += map(_shown, api.requests)
        return self.ran

    async def _read(self, client: CapsetClient) -> None:
        async for message in client.receive_response():
            if isinstance(message, UserMessage) and isinstance(message.content, list):
                self.ran.read += [_read(block) for block in message.content if isinstance(block, ToolResultBlock)]
            elif isinstance(message, ResultMessage):
                self._run = message.session_id
                deferred = message.deferred_tool_use
                self.ran.waiting = [] if deferred is None else [str(client.approval_of(deferred.id))]
                self.ran.output = message.result if deferred is None else None

    async def take(self, name: str) -> HeldTool:
        server = CapsetClient(self.session, defers=self.defers).server["instance"]

        async def call(arguments: dict[str, Any], id: str) -> Read:
            async with Client(server) as client:
                answer = await client.call_tool(name, arguments, meta={"claudecode/toolUseId": id})
            return Read("".join(part.text for part in answer.content if part.type == "text"), answer.is_error)

        return call

    async def run_id(self) -> str | None:
        return self._run


class TestContract(AdapterContract):
    driver = ClaudeAgentDriver


def offline(api: MessagesApi, folder: Path) -> ClaudeAgentOptions:
    """Return options with which Claude Code has no tools of its own, and asks the stand-in alone."""
    return ClaudeAgentOptions(
        model="claude-sonnet-5", tools=[], setting_sources=[], cwd=folder, env=api.environ(folder)
    )


def _shown(request: dict[str, Any]) -> Shown:
    tools = {tool["name"].removeprefix(PREFIX): tool["input_schema"] for tool in request["tools"]}
    return Shown("\n".join(block["text"] for block in request["system"]), tools)


def _read(block: ToolResultBlock) -> Read:
    text = block.content if isinstance(block.content, str) else "".join(part["text"] for part in block.content or [])
    return Read(text, bool(block.is_error))


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts: dict[str, list[Step]] = {
        "paper": [[("pay", {"sum": 7})], "The paper is paid."],
        "desk": [[("pay", {"sum": 500})], "The desk is paid."],
    }
    async with messages_api(scripts, PREFIX) as api:
        for name, value in api.environ(tmp_path).items():
            monkeypatch.setenv(name, value)
        await run_page("claude-agent", {"claude-sonnet-5": "claude-sonnet-5"}, capsys, tmp_path, monkeypatch)


async def test_a_suspended_run_goes_on_in_another_process(tmp_path: Path) -> None:
    """Of the first run, only Claude Code's files and capset's store are left."""
    async with messages_api({"go": [[("pay", {"sum": 500})], "done"]}, PREFIX) as api:
        async with office(store=f"sqlite:///{tmp_path}/capset.db") as desk:
            suspended = await ask(CapsetClient(desk.session, offline(api, tmp_path), defers=True))
            assert suspended.deferred_tool_use is not None
            (record,) = await desk.records()
            await decide(desk, str(record.approval))
            arguments = (str(tmp_path), str(desk.session.id), suspended.session_id, api.url)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            OTHER,
            *arguments,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )
        printed, _ = await process.communicate()
        assert printed.decode().split() == ["done", "[500]"]


OTHER = """
import asyncio, sys
from pathlib import Path
from capset_frameworks.claude_agent import CapsetClient
from tests.helpers.frameworks.kit import office, paid
from tests.helpers.frameworks.messages_api import MessagesApi
from test_claude_agent import offline, result

async def main(folder, session_id, run, url):
    options = offline(MessagesApi({}, url=url), Path(folder))
    options.resume = run
    async with office(store=f"sqlite:///{folder}/capset.db", session_id=session_id) as here:
        async with CapsetClient(here.session, options, defers=True) as client:
            print((await result(client)).result, paid)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_one_call_of_a_step_is_suspended_and_others_read_why(tmp_path: Path) -> None:
    async with office() as desk:
        driver = ClaudeAgentDriver(desk.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500}), ("pay", {"sum": 600})])
        first, second = await desk.records()
        assert suspended.waiting == [first.approval]
        assert str(second.approval) in suspended.read[0].text
        await decide(desk, suspended.waiting[0])
        assert (await driver.resume()).output == "done"
        assert paid == [500]


async def test_a_context_that_changes_is_told_in_the_next_step(tmp_path: Path) -> None:
    moods = ["open", "open", "closed"]

    def mood() -> str:
        return f"The shop is {moods.pop(0) if len(moods) > 1 else moods[0]}."

    agent = Agent("clerk", uses=[Capability("kit", tools=[look], context=[mood])])
    async with opened(agent) as desk, messages_api({"go": [[("look", {})], "done"]}, PREFIX) as api:
        assert (await ask(CapsetClient(desk.session, offline(api, tmp_path)))).result == "done"
        first, second = api.requests
    assert "The shop is open." in json.dumps(first["system"])
    assert "closed" not in json.dumps(first)
    assert "The shop is open." in json.dumps(second["system"])
    assert "These instructions replace the earlier ones:\\n\\nThe shop is closed." in json.dumps(second["messages"])


async def test_a_run_whose_context_fails_ends(tmp_path: Path) -> None:
    calls: list[int] = []

    def mood() -> str:
        calls.append(1)
        if len(calls) > 2:
            raise ValueError("the shop burned down")
        return "The shop is open."

    agent = Agent("clerk", uses=[Capability("kit", tools=[look], context=[mood])])
    async with opened(agent) as desk, messages_api({"go": [[("look", {})], "done"]}, PREFIX) as api:
        assert (await ask(CapsetClient(desk.session, offline(api, tmp_path)))).result != "done"
        assert len(api.requests) == 1


async def test_tools_that_come_into_play_between_prompts_are_there(tmp_path: Path) -> None:
    steps: list[Step] = ["ready", [("run", {})], "done"]
    async with office(dynamic=True) as desk, messages_api({"go": steps}, PREFIX) as api:
        async with CapsetClient(desk.session, offline(api, tmp_path)) as client:
            await client.query("go")
            assert (await result(client)).result == "ready"
            await desk.session.call(hurry)
            await client.query("on")
            assert (await result(client)).result == "done"
        assert ["run" in _shown(request).tools for request in api.requests] == [False, True, True]
        assert (await desk.records(tool="run"))[0].outcome == "succeeded"


async def test_tools_are_asked_for_again_when_only_a_name_has_changed() -> None:
    other = Agent("clerk", uses=[haste.with_names(prefix="x_")])
    async with opened(Agent("clerk", uses=[haste])) as desk, opened(other) as other_desk:
        client = CapsetClient(desk.session)
        await client._list_tools(ANY, None)
        await client._refresh()
        client._tools = SessionTools(other_desk.session)
        with pytest.raises(CLIConnectionError):  # it would tell Claude Code, which has not been started
            await client._refresh()


async def test_a_step_of_a_subagent_leaves_changes_to_the_main_agent() -> None:
    async with office() as desk:
        hook_input: Any = {"hook_event_name": "PostToolBatch", "agent_id": "sub"}
        assert await CapsetClient(desk.session)._before_step(hook_input, None, {"signal": None}) == {}


async def test_refusals_of_calls_that_are_never_made_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_frameworks.claude_agent._MAX_REFUSALS", 2)
    async with office() as desk:
        client = CapsetClient(desk.session, defers=True)
        for use in "123":
            hook_input: Any = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": use}
            hook_input |= {"tool_name": f"{PREFIX}pay", "tool_input": {"sum": 500}}
            await client._before_call(hook_input, use, {"signal": None})
        assert [client.approval_of(use) is None for use in "123"] == [True, False, False]


async def test_its_own_servers_hooks_and_prompt_stay(tmp_path: Path) -> None:
    @claude_agent_sdk.tool("own", "Be of the agent's own.", {})
    async def own_tool(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "own"}]}

    tool_names: list[str] = []

    async def watch(hook_input: HookInput, id: str | None, context: HookContext) -> HookJSONOutput:
        assert hook_input["hook_event_name"] == "PreToolUse"
        tool_names.append(hook_input["tool_name"])
        if not hook_input["tool_name"].endswith("__pay"):
            return {}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}

    calls: list[Call] = [("mine__own", {}), ("capset__add", {"a": 1}), ("capset__pay", {"sum": 1})]
    async with office() as desk, messages_api({"go": [calls, "done"]}, "mcp__") as api:
        options = replace(
            offline(api, tmp_path),
            system_prompt="Be brief.",
            mcp_servers={"mine": claude_agent_sdk.create_sdk_mcp_server("mine", tools=[own_tool])},
            allowed_tools=["mcp__mine"],
            hooks={"PreToolUse": [HookMatcher(hooks=[watch])]},
        )
        assert (await ask(CapsetClient(desk.session, options, include_instructions=False))).result == "done"
        system = json.dumps(api.requests[0]["system"])
        assert "Be brief." in system
        assert INSTRUCTIONS not in system
        assert tool_names == ["mcp__mine__own", "mcp__capset__add", "mcp__capset__pay"]
        assert [record.tool for record in await desk.records()] == ["add"]  # the hook denied the other


async def test_spans_of_calls_lie_below_that_of_the_client(tmp_path: Path) -> None:
    traces = Traces()
    kit = Capability("kit", tools=[add])
    async with (
        opened(Agent("clerk", uses=[kit]), observers=[traces.observer()]) as desk,
        messages_api({"go": [[("add", {"a": 1})], "done"]}, PREFIX) as api,
    ):
        with traces.provider.get_tracer("test").start_as_current_span("around"):
            await ask(CapsetClient(desk.session, offline(api, tmp_path)))
    assert traces.tree == ["around", "  execute_tool add"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ClaudeAgentOptions(mcp_servers="servers.json"), "mcp_servers is the text or the path"),
        (ClaudeAgentOptions(mcp_servers={"capset": {"command": "x"}}), "has a server 'capset'"),
        (ClaudeAgentOptions(system_prompt={"type": "file", "path": "x"}), "system_prompt is a file"),
    ],
)
async def test_options_that_it_cannot_add_to_are_refused(options: ClaudeAgentOptions, message: str) -> None:
    async with office() as desk:
        with pytest.raises(DefinitionError, match=message):
            CapsetClient(desk.session, options)


async def test_names_of_servers_that_claude_code_would_read_otherwise_are_refused() -> None:
    async with office() as desk:
        for name in ("a__b", "a_b_c", "", "ä"):
            with pytest.raises(DefinitionError, match="a server's name"):
                CapsetClient(desk.session, name=name)


async def test_a_preset_prompt_has_the_systems_text_appended(tmp_path: Path) -> None:
    async with office() as desk, messages_api({"go": ["done"]}) as api:
        preset: SystemPromptPreset = {"type": "preset", "preset": "claude_code", "append": "Be brief."}
        options = replace(offline(api, tmp_path), system_prompt=preset)
        await ask(CapsetClient(desk.session, options))
        system = "\n".join(block["text"] for block in api.requests[0]["system"])
        assert system.endswith(f"Be brief.\n\n{await desk.session.system_text()}")


class Depth(TypedDict, total=False):
    depth: int


class Size(Depth):
    width: int


@claude_agent_sdk.tool("measure", "Measure it.", Size)
async def measure(args: Size) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(args["width"] * args.get("depth", 1))}]}


@claude_agent_sdk.tool(
    "list_all",
    "List them.",
    {
        "type": "object",
        "properties": {"of": {"type": "object", "properties": {"kinds": {"type": "array"}}}, "most": {"default": 3}},
        "required": ["of"],
    },
)
async def list_all(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(args)}]}


@claude_agent_sdk.tool("draw", "Draw it.", {})
async def draw(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}


@claude_agent_sdk.tool("refuse", "Refuse.", {"why": str})
async def refuse(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"not today: {args['why']}"}], "is_error": True}


@claude_agent_sdk.tool("crash", "Crash.", {})
async def crash(args: dict[str, Any]) -> dict[str, Any]:
    raise RuntimeError("a secret of the house")


async def test_tools_of_the_sdk_become_tools_here() -> None:
    with pytest.raises(DefinitionError, match="draw"):  # two of one name
        await import_claude_tools([draw, draw], name="theirs", effect="read")
    imported = await import_claude_tools(
        [measure, list_all, draw, refuse, crash], name="theirs", effect="external", rules={"draw": {"effect": "read"}}
    )
    tools = imported.tools
    assert {name: tool.effect for name, tool in tools.items()} == {
        **dict.fromkeys(["measure", "list_all", "refuse", "crash"], "external"),
        "draw": "read",
    }
    assert tools["measure"].arguments.json_schema["required"] == ["width"]
    assert tools["measure"].description == "Measure it."
    async with opened(Agent("clerk", uses=[imported.capability])) as desk:
        theirs = SessionTools(desk.session)
        assert (await theirs.call("measure", {"width": 2, "depth": 3})).data == "6"
        assert (await theirs.call("measure", {"width": 2})).data == "2"
        answer = await theirs.call("list_all", {"of": {"kinds": ["a"]}})
        assert json.loads(str(answer.data)) == {"of": {"kinds": ["a"]}, "most": 3}
        assert (await theirs.call("draw", {})).data == [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
        refused, crashed = await theirs.call("refuse", {"why": "rain"}), await theirs.call("crash", {})
        assert "not today: rain" in refused.text
        assert "secret" not in crashed.text
        assert "Invalid arguments for 'measure'" in (await theirs.call("measure", {"width": "x"})).text
        records = await desk.records()
    assert {(record.tool, record.effect) for record in records} >= {("measure", "external"), ("draw", "read")}
    assert {record.outcome for record in records} == {"succeeded", "failed", "invalid"}


async def ask(client: CapsetClient) -> ResultMessage:
    """Have a client run to its end, or until it is suspended."""
    async with client:
        await client.query("go")
        return await result(client)
    raise AssertionError("a client lets errors through")


async def result(client: CapsetClient) -> ResultMessage:
    """Return how a run ended."""
    *_, ended = [message async for message in client.receive_response()]
    assert isinstance(ended, ResultMessage)
    return ended
