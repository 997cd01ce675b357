"""MCP bundles (spec 8, W27)."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capset import Principal, tool
from capset.definitions.governance.allowances import Allowance
from capset.errors import DefinitionError
from capset_connect.interop import Bundle, BundledAgent, bundled_file, export_bundle
from tests.helpers.connect.interop.support import seen


@tool(effect="read", permissions={"weather:read"})
def forecast(city: str) -> str:
    """Say how the weather will be."""
    return city


AGENT = BundledAgent(["--agent", "a.yaml"], {"a.yaml": b"name: helper\n", "handlers/x.py": b"x = 1\n"})


def bundle(agent: BundledAgent = AGENT, **options: Any) -> Bundle:
    return export_bundle(seen([forecast], "weather:read"), agent, **{"version": "1.0.0", "author": "Ada", **options})


def files(built: Bundle) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(built.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def command_of(built: Bundle) -> list[str]:
    """Return the arguments that the bundle's server gives to ``capset``."""
    (call,) = [node for node in ast.walk(ast.parse(files(built)["server.py"])) if isinstance(node, ast.Call)]
    (command,) = map(ast.literal_eval, call.args)
    return command


def bundle_for(principal: Principal, env: Mapping[str, Any] | None = None) -> Bundle:
    return export_bundle(seen([forecast], principal=principal, env=env), AGENT, version="1.0.0", author="Ada")


@pytest.mark.spec("W27")
def test_a_bundle_has_its_agent_and_starts_it_for_the_same_principal() -> None:
    built = bundle(requirements=["capset[web]", "weather-tools>=1,<2"])
    inside = files(built)
    assert set(inside) == {"manifest.json", "pyproject.toml", "server.py", "a.yaml", "handlers/x.py"}
    manifest = json.loads(inside["manifest.json"])
    assert manifest == built.manifest.content
    assert manifest["tools"] == [{"name": "forecast", "description": "Say how the weather will be."}]
    assert manifest["server"]["entry_point"] == "server.py"
    assert manifest["server"]["mcp_config"]["args"][-1] == "server.py"
    assert manifest["server"]["mcp_config"]["env"] == {
        "CAPSET_DB": "${user_config.db}",
        "CAPSET_GRANT": "",
        "CAPSET_ATTRIBUTES": "{}",
    }
    options = ["--agent", "a.yaml", "--principal", "ada", "--grant", "weather:read"]
    assert command_of(built) == ["mcp", "serve", *options]
    project = tomllib.loads(inside["pyproject.toml"].decode())["project"]
    package, *others = project["dependencies"]
    assert package.startswith("capset[mcp]==")
    assert others == ["capset[web]", "weather-tools>=1,<2"]
    assert (project["name"], project["version"]) == ("helper-bundle", "0")


@pytest.mark.spec("W27")
def test_equal_agents_give_equal_bytes() -> None:
    turned = BundledAgent(AGENT.options, dict(reversed(list(AGENT.files.items()))))
    assert bundle().content == bundle(turned).content
    assert bundle().content != bundle(version="1.0.1").content


@pytest.mark.spec("W27")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": "1"}, "a version of three numbers was expected"),
        ({"author": " "}, "a bundle needs an author"),
        ({"description": ""}, "has no description"),
        ({"requirements": ['x"]\n[tool']}, "a requirement was expected"),
        ({"agent": BundledAgent([], {"../x.py": b""})}, "a bundle cannot have a file at '../x.py'"),
        ({"agent": BundledAgent([], {"/x.py": b""})}, "a bundle cannot have a file at '/x.py'"),
        ({"agent": BundledAgent([], {"server.py": b""})}, "a bundle cannot have a file at 'server.py'"),
        (
            {"agent": BundledAgent([], {"Server.PY": b""})},
            "a bundle cannot have a file at 'Server.PY' beside server.py",
        ),
        ({"agent": BundledAgent([], {"x.py": b"", "X.py": b""})}, "a bundle cannot have a file at 'X.py' beside x.py"),
        ({"agent": BundledAgent([], {"./x.py": b""})}, r"a bundle cannot have a file at '\./x\.py'"),
        ({"agent": BundledAgent([], {"a//x.py": b""})}, "a bundle cannot have a file at 'a//x.py'"),
        ({"agent": BundledAgent([], {"a/./x.py": b""})}, r"a bundle cannot have a file at 'a/\./x\.py'"),
        ({"agent": BundledAgent([], {"x.py\0": b""})}, "a bundle cannot have a file at"),
        ({"agent": BundledAgent([], {"c:x.py": b""})}, "a bundle cannot have a file at 'c:x.py'"),
        ({"version": "1.0.0-"}, "a version of three numbers was expected"),
        ({"version": "1.0.0-a..b"}, "a version of three numbers was expected"),
        ({"version": "01.0.0"}, "a version of three numbers was expected"),
        ({"version": "1.0.١"}, "a version of three numbers was expected"),  # a digit of another script
    ],
)
def test_what_cannot_be_in_a_bundle_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        bundle(**options)


