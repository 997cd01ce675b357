"""A server with a console, and a browser."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.helpers.server.console.browsing import chromium


@pytest.fixture(scope="session")
async def browser() -> AsyncGenerator[Browser]:
    """Give one browser to all tests of the process; each opens a window of its own."""
    async with chromium() as instance:
        yield instance


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a new database, of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'x.db'}"
