"""Two versions of an installed distribution with the same declarations and other code: who is told, and how."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capset.fingerprint.canonical import digest
from capset.fingerprint.payloads import code_payload
from tests.distributions import install_wheel, make_wheel
from tests.helpers.cli.support import Command, clean_environment
from tests.helpers.evaluation.code import CODE, FILES, HONEST, OTHER, sums

pytestmark = [pytest.mark.spec("F35", "F31"), pytest.mark.realtime]
POINTS = """
[capset.agents]
adder = tinybox.tools:adder
[capset.capabilities]
sums = tinybox.tools:boxed
payments = tinybox.tools:paid
"""
TOOLS = """
from capset import Capability

boxed = Capability("sums", tools=[add])


@tool(effect="write", approval="ask")
def pay(amount: int) -> int:
    \"\"\"Pay somebody.\"\"\"
    return total(amount, 0)


paid = Capability("payments", tools=[pay])
"""
BOXED = {**FILES, "tinybox/tools.py": f"{FILES['tinybox/tools.py']}{TOOLS}"}
Install = Callable[[str, str], str]


@pytest.fixture
def upgrade(tmp_path: Path) -> Install:
    """Give what installs a version of ``tinybox``, whose sums are this code, and returns the hash that it must have."""

    def install(version: str, code: str) -> str:
        files = {**BOXED, "tinybox/sums.py": code}
        install_wheel(make_wheel(tmp_path, "tinybox", version, files, POINTS), tmp_path / "packages")
        return digest(code_payload(sums(files, *CODE)))

    return install


@pytest.fixture
def box(tmp_path: Path) -> Command:
    """Give the command with the folder of packages on its path, where nothing stale is compiled."""
    environ = clean_environment(tmp_path, PYTHONPATH=str(tmp_path / "packages"), PYTHONDONTWRITEBYTECODE="1")
    return Command(tmp_path, environ)


def test_same_definition_other_code(box: Command, upgrade: Install) -> None:
    first = upgrade("1.0", HONEST)
    then = json.loads(box("fingerprint", "adder", "--envelope", "then.json", "--json").out)
    assert [(tool["name"], tool["code_hash"]) for tool in then["tools"]] == [("add", first)]
    assert then["code"] == [
        {"hash": first, "kind": "distribution", "name": "tinybox", "version": "1.0", "tools": ["add"]}
    ]
    assert json.loads(box("call", "sums.add", "--args", '{"a": 1, "b": 2}', "--json").out)["data"] == 3

    second = upgrade("1.1", OTHER)
    assert second != first
    now = json.loads(box("fingerprint", "adder", "--envelope", "now.json", "--json").out)
    assert [now[name] for name in ("static_hash", "runtime_hash", "prompt_hash")] == [
        then[name] for name in ("static_hash", "runtime_hash", "prompt_hash")
    ]
    assert now["tools"][0]["hash"] == then["tools"][0]["hash"]
    assert (now["code"][0]["hash"], now["code"][0]["version"]) == (second, "1.1")
    assert json.loads(box("call", "sums.add", "--args", '{"a": 1, "b": 2}', "--json").out)["data"] == 4

    done = box("diff", "then.json", "now.json", "--exit-code")
    assert done.code == 3
    lines = done.out.splitlines()
    assert lines[0] == "Same definition, tools in play and prompt; different code."
    assert lines[-4:] == [
        "code",
        f"~ {first[:12]} → {second[:12]}",
        "    same definition, different code: add",
        "      only the hashes are known, not the payloads",
    ]
    diff = box("diff", "then.json", "now.json", "--json").json
    assert (diff["differs"], diff["tools"]["changed"], diff["tools"]["stayed"]) == (True, [], 1)
    assert diff["code"] == [{"before": first, "after": second, "tools": ["add"], "changed": []}]
    assert box("diff", "now.json", "now.json", "--exit-code").code == 0
    replayed = json.loads(box("replay", "then.json", "--exit-code", "--json").out)
    assert (replayed["differs"], replayed["hydrate"]["accepts"]) == (True, True)

    items = box("audit", "query", "--json").json["items"]
    assert [record["code_hash"] for record in items] == [second, first]
    assert len({record["tool_hash"] for record in items}) == 1
    assert box("audit", "verify").code == 0


def test_what_the_hash_covers_is_printed(box: Command, upgrade: Install) -> None:
    code_hash = upgrade("1.0", HONEST)
    printed = box("fingerprint", "adder", "--payload", code_hash[:12]).out
    assert hashlib.sha256(printed.encode()).hexdigest() == code_hash
    folder = box.folder / "packages"
    for file in json.loads(printed)["files"]:
        assert hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() == file["digest"]
    tree = box("fingerprint", "adder").out.splitlines()
    assert any(line.endswith(f"  {code_hash}") and "code tinybox 1.0" in line for line in tree)


def test_a_link_without_code_hashes_is_compared_as_before(box: Command, upgrade: Install) -> None:
    """As those are that an earlier version of capset kept: nothing is known, so nothing is told."""
    upgrade("1.0", HONEST)
    box("fingerprint", "adder", "--envelope", "then.json")
    upgrade("1.1", OTHER)
    box("fingerprint", "adder", "--envelope", "now.json")
    old = json.loads((box.folder / "then.json").read_text("utf-8"))
    for ref in old["runtime"]["link"]["tool_refs"]:
        del ref["code"]
    (box.folder / "old.json").write_text(json.dumps(old), encoding="utf-8")
    done = box("diff", "old.json", "now.json", "--exit-code")
    assert (done.code, done.out.splitlines()[0]) == (0, "Same in all: definition, tools in play and prompt.")
    assert "code" not in done.out.splitlines()


@pytest.mark.spec("G16", "G17")
def test_who_approves_sees_the_code_and_approves_no_other(box: Command, upgrade: Install) -> None:
    first = upgrade("1.0", HONEST)
    pay = ("call", "payments.pay", "--args", '{"amount": 5}', "--defer", "--json")
    call = json.loads(box(*pay).out)
    details = box("approvals", "show", call["approval"]).out.splitlines()
    assert f"code_hash     {first}" in details
    assert "code          tinybox 1.0" in details
    assert box("approvals", "approve", call["approval"], "--principal", "boss").code == 0

    second = upgrade("1.1", OTHER)
    retry = (*pay, "--session", call["session"])
    other = json.loads(box(*retry).out)
    assert (other["success"], other["approval"] == call["approval"]) == (False, False)
    request = json.loads(box("approvals", "show", other["approval"], "--json").out)
    assert request["code"] == {"hash": second, "kind": "distribution", "name": "tinybox", "version": "1.1"}
    old = json.loads(box("approvals", "show", call["approval"], "--json").out)
    assert (old["code_hash"], "code" in old) == (first, False), "what is not installed here has no name"
    void = box(*retry, "--approval", call["approval"])
    assert (void.code, json.loads(void.out)["error"]["code"]) == (3, "approval_void")
    assert "another version of the tool's code" in json.loads(void.out)["error"]["message"]

    upgrade("1.0", HONEST)
    assert json.loads(box(*retry).out)["data"] == 5


@pytest.mark.spec("G17", "G27")
def test_a_configuration_says_that_code_does_not_count(box: Command, upgrade: Install) -> None:
    config = {
        "actions": [{"name": "pay", "tool": "payments.pay", "permissions": []}],
        "governance": {"code_voids_approvals": False},
    }
    (box.folder / "desk.json").write_text(json.dumps(config), encoding="utf-8")
    pay = ("call", "pay", "--agent", "desk.json", "--args", '{"amount": 5}', "--defer", "--json")
    upgrade("1.0", HONEST)
    call = json.loads(box(*pay).out)
    box("approvals", "approve", call["approval"], "--principal", "boss")
    upgrade("1.1", OTHER)
    assert json.loads(box(*pay, "--session", call["session"]).out)["data"] == 6
