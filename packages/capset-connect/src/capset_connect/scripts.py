"""Model scripts in files: YAML, JSON or TOML."""

from __future__ import annotations

from pathlib import Path

from capset_agents.playback.scripts import Script, build_script
from capset_connect.plain_files import parse, read_text


def read_script(path: Path) -> Script:
    """Return the script in a file. Raises ``DefinitionError`` if it cannot be read or is invalid."""
    return build_script(parse(path, read_text(path, "a script")), str(path))
