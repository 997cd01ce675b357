"""One bad action refuses the file, and everything that is wrong is told with its line (spec 4, G8, G13, G27, G28)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.errors import DefinitionError
from tests.helpers.connect.config_file.support import CONFIGURATION, read, refused

ACTION = "actions:\n- name: a\n  title: A\n  permissions: []\n"


@pytest.mark.spec("G8", "G13", "G27", "G28")
def test_everything_that_is_wrong_is_listed_at_once_with_its_line(tmp_path: Path) -> None:
    problems = refused(
        tmp_path,
        """\
        actions:
          - name: get-weather
            handler: ./handlers/weather.js
            parameters: {location: {type: strin}}
            permissions: []
            limits: 100
          - name: notify
            title: Notify
            handler: ./handlers/nowhere.py
            permissions: [notify]
            tmeout: 3
          - name: get-weather
            title: Twice
            handler: ./handlers/weather.py:handlr
        governance: {result_bytes: 3, refusals: 0/1h}
        roles: {a: [a]}
        capabilities: [{id: sums, config: {x: 1}}, sum]
        workspace: ./nowhere
        agnts: [x]
        """,
    )
    messages = {(line, path): message for line, path, message in problems}
    expected = {
        (2, "actions.0.description"): "an action needs a description",
        (3, "actions.0.handler"): "handlers are Python files; got './handlers/weather.js'",
        (4, "actions.0.parameters"): "not a valid JSON Schema: properties.location.type",
        (6, "actions.0.limits"): "a limit is '100/1h' or {'requests': 100, 'window': '1h'}; got 100",
        (9, "actions.1.handler"): "there is no file './handlers/nowhere.py' below",
        (10, "actions.1.permissions.0"): "String should match pattern",
        (11, "actions.1.tmeout"): "did you mean 'timeout'?",
        (12, "actions.2.name"): "another action on line 2 has this name",
        (12, "actions.2.permissions"): "[] for none",
        (14, "actions.2.handler"): "has no 'handlr'; did you mean 'handler'?",
        (15, "governance.result_bytes"): "greater than or equal to 1024",
        (15, "governance.refusals"): "got 0",
        (16, "roles"): "the role 'a' contains itself",
        (17, "capabilities.0.config"): "has no config",
        (17, "capabilities.1"): "did you mean 'sums'?",
        (18, "workspace"): "there is no folder './nowhere'",
        (19, "agnts"): "did you mean 'agents'?",
    }
    assert messages.keys() == expected.keys()
    assert [key for key, words in expected.items() if words not in messages[key]] == []


@pytest.mark.spec("G13", "G28")
@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.json", CONFIGURATION.replace('"requests": 100', '"requests": 0'), 7),
        ("a.json", CONFIGURATION.replace('"requests": 100, ', '"requests": 100,\n\t'), None),
        ("a.json", CONFIGURATION.replace('"window": "1h"', '"window": 3600'), 7),
        ("a.toml", '[[actions]]\nname = "a"\n\n[[actions]]\nname = "get-weather"\nlimits = true\n', 6),
    ],
)
def test_limits_are_refused_by_their_line_and_their_action(
    name: str, text: str, line: int | None, tmp_path: Path
) -> None:
    if line is None:
        assert read(tmp_path, text, name).tools[0].limits
        return
    with pytest.raises(DefinitionError, match=rf"line {line}: .*limits.* \(action 'get-weather'\)"):
        read(tmp_path, text, name)


@pytest.mark.spec("G28")
@pytest.mark.parametrize(
    ("name", "text", "line", "expected"),
    [
        ("a.json", '{"actions": [\n{"name": }]}', 2, "not JSON"),
        ("a.yaml", "actions:\n\t- x", 2, "not YAML"),
        ("a.toml", "x = 1\ny = \n", 2, "not TOML"),
        ("a.yaml", "- x", 1, "expected a mapping"),
        (
            "a.yaml",
            "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(6)),
            None,
            "at most 100,000 values",
        ),
        ("a.toml", ".".join("a" * 103) + " = 1", None, "at most 100 levels"),
        ("a.json", '{"a":' * 101 + "1" + "}" * 101, None, "at most 100 levels"),
        ("a.json", f'{{"{"k" * 1_001}": 1}}', None, "at most 1,000 characters"),
    ],
)
def test_a_file_that_says_nothing_sound_is_refused_by_its_line(
    name: str, text: str, line: int | None, expected: str, tmp_path: Path
) -> None:
    ((actual_line, path, message),) = refused(tmp_path, text, name)
    assert (actual_line, path) == (line, "")
    assert expected in message


@pytest.mark.spec("G28")
def test_handlers_stand_below_the_files_folder_after_symlinks(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("raise SystemExit('was run')\n", encoding="utf-8")
    inside = tmp_path / "inside"
    (inside / "handlers").mkdir(parents=True)
    (inside / "linked.py").symlink_to(tmp_path / "outside.py")
    (inside / "folder").symlink_to(tmp_path)
    (inside / "near.py").symlink_to(inside / "handlers" / "weather.py")
    (inside / "round.py").symlink_to(inside / "round.py")
    (tmp_path / "inside-out").mkdir()
    (tmp_path / "inside-out" / "h.py").write_text("def handler(params): ...", encoding="utf-8")
    for place in (
        "../outside.py",
        str(tmp_path / "outside.py"),
        "./linked.py",
        "./folder/outside.py",
        "../inside-out/h.py",
    ):
        ((line, _, message),) = refused(inside, f"{ACTION}  handler: {place}")
        assert (line, "is outside the configuration file's folder" in message) == (5, True), place
    ((_, _, message),) = refused(inside, f"{ACTION}  handler: ./round.py")
    assert "there is no file" in message
    assert read(inside, f"{ACTION}  handler: ./near.py").tools[0].name == "a"


@pytest.mark.spec("G28")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def handler(params:", "./h.py cannot be loaded: '(' was never closed, on line 1"),
        ("import no_such_module", "./h.py cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "./h.py cannot be loaded: SystemExit: 3"),
        ("handler = 3", "a handler is a function of (params, context) or (params); got 3"),
        ("def handler(a, b, c): ...", "a handler takes (params, context) or (params), by position"),
        ("def handle(params): ...", "./h.py has no 'handler'; did you mean 'handle'?"),
    ],
)
def test_a_handler_that_cannot_be_loaded_is_a_problem_of_its_line(code: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text(code, encoding="utf-8")
    ((line, path, message),) = refused(tmp_path, f"{ACTION}  handler: ./h.py")
    assert (line, path) == (5, "actions.0.handler")
    assert expected in message


@pytest.mark.spec("G27")
@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("no.such.module:x", "no.such.module cannot be imported"),
        ("json:dump s", "the name of a function"),
        ("a-b:c", "a handler is ./FILE.py"),
        ("json:nothing", "json has no 'nothing'"),
        ("./handlers/weather.ts:x", "write it as 'handlers/weather.py'"),
    ],
)
def test_a_handler_that_is_not_there_is_told(handler: str, expected: str, tmp_path: Path) -> None:
    ((_, path, message),) = refused(tmp_path, f"{ACTION}  handler: {handler!r}")
    assert (path, expected in message) == ("actions.0.handler", True), message


@pytest.mark.spec("G27")
def test_an_action_without_a_handler_or_with_two_is_refused(tmp_path: Path) -> None:
    assert [path for _, path, _ in refused(tmp_path, ACTION)] == ["actions.0"]
    both = f"{ACTION}  handler: ./handlers/weather.py\n  tool: sums.add"
    assert [path for _, path, _ in refused(tmp_path, both)] == ["actions.0.tool"]


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("require_auth: true", "require_auth", "at the top level: it belongs in governance"),
        ("approvers: []", "approvers", "it belongs in governance"),
        ("governance: {roles: {}}", "governance.roles", "in governance: it belongs at the top level"),
        ("handler: ./a.py", "handler", "it belongs in actions.*"),
        ("actions: [{name: a, redact: []}]", "actions.0.redact", "in actions.0: it belongs in governance"),
        ("mcp_servers: {a: {system_prompt: x}}", "mcp_servers.a.system_prompt", "it belongs at the top level"),
    ],
)
def test_a_misplaced_field_is_told_its_place(tmp_path: Path, text: str, path: str, place: str) -> None:
    problems = {where: message for _, where, message in refused(tmp_path, text)}
    assert place in problems[path], problems
