"""``capset diff`` over files: real processes, what people read and what programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capset.evaluation.compare.comparison import diff_envelopes
from capset.evaluation.compare.report import format_diff_report
from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.wire.diffs import DiffShape
from tests.helpers.cli.support import Command, Run
from tests.helpers.cli.terminal import on_a_terminal
from tests.helpers.evaluation.compare.versions import earlier, later

pytestmark = pytest.mark.spec("F31")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Lay two versions down, as envelopes and as links."""
    for name, envelope in (("before", earlier()), ("after", later())):
        write(tmp_path / f"{name}.json", envelope)
        (tmp_path / f"{name}.link.json").write_text(envelope.link.model_dump_json(), encoding="utf-8")
    return tmp_path


def write(path: Path, envelope: SnapshotEnvelope) -> None:
    path.write_text(envelope.to_json(), encoding="utf-8")


def test_two_envelopes(capset: Command, files: Path) -> None:
    done = capset("diff", "before.json", "after.json")
    assert done.code == 0
    assert done.out == f"{format_diff_report(diff_envelopes(earlier(), later()), width=160)}\n"
    assert done.err == "values with … are shortened: --json has them in full\n"
    assert capset("diff", "before.json", "before.json").err == ""


@pytest.mark.realtime
def test_what_came_is_green_what_went_is_red_and_what_changed_is_yellow(capset: Command, files: Path) -> None:
    plain = capset("diff", "before.json", "after.json").out
    assert "\x1b" not in plain
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "160"}
    done = capset("diff", "before.json", "after.json", env=terminal)
    signs = {"+": "\x1b[32m", "-": "\x1b[31m", "~": "\x1b[33m", "=": "\x1b[2m"}
    coloured = done.out.splitlines()
    assert len(coloured) == len(plain.splitlines())
    for line, expected in zip(coloured, plain.splitlines(), strict=True):
        sign = expected.strip()[:1]
        heading = expected if expected and not expected.startswith(" ") else ""
        style = signs.get(sign) or ("\x1b[1m" if heading and not heading.endswith(".") else None)
        assert line == (f"{style}{expected}\x1b[0m" if style else expected)
    assert "\x1b[" not in capset("diff", "before.json", "after.json", env={"NO_COLOR": "1"}).out
    assert "\x1b[3" not in capset("diff", "before.json", "after.json", env={**terminal, "NO_COLOR": "1"}).out


@pytest.mark.realtime
def test_on_a_terminal_long_values_are_cut_to_where_they_differ(capset: Command, files: Path) -> None:
    lines = on_a_terminal(capset, "diff", "before.json", "after.json")
    assert all(len(line) <= 80 for line in lines)
    (prompt,) = [line for line in lines if line.startswith("~ systemPrompt")]
    assert "Measure" in prompt
    assert "Judge" in prompt
    assert earlier().runtime.system_prompt not in prompt


@pytest.mark.realtime
@pytest.mark.parametrize("side", ["before", "after"])
def test_stdin_is_one_of_the_sides(capset: Command, files: Path, side: str) -> None:
    text = (files / f"{side}.json").read_text(encoding="utf-8")
    sides = ["-" if name == side else f"{name}.json" for name in ("before", "after")]
    done = capset("diff", *sides, stdin=text)
    assert (done.code, done.out) == (0, capset("diff", "before.json", "after.json").out)


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ("before.json", "before.json", 0),
        ("before.json", "before.link.json", 0),
        ("before.json", "after.json", 3),
        ("before.link.json", "after.link.json", 3),
        ("before.json", "after.link.json", 3),
    ],
)
def test_the_exit_code_says_whether_they_differ_if_it_is_asked_to(
    run: Run, files: Path, first: str, second: str, code: int
) -> None:
    assert run("diff", first, second).code == 0
    for more in ([], ["--json"]):
        done = run("diff", first, second, "--exit-code", *more)
        assert done.code == code, done.err
    assert run("diff", first, second, "--json").json["differs"] == bool(code)