@pytest.mark.spec("W27")
def test_a_file_brings_those_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "x.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "a.yaml").write_text("name: helper\n", encoding="utf-8")
    agent = bundled_file("--agent", tmp_path / "a.yaml", ["./handlers/x.py", "handlers/x.py"])
    assert list(agent.options) == ["--agent", "a.yaml"]
    assert agent.files == {"a.yaml": b"name: helper\n", "handlers/x.py": b"x = 1\n"}
    with pytest.raises(DefinitionError, match="cannot be read: No such file"):
        bundled_file("--agent", tmp_path / "a.yaml", ["./y.py"])


@pytest.mark.spec("W27")
@pytest.mark.parametrize("version", ["0.0.1", "1.0.0-rc.1", "1.0.0+build.01", "10.20.30-x-y.0+a"])
def test_a_version_is_one_of_semantic_versioning(version: str) -> None:
    built = bundle(version=version)
    assert built.manifest.content["version"] == version
    assert tomllib.loads(files(built)["pyproject.toml"].decode())["project"]["version"] == "0"


@pytest.mark.spec("W27")
def test_what_can_be_read_of_the_principal_is_told() -> None:
    principal = Principal("ada", permissions=["weather:read"], attributes={"tier": "pro"})
    built = bundle_for(principal, {"region": "eu"})
    assert built.manifest.warnings == (
        "server.py can be read by all who have the bundle: principal ada, permissions weather:read, attributes tier, "
        "environment region",
    )
    assert command_of(built)[-4:] == ["--attribute", 'tier="pro"', "--env", 'region="eu"']


@pytest.mark.spec("W27")
@pytest.mark.parametrize(
    ("attributes", "env", "message"),
    [
        ({"api_key": "x"}, {}, "--attribute api_key: 'api_key' is the name of a secret"),
        ({}, {"password": "x"}, "--env password: 'password' is the name of a secret"),
        ({}, {"db": {"hosts": [{"password": "x"}]}}, "--env db: 'password' is the name of a secret"),
    ],
)
def test_secrets_are_in_no_bundle(attributes: dict[str, Any], env: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        bundle_for(Principal("ada", permissions=["weather:read"], attributes=attributes), env)


@pytest.mark.spec("W27")
@pytest.mark.parametrize(
    ("fact", "value"),
    [("kind", "agent"), ("org", "acme"), ("on_behalf_of", "user:bob"), ("allowance", Allowance(limits="1/1h"))],
)
def test_a_principal_that_no_option_names_is_refused(fact: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"a bundle serves a plain user, but principal 'ada' has {fact}"):
        bundle_for(Principal("ada", **{fact: value}))


@pytest.mark.spec("W27")
def test_any_character_is_in_the_command_as_it_is() -> None:
    assert command_of(bundle_for(Principal("ada \N{GRINNING FACE} ü")))[3:] == [
        "a.yaml",
        "--principal",
        "ada \N{GRINNING FACE} ü",
    ]


@pytest.mark.realtime
@pytest.mark.spec("W27")
def test_a_file_of_the_bundle_hides_no_module(tmp_path: Path) -> None:
    built = bundle(BundledAgent(["--help"], {"calendar.py": b"raise SystemExit('hidden')\n"}))
    with zipfile.ZipFile(io.BytesIO(built.content)) as archive:
        archive.extractall(tmp_path)
    # Its imports alone: nothing is served.
    text = (tmp_path / "server.py").read_text("utf-8").rpartition("\napp(")[0]
    (tmp_path / "server.py").write_text(f"{text}\nimport calendar\n\ncalendar.month_name\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "server.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
