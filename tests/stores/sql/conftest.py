from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a new database on each engine."""
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
