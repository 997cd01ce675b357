"""Declarations of MCP servers in a configuration, and how their tools stand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.helpers.cli.support import Run
from tests.helpers.connect.mcp.opening import SCRIPT


def declare(folder: Path, *kinds: str, more: str = "") -> str:
    """Write a configuration with servers of these kinds, and return its name."""
    lines = [
        f"  {kind}:\n    command: {json.dumps([sys.executable, str(SCRIPT), kind, str(folder)])}\n{more}"
        for kind in kinds
    ]
    (folder / "tools.yaml").write_text("mcp_servers:\n" + "".join(lines))
    return "tools.yaml"


def states(run: Run, file: str) -> dict[str, str]:
    return {server["tool"]: server["state"] for server in run("mcp", "list", "--agent", file, "--json").json["items"]}
