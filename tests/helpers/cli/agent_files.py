"""Files of agents, and their hashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

AGENT: dict[str, Any] = {
    "name": "librarian",
    "system_prompt": "You keep a library.\nMéasure “before” you judge. 😀",
    "instructions": ["Answer in one paragraph.", "  Zählen, dann reden.  "],
    "capabilities": ["session_file_system", "test_math", {"id": "stateless_todo_list"}],
}
HASHES = ("static_hash", "runtime_hash", "prompt_hash")


def agent_files(folder: Path) -> list[Path]:
    """Write one agent as JSON, as YAML and as TOML."""
    prompt = json.dumps(AGENT["system_prompt"], ensure_ascii=False)
    rows = json.dumps(AGENT["instructions"], ensure_ascii=False)
    toml = f"""
        name = "librarian"
        system_prompt = {prompt}
        instructions = {rows}
        capabilities = ["session_file_system", "test_math", {{id = "stateless_todo_list"}}]
    """
    yaml = f"""
# Whatever the order of the keys.
capabilities:
  - session_file_system
  - id: test_math
  - stateless_todo_list
instructions: {rows}
system_prompt: {prompt}
name: "librarian"
"""
    texts = {"a.json": json.dumps(AGENT), "a.yaml": yaml, "a.toml": toml}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]
