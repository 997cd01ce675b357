"""What tests of ``capset kernel`` need: tools that emit, wait, meet and print, and a process to speak with."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.cli.support import Command, Done, clean_environment, install

FOUNDRY = '''
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from capset import Agent, Capability, Progress, Reply, Tool, ToolError, handles, tool

met = asyncio.Event()


class Much(BaseModel):
    count: Annotated[int, Field(ge=0)]
    size: int = 1


class Pour(BaseModel):
    """Pour so many ladles."""

    kind: Literal["command"] = "command"
    type: Literal["Foundry.Pour"] = "Foundry.Pour"
    data: Much


class Ladle(BaseModel):
    """One ladle was poured."""

    kind: Literal["event"] = "event"
    type: Literal["Foundry.Ladle"] = "Foundry.Ladle"
    data: str


class Poured(BaseModel):
    """All were poured."""

    kind: Literal["reply"] = "reply"
    type: Literal["Foundry.Poured"] = "Foundry.Poured"
    data: int


async def pour(message, emit, ctx):
    for number in range(message.data.count):
        Path("started").write_text(str(number + 1))
        await emit(Ladle(data=str(number) + "x" * message.data.size))
    await emit(Poured(data=message.data.count))


pouring = Tool.from_processor(
    inbound=Pour, outbound=Ladle | Poured, factory=handles(pour), description="Pour.", name="pour"
)


@tool(effect="write")
async def wait(seconds: float) -> str:
    """Wait."""
    print("WAITING", flush=True)
    await asyncio.sleep(seconds)
    return "waited"


@tool(effect="read")
async def echo(text: str) -> str:
    """Give back what was given."""
    return text


@tool(effect="read")
async def await_other() -> str:
    """Wait for somebody to come."""
    await met.wait()
    return "met"


@tool(effect="write")
async def come() -> str:
    """Come."""
    met.set()
    return "came"


@tool(effect="write")
async def shout() -> str:
    """Print to everything that there is."""
    print("PRINTED", flush=True)
    os.write(1, b"WRITTEN\\n")
    subprocess.run(["echo", "ECHOED"], check=True)
    return sys.stdin.read() + "done"


@tool(effect="read")
async def refuse(text: str) -> str:
    """Fail on purpose."""
    raise ToolError(text, code="refused_politely", status=409)


@tool(effect="read")
async def tick() -> AsyncIterator[Progress | Reply[str]]:
    """Come halfway, and stay there."""
    yield Progress(0.5, "halfway")
    await asyncio.sleep(60)


foundry = Capability("foundry", tools=[pouring, tick, wait, echo, await_other, come, shout, refuse])
founder = Agent("founder", uses=[foundry])
'''
SERVED = ("kernel", "--agent", "founder")


def make_foundry(folder: Path) -> Command:
    """Return the command where the foundry and its agent are installed."""
    packages = folder / "packages"
    packages.mkdir()
    agents = {"founder": "foundry:founder"}
    install(packages, "foundry", FOUNDRY, capabilities={"foundry": "foundry:foundry"}, agents=agents)
    return Command(folder, clean_environment(folder, PYTHONPATH=str(packages)))


def message(type: str, data: Any = None, id: str | None = None, kind: str = "command", **meta: Any) -> str:
    """Return a message as a line, without its end."""
    envelope = {"kind": kind, "type": type, "data": data}
    return json.dumps(envelope | ({"meta": {"id": id, **meta}} if id is not None else {}))


def pour(count: int, size: int = 1, id: str = "pour") -> str:
    """Return the message that has so many events emitted, of a size each."""
    return message("Foundry.Pour", {"count": count, "size": size}, id)


def served(
    capset: Command, *lines: str, options: tuple[str, ...] = (), **more: Any
) -> tuple[list[dict[str, Any]], Done]:
    """Send these lines and close stdin; return what comes, and how it ended."""
    done = capset(*SERVED, *options, stdin="".join(f"{line}\n" for line in lines), **more)
    return [json.loads(line) for line in done.out.splitlines()], done


def cause(envelope: Mapping[str, Any]) -> str | None:
    """Return the id of the message that a message comes of."""
    return envelope["meta"].get("causation")


@dataclass(frozen=True, slots=True)
class Kernel:
    """The command as it runs."""

    process: subprocess.Popen[str]
    folder: Path

    def send(self, *lines: str) -> None:
        """Send lines."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def told(self, text: str) -> None:
        """Wait until stderr has a line with this text."""
        assert self.process.stderr is not None
        while text not in (line := self.process.stderr.readline()):
            assert line, f"it ended without {text!r}"

    def started(self) -> int:
        """Return how many emissions were started."""
        path = self.folder / "started"
        return int(path.read_text() or 0) if path.exists() else 0

    def end(self) -> tuple[int, str, str]:
        """Close stdin; return the exit code, and what is left of stdout and stderr."""
        out, err = self.process.communicate(timeout=60)
        assert "Traceback" not in err, err
        return self.process.returncode, out, err


@contextmanager
def running(capset: Command, *options: str, **more: Any) -> Generator[Kernel]:
    """Start ``capset kernel``, and leave nothing of it behind."""
    popen_options: dict[str, Any] = {"stdin": subprocess.PIPE, **more}
    process = capset.start(*SERVED, *options, **popen_options)
    try:
        yield Kernel(process, capset.folder)
    finally:
        process.kill()
        process.communicate()


def settled(count: Callable[[], int]) -> int:
    """Return a number once it has not changed for a while."""
    last, since, end = count(), time.monotonic(), time.monotonic() + 30
    while time.monotonic() < end and (not last or time.monotonic() - since < 0.7):
        time.sleep(0.05)
        if (now := count()) != last:
            last, since = now, time.monotonic()
    return last


def outcomes(folder: Path) -> list[tuple[str, str | None]]:
    """Return the tool and the outcome of every outcome record, in their order."""
    with closing(sqlite3.connect(folder / "capset.db")) as database:
        return database.execute("SELECT tool, outcome FROM records WHERE phase = 'outcome' ORDER BY seq").fetchall()
