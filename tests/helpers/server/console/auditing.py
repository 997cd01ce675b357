"""A server with a record to look at, and ways to read its pages without a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, call, make_agent, make_session, site

TEXTS: Final = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "{% raw %}", "a\u202eb")
"""Texts of somebody who means harm."""


@asynccontextmanager
async def auditing(**options: Any) -> AsyncGenerator[Site]:
    """Run a server where ``boss`` of ``acme`` may do everything, ``caller`` calls, and ``spy`` is of another org."""
    async with site(till, **options) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("caller", scopes=["capset:read", "capset:call", "capset:write"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        yield server


async def called(shop: Site, *texts: str, agent: str = "kit") -> str:
    """Call ``echo`` with some texts, and tools that refuse and that fail; return the session."""
    async with shop.client("caller") as client:
        session = await make_session(client, agent)
        for text in texts:
            await call(client, session, "echo", text=text)
        await call(client, session, "refuse", text="no")
        await call(client, session, "unlock")
    return session


async def changed_agent(shop: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make an agent, change it, and return the links of a turn before and of one after."""
    links: list[dict[str, Any]] = []
    async with shop.client("caller") as client:
        agent = await make_agent(client, system_prompt="Count to nine.\nThen stop.", capabilities=[{"id": "kit"}])
        for change in ({}, {"system_prompt": "Count to ten.\nThen stop.", "capabilities": [{"id": "till"}]}):
            if change:
                headers = {"If-Match": f'"{agent["version"]}"'}
                done = await client.patch(f"/v1/agents/{agent['id']}", json=change, headers=headers)
                assert done.is_success, done.text
            session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
            links.append((await client.post("/v1/links", json={"session_id": session})).json())
    before, after = links
    return before, after


@asynccontextmanager
async def reading(shop: Site, user: str = "boss") -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client that has signed in as somebody, and sends the token of the console's forms."""
    async with shop.client(None, follow_redirects=True) as client:
        page = await client.post("/login", data={"key": shop.keys[user]})
        match = re.search(r'data-token="([0-9a-f]{64})"', page.text)
        assert match is not None, page.text
        client.headers["x-capset-token"] = match[1]
        yield client


def hidden(page: httpx2.Response) -> dict[str, str]:
    """Return the hidden fields of a page."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))
