"""Runs on workers: a turn, a call and a schedule that a server takes; `capset worker` does them. Offline, on SQLite."""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from capset_server.client import AgentInput, Client

CAPSET = Path(sys.executable).with_name("capset")
FILE = {"tool": "write_file", "arguments": {"path": "/notes.txt", "content": "buy milk"}}
SCRIPT = {"steps": [{"calls": [FILE]}, {"text": "It is in /notes.txt."}]}


@contextmanager
def process(folder: str, *command: str) -> Generator[subprocess.Popen[str]]:
    """Run a command of capset in a folder, and end it in order."""
    with subprocess.Popen([CAPSET, *command], cwd=folder, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.terminate()
            started.communicate()  # the rest is its log


async def work(folder: str, url: str, key: str) -> None:
    """Queue two runs without a worker, start one, and wait until both have ended."""
    async with Client(url, key=key) as client:
        agent = await client.agents.create(AgentInput(name="keeper", capabilities=["session_file_system", "test_math"]))
        turn = await client.runs.create("note: buy milk", agent=agent.id, queue="notes")
        call = await client.runs.call(turn.session, "add", {"a": 2, "b": 3})
        daily = await client.schedules.create(
            "0 9 * * 1-5", "note: plan the day", agent=agent.id, timezone="Europe/Berlin"
        )
        print("on weekdays:", daily.next_at is not None, "paused:", (await client.schedules.pause(daily.id)).next_at)
        print("the server took:", turn.kind, turn.state, "and", call.kind, call.state)

        queues = ("--queue", "default", "--queue", "notes=4,100/1m")
        with process(folder, "worker", "--model", "script:script.json", *queues):
            while turn.state in ("queued", "running") or call.state in ("queued", "running"):
                await asyncio.sleep(0.2)
                turn, call = await client.runs.get(turn.id), await client.runs.get(call.id)
        print("the worker did:", turn.state, turn.outcome)
        print("2 + 3 =", (call.outcome or {})["data"]["result"])


def main() -> None:
    """Start a server, make a key, and queue the runs."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.json").write_text(json.dumps(SCRIPT))
        with process(folder, "serve", "--port", "0") as server:
            assert server.stderr is not None
            match = re.search(r"http://\S+", server.stderr.readline())
            assert match is not None, "the server says first where it is"
            rights = ("--scope", "capset:admin", "--grant", "session_files:read", "--grant", "session_files:write")
            command = [CAPSET, "key", "create", "example", "--principal", "ada", *rights]
            key = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            asyncio.run(work(folder, match[0], key))


if __name__ == "__main__":
    main()
