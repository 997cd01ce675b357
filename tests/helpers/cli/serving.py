"""`capset serve` as a process, and what people do beside it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2

from tests.helpers.cli.support import Command, Done, run_here


@dataclass
class Serving:
    """A server that runs in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    greeting: str

    def client(self, key: str | None = None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=20, trust_env=False)

    def end(self, number: int = signal.SIGTERM) -> str:
        """End it, and return what it said on stderr: no traceback but of what a tool's own code raised."""
        self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=20)
        assert out == ""
        lines = [json.loads(line) for line in errors.splitlines()]
        assert [line for line in lines if "Traceback" in str(line) and line.get("logger") != "capset.kernel"] == []
        return errors


@contextmanager
def serving(command: Command, *options: str) -> Generator[Serving]:
    process = command.start("serve", "--port", "0", *options)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        match = re.search(r"http://\S+", first)
        assert match, first
        yield Serving(process, match[0], first)
    finally:
        process.kill()
        process.communicate()


def beside(command: Command, *args: str) -> Done:
    """Run another command on the server's database, in this process."""
    done = run_here(*args, "--db", f"sqlite:///{command.folder}/capset.db")
    assert done.code == 0, done.err
    return done


def key_for(command: Command, *options: str) -> str:
    return beside(command, "key", "create", "test", "--principal", "ada", "--org", "acme", *options).out.strip()


def session_of(client: httpx2.Client, agent: str) -> str:
    return client.post("/v1/sessions", json={"agent_id": agent}).json()["id"]
