"""The contract with CrewAI, whose crews run in a process without capset and use a session over MCP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from capset import Session
from capset_frameworks.framework import Framework
from capset_server.mcp import McpDoor
from scripts.packages import ROOT
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown
from tests.helpers.snippets import blocks

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PYTHON = ROOT / ".venv-crewai/bin/python"


def environ(folder: str) -> dict[str, str]:
    """Return the environment of a crew, which reports to nobody."""
    off = {"OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}
    base = {"PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}", "HOME": folder}
    # Port 9 is that of the protocol "discard", on which nothing listens.
    return {**base, **off, "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}


class Crews:
    """One process of crews for all tests: CrewAI takes long to import."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.mkdtemp()

    async def run(self, **request: Any) -> dict[str, Any]:
        """Have a crew run, and return what became of it; a crew whose test is cancelled is ended with its process."""
        if self._process is None:
            self._process = subprocess.Popen(
                [PYTHON, ROOT / "tests/helpers/frameworks/crewai_program.py"],
                cwd=self._folder,
                env=environ(self._folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        try:
            return await asyncio.to_thread(self._ask, self._process, json.dumps(request))
        except asyncio.CancelledError:
            self.end()
            raise

    def _ask(self, process: subprocess.Popen[str], line: str) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        for answer in process.stdout:
            if answer.startswith("{"):  # CrewAI prints things of its own
                return json.loads(answer)
        raise RuntimeError("the process of crews has ended")

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


crews = Crews()


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    crews.end()


class CrewAIDriver(Driver):
    framework = Framework("crewai", "crewai", "1.15")
    has_own_ids = True
    misses: ClassVar = {
        "shown": "CrewAI makes a model of pydantic's of each schema, and shows the schema of that",
        "system_text": "CrewAI takes tools alone from an MCP server",
        "invalid": "CrewAI validates the arguments first, by its own model, and there is no record of it",
        "no_object": "CrewAI itself refuses text that is not JSON, and there is no record of it",
        "streamed": "CrewAI asks for no progress",
        "dynamic": "the tools are asked for once, when the crew connects",
        "suspended": "CrewAI has a person look at the answer of a task, and not at a call",
        "suspended_rejected": "CrewAI has a person look at the answer of a task, and not at a call",
        "suspended_undecided": "CrewAI has a person look at the answer of a task, and not at a call",
        "correlated": "CrewAI sends neither its own ids nor the model's with a call",
        "ended": "a crew connects first, and cannot once the session has ended: it fails, and no call is made",
    }

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        async with served(self.session) as url:
            outcome = await crews.run(url=url, steps=steps)
        if "error" in outcome:
            raise RuntimeError(outcome["error"])
        views = [_shown(request) for request in outcome["sent"]]
        return Conversation(views, [Read(text) for text in outcome["read"]], output=outcome["output"])

    async def resume(self) -> Conversation:
        raise NotImplementedError("CrewAI suspends no call")

    async def take(self, name: str) -> HeldTool:
        async def call(arguments: dict[str, Any], id: str) -> Read:
            return (await self.run([(name, arguments)])).read[0]

        return call

    async def run_id(self) -> str | None:
        return None


class TestContract(AdapterContract):
    driver = CrewAIDriver


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    """With a real ``capset mcp``, which CrewAI starts; the model that it names is a script."""
    page = (ROOT / "docs/guide/crewai.md").read_text("utf-8")
    (agent,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "clerk.yaml").write_text(agent, encoding="utf-8")
    (program,) = blocks(ROOT / "docs/guide/crewai.md")
    script = [[("add", {"a": 2, "b": 3})], [("add", {"a": 1, "b": 1})], [("add", {"a": 1, "b": 2})]]
    offline = f"ScriptedLLM(model='scripted', steps={script!r}, last_word='Five.')"
    assert '"gpt-5.4"' in program
    source = "from crewai_program import ScriptedLLM\n" + program.replace('"gpt-5.4"', offline)
    folder = str(tmp_path)
    done = subprocess.run(
        [PYTHON, "-c", source],
        cwd=tmp_path,
        env={**environ(folder), "PYTHONPATH": str(ROOT / "tests/helpers/frameworks")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [line.split("#>", 1)[1].strip() for line in program.splitlines() if "#>" in line]
    assert expected
    assert done.stdout.splitlines()[-len(expected) :] == expected
    tail = [ROOT / ".venv/bin/capset", "audit", "query", "--db", "capset.db", "--json"]
    listing = subprocess.run(tail, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert listing.stdout.count('"succeeded"') == 2
    assert listing.stdout.count('"limited"') == 1


@asynccontextmanager
async def served(session: Session) -> AsyncGenerator[str]:
    """Serve a session over MCP on this machine."""
    door = McpDoor()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await door.handle(scope, receive, send, session, "ada")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, lifespan="off", log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            async with door.run():
                yield f"http://127.0.0.1:{listening.getsockname()[1]}/capset"
        finally:
            server.should_exit = True
            await serving


def _shown(sent: dict[str, Any]) -> Shown:
    tools = {tool["name"]: tool["parameters"] for tool in sent["tools"]}
    return Shown(
        "\n".join(message["content"] or "" for message in sent["messages"] if message["role"] == "system"), tools
    )
