"""A capability whose payments somebody has to approve, and requests for that."""

from __future__ import annotations

from typing import Any

import httpx2

from capset import Capability, tool
from tests.helpers.server.support import call


@tool(effect="write", approval="ask")
async def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    return f"{to} has {amount}"


@tool(effect="write", approval="ask", limits="1/1h")
async def donate(to: str) -> str:
    """Pay somebody once an hour."""
    return f"{to} has it"


till = Capability("till", description="Payments to approve.", tools=[pay, donate])


async def asked(client: httpx2.AsyncClient, session: str, tool: str = "pay", **arguments: Any) -> str:
    """Ask for a payment, and return the id of the request."""
    response = await call(client, session, tool, **{"to": "bob", **arguments})
    assert response.status_code == 202, response.text
    return response.json()["approval"]


async def approved(client: httpx2.AsyncClient, id: str, **fields: Any) -> httpx2.Response:
    """Approve a request."""
    return await client.post(f"/v1/approvals/{id}/approve", json=fields)


async def again(
    client: httpx2.AsyncClient, session: str, approval: str, tool: str = "pay", **arguments: Any
) -> httpx2.Response:
    """Make a payment once more, by its approval."""
    body = {"tool": tool, "arguments": {"to": "bob", **arguments}, "approval": approval}
    return await client.post(f"/v1/sessions/{session}/calls", json=body)
