"""``capset import`` (spec 8, W28, W29)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.cli.support import Command

ADD: dict[str, Any] = {
    "type": "function",
    "name": "math.add",
    "description": 'Add """two""" numbers.',
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "float"}, "b": {"type": "float"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}
DROP: dict[str, Any] = {
    "name": "class",
    "description": "Drop a class.",
    "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
}


def put(folder: Path, content: Any, name: str = "tools.json") -> str:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return name


@pytest.mark.spec("W28")
def test_tools_are_actions_whose_handlers_are_to_be_written(capset: Command, tmp_path: Path) -> None:
    done = capset("import", put(tmp_path, [ADD, DROP]), "--effect", "write", "--output", "calc.yaml")
    assert done.code == 0
    assert "math.add is called math_add here" in done.said
    assert capset("check", "calc.yaml").code == 0
    content = yaml.safe_load((tmp_path / "calc.yaml").read_text("utf-8"))
    first, second = content["actions"]
    assert (first["name"], first["title"], first["effect"]) == ("math_add", "math.add", "write")
    assert first["handler"] == "./calc_handlers.py:math_add"
    assert second["handler"] == "./calc_handlers.py:class_"
    failed = capset("call", "math_add", "--agent", "calc.yaml", "--args", '{"a": 2, "b": 3}', "--json")
    assert failed.json["error"]["code"] == "not_written"
    assert "math_add is not written yet" in failed.json["error"]["message"]
    handlers = tmp_path / "calc_handlers.py"
    text = handlers.read_text("utf-8").replace('raise _unwritten("math_add")', 'return params["a"] + params["b"]')
    handlers.write_text(text, encoding="utf-8")
    called = capset("call", "math_add", "--agent", "calc.yaml", "--args", '{"a": 2, "b": 3}', "--json")
    assert called.json["data"] == 5
    refused = capset("call", "math_add", "--agent", "calc.yaml", "--args", '{"a": "two", "b": 3}', "--json")
    assert refused.json["refused"]


@pytest.mark.spec("W28")
def test_nothing_that_a_definition_says_is_code(capset: Command, tmp_path: Path) -> None:
    evil = {
        "name": 'x"); import os; os.remove("calc.yaml"); ("',
        "description": '"""\nimport os\nos.remove("calc.yaml")',
    }
    assert capset("import", put(tmp_path, [evil]), "--effect", "read", "--output", "calc.yaml").code == 0
    text = (tmp_path / "calc_handlers.py").read_text("utf-8")
    assert "import os" not in text
    assert capset("check", "calc.yaml").code == 0
    assert (tmp_path / "calc.yaml").exists()


@pytest.mark.spec("W28")
def test_a_configuration_is_printed_where_no_file_is_named(capset: Command, tmp_path: Path) -> None:
    done = capset("import", put(tmp_path, {"tools": [ADD]}), "--effect", "read")
    assert yaml.safe_load(done.out)["actions"][0]["handler"] == "./handlers.py:math_add"
    assert "handlers.py, with its handlers, is not written: give --output FILE" in done.said
    assert not (tmp_path / "handlers.py").exists()
    assert capset("import", "tools.json", "--effect", "read", "--json").json == yaml.safe_load(done.out)


@pytest.mark.spec("W28")
def test_nothing_that_is_there_is_overwritten(capset: Command, tmp_path: Path) -> None:
    put(tmp_path, [ADD])
    (tmp_path / "calc_handlers.py").write_text("mine = 1\n", encoding="utf-8")
    done = capset("import", "tools.json", "--effect", "read", "--output", "calc.yaml")
    assert done.code == 2
    assert "calc_handlers.py already exists, and is not overwritten" in done.said
    assert (tmp_path / "calc_handlers.py").read_text("utf-8") == "mine = 1\n"
    assert not (tmp_path / "calc.yaml").exists()


@pytest.mark.spec("W28")
def test_what_cannot_be_a_tool_is_named_and_nothing_is_made(capset: Command, tmp_path: Path) -> None:
    bad = {"name": "bad", "parameters": {"type": "object", "properties": {"when": {"type": "Date"}}}}
    put(tmp_path, [ADD, bad, {"type": "web_search"}])
    done = capset("import", "tools.json", "--effect", "read", "--output", "calc.yaml")
    assert (done.code, done.out) == (2, "")
    assert "error: bad: parameters.properties.when.type: a type was expected" in done.said
    assert "error: tools.2.type: 'function' was expected; got 'web_search'" in done.said
    assert not (tmp_path / "calc.yaml").exists()
    without = capset("import", "tools.json", "--effect", "read", "--output", "calc.yaml", "--skip-refused", "--json")
    assert without.json == {"configuration": "calc.yaml", "handlers": ["calc_handlers.py"]}
    assert [action["name"] for action in yaml.safe_load((tmp_path / "calc.yaml").read_text("utf-8"))["actions"]] == [
        "math_add"
    ]


@pytest.mark.spec("W28")
def test_the_servers_of_a_client_are_a_configuration(capset: Command, tmp_path: Path) -> None:
    servers = {"mcpServers": {"Shelf": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer abc"}}}}
    done = capset("import", put(tmp_path, servers), "--output", "gateway.json")
    assert done.code == 0
    assert "set these variables, whose values were left out: SHELF_TOKEN" in done.said
    assert json.loads((tmp_path / "gateway.json").read_text("utf-8")) == {
        "mcp_servers": {
            "shelf": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${SHELF_TOKEN}"}}
        }
    }
    assert capset("check", "gateway.json").code == 0
    printed = capset("import", "tools.json")
    assert printed.out == capset("gateway", "import", "tools.json").out


@pytest.mark.spec("W28")
@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ([ADD], (), "say what the tools do: --effect read, write, external or destructive"),
        ([], ("--effect", "read"), "there are no tool definitions in tools.json"),
        ("x", ("--effect", "read"), "a list of tool definitions was expected, or an object with tools; got 'x'"),
        ([ADD], ("--effect", "read", "--output", "calc.toml"), ".yaml, .yml, .json; got 'calc.toml'"),
        (
            {"mcpServers": {"a": {"url": "https://example.com/"}}},
            ("--effect", "read"),
            "--effect and --skip-refused are for tool definitions; this file has MCP servers",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    capset: Command, tmp_path: Path, content: Any, options: tuple[str, ...], message: str
) -> None:
    done = capset("import", put(tmp_path, content), *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.said


@pytest.mark.spec("W28")
def test_what_is_no_json_is_refused(capset: Command, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text("[", encoding="utf-8")
    done = capset("import", "tools.json", "--effect", "read")
    assert done.code == 2
    assert "tools.json is not JSON" in done.said


@pytest.mark.spec("W29")
@pytest.mark.parametrize("form", ["openai", "openai-chat", "anthropic"])
def test_an_export_is_imported_as_actions_with_the_same_tools(capset: Command, tmp_path: Path, form: str) -> None:
    (tmp_path / "helper.yaml").write_text("name: helper\ncapabilities: [test_math, current_time]\n", encoding="utf-8")
    exported = capset("export", form, "--agent", "helper.yaml")
    (tmp_path / "tools.json").write_text(exported.out, encoding="utf-8")
    assert capset("import", "tools.json", "--effect", "read", "--output", "again.yaml").code == 0
    assert json.loads(capset("export", form, "--agent", "again.yaml").out) == json.loads(exported.out)
