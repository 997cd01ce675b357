"""The Python blocks of the documentation's pages."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.packages import ROOT

CAPABILITIES = sorted((ROOT / "docs" / "capabilities").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def is_elsewhere(module: str) -> bool:
    """Return whether a module's framework is not in .venv, so that ``make lab-frameworks`` runs it and its page."""
    package, _, name = module.rpartition(".")
    folder = ROOT / "packages/capset-frameworks/tests/integration/frameworks"
    return package == "capset_frameworks" and (folder / f"test_{name}.py").exists()
