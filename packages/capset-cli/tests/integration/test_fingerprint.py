"""``capset fingerprint``: hashes, what they cover, and envelopes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from capset.evaluation.compare.sides import side_of
from capset.evaluation.snapshot.envelope import read_envelope
from capset.wire.fingerprints import AgentHashesShape
from tests.helpers.cli.agent_files import HASHES, agent_files
from tests.helpers.cli.support import FILES, Command, Run
from tests.helpers.cli.terminal import on_a_terminal


@pytest.fixture
def agent(tmp_path: Path) -> str:
    return agent_files(tmp_path)[1].name


@pytest.mark.spec("F2", "F3", "F6", "F7", "F8", "F9")
def test_every_hash_is_that_of_its_payload(run: Run, agent: str) -> None:
    fingerprint = run("fingerprint", agent, *FILES, "--json", "--payloads").json
    assert AgentHashesShape.model_validate(fingerprint).plain() == fingerprint
    payloads = fingerprint["payloads"]
    assert all(hashlib.sha256(text.encode()).hexdigest() == digest for digest, text in payloads.items())
    assert {fingerprint[name] for name in HASHES} <= payloads.keys()
    assert fingerprint["definition"]["hash"] == fingerprint["static_hash"]
    assert [part["name"] for part in fingerprint["definition"]["parts"]] == [
        *("session_file_system", "test_math", "stateless_todo_list"),
    ]
    assert all(tool["hash"] in payloads for tool in fingerprint["tools"])
    composed = run("compose", agent, *FILES, "--json").json
    assert [fingerprint[name] for name in HASHES] == [composed[name] for name in HASHES]
    assert "payloads" not in run("fingerprint", agent, "--json").json


@pytest.mark.realtime
@pytest.mark.spec("F2")
def test_the_sha256_of_a_payload_is_its_hash(capset: Command) -> None:
    """As anybody computes it, by the bytes that are printed."""
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not installed")
    agent = agent_files(capset.folder)[1].name
    fingerprint = capset("fingerprint", agent, *FILES, "--json").json
    (tool, *_), (part, *_) = fingerprint["tools"], fingerprint["definition"]["parts"]
    with capset.start("fingerprint", agent, *FILES, "--payload", part["hash"]) as process:
        summed = subprocess.run(["sha256sum"], stdin=process.stdout, capture_output=True, text=True, check=True)
    assert summed.stdout.split()[0] == part["hash"]
    for digest in (*(fingerprint[name] for name in HASHES), tool["hash"], part["hash"]):
        printed = capset("fingerprint", agent, *FILES, "--payload", digest).out
        assert subprocess.check_output(["sha256sum"], input=printed, text=True).split()[0] == digest
        short = capset("fingerprint", agent, *FILES, "--payload", digest[:12].upper())
        assert hashlib.sha256(short.out.encode()).hexdigest() == digest


@pytest.mark.spec("F2")
def test_payloads_stand_below_the_tree(run: Run, agent: str) -> None:
    lines = run("fingerprint", agent, "--payloads").out.splitlines()
    payloads = run("fingerprint", agent, "--payloads", "--json").json["payloads"]
    for digest, text in payloads.items():
        assert text in lines
        assert lines[lines.index(text) - 1] == digest


def test_the_tree_is_aligned(run: Run, agent: str) -> None:
    done = run("fingerprint", agent, *FILES[:2])
    fingerprint = run("fingerprint", agent, *FILES[:2], "--json").json
    lines = done.out.splitlines()
    assert lines[0] == "librarian as seen by local jcs-1"
    hashed = [line for line in lines[1:] if "not in play" not in line]
    assert len({len(line) for line in hashed}) == 1
    assert all(len(line.rsplit(maxsplit=1)[1]) == 64 for line in hashed)
    for name in HASHES:
        assert any(name in line and line.endswith(fingerprint[name]) for line in hashed)
    for tool in fingerprint["tools"]:
        assert any(tool["name"] in line and line.endswith(tool["hash"]) for line in hashed)
        if not tool["in_play"]:
            assert any(f"not in play: {tool['name']} — {tool['reason']}" in line for line in lines)


@pytest.mark.realtime
def test_a_narrow_terminal_shows_the_first_digits(capset: Command) -> None:
    agent = agent_files(capset.folder)[1].name
    fingerprint = capset("fingerprint", agent, "--json").json
    lines = on_a_terminal(capset, "fingerprint", agent)
    assert any(line.endswith(f"  {fingerprint['prompt_hash'][:12]}") for line in lines)


@pytest.mark.spec("F8")
def test_options_say_who_sees_it(run: Run, agent: str) -> None:
    default = run("fingerprint", agent, "--json").json
    other = run("fingerprint", agent, *FILES, "--principal", "ada", "--env", "tier=pro", "--json").json
    assert (default["principal"], other["principal"]) == ("local", "ada")
    assert default["static_hash"] == other["static_hash"]
    assert default["runtime_hash"] != other["runtime_hash"]


def test_a_capability_is_an_agent_with_nothing_else(run: Run) -> None:
    fingerprint = run("fingerprint", "test_math", "--json").json
    (part,) = fingerprint["definition"]["parts"]
    assert (part["kind"], part["name"]) == ("capability", "test_math")
    call = run("call", "test_math.add", "--args", '{"a": 1, "b": 2}', "--json").json
    assert call["runtime_hash"] == fingerprint["runtime_hash"]
    (record,) = run("audit", "query", "--json").json["items"]
    assert record["static_hash"] == fingerprint["static_hash"]
    assert run("fingerprint", "memory:user", "--json").json["agent"] == "memory-user"


def test_an_installed_agent(workshop: Command) -> None:
    fingerprint = workshop("fingerprint", "foreman", "--json").json
    assert fingerprint["agent"] == "foreman"
    (part,) = fingerprint["definition"]["parts"]
    assert [child["name"] for child in part["parts"]] == ["crash", "echo", "nothing", "refuse", "steps", "wait"]
    assert "workshop" in workshop("fingerprint", "foreman").out


@pytest.mark.spec("F27", "F31")
def test_an_envelope_to_compare_with(run: Run, agent: str, tmp_path: Path) -> None:
    env = ("--env", "tier=pro", "--env", "db_password=hunter2")
    done = run("fingerprint", agent, *FILES, *env, "--envelope", "a.json", "--json")
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    envelope = read_envelope(text)
    assert side_of(envelope).link.runtime_hash == done.json["runtime_hash"]
    assert envelope.static is not None
    assert dict(envelope.runtime.toolkit_context.env) == {"tier": "pro"}
    assert "db_password" in done.said
    assert "hunter2" not in f"{text}{done.out}{done.err}"
    piped = run("fingerprint", agent, *FILES, *env, "--envelope", "-")
    assert piped.out == text
    assert run("diff", "a.json", "-", "--exit-code", stdin=piped.out).code == 0
    assert run("fingerprint", agent, "--envelope", "nowhere/a.json").code == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nobody", "nor is a capability of that name installed"),
        ("nobody.yaml", "cannot be read"),
        ("test_math --payload 12345678", "no hash here is '12345678'"),
        ("test_math --payload 1", "no hash here is '1'"),
        ("test_math --payload 12345678 --json", "give one of"),
        ("test_math --payload 12345678 --payloads", "give one of"),
        ("test_math --payload 12345678 --envelope -", "give one of"),
        ("test_math --envelope - --json", "give one of"),
        ("01890a5d-ac96-774b-bcce-b302099a8057", "there is no database at capset.db"),
    ],
)
def test_what_cannot_be_shown_ends_with_2(run: Run, tmp_path: Path, line: str, message: str) -> None:
    done = run("fingerprint", *line.split())
    assert done.code == 2
    assert message in f"{done.said} {done.out}"
    assert not (tmp_path / "capset.db").exists()
