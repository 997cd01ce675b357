"""``capset run`` and ``capset chat`` with ``--url``: the turns of a server, whose model follows a script."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.cli.conversation.scripted import SHELF, call, events, script
from tests.helpers.cli.support import Command, Done, clean_environment, install
from tests.helpers.server.running import Running, running
from tests.waiting import wait_until

pytestmark = pytest.mark.realtime


@dataclass(frozen=True)
class There:
    """A server with the agent, and the command somewhere else, with a key."""

    server: Running
    elsewhere: Command

    def __call__(self, *args: str, stdin: str | None = None, **env: str) -> Done:
        """Run the command there."""
        return self.elsewhere(*args, stdin=stdin, env=env)


@pytest.fixture
def there(tmp_path: Path) -> Generator[There]:
    folder, elsewhere, packages = tmp_path / "server", tmp_path / "elsewhere", tmp_path / "packages"
    for path in (folder, elsewhere, packages):
        path.mkdir()
    install(packages, "shelf", SHELF, capabilities={"shelf": "shelf:shelf"}, agents={"keeper": "shelf:keeper"})
    model = script(folder, call("burn", text="letters"), {"text": "Burnt."}, {"text": "As I said."})
    with running(folder, "--model", model, PYTHONPATH=os.fspath(packages)) as server:
        environ = clean_environment(elsewhere, CAPSET_URL=server.url, CAPSET_KEY=server.key())
        yield There(server, Command(elsewhere, environ))
    assert not (elsewhere / "capset.db").exists()


@pytest.mark.spec("R11")
def test_a_turn_runs_on_the_server_and_waits_there(there: There) -> None:
    """Until somebody with another key approves; then it goes on by itself, and the next task in its session."""
    done = there("run", "keeper", "burn the letters", "--json")
    assert done.code == 3, done.err
    (approval,) = events(done)[-1]["data"]["approvals"]
    session = json.loads(there("sessions", "list", "--json").out)["items"][0]["id"]
    boss = there.server.key("boss", scopes=["capset:approve"])
    refused = there("approvals", "approve", approval)
    assert refused.code == 3, refused.err
    assert there("approvals", "approve", approval, CAPSET_KEY=boss).code == 0

    def next_turn() -> Done | None:
        done = there("run", "--session", session, "what did you do?", "--wait")
        if done.code != 2:
            return done
        assert "turn_running" in done.err or "is in the turn" in done.err or "waits" in done.err, done.err
        return None

    done = wait_until(next_turn, "the turn that was approved to end")
    assert done is not None
    assert (done.code, done.out) == (0, "As I said.\n"), done.err
    assert (there.server.capset.folder / "shelf.txt").read_text() == "burnt letters\n"


@pytest.mark.spec("R11")
def test_a_second_key_decides_on_the_spot(there: There) -> None:
    boss = there.server.key("boss", scopes=["capset:approve"])
    done = there("chat", "keeper", stdin="burn the letters\ny\nand?\n", CAPSET_APPROVER_KEY=boss)
    assert (done.code, done.out) == (0, "Burnt.\nAs I said.\n"), done.err
    assert there("run", "keeper", "x", "--model", "test").code == 2, "the server has its own models"
