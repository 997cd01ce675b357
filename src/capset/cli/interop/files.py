"""Texts that the commands for files of others share."""

from __future__ import annotations

import json
from typing import Any


def written_text(suffix: str, content: Any) -> str:  # JSON data
    """Return JSON data as the text of a file: JSON for ``.json``, else YAML; equal data give equal texts."""
    if suffix == ".json":
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    import yaml  # half of what the other commands take to start

    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
