"""A folder of programs, first on the path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the programs of a folder be found first."""
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
