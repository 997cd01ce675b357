"""Agents with a script, and what `capset run` writes of their turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.cli.support import Done

SHELF = '''
import asyncio
from pathlib import Path

from capset import Agent, Capability, tool


@tool(effect="write")
async def put(text: str) -> str:
    """Put something on the shelf."""
    with Path("shelf.txt").open("a") as file:
        file.write(f"{text}\\n")
    return f"kept {text}"


@tool(effect="write", approval="ask")
async def burn(text: str) -> str:
    """Burn something."""
    with Path("shelf.txt").open("a") as file:
        file.write(f"burnt {text}\\n")
    return f"burnt {text}"


@tool(effect="write")
async def hang() -> str:
    """Hang."""
    Path("hanging").touch()
    await asyncio.sleep(3_600)
    return "never"


shelf = Capability("shelf", tools=[put, burn, hang])
keeper = Agent("keeper", system_prompt="You keep a shelf.", uses=[shelf])
'''


def script(folder: Path, *steps: dict[str, Any]) -> str:
    """Write a script, and return the name of its model."""
    (folder / "script.json").write_text(json.dumps({"steps": steps}), encoding="utf-8")
    return f"script:{folder / 'script.json'}"


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"calls": [{"tool": tool, "arguments": arguments}]}


def events(done: Done) -> list[dict[str, Any]]:
    """Return the events that ``--json`` printed."""
    return [json.loads(line) for line in done.out.splitlines()]
