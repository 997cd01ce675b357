"""A server of its own, and what a client does with it: agents, sessions, calls, streams, links, records. No network."""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from capset.errors import Outdated, PermissionDenied
from capset_server.client import AgentInput, Client, data_of

CAPSET = Path(sys.executable).with_name("capset")
SCOPES = ["--scope", "capset:read", "--scope", "capset:write", "--scope", "capset:call", "--scope", "capset:audit"]


@contextmanager
def server(folder: str) -> Generator[str]:
    """Run a server on a free port, with a database in a folder, and give its address."""
    with subprocess.Popen([CAPSET, "serve", "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            match = re.search(r"http://\S+", process.stderr.readline())
            assert match is not None, "the server says first where it is"
            yield match[0]
        finally:
            process.terminate()
            process.communicate()  # the rest is its log, a line for each request


def make_key(folder: str, *options: str) -> str:
    """Make an API key, which is shown this once."""
    command = [CAPSET, "key", "create", "example", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


async def work(url: str, key: str) -> None:
    async with Client(url, key=key) as client:
        await client.health()
        agent_input = AgentInput(name="librarian", capabilities=["session_file_system", "test_math"])
        agent = await client.agents.create(agent_input)
        session = await client.sessions.create(agent.id)
        snapshot = await client.sessions.snapshot(session.id)
        print("in play:", ", ".join(tool.name for tool in snapshot.tools if tool.in_play))

        call = await client.call(session.id, "add", {"a": 2, "b": 3}, correlation="sums-1")
        print("2 + 3 =", call.data["result"], "by runtime", call.runtime_hash[:12])

        refused = await client.call(session.id, "write_file", {"path": "/a.txt", "content": "hello"})
        try:
            data_of(refused)
        except PermissionDenied as error:
            print("refused:", error)

        async with client.stream(session.id, "multiply", {"a": 6, "b": 7}) as events:
            async for event in events:  # this tool says nothing while it runs; others tell how far they are
                print(event.type, event.data)
        print("6 × 7 =", events.result.data["result"])

        link = await client.links.record(session.id, metadata={"turn": 1}, invocation={"tenant": "acme"})
        tool = await client.fingerprints.get(link.tool_refs[0].hash)
        print("kept:", link.runtime_hash[:12], "with", tool.payload["name"], "which is", tool.payload["effect"])

        await client.agents.change(agent.id, {"description": "Keeps a library."}, version=agent.version)
        try:
            await client.agents.change(agent.id, {"description": "Too late."}, version=agent.version)
        except Outdated as error:
            print("not changed:", error)

        async for record in client.records.all(session=session.id):
            print("record:", record["tool"], record["outcome"], record["correlation"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, server(folder) as url:
        asyncio.run(work(url, make_key(folder, "--principal", "ada", "--grant", "session_files:read", *SCOPES)))


main()
