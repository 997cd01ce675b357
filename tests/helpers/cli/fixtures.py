"""A folder of its own for every test of the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.cli.foundry import make_foundry
from tests.helpers.cli.support import Command, Run, clean_environment, install, run_here

WORKSHOP = '''
import asyncio
from collections.abc import AsyncIterator

from capset import Agent, Capability, Context, Progress, Reply, ToolError, tool


@tool(effect="write")
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@tool(effect="read")
async def echo(text: str) -> str:
    """Give back what was given."""
    return text


@tool(effect="read")
async def steps(count: int) -> AsyncIterator[Progress | Reply[int]]:
    """Go step by step."""
    for number in range(count):
        yield Progress(number / count, f"[red]step {number}[/]")
    yield Reply(count)


@tool(effect="read")
async def nothing() -> None:
    """Give nothing."""


@tool(effect="read")
async def crash() -> str:
    """Fail by mistake."""
    raise RuntimeError("the password is hunter2")


@tool(effect="read")
async def refuse(text: str) -> str:
    """Fail on purpose."""
    raise ToolError(text, code="refused_politely", status=409)


workshop = Capability(
    "workshop",
    title="[red]Workshop[/] :smile:",
    description="[b]Tools[/b] :x:",
    category="[i]Tests[/i]",
    tools=[wait, echo, steps, nothing, crash, refuse],
)
foreman = Agent("foreman", system_prompt="You run the workshop.", uses=[workshop])
versioned = Agent("foreman-1.5", uses=[workshop])
'''


@pytest.fixture
def capset(tmp_path: Path) -> Command:
    """Give the command as a real process."""
    return Command(tmp_path, clean_environment(tmp_path))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Give the command as a function, in a fresh folder and without settings."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("CAPSET_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return run_here


@pytest.fixture
def workshop(tmp_path: Path) -> Command:
    """Give the command where a third party's package is installed, with tools of every kind and two agents."""
    packages = tmp_path / "packages"
    packages.mkdir()
    agents = {"foreman": "shop:foreman", "versioned": "shop:versioned"}
    install(packages, "shop", WORKSHOP, capabilities={"workshop": "shop:workshop"}, agents=agents)
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))


@pytest.fixture
def foundry(tmp_path: Path) -> Command:
    """Give the command where an agent is installed whose tools emit, wait, meet and print."""
    return make_foundry(tmp_path)
