"""Signing by default: a key for each database, adopted once, succeeded on record (spec 4, G41–G43)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.cli.support import Command
from tests.helpers.server.running import Running, running
from tests.waiting import wait_until


def home(root: Path) -> tuple[Path, Path]:
    """Return a folder for the data, and one for the keys outside of it."""
    data, state = root / "data", root / "state"
    data.mkdir()
    return data, state


def ready(server: Running) -> Any:
    answer = httpx2.get(f"{server.url}/v1/readyz", trust_env=False)
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    return answer.json()["signing"]


def acts(capset: Command, name: str) -> list[dict[str, Any]]:
    return capset("audit", "query", "--act", name, "--json").json["items"]


def change(data: Path, *statements: str) -> None:
    with closing(sqlite3.connect(data / "capset.db", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


@pytest.mark.realtime
@pytest.mark.spec("G41", "G43")
def test_a_server_signs_without_being_told_to(tmp_path: Path) -> None:
    data, state = home(tmp_path)
    with running(data, XDG_STATE_HOME=str(state)) as server:
        signing = ready(server)
        server.key()
    (key,) = (state / "capset" / "keys").iterdir()
    assert key.stat().st_mode & 0o777 == 0o600
    (adopted,) = acts(server.capset, "checkpoint_key.adopt")
    assert signing == {"signs": True, "key": adopted["arguments"]["id"], "reason": None}
    (data / "key.pub").write_text(adopted["arguments"]["public"])
    assert "PRIVATE" not in adopted["arguments"]["public"]
    verified = server.capset("audit", "verify", "--key", "key.pub", "--json").json
    assert (verified["ok"], verified["covered"], verified["vouched"]) == (True, 2, True), "the adoption, and the key"
    with running(data, XDG_STATE_HOME=str(state)) as restarted:
        assert ready(restarted) == signing, "the same key, by a second start"
    assert len(acts(restarted.capset, "checkpoint_key.adopt")) == 1


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("G41")
def test_a_thousand_records_are_signed_before_their_time(tmp_path: Path) -> None:
    data, state = home(tmp_path)
    calls = [{"id": str(n), "tool": "test_math.add", "arguments": {"a": n, "b": 1}} for n in range(1_001)]
    with running(data, "--insecure", XDG_STATE_HOME=str(state)) as server:
        with httpx2.Client(base_url=server.url, trust_env=False, timeout=60) as client:
            agent = client.post("/v1/agents", json={"name": "adder", "capabilities": ["test_math"]}).json()
            session = client.post("/v1/sessions", json={"agent_id": agent["id"]}).json()["id"]
            for call in calls:
                body = {"tool": "add", "arguments": call["arguments"]}
                assert client.post(f"/v1/sessions/{session}/calls", json=body).is_success
        output = wait_until(lambda: server.capset("audit", "checkpoints", "--json").out, "a checkpoint")
        assert json.loads(output.splitlines()[0])["seq"] >= 1_000, "while it runs, before five minutes are over"


@pytest.mark.realtime
@pytest.mark.spec("G41", "G43")
def test_a_server_without_the_key_serves_and_does_not_sign(tmp_path: Path) -> None:
    data, state = home(tmp_path)
    with running(data, XDG_STATE_HOME=str(state)) as first:
        key_id = ready(first)["key"]
    with running(data, XDG_STATE_HOME=str(tmp_path / "elsewhere")) as other:
        signing = ready(other)
        other.key()
    assert signing == {"signs": False, "key": None, "reason": f"the log's checkpoint key is not here: {key_id}"}
    assert "the audit log is not signed" in other.log.read_text()
    assert str(tmp_path) not in json.dumps(signing)
    before = first.capset("audit", "checkpoints", "--json").out
    with running(data, "--unsigned", XDG_STATE_HOME=str(state)) as silent:
        assert ready(silent)["signs"] is False
    assert first.capset("audit", "checkpoints", "--json").out == before


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("G41")
def test_another_key_signs_once_it_has_succeeded_by_a_record(tmp_path: Path) -> None:
    data, state = home(tmp_path)
    with running(data, XDG_STATE_HOME=str(state)) as first:
        pass
    capset = Command(data, {**first.capset.environ, "XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(tmp_path)})
    assert capset("audit", "pin").code == 0
    assert capset("audit", "keygen", str(tmp_path / "new.key")).code == 0
    by_new = ("--checkpoint-key", str(tmp_path / "new.key"))
    with running(data, *by_new, XDG_STATE_HOME=str(state)) as early:
        assert ready(early)["reason"] == (
            "the log has another checkpoint key: capset audit succeed --to FILE lets this one take over"
        )
    done = capset("audit", "succeed", "--to", str(tmp_path / "new.key.pub"), "--json")
    assert (done.code, done.json["signed"]) == (0, True), done.err
    with running(data, *by_new, XDG_STATE_HOME=str(state)) as late:
        assert ready(late)["key"] == done.json["key"]
        late.key()
    (succeeded,) = acts(capset, "checkpoint_key.succeed")
    assert succeeded["arguments"]["before"] == done.json["before"]
    verified = capset("audit", "verify")
    assert (verified.code, verified.out.startswith("verified: ")) == (0, True), "the pinned key named its successor"
    with running(data, XDG_STATE_HOME=str(state)) as old:
        assert ready(old)["signs"] is False, "the key before signs no more"
    # A succession that the key before has not signed is followed by nobody who trusts that one.
    capset("audit", "keygen", str(tmp_path / "thief.key"))
    change(data, "DELETE FROM settings WHERE name = 'checkpoint_key'", "DELETE FROM checkpoints")
    thief = ("--checkpoint-key", str(tmp_path / "thief.key"))
    with running(data, *thief, XDG_STATE_HOME=str(state)) as forged:
        assert ready(forged)["signs"] is True
    assert capset("audit", "verify").code == 3


@pytest.mark.spec("G41")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--checkpoint-key", "data/audit.key"), "is in the folder of the database"),
        (("--checkpoint-key", "open.key"), "has mode 0644: others may use it"),
        (("--checkpoint-key", "private.key", "--unsigned"), "a log has one checkpoint key"),
    ],
)
def test_an_unsafe_key_is_refused(tmp_path: Path, options: Sequence[str], expected: str) -> None:
    home(tmp_path)
    capset = Command(tmp_path, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    for name in ("data/audit.key", "open.key", "private.key"):
        capset("audit", "keygen", name)
    (tmp_path / "open.key").chmod(0o644)
    done = capset("serve", "--db", "data/capset.db", "--port", "0", *options)
    assert (done.code, expected in done.err.replace("\n", " ")) == (2, True), done.err


@pytest.mark.realtime
@pytest.mark.spec("G41")
def test_a_secret_of_the_platform_is_a_key(tmp_path: Path) -> None:
    data, state = home(tmp_path)
    capset = Command(data, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    key_id = capset("audit", "keygen", str(tmp_path / "a.key"), "--json").json["id"]
    text = (tmp_path / "a.key").read_text()
    with running(data, XDG_STATE_HOME=str(state), CAPSET_CHECKPOINT_KEY=text) as server:
        assert ready(server) == {"signs": True, "key": key_id, "reason": None}
    assert not state.exists()


@pytest.mark.nightly
@pytest.mark.spec("G42", "T15")
def test_only_what_the_caller_trusts_vouches_for_a_log(tmp_path: Path) -> None:
    data, state = home(tmp_path)
    with running(data, XDG_STATE_HOME=str(state)) as server:
        server.key()
    capset = Command(data, {**server.capset.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")})
    alone = capset("audit", "verify")
    assert alone.code == 0
    assert alone.out.splitlines()[0].startswith("no key was given:")
    assert "verified" not in alone.out
    assert capset("audit", "pin").code == 0
    pinned = capset("audit", "verify")
    assert (pinned.code, pinned.out) == (0, "verified: 2 records, every hash holds\n")
    backup = (data / "capset.db").read_bytes()
    # Emptied, with its checkpoints and its key.
    change(data, "DELETE FROM records", "DELETE FROM checkpoints", "DELETE FROM settings WHERE name = 'checkpoint_key'")
    assert capset("audit", "verify").code == 3
    assert capset("audit", "pin").code == 3, "and is not pinned in the place of the other"
    stranger = Command(data, {**server.capset.environ, "XDG_CONFIG_HOME": str(tmp_path / "strangers")})
    empty = stranger("audit", "verify")
    assert "empty: there are no records" in empty.out
    assert "verified" not in empty.out
    # Computed anew, and signed by another key: consistent in itself.
    (data / "capset.db").write_bytes(backup)
    (data / "capset.db").unlink()
    for side_file in data.glob("capset.db-*"):
        side_file.unlink()
    with running(data, XDG_STATE_HOME=str(tmp_path / "thiefs")) as forged:
        forged.key()
    assert stranger("audit", "verify").code == 0
    verified = capset("audit", "verify")
    assert (verified.code, "verified:" in verified.out) == (3, False)
