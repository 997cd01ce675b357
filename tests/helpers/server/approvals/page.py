"""The page of an approval, asked for by a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from capset import Capability, tool
from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, call, make_session, site


@tool(effect="write", approval="ask")
async def login(name: str, password: str) -> str:
    """Log in."""
    return name


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    """Give a server with the till; ``boss`` of ``acme`` may approve, ``caller`` only calls, ``spy`` is elsewhere."""
    async with site(till, Capability("door", tools=[login])) as server:
        await server.key("boss", scopes=["capset:approve"])
        await server.key("caller", scopes=["capset:call", "capset:write"])
        await server.key("both", scopes=["capset:call", "capset:write", "capset:approve"])
        await server.key("spy", org="other", scopes=["capset:approve", "capset:call"])
        yield server


@pytest.fixture
async def browser(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with shop.client(None, follow_redirects=True) as client:
        yield client


async def requested(shop: Site, user: str = "caller", tool: str = "pay", **arguments: Any) -> tuple[str, str]:
    """Ask for a payment as somebody; return the ids of the session and the request."""
    async with shop.client(user) as client:
        session = await make_session(client, "till", *(["door"] if "door" in shop.registry.capabilities else []))
        response = await call(client, session, tool, **(arguments or {"to": "bob"}))
        assert response.status_code == 202, response.text
        return session, response.json()["approval"]


async def signed_in(browser: httpx2.AsyncClient, key: str, asked_for: str) -> httpx2.Response:
    return await browser.post(f"/approve/{asked_for}", data={"action": "sign_in", "key": key})


def token_of(page: httpx2.Response) -> str:
    match = re.search(r'name="token" value="([0-9a-f]{64})"', page.text)
    assert match is not None, page.text
    return match[1]


async def decided(browser: httpx2.AsyncClient, asked_for: str, page: httpx2.Response, **form: str) -> httpx2.Response:
    (round_number,) = re.findall(r'name="round" value="(\d+)"', page.text)
    return await browser.post(f"/approve/{asked_for}", data={"token": token_of(page), "round": round_number, **form})


def hold_headers(page: httpx2.Response) -> None:
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script" not in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "same-origin"
