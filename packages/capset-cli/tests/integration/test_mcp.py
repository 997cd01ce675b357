"""``capset mcp``: a real process, and the official client at its standard streams."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp_types import ElicitResult

from capset_server.mcp.stdio import LAST_SECONDS
from tests.helpers.cli.mcp import client
from tests.helpers.cli.support import Command, Run, clean_environment, install

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "enough"}}
NOISY = '''
import asyncio
import os
import subprocess
import sys

from capset import Agent, Capability, tool


@tool(effect="read")
async def shout() -> str:
    """Print to everything that there is."""
    print("PRINTED", flush=True)
    os.write(1, b"WRITTEN\\n")
    subprocess.run(["echo", "ECHOED"], check=True)
    return sys.stdin.read() + "done"


@tool(effect="write")
async def sleep() -> str:
    """Sleep."""
    print("SLEEPING", flush=True)
    await asyncio.sleep(60)
    return "awake"


@tool(effect="read")
async def doze() -> str:
    """Sleep a little."""
    await asyncio.sleep(0.3)
    return "rested"


noise = Capability("noise", tools=[shout, sleep, doze])
noisy = Agent("noisy", system_prompt="Be loud.", uses=[noise])
'''

ASKING = '''
from pydantic import BaseModel

from capset import Agent, Capability, Context, tool
from capset.ext import McpPrompt, McpResource


class Name(BaseModel):
    name: str


@tool(effect="write")
async def greet(ctx: Context) -> str:
    """Greet by name."""
    answer = await ctx.ask_client("name", "Who are you?", Name)
    return f"Hello, {answer.data.name}" if answer.data else "Hello"


@tool(effect="read")
async def motto() -> str:
    """Tell the motto."""
    return "Ask first."


polite = Capability("polite", tools=[greet, motto], mcp=[McpPrompt(motto), McpResource("polite://motto", motto)])
butler = Agent("butler", uses=[polite])
'''


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def noisy(tmp_path: Path) -> Command:
    """Give the command where an agent is installed whose tools print, sleep and doze."""
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "noise", NOISY, capabilities={"noise": "noise:noise"}, agents={"noisy": "noise:noisy"})
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))


def call(name: str, id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}}}


def lines(*messages: Mapping[str, Any] | str) -> str:
    return "".join(f"{message if isinstance(message, str) else json.dumps(message)}\n" for message in messages)


def outcomes(folder: Path) -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(folder / "capset.db")) as database:
        return database.execute("SELECT tool, outcome FROM records WHERE phase = 'outcome' ORDER BY seq").fetchall()


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_lists_and_calls(mode: str, noisy: Command) -> None:
    async with client(noisy, "--agent", "noisy", "--principal", "ada", mode=mode) as mcp_client:
        assert mcp_client.instructions == "Be loud."
        assert [tool.name for tool in (await mcp_client.list_tools()).tools] == ["doze", "shout", "sleep"]
        result = await mcp_client.call_tool("doze")
        assert result.structured_content == {"result": "rested"}
        missing = await mcp_client.call_tool("dose")
        assert missing.is_error
    assert outcomes(noisy.folder) == [("doze", "succeeded"), ("dose", "not_found")]
    with closing(sqlite3.connect(noisy.folder / "capset.db")) as database:
        assert database.execute("SELECT DISTINCT principal FROM records").fetchall() == [("ada",)]


@pytest.mark.nightly
@pytest.mark.spec("M11", "M12")
async def test_prompts_resources_and_questions_go_by_standard_streams(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "polite", ASKING, capabilities={"polite": "polite:polite"}, agents={"butler": "polite:butler"})
    command = Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))

    async def answer(context: object, params: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with client(command, "--agent", "butler", elicitation_callback=answer) as mcp_client:
        assert [prompt.name for prompt in (await mcp_client.list_prompts()).prompts] == ["motto"]
        (message,) = (await mcp_client.get_prompt("motto")).messages
        (read,) = (await mcp_client.read_resource("polite://motto")).contents
        assert message.content.model_dump()["text"] == read.model_dump()["text"] == "Ask first."
        result = await mcp_client.call_tool("greet")
        assert result.structured_content == {"result": "Hello, Ada"}
    assert outcomes(tmp_path) == [
        ("motto", "succeeded"),
        ("motto", "succeeded"),
        ("greet", "pending"),
        ("greet", "succeeded"),
    ]


@pytest.mark.nightly
@pytest.mark.spec("M24")
async def test_changes_go_by_standard_streams_and_who_listens_holds_nothing_up(capset: Command) -> None:
    (capset.folder / "agent.yaml").write_text("name: clerk\ncapabilities: [session_file_system]\n", encoding="utf-8")
    grants = ("--grant", "session_files:read", "--grant", "session_files:write")
    async with client(capset, "--agent", "agent.yaml", *grants) as mcp_client:
        listening = mcp_client.listen(resources_list_changed=True, resource_subscriptions=["capset://files/a.txt"])
        async with listening as changed, asyncio.timeout(60):
            await mcp_client.call_tool("write_file", {"path": "/a.txt", "content": "a"})
            assert {await anext(changed), await anext(changed)} == {
                ResourcesListChanged(),
                ResourceUpdated("capset://files/a.txt"),
            }
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    with capset.start("mcp", "--agent", "agent.yaml", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines(listen))
        process.stdin.flush()
        notification = json.loads(process.stdout.readline())
        assert notification["method"] == "notifications/subscriptions/acknowledged"
        started = time.monotonic()
        process.stdin.close()
        process.wait(30)
        assert time.monotonic() - started < LAST_SECONDS, "only requests that are to be answered are waited for"
    assert process.returncode == 0


@pytest.mark.realtime
async def test_a_file_and_its_grants(capset: Command) -> None:
    (capset.folder / "agent.yaml").write_text("name: clerk\ncapabilities: [session_file_system]\n", encoding="utf-8")
    async with client(capset, "--agent", "agent.yaml", "--grant", "session_files:read") as mcp_client:
        names = {tool.name for tool in (await mcp_client.list_tools()).tools}
        assert "read_file" in names
        assert "write_file" not in names


@pytest.mark.realtime
async def test_a_session_goes_on_by_its_id(noisy: Command) -> None:
    with noisy.start("mcp", "--agent", "noisy", stdin=subprocess.PIPE) as process:
        _, err = process.communicate("", timeout=60)
    assert process.returncode == 0
    session = err.split()[-1]
    assert err == f"serving noisy as local, session {session}\n"
    async with client(noisy, "--session", session) as mcp_client:
        assert (await mcp_client.call_tool("doze")).is_error is False
    with closing(sqlite3.connect(noisy.folder / "capset.db")) as database:
        assert database.execute("SELECT DISTINCT session FROM records").fetchall() == [(session,)]


@pytest.mark.realtime
def test_stdout_has_nothing_but_messages_whatever_a_handler_prints(noisy: Command) -> None:
    done = _run(noisy, lines(HELLO, READY, call("shout")))
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert [message["id"] for message in messages] == [0, 1]
    assert messages[1]["result"]["structuredContent"] == {"result": "done"}, "a handler's stdin is empty"
    for word in ("PRINTED", "WRITTEN", "ECHOED"):
        assert word in done.stderr


@pytest.mark.realtime
def test_what_was_asked_before_the_end_of_stdin_is_answered(noisy: Command) -> None:
    done = _run(noisy, lines(HELLO, READY, call("doze"), call("nothing", 2)).rstrip("\n"))
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert {message["id"] for message in messages} == {0, 1, 2}
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.realtime
def test_garbage_is_answered_and_the_connection_goes_on(noisy: Command) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
    done = _run(
        noisy, lines("garbage", "", "[]", '"text"', '{"jsonrpc": "2.0"}', "\udcff{", HELLO, cancel, call("doze"))
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    codes = [message["error"]["code"] for message in messages if message["id"] is None]
    assert codes == [-32700, -32600, -32600, -32600, -32700]
    assert messages[-1]["result"]["isError"] is False
    assert done.returncode == 0


@pytest.mark.realtime
@pytest.mark.parametrize("is_older", [True, False])
def test_a_call_that_is_cancelled_is_answered_at_older_revisions_only(is_older: bool, noisy: Command) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    requests = [call("sleep"), call("doze", 2)]
    if not is_older:
        for request in requests:
            request["params"]["_meta"] = meta
    with noisy.start("mcp", "--agent", "noisy", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(lines(*([HELLO, READY] if is_older else []), requests[0]))
        process.stdin.flush()
        while "SLEEPING" not in process.stderr.readline():
            pass
        out, _ = process.communicate(lines(CANCEL, requests[1]), timeout=60)
    answers = {answer["id"]: answer for answer in map(json.loads, out.splitlines()) if answer["id"] != 0}
    assert answers.pop(2)["result"]["structuredContent"] == {"result": "rested"}, "the connection goes on"
    cancelled = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32800, "message": "Request cancelled"}}
    assert answers == ({1: cancelled} if is_older else {})
    assert ("sleep", "cancelled") in outcomes(noisy.folder)


@pytest.mark.realtime
def test_a_line_without_end_is_refused_and_what_follows_is_read(noisy: Command) -> None:
    done = _run(noisy, lines(HELLO, '"' + "x" * (16 * 1024 * 1024 + 100_000) + '"', call("doze")))
    first, refused, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["id"], last["id"]) == (0, 1)
    assert refused["error"]["message"] == "A message has at most 16777216 bytes"


@pytest.mark.realtime
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_and_what_ran_is_on_record(number: signal.Signals, noisy: Command) -> None:
    with noisy.start("mcp", "--agent", "noisy", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(lines(HELLO, READY, call("sleep")))
        process.stdin.flush()
        output = ""
        while "SLEEPING" not in output:
            output += process.stderr.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in output + err
    assert outcomes(noisy.folder) == [("sleep", "cancelled")]


@pytest.mark.realtime
def test_a_client_that_reads_no_more_ends_it(noisy: Command) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with noisy.start("mcp", "--agent", "noisy", stdin=subprocess.PIPE, stdout=writing) as process:
        os.close(writing)
        assert process.stdin is not None
        process.stdin.write(lines(HELLO))
        process.stdin.flush()
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name an agent with --agent, or a session to continue with --session"),
        (("--agent", "noisy", "--session", "x"), "give --agent or --session, not both"),
        (("--new-session", "--session", "x"), "give --session or --new-session, not both"),
        (("--agent", "nosy"), "did you mean 'noisy'?"),
        (("--agent", "missing.yaml"), "missing.yaml"),
        (("--session", "0" * 36), "there is no database"),
    ],
)
def test_bad_usage_is_2_and_makes_no_database(arguments: tuple[str, ...], message: str, noisy: Command) -> None:
    done = noisy(*["mcp", *arguments])
    assert (done.code, done.out) == (2, "")
    assert message in done.said
    assert not (noisy.folder / "capset.db").exists()


def test_help_names_it(run: Run) -> None:
    assert "mcp" in run("--help").out
    assert run("mcp", "--help").code == 0


def _run(command: Command, stdin: str) -> subprocess.CompletedProcess[str]:
    with command.start("mcp", "--agent", "noisy", stdin=subprocess.PIPE, errors="surrogateescape") as process:
        try:
            out, err = process.communicate(stdin, timeout=60)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
