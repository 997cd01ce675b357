from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import require_scheme


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a new database on each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/capset.db"
    require_scheme()
    return request.getfixturevalue("postgres_url")
