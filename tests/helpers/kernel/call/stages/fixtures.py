from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a fresh store; what stages do with theirs is the same on every server."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/capset.db"
