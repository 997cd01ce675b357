"""A folder with a configuration file and its handlers."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from capset import Capability, Registry, tool
from capset_connect.config_file import Configuration, InvalidConfiguration, read_configuration
from capset_connect.sources import Upstream

CONFIGURATION = """\
{
  "actions": [
    { "name": "get-weather", "title": "Get Weather", "description": "Fetch weather data",
      "handler": "./handlers/weather.py",
      "parameters": { "location": { "type": "string", "required": true } },
      "permissions": ["weather:read"],
      "limits": { "requests": 100, "window": "1h" } },
    { "name": "send-notification", "title": "Send Notification",
      "handler": "./handlers/notify.py",
      "parameters": {
        "message": { "type": "string", "required": true },
        "channel": { "type": "string", "enum": ["email", "sms", "push"] } },
      "permissions": ["notify:send"] } ],
  "governance": { "default_permissions": [], "require_auth": true, "record_reads": true } }
"""
WEATHER = """
    async def handler(params, context):
        return {"location": params["location"], "for": context.principal.id}
"""
NOTIFY = """
    def handler(params):
        return {"sent": params["message"], "by": params.get("channel")}
"""


@tool(effect="read", permissions={"sums:read"}, timeout=5)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


REGISTRY = Registry.of([Capability("sums", tools=[add, subtract])])


def folder(root: Path, files: dict[str, str]) -> Path:
    """Write files, the handlers of ``CONFIGURATION`` among them."""
    for name, text in {"handlers/weather.py": WEATHER, "handlers/notify.py": NOTIFY, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root


def read(
    root: Path,
    text: str,
    name: str = "capset.yaml",
    registry: Registry = REGISTRY,
    upstream: Upstream | None = None,
) -> Configuration:
    """Read a configuration with this text, beside the handlers of ``CONFIGURATION``."""
    folder(root, {name: text})
    return read_configuration(root / name, registry, upstream=upstream)


def refused(
    root: Path, text: str, name: str = "capset.yaml", registry: Registry = REGISTRY
) -> list[tuple[int | None, str, str]]:
    """Return what is wrong with it: line, path and message."""
    with pytest.raises(InvalidConfiguration) as error:
        read(root, text, name, registry)
    return [(problem.line, problem.path, problem.message) for problem in error.value.problems]
