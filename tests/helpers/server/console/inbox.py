"""A server with an inbox, those who ask and those who decide, and clients of its pages."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2

from capset import Capability, tool
from capset.clock import iso
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.approvers import ApproverRule
from capset.definitions.governance.settings import Governance
from capset_testing.store_suite.support import approval_row
from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, call, make_session, site

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe'
NAKED = ("<script>alert", "<img src=x", "49\u202e", "\u202e")


@tool(effect="destructive", approval="ask", permissions={"mail:send"})
async def send_mail(to: list[str], body: str, urgent: bool = False, api_key: str = "") -> str:
    """Send a message to people outside.

    Args:
        to: The addresses.
        body: The text.
        urgent: Whether it is.
    """
    return f"sent to {len(to)}"


mail = Capability("mail", tools=[send_mail])


@asynccontextmanager
async def inbox() -> AsyncGenerator[Site]:
    """Serve the till; ``boss`` and ``chief`` of ``acme`` decide, ``kim`` asks, ``spy`` is elsewhere."""
    rule = ApproverRule(tools=["donate"], approvals=2)
    async with site(till, mail, governance=Governance(approvers=[rule], pending_approvals=1_000)) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("chief", scopes=["capset:approve"])
        await server.key("kim", scopes=["capset:call", "capset:write", "capset:approve"], permissions=["mail:send"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        yield server


class at_console:
    """A client that has signed in to the console, and keeps its cookie."""

    def __init__(self, server: Site, user: str) -> None:
        self._client = server.client(None, follow_redirects=True)
        self._key = server.keys[user]

    async def __aenter__(self) -> httpx2.AsyncClient:
        page = await self._client.post("/login", data={"key": self._key, "next": "/approvals"})
        assert page.status_code == 200, page.text
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()


async def requested(server: Site, tool: str = "pay", user: str = "kim", **arguments: Any) -> str:
    """Ask for a call in a session of its own, and return the id of the request."""
    async with server.client(user) as client:
        session = await make_session(client, "till", "mail")
        response = await call(client, session, tool, **(arguments or {"to": "bob"}))
        assert response.status_code == 202, response.text
        return response.json()["approval"]


async def sent(browser: httpx2.AsyncClient, id: str, action: str, **form: str) -> httpx2.Response:
    """Send a form of a request's page, with what the page has put in it."""
    page = await browser.get(f"/approvals/{id}")
    token = re.search(r'data-token="([0-9a-f]{64})"', page.text)
    round_match = re.search(r'name="round" value="(\d+)"', page.text)
    assert token is not None
    fields = {"token": token[1], "round": round_match[1] if round_match else "0", **form}
    return await browser.post(f"/approvals/{id}/{action}", data=fields)


async def stored(server: Site, id: str) -> ApprovalRow:
    return await server.kernel.approvals.get(id, org="acme")


def hostile(server: Site, id: str, **values: Any) -> ApprovalRow:
    """Return a request as no tool of ours could make it, but others' names and texts could."""
    now = server.kernel.clock.time_ns()
    times = {"created_at": iso(now), "expires_at": iso(now + 3_600_000_000_000)}
    return replace(approval_row(id), **times, **values)
