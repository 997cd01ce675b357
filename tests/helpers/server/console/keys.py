"""The console of an administrator."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.helpers.server.support import ALL_SCOPES, Site, site

ADMIN = (*ALL_SCOPES, "capset:admin")
EVIL = '"><img src=x onerror=alert(1)>{{7*7}}'
HIDDEN = "\u202e"


@pytest.fixture(scope="module")
async def here() -> AsyncGenerator[Site]:
    """Give a server with administrators of two organisations and of none, and somebody who calls tools."""
    async with site() as server:
        await server.key("boss", scopes=ADMIN)
        await server.key("spy", org="other", scopes=ADMIN)
        await server.key("operator", org=None, scopes=ADMIN)
        yield server


@pytest.fixture
async def client(here: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client that keeps cookies, in which the boss has signed in."""
    async with here.client(None) as client:
        await sign_in(client, here.keys["boss"])
        yield client


async def sign_in(client: httpx2.AsyncClient, key: str) -> None:
    assert (await client.post("/login", data={"key": key})).status_code == 303
