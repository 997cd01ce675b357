"""Other people's MCP clients, against real servers: what is refused until it is approved is done by the same call.

None of them knows anything of approvals (spec 4, G18), and each is a process of its own. The official one is in .venv;
uv and npm install the others, as uv.lock and the lock beside this file say, where that can be done.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import pytest

from lab.clients.mcp_clients.programs import PROGRAMS, Call, client, need_npm, need_uv
from tests.helpers.cli.paying import make_clerk, paid, requests
from tests.helpers.cli.support import CAPSET
from tests.helpers.server.running import Running, running

Door = Literal["http", "stdio"]
pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Office:
    """A server whose agent ``clerk`` pays what is approved, in a folder with its database, and the key of its boss."""

    server: Running
    boss: str

    @contextmanager
    def client(self, program: str, door: Door, principal: str) -> Generator[Call]:
        """Run a client of a principal's, until it has made all its calls."""
        with client(program, self._door(door, principal), self.server.capset.folder) as call:
            yield call

    def _door(self, door: Door, principal: str) -> dict[str, Any]:
        if door == "http":
            key = self.server.key(principal, scopes=["capset:call"])
            return {"url": f"{self.server.url}/mcp/agents/clerk", "key": key}
        command = {"command": str(CAPSET), "args": ["mcp", "--agent", "clerk", "--principal", principal]}
        return command | {"env": dict(self.server.capset.environ), "cwd": str(self.server.capset.folder)}

    def requests(self, principal: str) -> list[dict[str, Any]]:
        """Return the requests of a principal, the newest first."""
        return [request for request in requests(self.server.capset) if request["principal"] == f"user:{principal}"]

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
        need_npm()
    elif request.param == "fastmcp":
        need_uv()
    return request.param


@pytest.mark.spec("G18", "P16")
@pytest.mark.parametrize("door", ["http", "stdio"])
def test_the_same_call_is_done_once_somebody_else_has_approved_it(office: Office, program: str, door: Door) -> None:
    principal = f"{program}-{door}"
    payment, done = {"to": principal, "amount": 5}, (False, f"{principal} has 5")
    with office.client(program, door, principal) as call:
        answers = [call("pay", **payment) for _ in range(5)]
        (first,) = office.requests(principal)
        for failed, text in answers:
            assert failed
            assert f"The request is {first['id']}; once it is approved, make the same call again." in text
        office.approve(door, first)
        assert call("pay", **payment) == done
        failed, text = call("pay", **payment)
        second, _ = office.requests(principal)
        assert (failed, second["id"] in text) == (True, True), "the approval was for one call"
    office.approve(door, second)
    with office.client(program, door, principal) as call:  # as after a new start of the client
        assert call("pay", **payment) == done
    assert [request["status"] for request in office.requests(principal)] == ["used", "used"]
    assert {request["session"] for request in office.requests(principal)} == {first["session"]}
    assert [line for line in paid(office.server.capset.folder) if line.startswith(f"{principal} ")] == [
        f"{principal} 5"
    ] * 2
