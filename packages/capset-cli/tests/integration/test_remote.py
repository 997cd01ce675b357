"""``--url``: the commands on a server, with the output and the exit codes that they have here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capset.wire.agents import AgentDetail
from capset_server.client import AgentInput, Client
from tests.helpers.cli.fixtures import WORKSHOP
from tests.helpers.cli.support import ADD, Command, Done, clean_environment, install, intents_in, run_here
from tests.helpers.client.ports import closed_port
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.waiting import wait_until


@dataclass(frozen=True, slots=True)
class There:
    """A server with a stored agent, and the command somewhere else, with and without the key of who may do all."""

    server: Running
    agent: str
    key: str
    elsewhere: Command

    def remote(self, *args: str, **env: str) -> Done:
        """Run the command in this process, with the key."""
        return self.keyless(*args, **{"CAPSET_KEY": self.key, **env})

    def keyless(self, *args: str, **env: str) -> Done:
        """Run it without a key."""
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("CAPSET_")]:
                patch.delenv(name)
            for name, value in {"CAPSET_URL": self.server.url, **env}.items():
                patch.setenv(name, value)
            patch.chdir(self.elsewhere.folder)
            return run_here(*args)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Generator[There]:
    folder, elsewhere = tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("elsewhere")
    packages = folder / "packages"
    packages.mkdir()
    install(packages, "shop", WORKSHOP, capabilities={"workshop": "shop:workshop"}, agents={"foreman": "shop:foreman"})
    with running(folder, PYTHONPATH=str(packages)) as server:
        key = server.key("boss", scopes=EVERYTHING)
        environ = clean_environment(elsewhere, CAPSET_URL=server.url, CAPSET_KEY=key)
        yield There(server, asyncio.run(make_agent(server.url, key)).id, key, Command(elsewhere, environ))
    assert list(elsewhere.iterdir()) == [], "nothing is made where the server is not"


async def make_agent(url: str, key: str, *, archived: bool = False) -> AgentDetail:
    """Make an agent with tools of every kind."""
    agent_input = AgentInput(name="soup", capabilities=["test_math", "session_file_system", "workshop"])
    async with Client(url, key=key) as client:
        agent = await client.agents.create(agent_input)
        if archived:
            await client.agents.archive(agent.id)
        return agent


@pytest.mark.realtime
def test_a_call_in_a_new_session_and_on_in_it(there: There) -> None:
    first = there.elsewhere("call", "add", "--agent", there.agent, "--args", '{"a": 2, "b": 3}', "--json")
    assert first.code == 0
    assert list(first.json) == ["success", "data", "record", "session", "runtime_hash", "prompt_hash"]
    assert first.json["data"]["result"] == 5
    second = there.remote("call", "test_math.add", "--session", first.json["session"], "--args", '{"a": 1, "b": 1}')
    assert (second.code, json.loads(second.out)["result"]) == (0, 2)
    assert second.said.startswith("record ")
    assert second.said.endswith(f"session {first.json['session']}")


def test_an_agent_that_is_installed_there(there: There) -> None:
    done = there.remote("call", "echo", "--agent", "foreman", "--args", '{"text": "hi \\u001b[31m"}')
    assert (done.code, done.out) == (0, "hi \\x1b[31m\n")
    assert there.remote("call", "nothing", "--agent", "foreman").out == "null\n"


def test_progress_is_shown_as_it_comes(there: There) -> None:
    done = there.remote("call", "steps", "--agent", "foreman", "--args", '{"count": 2}')
    assert done.out == "2\n"
    assert done.err.splitlines()[:2] == ["  0% [red]step 0[/]", " 50% [red]step 1[/]"]
    quiet = there.remote("call", "steps", "--agent", "foreman", "--args", '{"count": 2}', "--json")
    assert (quiet.json["data"], quiet.err) == (2, "")


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "error"),
    [
        ("ecko", "{}", 3, "not_found"),
        ("echo", "{}", 3, "invalid_arguments"),
        ("read_file", '{"path": "/a"}', 3, "permission_denied"),
        ("refuse", '{"text": "no"}', 1, "refused_politely"),
        ("crash", "{}", 1, "internal_error"),
        ("divide", '{"a": 1, "b": 0}', 1, "division_by_zero"),
    ],
)
def test_a_call_ends_as_it_does_here(there: There, tool: str, arguments: str, code: int, error: str) -> None:
    done = there.remote("call", tool, "--agent", there.agent, "--args", arguments, "--json")
    assert (done.code, done.json["error"]["code"]) == (code, error)
    assert list(done.json) == ["success", "error", "refused", "record", "session", "runtime_hash", "prompt_hash"]
    assert done.json["refused"] is (code == 3)
    printed = there.remote("call", tool, "--agent", there.agent, "--args", arguments)
    assert (printed.code, printed.out) == (code, "")
    assert printed.said.startswith("error: ")


def test_what_is_missing_is_told_with_what_to_do(there: There) -> None:
    done = there.remote("call", "read_file", "--agent", there.agent, "--args", '{"path": "/a"}')
    assert "hint: on the server: capset key create NAME --principal WHO --grant" in done.said
    nobody = there.keyless("call", "echo", "--agent", "foreman")
    assert (nobody.code, nobody.out) == (3, "")
    assert "hint: the key is taken from CAPSET_KEY" in nobody.said
    wrong = there.keyless("list", "--json", CAPSET_KEY="capset_wrong")
    assert (wrong.code, wrong.json["error"]["code"]) == (3, "unauthenticated")
    reader = there.server.key("reader", scopes=["capset:read"])
    denied = there.keyless("audit", "query", CAPSET_KEY=reader)
    assert denied.code == 3
    hint = "hint: a key has the scopes and permissions that it was made with: capset key create NAME"
    assert f"lacks the scope capset:audit {hint}" in denied.said


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("call", "test_math.add"), "name a session on the server with --session"),
        (("call", "add", "--agent", "soup.yaml"), "there is no agent 'soup.yaml'"),
        (("call", "add", "--session", "0" * 36), "there is no session"),
        (("call", "add", "--agent", "a", "--session", "b"), "give --agent or --session, not both"),
        (("call", "add", "--agent", "foreman", "--db", "x.db"), "--db is for work on this machine"),
        (("call", "add", "--agent", "foreman", "--grant", "x"), "--grant is for work on this machine"),
        (("call", "add", "--agent", "foreman", "--env", "a=1"), "--env is for work on this machine"),
        (("call", "add", "--agent", "foreman", "--principal", "x"), "--principal is for work on this machine"),
        (("call", "add", "--agent", "foreman", "--args", "nope"), "--args is not JSON"),
        (("run", "foreman", "x", "--max-steps", "50"), "--max-steps is for work on this machine"),
        (("audit", "query", "--db", "x.db"), "--db is for work on this machine"),
        (("audit", "query", "--outcome", "nice"), "unknown outcome 'nice'"),
        (("describe", "test_maths"), "did you mean 'test_math'?"),
        (("describe", "test_math.ad"), "did you mean 'test_math.add'?"),
        (("list", "--url", "nowhere"), "a server's address is like https://"),
        (("list", "--url", "http://me:hunter2@h"), "no user, password"),
        (("list", "--url", "http://capset.example.com"), "is not encrypted"),
    ],
)
def test_bad_usage_is_2(there: There, args: tuple[str, ...], message: str) -> None:
    done = there.remote(*args)
    assert (done.code, done.out) == (2, "")
    assert message in done.said
    assert "hunter2" not in done.err
    assert there.key not in done.err


@pytest.mark.realtime
def test_a_server_that_is_not_there_or_is_not_capset_is_1(there: There) -> None:
    url = closed_port()
    for args in (("list",), ("describe", "noop"), ("call", "echo", "--agent", "a"), ("audit", "query")):
        done = there.remote(*args, "--url", url, "--json")
        assert (done.code, done.json["error"]["code"], done.json["error"]["retryable"]) == (1, "unreachable", True)
    assert f"cannot reach {url}" in there.remote("list", "--url", url).said
    code = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)"
    code += "; print(s.server_port, flush=True); s.serve_forever()"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as other:
        assert other.stdout is not None
        done = there.remote("list", "--url", f"http://127.0.0.1:{other.stdout.readline().strip()}")
        other.kill()
    assert done.code == 1
    assert "answered 404, but not as capset does" in done.said


@pytest.mark.realtime
def test_a_call_that_takes_too_long_is_stopped(there: There) -> None:
    arguments = ("--agent", "foreman", "--args", '{"seconds": 60}')
    done = there.remote("call", "wait", *arguments, "--timeout", "0.5", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "deadline_exceeded")
    with there.elsewhere.start("call", "wait", *arguments) as process:
        wait_until(lambda: [tool for _, tool in intents_in(there.server.capset.folder)].count("wait") == 2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")
    records = there.remote("audit", "query", "--tool", "wait", "--json").json["items"]
    assert [record["outcome"] for record in records] == ["cancelled", "cancelled"]


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize(
    "args",
    [
        ("list",), ("list", "--category", "[i]Tests[/i]"),
        ("describe", "workshop"), ("describe", "test_math.add"),
        ("audit", "query", "--limit", "3"), ("audit", "query", "--limit", "250", "--before", "9"),
        ("audit", "query", "--tool", "add", "--outcome", "succeeded", "--principal", "boss"),
        ("audit", "query", "--record", "nope", "--session", "x", "--correlation", "y"),
        ("audit", "query", "--agent", "a", "--approval", "b", "--code", "c", "--since", "2026-01-01"),
        ("audit", "query", "--code", "invalid_arguments", "--until", "2999-01-01T12:00+02:00"),
    ],
)  # fmt: skip
def test_what_is_shown_is_the_same_as_there(there: There, args: tuple[str, ...], as_json: tuple[str, ...]) -> None:
    remote, local = there.remote(*args, *as_json), there.server.capset(*args, *as_json)
    assert (remote.code, remote.out, remote.err) == (local.code, local.out, local.err)
    assert (remote.code, bool(remote.out or remote.err)) == (0, True)


def test_more_records_than_a_page_of_the_server(there: There) -> None:
    async def fill() -> str:
        async with Client(there.server.url, key=there.key) as client:
            session = (await client.sessions.create(there.agent)).id
            for _ in range(203):
                await client.call(session, "nope")
            return session

    session = asyncio.run(fill())
    for limit in ("201", "203", "1000"):
        args = ("audit", "query", "--session", session, "--limit", limit, "--json")
        remote, local = there.remote(*args), there.server.capset(*args)
        assert remote.json == local.json
        assert len(remote.json["items"]) == min(int(limit), 203)


def test_where_the_work_is_done(there: There, tmp_path: Path) -> None:
    local = Command(tmp_path, {**there.elsewhere.environ, "CAPSET_URL": closed_port()})
    assert local(*ADD, "--url", "").code == 0, "an empty --url works here, whatever the variable says"
    assert local("list", "--url", there.server.url).code == 0, "a flag wins over the variable"
    (tmp_path / "capset.toml").write_text(f'url = "{there.server.url}"\n', encoding="utf-8")
    done = local(*ADD, "--url", "")
    assert (done.code, "unknown field 'url'" in done.said) == (2, True), "no file can say where a key is sent"


def test_a_key_goes_unencrypted_only_when_that_is_asked_for(there: There) -> None:
    away = ("list", "--url", "http://capset.invalid")
    assert there.remote(*away).code == 2
    allowed = there.remote(*away, CAPSET_PLAIN_HTTP="1")
    assert (allowed.code, "cannot reach http://capset.invalid" in allowed.said) == (1, True)
    assert there.keyless(*away).code == 1, "without a key nothing is to be kept secret"


@pytest.mark.realtime
def test_an_agent_of_the_database_is_found_by_its_id_on_this_machine(there: There) -> None:
    local = there.server.capset
    done = local("call", "add", "--agent", there.agent, "--args", '{"a": 2, "b": 3}', "--principal", "boss", "--json")
    assert (done.code, done.json["data"]["result"]) == (0, 5)
    resumed = there.remote("call", "add", "--session", done.json["session"], "--args", '{"a": 1, "b": 1}', "--json")
    assert resumed.code == 0, "the session is the principal's, whichever way it came"
    missing = local("call", "add", "--agent", "0" * 8 + "-0000-7000-8000-" + "0" * 12)
    assert (missing.code, "there is no agent" in missing.said) == (2, True)
    with local.start("mcp", "--agent", there.agent, stdin=subprocess.PIPE) as process:
        _, err = process.communicate("", timeout=60)
    assert (process.returncode, err.startswith("serving soup as local, session ")) == (0, True)


def test_an_agent_that_is_archived_or_of_an_organisation_is_not_taken(there: There) -> None:
    url, eve = there.server.url, there.server.key("eve", org="acme", scopes=EVERYTHING)
    archived = asyncio.run(make_agent(url, there.key, archived=True)).id
    theirs = asyncio.run(make_agent(url, eve)).id
    for agent, message in ((archived, "is archived: it accepts no new sessions"), (theirs, "there is no agent")):
        done = there.server.capset("call", "add", "--agent", agent, "--args", '{"a": 2, "b": 3}')
        assert (done.code, message in done.said) == (2, True), done.err


def test_an_id_makes_no_database(capset: Command) -> None:
    done = capset("call", "add", "--agent", "01a1fe04-ad8f-725c-8000-046833488a26")
    assert (done.code, "there is no database" in done.said) == (2, True)
    assert not (capset.folder / "capset.db").exists()
