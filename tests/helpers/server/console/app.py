"""The console of a shop, signed in."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, site


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    """Give a server with the till; ``boss`` of ``acme`` may do everything, ``spy`` is of another organisation."""
    async with site(till) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("caller", scopes=["capset:call", "capset:write"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        yield server


@pytest.fixture
async def browser(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client that keeps cookies and follows redirects, as a browser does."""
    async with shop.client(None, follow_redirects=True) as client:
        yield client


async def sign_in(browser: httpx2.AsyncClient, key: str, following: str = "") -> httpx2.Response:
    return await browser.post("/login", data={"key": key, "next": following})


def token_of(page: httpx2.Response) -> str:
    match = re.search(r'data-token="([0-9a-f]{64})"', page.text)
    assert match is not None, page.text
    return match[1]
