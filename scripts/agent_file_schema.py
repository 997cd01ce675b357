"""``python -m scripts.agent_file_schema``: write the JSON Schema of agent files, of any capability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from capset.wire.agent_schema import agent_file_schema

FILE: Final = Path(__file__).parents[1] / "docs" / "reference" / "agent-file.schema.json"


def render() -> str:
    """Return the file. What is installed here makes no difference to it."""
    return json.dumps(agent_file_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
