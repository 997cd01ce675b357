from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import Server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a new database on each engine."""
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a database on each engine with nothing in it, whose tables a test may change."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    server: Server = request.getfixturevalue("postgres")
    return server.empty()
