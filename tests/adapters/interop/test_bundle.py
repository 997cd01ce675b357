"""MCP bundles (spec 8, W27)."""

from __future__ import annotations

import ast
import io
import json
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from capset import tool
from capset.adapters.interop import Bundle, BundledAgent, bundled_file, export_bundle
from capset.errors import DefinitionError
from tests.adapters.interop.support import seen


@tool(effect="read", permissions={"weather:read"})
def forecast(city: str) -> str:
    """Say how the weather will be."""
    return city


AGENT = BundledAgent(["--agent", "a.yaml"], {"a.yaml": b"name: helper\n", "handlers/x.py": b"x = 1\n"})


def bundle(agent: BundledAgent = AGENT, **given: Any) -> Bundle:
    return export_bundle(seen([forecast], "weather:read"), agent, **{"version": "1.0.0", "author": "Ada", **given})


def files(found: Bundle) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(found.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.spec("W27")
def test_a_bundle_has_its_agent_and_starts_it_for_the_same_principal() -> None:
    found = bundle(requirements=["capset[web]", "weather-tools>=1,<2"])
    inside = files(found)
    assert set(inside) == {"manifest.json", "pyproject.toml", "server.py", "a.yaml", "handlers/x.py"}
    manifest = json.loads(inside["manifest.json"])
    assert manifest == found.manifest.content
    assert manifest["tools"] == [{"name": "forecast", "description": "Say how the weather will be."}]
    assert manifest["server"]["entry_point"] == "server.py"
    assert manifest["server"]["mcp_config"]["args"][-1] == "server.py"
    (call,) = [one for one in ast.walk(ast.parse(inside["server.py"])) if isinstance(one, ast.Call)]
    (command,) = map(ast.literal_eval, call.args)
    options = ["--agent", "a.yaml", "--principal", "ada", "--grant", "weather:read"]
    assert command == ["mcp", "serve", *options]
    project = tomllib.loads(inside["pyproject.toml"].decode())["project"]
    own, *others = project["dependencies"]
    assert own.startswith("capset[mcp]==")
    assert others == ["capset[web]", "weather-tools>=1,<2"]


@pytest.mark.spec("W27")
def test_equal_agents_give_equal_bytes() -> None:
    turned = BundledAgent(AGENT.options, dict(reversed(list(AGENT.files.items()))))
    assert bundle().content == bundle(turned).content
    assert bundle().content != bundle(version="1.0.1").content


@pytest.mark.spec("W27")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"version": "1"}, "a version must match"),
        ({"author": " "}, "a bundle needs an author"),
        ({"description": ""}, "has no description"),
        ({"requirements": ['x"]\n[tool']}, "a requirement was expected"),
        ({"agent": BundledAgent([], {"../x.py": b""})}, "a bundle cannot have a file at '../x.py'"),
        ({"agent": BundledAgent([], {"/x.py": b""})}, "a bundle cannot have a file at '/x.py'"),
        ({"agent": BundledAgent([], {"server.py": b""})}, "a bundle cannot have a file at 'server.py'"),
    ],
)
def test_what_cannot_be_in_a_bundle_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        bundle(**given)


@pytest.mark.spec("W27")
def test_a_file_brings_those_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "x.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "a.yaml").write_text("agent: helper\n", encoding="utf-8")
    found = bundled_file("--config", tmp_path / "a.yaml", ["./handlers/x.py", "handlers/x.py"])
    assert list(found.options) == ["--config", "a.yaml"]
    assert found.files == {"a.yaml": b"agent: helper\n", "handlers/x.py": b"x = 1\n"}
    with pytest.raises(DefinitionError, match="cannot be read: No such file"):
        bundled_file("--config", tmp_path / "a.yaml", ["./y.py"])
