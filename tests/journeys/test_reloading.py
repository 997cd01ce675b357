"""``capset serve FILE``: what it serves, and how SIGHUP lets another version take its place (spec 4, G6, G28)."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import capset
from tests.helpers.cli.support import Command, clean_environment, run_here
from tests.helpers.connect.config_file.support import CONFIGURATION, WEATHER, folder

HERE = str(Path(capset.__file__).parents[1])
pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal here"),
    pytest.mark.realtime,
]


class Server:
    """A server of the origin's example, and what it says."""

    def __init__(self, root: Path) -> None:
        self.root = folder(root, {"capset.json": CONFIGURATION})
        command = Command(root, clean_environment(root, PYTHONPATH=HERE))
        options = ("--insecure", "--principal", "ada", "--grant", "weather:read")
        self.process = command.start("serve", "--port", "0", "capset.json", *options)
        assert self.process.stderr is not None
        self.stderr = self.process.stderr
        match = re.search(r"http://\S+", self.stderr.readline())
        assert match
        self.client = httpx2.Client(base_url=match[0], timeout=20, trust_env=False)

    def reload(self) -> dict[str, Any]:
        """Send the signal, and return the line of the log that tells of it."""
        self.process.send_signal(signal.SIGHUP)
        while True:
            line = json.loads(self.stderr.readline())
            if line.get("logger") == "capset.configuration":
                return line

    def session(self) -> str:
        return self.client.post("/v1/sessions", json={"agent_id": "capset"}).json()["id"]

    def call(self, session: str, tool: str = "get-weather") -> Any:
        body = {"tool": tool, "arguments": {"location": "Paris"}}
        return self.client.post(f"/v1/sessions/{session}/calls", json=body).json()

    def records(self) -> list[dict[str, Any]]:
        db = f"sqlite:///{self.root}/capset.db"
        entries = run_here("audit", "query", "--act", "config.reload", "--json", "--db", db).json["items"]
        return [entry for entry in entries if entry["outcome"]]


@pytest.fixture
def server(tmp_path: Path) -> Generator[Server]:
    instance = Server(tmp_path)
    try:
        yield instance
    finally:
        instance.client.close()
        instance.process.kill()
        instance.process.communicate()


@contextmanager
def changed(path: Path, change: Callable[[str], str]) -> Generator[None]:
    before = path.read_text(encoding="utf-8")
    path.write_text(change(before), encoding="utf-8")
    yield
    path.write_text(before, encoding="utf-8")


@pytest.mark.spec("G6", "G27", "G28")
def test_new_sessions_have_the_new_version_and_running_ones_keep_theirs(server: Server) -> None:
    old = server.session()
    assert server.call(old)["data"] == {"location": "Paris", "for": "ada"}
    folder(server.root, {"handlers/weather.py": WEATHER.replace('"for"', '"by"')})
    log_entry = server.reload()
    assert (log_entry["level"], "is in force, with 2 actions" in log_entry["event"]) == ("info", True)
    assert server.call(server.session())["data"] == {"location": "Paris", "by": "ada"}
    time.sleep(1.1)  # what was looked up a moment ago is looked up again
    assert server.call(old)["data"] == {"location": "Paris", "for": "ada"}
    (record,) = server.records()
    assert (record["phase"], record["principal"], record["outcome"]) == ("act", "ada", "succeeded")
    assert record["source"].startswith("serve ")
    assert record["id"] in log_entry["event"]
    arguments = record["arguments"] if isinstance(record["arguments"], dict) else json.loads(record["arguments"])
    assert arguments["sha256"] == arguments["before"], "the file is the same, its handler is another"


@pytest.mark.spec("G28")
def test_a_bad_file_changes_nothing_and_says_so(server: Server) -> None:
    def misspelt(text: str) -> str:
        return text.replace('"./handlers/notify.py"', '"./handlers/no.py"').replace("Get Weather", "Other")

    with changed(server.root / "capset.json", misspelt):
        log_entry = server.reload()
    assert log_entry["level"] == "error"
    assert "the configuration stays as it was" in log_entry["event"]
    assert "line 9: actions.1.handler" in log_entry["event"]
    assert server.call(server.session())["data"] == {"location": "Paris", "for": "ada"}
    (record,) = server.records()
    assert (record["outcome"], record["code"]) == ("failed", "invalid_definition")


@pytest.mark.spec("G28")
def test_what_governs_calls_is_not_changed_while_it_runs(server: Server) -> None:
    with changed(
        server.root / "capset.json", lambda text: text.replace('"require_auth": true', '"require_auth": false')
    ):
        log_entry = server.reload()
    assert "restart it to change them" in log_entry["event"]
    assert server.reload()["level"] == "info"
    assert [record["outcome"] for record in server.records()] == ["succeeded", "failed"]


@pytest.mark.spec("G28")
def test_a_file_that_is_gone_changes_nothing(server: Server) -> None:
    (server.root / "capset.json").unlink()
    assert "cannot be read" in server.reload()["event"]
    assert server.call(server.session())["success"]
