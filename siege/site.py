"""The besieged site: two servers on one database, an attacker's organisation and a bystander's."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from siege.tools import ENTRY_POINTS, METADATA

_ADDRESS = re.compile(r"serves http://127.0.0.1:(\d+)")
_SECONDS = 30.0
FILES = ("session_files:read", "session_files:write")
_SCOPES = ("capset:read", "capset:call", "capset:write", "capset:audit", "capset:approve")


@dataclass(frozen=True, slots=True)
class Member:
    """A caller: its key, its agent and its session."""

    key: str
    agent: str
    session: str


@dataclass(frozen=True, slots=True)
class Site:
    """Ports and process ids of the servers, and the members of the two organisations. It can be pickled."""

    ports: tuple[int, ...]
    pids: tuple[int, ...]
    attacker: Member
    bystander: Member

    @property
    def port(self) -> int:
        """The port of the first server, which is attacked."""
        return self.ports[0]


@contextmanager
def besieged(folder: Path, url: str, *options: str, servers: int = 2) -> Generator[Site]:
    """Start servers on a database, give their members what they need, and stop them at the end."""
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "CAPSET_DB": url,
        "PYTHONPATH": os.pathsep.join((str(folder / "site"), str(Path(__file__).parents[1]))),
    }  # fmt: skip
    info = folder / "site/capset_siege-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    keys = {org: _key(folder, environ, org) for org in ("attackers", "bystanders")}
    with ExitStack() as stack:
        started = [stack.enter_context(_server(folder, environ, number, options)) for number in range(servers)]
        ports = tuple(port for port, _ in started)
        members = {org: _member(ports[0], key, org) for org, key in keys.items()}
        yield Site(ports, tuple(pid for _, pid in started), members["attackers"], members["bystanders"])


def _capset(*words: str) -> list[str]:
    return [sys.executable, "-c", "from capset.cli import main; main()", *words]


def _key(folder: Path, environ: dict[str, str], org: str) -> str:
    scopes = [word for scope in _SCOPES for word in ("--scope", scope)]
    grants = [word for grant in FILES for word in ("--grant", grant)]
    words = _capset("key", "create", org, "--principal", org, "--org", org, *scopes, *grants, "--json")
    done = subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True)
    return json.loads(done.stdout)["key"]


@contextmanager
def _server(folder: Path, environ: dict[str, str], number: int, options: Sequence[str]) -> Generator[tuple[int, int]]:
    log = folder / f"server{number}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            _capset("serve", "--port", "0", *options), cwd=folder, env=environ, stdout=errors, stderr=errors
        )
    try:
        yield _port(process, log), process.pid
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(_SECONDS)
        finally:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        if found := _ADDRESS.search(log.read_text()):
            return int(found[1])
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


def _member(port: int, key: str, name: str) -> Member:
    uses = ["test_math", "session_file_system", "stateless_todo_list", "siege_tools"]
    agent = _post(port, key, "/v1/agents", {"name": f"worker of {name}", "capabilities": uses})
    session = _post(port, key, "/v1/sessions", {"agent_id": agent["id"]})
    return Member(key, agent["id"], session["id"])


def _post(port: int, key: str, path: str, body: object) -> dict[str, str]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    asked = Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers)
    with urlopen(asked) as response:
        return json.load(response)
