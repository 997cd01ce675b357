"""The besieged site: two servers on one database, an attacker's organisation and a bystander's."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from siege.host import Host


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
    host = Host.of(folder, url)
    keys = {org: host.make_key(org, org=org) for org in ("attackers", "bystanders")}
    with ExitStack() as stack:
        started = [stack.enter_context(host.serving(f"server{number}", *options)) for number in range(servers)]
        ports, pids = tuple(one.port for one in started), tuple(one.pid for one in started)
        members = {org: _member(ports[0], key, org) for org, key in keys.items()}
        yield Site(ports, pids, members["attackers"], members["bystanders"])


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
