"""``python -m benchmarks.frameworks [NAME …] [--quick]``: calls through adapters, beside the frameworks' own tools.

An agent of each framework that is installed makes the same calls of the same function on its offline model: once of the
framework's own tool, once of a session's, with a store in memory. Both take turns in one run. A step is one request to
the model and one call; its time is processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from capset import Agent, Kernel, Principal, Session, tool

CALLS: Final = 20
SCRIPT: Final = [[("look", {"number": number})] for number in range(CALLS)]
Run = Callable[[], Awaitable[str]]
"""Runs the agent to its end, and returns its last word."""


async def look(number: int) -> int:
    """Look at a number."""
    return number


@dataclass(frozen=True)
class Subject:
    """A framework: the module that it needs, and its two agents."""

    module: str
    runs: Callable[[Session], tuple[Run, Run]]
    """Of the framework's own tool, and of the session's."""


def _claude_agent(session: Session) -> tuple[Run, Run]:
    """Of the Claude Agent SDK, the processor time in this process alone: Claude Code runs in another."""
    sdk, adapter = import_module("claude_agent_sdk"), import_module("capset.adapters.frameworks.claude_agent")
    tests, api = import_module("tests.frameworks.test_claude_agent"), import_module("tests.frameworks.messages_api")

    @sdk.tool("look", "Look at a number.", {"number": int})
    async def own(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(await look(**arguments))}]}

    async def run(client: Callable[[Any], Any]) -> str:
        with TemporaryDirectory() as folder:
            async with api.messages_api({"go": [*SCRIPT, "done"]}, tests.PREFIX) as offline:
                return str((await tests.ask(client(tests.offline(offline, Path(folder))))).result)

    def plain(options: Any) -> Any:
        server = sdk.create_sdk_mcp_server("capset", tools=[own])
        return sdk.ClaudeSDKClient(replace(options, mcp_servers={"capset": server}, allowed_tools=["mcp__capset"]))

    return lambda: run(plain), lambda: run(lambda options: adapter.CapsetClient(session, options))


SUBJECTS: Final[Mapping[str, Subject]] = {
    "claude_agent": Subject("claude_agent_sdk", _claude_agent),
}


async def measure(subject: Subject, *, rounds: int) -> tuple[float, float]:
    """Return the milliseconds of a step with the framework's own tool, and through its adapter."""
    agent = Agent("bench", tools=[tool(effect="read")(look)])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("bench")) as session:
        runs = subject.runs(session)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds + 1):  # the first round warms up
            for run, kept in zip(runs, times, strict=True):
                began = time.process_time()
                said = await run()
                kept.append((time.process_time() - began) * 1e3 / CALLS)
                if said != "done":
                    raise RuntimeError(f"the agent did not make its calls, but said {said!r}")
        await kernel.audit.flush()
        records = await kernel.audit.read(limit=2 * (rounds + 1) * CALLS)
    if [one.outcome for one in records] != ["succeeded"] * (rounds + 1) * CALLS:
        raise RuntimeError(f"{(rounds + 1) * CALLS} calls that succeeded were expected, and {len(records)} are there")
    return median(times[0][1:]), median(times[1][1:])


def main() -> None:
    """Measure those that are named, or all that are installed here."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frameworks", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    given = parser.parse_args()
    if unknown := sorted({*given.names} - {*SUBJECTS}):
        parser.error(f"no framework is named {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    rows: list[dict[str, Any]] = []
    for name in given.names or SUBJECTS:
        if find_spec(SUBJECTS[name].module) is None:
            if given.names:
                parser.error(f"{name} is not installed in this environment; make frameworks ARGS={name} makes one")
            continue
        own, governed = asyncio.run(measure(SUBJECTS[name], rounds=5 if given.quick else 25))
        rows.append({"framework": name, "own": own, "governed": governed, "ratio": governed / own})
    if given.json:
        print(json.dumps(rows))
        return
    table = Table("a step, in ms of processor time", "own tool", "through capset", "more", "ratio", box=None)
    for row in rows:
        own, governed = row["own"], row["governed"]
        table.add_row(row["framework"], f"{own:.2f}", f"{governed:.2f}", f"{governed - own:.2f}", f"{row['ratio']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
