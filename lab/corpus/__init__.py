"""Public corpora that capset reads as they are: OpenAPI documents and JSON Schemas: ``make lab-corpus``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".corpus"
"""The folder of all that is installed; ``make clean`` removes it."""


class Failed(Exception):
    """A corpus that cannot be installed or measured; the text says why."""
