"""The progress of calls in ``capset run``, here and on a server: bars on a terminal, lines elsewhere, events (R26)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.cli.conversation.scripted import call, events, script
from tests.helpers.cli.support import Command, clean_environment, install
from tests.helpers.cli.terminal import MOVES, at_terminal
from tests.helpers.server.running import running

COUNTER = '''
import asyncio
from collections.abc import AsyncIterator

from capset import Agent, Capability, Progress, Reply, tool


@tool(effect="read")
async def steps(fails: bool = False) -> AsyncIterator[Progress | Reply[str]]:
    """Go step by step."""
    yield Progress(0.25, "[red]step 1[/]")
    await asyncio.sleep(0.6)
    yield Progress(0.75, "step\\n3")
    await asyncio.sleep(0.6)
    if fails:
        raise RuntimeError
    yield Reply("there")


walker = Agent("walker", uses=[Capability("walking", tools=[steps])])
'''

pytestmark = pytest.mark.spec("R11", "R26")


def packages(folder: Path) -> str:
    """Install the agent ``walker``, and return the folder of its package."""
    root = folder / "packages"
    root.mkdir()
    install(root, "walking", COUNTER, agents={"walker": "walking:walker"})
    return os.fspath(root)


@pytest.fixture
def walker(tmp_path: Path) -> Command:
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=packages(tmp_path)))


@pytest.mark.realtime
def test_a_terminal_has_a_bar_while_a_call_runs(walker: Command) -> None:
    model = script(walker.folder, call("steps"), call("steps", fails=True), {"text": "There."})
    code, out, screen = at_terminal(walker, "run", "walker", "go", "--model", model)
    assert (code, out) == (0, "There.\n")
    text = MOVES.sub("", screen)
    assert "━" in text
    assert "25% steps [red]step 1[/]" in text
    assert "75% steps step\\n3" in text
    first, second, rest = screen.split("✓")[0], screen.split("✓")[-1].split("✗")[0], screen.split("✗")[-1]
    assert "\x1b[2K" in first, "the bar of a call is taken away before its result is shown"
    assert "\x1b[2K" in second
    assert "━" not in rest


def test_elsewhere_it_is_lines_and_events(walker: Command) -> None:
    model = script(walker.folder, call("steps"), {"text": "There."})
    done = walker("run", "walker", "go", "--model", model)
    assert (done.code, done.out) == (0, "There.\n")
    assert done.err.splitlines() == [
        " 25% steps [red]step 1[/]",
        " 75% steps step\\n3",
        "✓ steps {} → there",
    ]
    emitted = events(walker("run", "walker", "go", "--model", model, "--json"))
    progress = [event["data"] for event in emitted if event["type"] == "tool.progress"]
    assert [(update["tool"], update["fraction"], update["message"]) for update in progress] == [
        ("steps", 0.25, "[red]step 1[/]"),
        ("steps", 0.75, "step\n3"),
    ]


@pytest.mark.realtime
def test_that_of_a_server_is_shown_too(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "server", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    model = script(folder, call("steps"), {"text": "There."})
    with running(folder, "--model", model, PYTHONPATH=packages(tmp_path)) as server:
        environ = clean_environment(elsewhere, CAPSET_URL=server.url, CAPSET_KEY=server.key())
        code, out, screen = at_terminal(Command(elsewhere, environ), "run", "walker", "go")
    assert (code, out) == (0, "There.\n")
    assert "25% steps [red]step 1[/]" in MOVES.sub("", screen)
    assert "75% steps step\\n3" in MOVES.sub("", screen)
