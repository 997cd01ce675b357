"""``python -m scripts.config_file_schema``: write the JSON Schema of configuration files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from capset_connect.config_file import configuration_schema

FILE: Final = Path(__file__).parents[1] / "docs" / "reference" / "config-file.schema.json"


def render() -> str:
    """Return the file. What is installed here makes no difference to it."""
    return json.dumps(configuration_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