def test_a_file_is_compared_as_it_is_for_a_principal(run: Run, files: Path) -> None:
    agent = {"name": "clerk", "capabilities": ["test_math", "session_file_system"]}
    (files / "a.json").write_text(json.dumps(agent), encoding="utf-8")
    (files / "b.yaml").write_text(
        "name: clerk\ncapabilities: [test_math, {id: session_file_system, rename: {stat_file: stat}}]\n"
    )
    reader = ("--grant", "session_files:read")
    tools = run("diff", "a.json", "b.yaml", *reader, "--json").json["tools"]
    assert [[tool["name"] for tool in tools[kind]] for kind in ("came", "went")] == [["stat"], ["stat_file"]]
    assert run("diff", "a.json", "b.yaml", "--json").json["tools"]["came"] == [], "it is not in play without the grant"
    assert run("fingerprint", "a.json", *reader, "--envelope", "then.json").code == 0
    assert run("diff", "then.json", "a.json", *reader, "--exit-code").code == 0
    assert run("diff", "then.json", "b.yaml", *reader, "--exit-code").code == 3


def test_a_policy_of_a_file_that_fails_is_told_by_the_exit_code(run: Run, files: Path) -> None:
    (files / "rules.py").write_text("def broken(request):\n    raise KeyError\n", encoding="utf-8")
    (files / "c.yaml").write_text("name: c\ncapabilities: [test_math]\npolicies: [./rules.py:broken]\n")
    assert run("diff", "c.yaml", "c.yaml", "--exit-code").code == 1


def test_what_is_not_hashed_is_no_difference(run: Run, files: Path) -> None:
    write(files / "elsewhere.json", earlier(agent_id="x", env={"tier": "free", "region": "us"}, context={"a": 1}))
    done = run("diff", "before.json", "elsewhere.json", "--exit-code")
    assert done.code == 0
    assert done.out.splitlines()[-3:] == [
        "  agent_id differs: 'agent-1', 'x'",
        "  env differs in: region",
        "  context differs in: a",
    ]


def test_a_policy_that_flips_is_a_difference(run: Run, files: Path) -> None:
    write(files / "night.json", earlier(env={"tier": "free", "region": "eu", "day": False}))
    done = run("diff", "before.json", "night.json", "--exit-code")
    assert done.code == 3
    assert "~ by_day  allow → deny (closed at night)" in done.out.splitlines()
    (flip,) = run("diff", "before.json", "night.json", "--json").json["policies"]
    assert flip == {
        "id": "by_day",
        "kind": "flipped",
        "before": {"kind": "allow", "reason": None},
        "after": {"kind": "deny", "reason": "closed at night"},
    }


def test_as_json(capset: Command, files: Path) -> None:
    diff = capset("diff", "before.json", "after.json", "--json").json
    assert DiffShape.model_validate(diff).plain() == diff
    assert set(diff) == {
        *("differs", "relationship", "profile", "hashes", "tools", "policies", "prompt", "definition"),
        *("code", "notes"),
    }
    before, other = earlier(), later()
    assert diff["hashes"] == {
        "static": {"before": before.link.static_hash, "after": other.link.static_hash, "moved": True},
        "runtime": {"before": before.link.runtime_hash, "after": other.link.runtime_hash, "moved": True},
        "prompt": {"before": before.link.prompt_hash, "after": other.link.prompt_hash, "moved": True},
        "invocation": {"before": None, "after": None, "moved": False},
    }
    assert diff["profile"] == {"before": "jcs-1", "after": "jcs-1", "moved": False}
    tools = diff["tools"]
    (came,), (went,), (changed,), (gated,) = (tools[kind] for kind in ("came", "went", "changed", "gated"))
    assert (came["name"], went["name"], tools["stayed"]) == ("export_notes", "delete_note", 1)
    assert came["payload"] == dict(other.runtime.tools[0].payload)
    assert changed["changes"] == [
        {"path": "description", "kind": "changed", "before": "Find notes.", "after": "Find notes by any word."},
        {"path": "permissions[]", "kind": "added", "after": "notes:write"},
        {"path": "schema.properties.limit.maximum", "kind": "changed", "before": 10, "after": 20},
    ]
    assert gated["changes"] == []
    assert gated["gates"] == [{"path": "gates[]", "kind": "added", "after": "always"}]
    assert diff["prompt"][1] == {
        "path": "systemPrompt",
        "kind": "changed",
        "before": before.runtime.system_prompt,
        "after": other.runtime.system_prompt,
    }, "long values are whole here"
    assert [(part["kind"], part.get("name")) for part in diff["definition"]] == [
        ("agent", None),
        ("capability", "notes"),
    ]


