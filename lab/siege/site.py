"""The besieged site: two servers on one database, an attacker's organisation and a bystander's."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from lab.siege.host import FILES, SCOPES, Host
from lab.siege.tools import SCRIPT

STEPS = 10
"""How many steps of a model a session of the spender may take."""
_USES = ["test_math", "session_file_system", "stateless_todo_list", "siege_tools"]

TEAM, USER, CONVERSATION = "T0SIEGE", "U0SIEGE", "C0SIEGE"
"""A user of Slack who may decide for the bystander's organisation, and a conversation of the attacker's."""
CHANNELS = f"""\
notifications:
  chat:
    type: slack
    team: {TEAM}
    conversation: {CONVERSATION}
    token: ${{SIEGE_SLACK}}
    signing_secret: ${{SIEGE_SLACK}}
    api_url: http://127.0.0.1:9999/api/
    internal: ["127.0.0.1:9999"]
    orgs: [attackers]
    tools: [nothing]
"""
"""The attacker's channel. It tells of no request, so that it sends nothing."""


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
    crowd: tuple[Member, ...]
    """Five more of the attacker's organisation."""
    watcher: str
    """A key of that organisation which may read its metrics, and nothing else."""
    spender: Member
    """An attacker whose agent asks 60 others at once, and whose sessions take ``STEPS`` steps of a model each."""
    url: str
    """The URL of the database."""
    administrator: str
    """The key of an administrator of the attackers."""

    @property
    def port(self) -> int:
        """The port of the first server, which is attacked."""
        return self.ports[0]


@contextmanager
def besieged(folder: Path, url: str, *options: str, servers: int = 2) -> Generator[Site]:
    """Start servers on a database, give their members what they need, and stop them at the end."""
    host = Host.of(folder, url)
    (folder / "siege.yaml").write_text(CHANNELS)
    options = (*options, str(folder / "siege.yaml"))
    keys = {org: host.make_key(org, org=org) for org in ("attackers", "bystanders")}
    administrator = host.make_key(
        "administrator", org="attackers", scopes=("capset:admin", *SCOPES), grants=(*FILES, "database:read")
    )
    spending = host.make_key("spender", org="attackers", usage=[f"steps={STEPS}/1h per session"])
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    options = ("--agent-host", "attackers=127.0.0.1", "--model", f"script:{script}", *options)
    host.run("people", "add", TEAM, USER, "--principal", "boss", "--org", "bystanders")
    with ExitStack() as stack:
        started = [stack.enter_context(host.serving(f"server{number}", *options)) for number in range(servers)]
        ports, pids = tuple(server.port for server in started), tuple(server.pid for server in started)
        attacker, bystander = (_member(ports[0], key, f"worker of {org}", _USES) for org, key in keys.items())
        _put(ports[0], bystander, "large.bin", bytes(300_000))
        crowd = tuple(
            _member(ports[0], _key(ports[0], administrator, f"member{number}"), "worker of a crowd", _USES)
            for number in range(5)
        )
        watcher = _key(ports[0], administrator, "watcher", scopes=["capset:metrics"])
        spender = _member(ports[0], spending, "head", ["siege_staff"])
        yield Site(ports, pids, attacker, bystander, crowd, watcher, spender, url, administrator)


def _key(port: int, admin: str, principal: str, scopes: Iterable[str] = SCOPES) -> str:
    body = {"name": "siege", "principal": principal, "org": "attackers", "scopes": [*scopes], "permissions": FILES}
    return _post(port, admin, "/v1/keys", body)["key"]


def _member(port: int, key: str, name: str, uses: list[str]) -> Member:
    agent = _post(port, key, "/v1/agents", {"name": name, "capabilities": uses})
    session = _post(port, key, "/v1/sessions", {"agent_id": agent["id"]})
    return Member(key, agent["id"], session["id"])


def _post(port: int, key: str, path: str, body: object) -> dict[str, str]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    return _send(Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers))


def _put(port: int, member: Member, path: str, content: bytes) -> None:
    url = f"http://127.0.0.1:{port}/v1/sessions/{member.session}/files/{path}"
    _send(Request(url, content, {"authorization": f"Bearer {member.key}"}, method="PUT"))


def _send(request: Request) -> dict[str, str]:
    with urlopen(request) as response:
        return json.load(response)
