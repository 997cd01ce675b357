"""The text of files that ``capset import`` and ``capset export`` write."""

from __future__ import annotations

import json
from typing import Any

from capset_connect.plain_files import yaml_text


def written_text(suffix: str, content: Any) -> str:  # JSON data
    """Return JSON data as the text of a file: JSON for ``.json``, else YAML. Equal data give equal texts."""
    if suffix == ".json":
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return yaml_text(content)