def test_of_two_links_only_hashes_are_known(run: Run, files: Path) -> None:
    diff = run("diff", "before.link.json", "after.link.json", "--json").json
    assert set(diff) == {"differs", "relationship", "profile", "hashes", "tools", "code", "notes"}
    (changed,) = diff["tools"]["changed"]
    assert set(changed) == {"name", "before", "after", "gates"}
    assert "payload" not in diff["tools"]["came"][0]
    text = run("diff", "before.link.json", "after.link.json").out
    assert text.count("only the hashes are known, not the payloads") == 3


def test_null_is_data_in_a_change(run: Run, files: Path) -> None:
    def forged(payload: dict[str, Any]) -> SnapshotEnvelope:
        return SnapshotEnvelope.model_validate(json.loads(earlier().to_json()) | {"policy": payload})

    write(files / "reason.json", forged({"results": [{"id": "by_day", "kind": "deny"}]}))
    (flip,) = run("diff", "before.json", "reason.json", "--json").json["policies"]
    assert flip["after"] == {"kind": "deny", "reason": None}


def test_markup_in_an_envelope_is_no_markup(run: Run, files: Path) -> None:
    write(files / "nasty.json", earlier(agent_id="[red]x[/] :smile: [/b]\\"))
    done = run("diff", "before.json", "nasty.json")
    assert "  agent_id differs: 'agent-1', '[red]x[/] :smile: [/b]\\\\'" in done.out.splitlines()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("diff", "Missing argument"),
        ("diff before.json", "Missing argument"),
        ("diff - -", "stdin can be read once"),
        ("diff befor.json after.json", "there is no file 'befor.json'; did you mean 'before.json'?"),
        ("diff before.json nowhere/x.json", "there is no file 'nowhere/x.json' hint: or give the id of"),
        ("diff before.json .", ".: cannot be read: Is a directory"),
        (f"diff before.json {'x' * 300}", "cannot be read: File name too long"),
        ("diff before.json text.txt", "text.txt is not JSON"),
        ("diff before.json list.json", "list.json contains no link or envelope"),
        ("diff before.json empty.json", "empty.json contains no link or envelope"),
        ("diff before.json deep.json", "deep.json is not JSON"),
        ("diff before.json nan.json", "nan.json is not JSON"),
        ("diff before.json runtime.json", "runtime.json: not a snapshot envelope"),
        ("diff before.json hash.json", "hash.json is not a valid link: agent_id: Field required"),
        ("diff forged.json after.json", "forged.json: the payload of the agent does not match its hash"),
        ("diff before.json 01890a5d-ac96-774b-bcce-b302099a8057", "there is no database at capset.db"),
        ("diff before.json after.json --grant x:y", "stored versions have their own principal and env"),
        ("diff before.json typo.yaml", "not a configuration: line 1: nme: there is no such field"),
        ("replay typo.yaml", "typo.yaml is a configuration file: replay needs an envelope"),
        ("diff before.json after.json --jsno", "No such option: --jsno"),
    ],
)
def test_what_cannot_be_compared_ends_with_2(run: Run, files: Path, line: str, message: str) -> None:
    texts = {
        "text.txt": "hello",
        "typo.yaml": "nme: clerk",
        "list.json": "[]",
        "empty.json": "{}",
        "deep.json": "[" * 100_000,
        "nan.json": '{"runtime": NaN}',
        "runtime.json": '{"runtime": {}}',
        "hash.json": '{"runtime_hash": "x"}',
        "forged.json": earlier().to_json().replace("Measure.", "Do harm."),
    }
    for name, text in texts.items():
        (files / name).write_text(text, encoding="utf-8")
    done = run(*line.split())
    assert done.code == 2
    assert message in " ".join(f"{done.out} {done.err}".replace("│", " ").split())
    assert not (files / "capset.db").exists()
    if "Missing" not in message and "--jsno" not in line:
        assert run(*line.split(), "--json").json["success"] is False
