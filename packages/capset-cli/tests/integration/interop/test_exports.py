"""``capset export`` (spec 8, W24–W27)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from capset import Registry
from capset_connect.config_file import read_configuration
from tests.helpers.cli.support import Command, Run

AGENT = "name: helper\ndescription: Adds numbers.\ncapabilities: [test_math]\n"
CONFIG = """\
name: weather
actions:
  - name: get_weather
    description: Say how the weather is.
    handler: ./handlers/weather.py
    effect: read
    parameters:
      city: {type: string, required: true}
    permissions: [weather:read]
  - name: change_weather
    description: Change the weather.
    handler: ./handlers/weather.py:change
    permissions: [weather:change]
governance:
  default_permissions: [weather:read]
"""
HANDLERS = "def handler(params):\n    return 'sun'\n\n\ndef change(params):\n    return 'rain'\n"
PUBLISHED = ("--release", "1.0.0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.yaml").write_text(AGENT, encoding="utf-8")
    (tmp_path / "weather.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "weather.py").write_text(HANDLERS, encoding="utf-8")
    return tmp_path


@pytest.mark.spec("W24")
@pytest.mark.parametrize("form", ["openai", "openai-chat", "anthropic", "json-schema"])
def test_an_agent_is_written_to_stdout_or_to_a_file_with_the_same_bytes(
    capset: Command, folder: Path, form: str
) -> None:
    printed = capset("export", form, "--agent", "helper.yaml")
    assert printed.code == 0
    assert "left out: effects of add, divide, multiply, subtract" in printed.said
    saved = capset("export", form, "--agent", "helper.yaml", "--output", "tools.json")
    assert (saved.code, saved.out) == (0, "")
    assert (folder / "tools.json").read_text("utf-8") == printed.out
    assert capset("export", form, "--agent", "helper.yaml", "--json").json["content"] == json.loads(printed.out)


@pytest.mark.spec("W24")
def test_a_configuration_is_written_as_its_principal_sees_it(capset: Command, folder: Path) -> None:
    assert folder
    done = capset("export", "anthropic", "--agent", "weather.yaml")
    assert [tool["name"] for tool in json.loads(done.out)] == ["get_weather"]
    assert "the tool change_weather, which is not in play: local lacks the permission weather:change" in done.said
    granted = capset("export", "anthropic", "--agent", "weather.yaml", "--grant", "weather:change")
    assert [tool["name"] for tool in json.loads(granted.out)] == ["change_weather", "get_weather"]


@pytest.mark.spec("W25", "W26")
def test_what_registries_and_other_agents_read_is_written(capset: Command, folder: Path) -> None:
    assert folder
    place = (*PUBLISHED, "--at", "https://tools.example.com/mcp", "--agent", "helper.yaml")
    server = json.loads(capset("export", "mcp-server", "--name", "io.github.ada/helper", *place).out)
    assert (server["name"], server["version"]) == ("io.github.ada/helper", "1.0.0")
    assert "headers" in server["remotes"][0]
    oauth = json.loads(capset("export", "mcp-server", "--name", "io.github.ada/helper", "--no-keys", *place).out)
    assert "headers" not in oauth["remotes"][0]
    card = json.loads(capset("export", "a2a", "--description", "Adds.", *place).out)
    assert card["description"] == "Adds."
    assert [skill["id"] for skill in card["skills"]] == ["add", "divide", "multiply", "subtract"]


@pytest.mark.spec("W27")
def test_a_bundle_has_the_configuration_and_its_handlers(capset: Command, folder: Path) -> None:
    options = (*PUBLISHED, "--author", "Ada", "--description", "Weather.", "--output", "weather.mcpb")
    done = capset("export", "mcpb", "--agent", "weather.yaml", *options)
    assert done.code == 0
    first = (folder / "weather.mcpb").read_bytes()
    with zipfile.ZipFile(folder / "weather.mcpb") as archive:
        assert archive.read("weather.yaml").decode() == CONFIG
        assert archive.read("handlers/weather.py").decode() == HANDLERS
        assert b"'--agent', 'weather.yaml'" in archive.read("server.py")
    assert capset("export", "mcpb", "--agent", "weather.yaml", *options).code == 0
    assert (folder / "weather.mcpb").read_bytes() == first


@pytest.mark.spec("W27")
def test_a_bundle_has_the_files_of_sub_agents(run: Run, folder: Path) -> None:
    (folder / "desk" / "more").mkdir(parents=True)
    (folder / "team.yaml").write_text("name: team\ndescription: All.\nagents: [desk/clerk.yaml, helper.yaml]\n")
    inner = "{name: inner, description: In., agents: [more/boy.yaml]}"
    (folder / "desk" / "clerk.yaml").write_text(f"name: clerk\ndescription: Files.\nagents: [agent: {inner}]\n")
    (folder / "desk" / "more" / "boy.yaml").write_text("name: boy\ndescription: Runs.\n")
    done = run("export", "mcpb", "--agent", "team.yaml", *PUBLISHED, "--author", "Ada", "--output", "team.mcpb")
    assert done.code == 0
    with zipfile.ZipFile(folder / "team.mcpb") as archive:
        named = {"team.yaml", "desk/clerk.yaml", "desk/more/boy.yaml", "helper.yaml"}
        assert {*archive.namelist()} - {"manifest.json", "pyproject.toml", "server.py"} == named
        archive.extractall(folder / "client")
    assert read_configuration(folder / "client" / "team.yaml", Registry.installed()).agent.name == "team"


@pytest.mark.spec("W27")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("workspace: .\n", "a configuration with a workspace or an audit key cannot be bundled"),
        (
            "mcp_servers:\n  shelf:\n    url: https://example.com/mcp\n",
            "an agent with MCP servers or APIs cannot be bundled",
        ),
    ],
)
def test_what_only_this_machine_has_is_in_no_bundle(capset: Command, folder: Path, more: str, message: str) -> None:
    (folder / "weather.yaml").write_text(CONFIG + more, encoding="utf-8")
    options = (*PUBLISHED, "--author", "Ada", "--description", "Weather.", "--output", "weather.mcpb")
    done = capset("export", "mcpb", "--agent", "weather.yaml", *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.said
    assert not (folder / "weather.mcpb").exists()


@pytest.mark.spec("W24")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("openai",), "name the agent to export with --agent"),
        (("openai", "--agent", "helper.yaml", "--author", "Ada"), "--author is for mcpb; openai does not take it"),
        (("a2a", "--agent", "helper.yaml", "--no-keys"), "--no-keys is for mcp-server; a2a does not take it"),
        (
            ("mcp-server", "--agent", "helper.yaml", "--at", "https://example.com/"),
            "mcp-server needs --name, --release hint: such as --name io.github.you/weather --release 1.0.0",
        ),
        (("mcpb", "--agent", "helper.yaml", *PUBLISHED, "--author", "Ada"), "mcpb needs --output"),
        (("openai", "--agent", "other"), "other"),
        (("gemini", "--agent", "helper.yaml"), "gemini"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    capset: Command, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert folder
    done = capset("export", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.said


BUNDLE = (*PUBLISHED, "--author", "Ada", "--description", "Weather.", "--output", "weather.mcpb")


@pytest.mark.realtime
@pytest.mark.spec("W27")
def test_a_bundle_has_attributes_and_environment_of_options_alone(capset: Command, folder: Path) -> None:
    settings = 'principal = "ada"\n[attributes]\ntier = "mine"\n[env]\nregion = "mine"\n'
    (folder / "capset.toml").write_text(settings, encoding="utf-8")
    command = ("export", "mcpb", "--agent", "weather.yaml")
    mine = {"CAPSET_ATTRIBUTES": '{"team": "mine"}'}
    assert capset(*command, *BUNDLE, env=mine).code == 0
    with zipfile.ZipFile(folder / "weather.mcpb") as archive:
        assert b"mine" not in archive.read("server.py")
    done = capset(*command, "--attribute", "plan=free", *BUNDLE)
    assert done.code == 0
    assert "server.py can be read by all who have the bundle: principal ada, permissions weather:read" in done.said
    with zipfile.ZipFile(folder / "weather.mcpb") as archive:
        server = archive.read("server.py").decode()
    assert "plan=" in server
    assert "mine" not in server
    refused = capset(*command, "--env", "api_key=x", *BUNDLE)
    assert refused.code == 2
    assert "--env api_key: 'api_key' is the name of a secret" in refused.said


@pytest.mark.spec("W27")
@pytest.mark.parametrize("source", [("--agent", "weather.yaml"), ("--agent", "helper.yaml")])
def test_the_file_that_is_exported_is_not_overwritten(capset: Command, folder: Path, source: tuple[str, str]) -> None:
    before = (folder / source[1]).read_bytes()
    done = capset("export", "openai", *source, "--output", f"handlers/../{source[1]}")
    assert (done.code, done.out) == (2, "")
    assert "is the exported file itself, and is not overwritten" in done.said
    assert (folder / source[1]).read_bytes() == before


@pytest.mark.realtime
@pytest.mark.spec("W27")
def test_a_bundle_serves_with_a_handler_that_is_called_as_a_module_is(capset: Command, folder: Path) -> None:
    text = CONFIG.replace("./handlers/weather.py", "./calendar.py")
    (folder / "weather.yaml").write_text(text, encoding="utf-8")
    (folder / "calendar.py").write_text(HANDLERS, encoding="utf-8")
    assert capset("export", "mcpb", "--agent", "weather.yaml", *BUNDLE).code == 0
    inside = folder / "inside"
    with zipfile.ZipFile(folder / "weather.mcpb") as archive:
        archive.extractall(inside)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "get_weather", "arguments": {"city": "Rome"}},
        },
    ]
    with subprocess.Popen(
        [sys.executable, "server.py"],
        cwd=inside,
        env={**os.environ, "CAPSET_DB": str(folder / "record.db")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for request in requests:
            server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
        server.wait(timeout=30)
    assert "sun" in json.dumps(answers[1]["result"])
