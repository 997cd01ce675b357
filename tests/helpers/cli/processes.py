"""A command that starts with one of its standard streams closed."""

from __future__ import annotations

import os
from typing import Any


def closed(number: int) -> dict[str, Any]:
    """Popen's options for a process that starts with one of its streams closed."""
    name = ("stdin", "stdout", "stderr")[number]
    return {name: None, "preexec_fn": lambda: os.close(number)}
