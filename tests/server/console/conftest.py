"""A server with a console, and a browser."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser

from tests.server.console.browsing import chromium


@pytest.fixture(scope="session")
async def browser() -> AsyncGenerator[Browser]:
    """Give one browser to all tests of the process; each opens a window of its own."""
    async with chromium() as found:
        yield found
