"""An agent whose payments somebody has to approve, installed as a third party's package is; each leaves a line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.helpers.cli.support import Command, clean_environment, install

CLERK = '''
from pathlib import Path

from capset import Agent, Capability, Context, tool


@tool(effect="external", approval="ask")
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    with Path("paid.txt").open("a") as paid:
        paid.write(f"{to} {amount}\\n")
    return f"{to} has {amount}"


@tool(effect="write")
async def note(ctx: Context, text: str) -> int:
    """Keep a note, and say how many bytes there are."""
    kept = (await ctx.files.read("/notes"))[1] if await ctx.files.stat("/notes") else b""
    await ctx.files.write("/notes", kept + text.encode())
    return len(kept) + len(text)


till = Capability("till", tools=[pay, note])
clerk = Agent("clerk", uses=[till])
'''


def make_clerk(folder: Path) -> Command:
    """Return the command where the agent ``clerk`` is installed."""
    packages = folder / "packages"
    packages.mkdir()
    install(packages, "office", CLERK, capabilities={"till": "office:till"}, agents={"clerk": "office:clerk"})
    return Command(folder, clean_environment(folder, PYTHONPATH=str(packages)))


def paid(folder: Path) -> list[str]:
    """Return the payments that were made."""
    file = folder / "paid.txt"
    return file.read_text().splitlines() if file.exists() else []


@dataclass(frozen=True)
class Speaking:
    """``capset mcp`` as it runs, and a client that says no more than the protocol wants."""

    process: subprocess.Popen[str]
    numbers: count[int] = field(default_factory=count)

    def asked(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request."""
        number = next(self.numbers)
        self.tell(method, id=number, params=params)
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == number, answer
        return answer["result"]

    def tell(self, method: str, **more: Any) -> None:
        """Send a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\n")
        self.process.stdin.flush()

    def call(self, name: str, **arguments: Any) -> tuple[bool, str]:
        """Return whether a call was refused or failed, and what a model reads."""
        result = self.asked("tools/call", name=name, arguments=arguments)
        (content,) = result["content"]
        return result["isError"], content["text"]

    def end(self) -> str:
        """Close its standard input, and return the session that it has served."""
        _, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        assert err.startswith("serving "), err
        return err.split()[-1]


@contextmanager
def speaking(command: Command, *args: str) -> Generator[Speaking]:
    """Start ``capset mcp``, and end it by closing its standard input."""
    with command.start("mcp", *args, stdin=subprocess.PIPE) as process:
        try:
            connection = Speaking(process)
            client = {"name": "test", "version": "1"}
            connection.asked("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
            connection.tell("notifications/initialized")
            yield connection
            if process.poll() is None:
                connection.end()
        finally:
            process.kill()


def served(command: Command, *args: str) -> str:
    """Start ``capset mcp``, end it at once, and return the session that it has served."""
    with command.start("mcp", *args, stdin=subprocess.PIPE) as process:
        return Speaking(process).end()


def requests(command: Command) -> list[dict[str, Any]]:
    """Return the approval requests, the newest first."""
    done = command("approvals", "list", "--json")
    assert done.code == 0, done.err
    return done.json["items"]


def sessions(command: Command, *options: str) -> list[str]:
    """Return the ids of the sessions that are kept, the newest first."""
    done = command("sessions", "list", *options, "--json")
    assert done.code == 0, done.err
    return [session["id"] for session in done.json["items"]]
