"""``capset check``: every problem with its line, warnings, and what would be served (spec 4, G27, G28)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.helpers.cli.support import Run
from tests.helpers.connect.config_file.support import CONFIGURATION, folder

SOURCES = """\
mcp_servers:
  books: {url: "https://books.example/mcp", permissions: ["books:use"], limits: 600/1h}
  clock: {command: [sh, my clock], tools: [now], prompts: [when]}
apis:
  pets: {document: pets.json, operations: [get_pet], tags: [reading]}
"""
PETS = """\
openapi: 3.1.0
info: {title: Pets, version: "1"}
paths:
  /pets/{number}:
    get: {operationId: get_pet, tags: [reading], responses: {}}
    delete: {operationId: delete_pet, responses: {}}
"""
BAD = """\
actions:
  - name: get-weather
    title: Get Weather
    handler: ./handlers/weather.js
    permissions: []
  - {name: b, titel: B, permissions: [], handler: ./handlers/notify.py}
"""


@pytest.mark.spec("G28")
def test_it_lists_every_problem_with_its_line_and_ends_with_2(run: Run, tmp_path: Path) -> None:
    folder(tmp_path, {"bad.yaml": BAD})
    done = run("check", "bad.yaml")
    assert (done.code, done.out) == (2, "")
    lines = done.err.splitlines()
    assert [line.partition(" ")[2].partition(": ")[0] for line in lines] == ["bad.yaml:4", "bad.yaml:6", "bad.yaml:6"]
    assert "handlers are Python files" in lines[0]
    assert "did you mean 'title'?" in done.said
    report = run("check", "bad.yaml", "--json")
    assert report.code == 2
    assert (report.json["valid"], [problem["line"] for problem in report.json["problems"]]) == (False, [4, 6, 6])
    assert report.json["problems"][0]["action"] == "get-weather"


@pytest.mark.spec("G28")
def test_it_shows_what_would_be_served(run: Run, tmp_path: Path) -> None:
    folder(tmp_path, {"capset.json": CONFIGURATION})
    done = run("check", "capset.json")
    assert done.code == 0
    heads, weather, notify = (line.split() for line in done.out.splitlines())
    assert heads == ["ACTION", "TITLE", "EFFECT", "PERMISSIONS", "LIMITS", "APPROVAL", "HANDLER"]
    assert weather == [
        "get-weather",
        "Get",
        "Weather",
        "write",
        "weather:read",
        "100/1h",
        "auto",
        "./handlers/weather.py",
    ]
    assert notify[0] == "send-notification"
    assert "the agent 'capset' with 2 actions" in done.said
    report = run("check", "capset.json", "--json").json
    assert (report["valid"], report["agent"], report["warnings"]) == (True, "capset", [])
    assert [action["permissions"] for action in report["actions"]] == [["weather:read"], ["notify:send"]]


@pytest.mark.spec("G23", "G28")
def test_a_warning_changes_nothing_about_how_it_ends(run: Run, tmp_path: Path) -> None:
    folder(tmp_path, {"capset.json": CONFIGURATION.replace('"record_reads": true', '"record_reads": false')})
    done = run("check", "capset.json")
    assert done.code == 0
    assert "warning: capset.json: line 14: governance.record_reads: only calls of tools" in done.said
    (warned,) = run("check", "capset.json", "--json").json["warnings"]
    assert warned["line"] == 14


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", None, "cannot be read"),
        ("a.ini", "", "a configuration file ends in"),
        ("a.yaml", "x: [", "a.yaml:1: not YAML"),
    ],
)
def test_what_is_no_such_file_is_bad_input(run: Run, tmp_path: Path, name: str, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = run("check", name)
    assert (done.code, words in done.said) == (2, True), done.said


@pytest.mark.spec("G27")
def test_the_schema_for_editors_takes_what_is_taken(run: Run) -> None:
    schema = json.loads(run("schema").out)
    validator = Draft202012Validator(schema)
    validator.validate(json.loads(CONFIGURATION))
    for wrong in (
        CONFIGURATION.replace('"permissions"', '"permission"'),
        CONFIGURATION.replace('"requests": 100', '"requests": 0'),
        CONFIGURATION.replace('"permissions": ["notify:send"]', '"returns": {}'),
        CONFIGURATION.replace('"require_auth"', '"requireauth"'),
    ):
        assert not validator.is_valid(json.loads(wrong))


@pytest.mark.spec("G28", "M7")
def test_it_shows_the_servers_and_apis_that_a_file_declares(run: Run, tmp_path: Path) -> None:
    """Neither is asked: what they have is for ``capset mcp list``."""
    (tmp_path / "tools.yaml").write_text(SOURCES)
    (tmp_path / "pets.json").write_text(PETS)
    done = run("check", "tools.yaml")
    assert (done.code, [line.split() for line in done.out.splitlines()]) == (
        0,
        [
            ["SERVER", "FROM", "TOOLS", "PERMISSIONS", "LIMITS"],
            ["books", "https://books.example/mcp", "all", "books:use", "600/1h"],
            ["clock", "sh", "'my", "clock'", "now,", "prompts/when", "–", "–"],
            ["api:pets", "pets.json", "get_pet,", "the", "tag", "reading", "–", "–"],
        ],
    )
    assert "the agent 'tools' with the approved tools of 2 MCP servers and 1 API" in done.said
    report = run("check", "tools.yaml", "--json").json
    assert (report["valid"], report["actions"]) == (True, [])
    (tmp_path / "empty.yaml").write_text("actions: []\n")
    done = run("check", "empty.yaml")
    assert (done.code, done.out) == (0, "")
    assert "with 0 actions" in done.said


@pytest.mark.spec("M6", "M23")
@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (
            "mcp_servers:\n  clock:\n    command: [sh]\n    tools: [title, lend]\n"
            "    rules:\n      lnd: {approval: ask}\n",
            6,
            "rules: tools leaves out 'lnd'; did you mean 'lend'?",
        ),
        (
            "mcp_servers:\n  clock:\n    command: [sh]\n    prompts: [review]\n"
            "    rules:\n      prompts/x: {limits: 1/1h}\n",
            6,
            "rules: prompts leaves out 'x'",
        ),
        (
            'apis:\n  pets:\n    document: pets.yaml\n    rules: {"DELETE /pets/{id}": {approval: ask}}\n',
            2,
            "unknown operation 'DELETE /pets/{id}'; did you mean 'DELETE /pets/{number}'?",
        ),
        (
            "apis:\n  pets:\n    document: pets.yaml\n    tags: [raeding]\n",
            2,
            "unknown tag 'raeding'; did you mean 'reading'?",
        ),
        (
            "mcp_servers:\n  clock:\n    command: [no-such-program, x]\n",
            3,
            "there is no program 'no-such-program' on this machine's path",
        ),
        (
            "apis:\n  pets:\n    document: pets.yaml\n    url: http://127.0.0.1:8063\n",
            4,
            'allow it with internal: ["127.0.0.1:8063"]',
        ),
        ("mcp_servers:\n  clock:\n    url: http://localhost/mcp\n", 3, 'allow it with internal: ["localhost:80"]'),
        ("mcp_servers:\n  clock:\n    url: http://169.254.169.254/\n", 3, "is never requested"),
        ("apis:\n  pets:\n    url: https://pets.example\n    document: pet.yaml\n", 4, "cannot be read: No such file"),
    ],
)
def test_names_that_sources_have_not_are_problems_without_a_network(
    run: Run, tmp_path: Path, text: str, line: int, problem: str
) -> None:
    (tmp_path / "pets.yaml").write_text(PETS)
    (tmp_path / "tools.yaml").write_text(text)
    (entry,) = run("check", "tools.yaml", "--json").json["problems"]
    assert (entry["line"], problem in entry["message"]) == (line, True), entry["message"]
    done = run("check", "tools.yaml")
    assert (done.code, problem in done.said) == (2, True)


@pytest.mark.spec("M23")
def test_a_rule_that_is_nearly_that_of_a_chosen_operation_is_a_warning(run: Run, tmp_path: Path) -> None:
    """Only the document could say, and it is elsewhere."""
    options = 'operations: [get_pet, "GET /me"], rules: {get_pett: {approval: ask}, add_pictures: {limits: 1/1h}}'
    (tmp_path / "tools.yaml").write_text(f"apis:\n  pets: {{document: 'https://pets.example/a.json', {options}}}\n")
    done = run("check", "tools.yaml")
    assert done.code == 0
    assert "operations has no 'get_pett'; did you mean 'get_pet'?" in done.said
    assert "add_pictures" not in done.said
