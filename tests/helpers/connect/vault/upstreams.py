"""An MCP server over HTTP for users of an authorization server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.helpers.connect.mcp.raw import raw
from tests.helpers.connect.vault.accounts import Accounts


@dataclass
class Upstream:
    """An MCP server over HTTP that takes the tokens of a provider, and notes whose token came with which text."""

    accounts: Accounts
    noted: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    inner: ASGIApp = field(default_factory=lambda: raw(tools=[{
        "name": "echo", "description": "Say it.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    }]))  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        issued = self.accounts.active(request.headers.get("authorization", "").removeprefix("Bearer "))
        if issued is None:
            await Response(status_code=401)(scope, receive, send)
            return
        if request.method == "POST" and (message := await request.json()).get("method") == "tools/call":
            self.noted.append((issued.user, message["params"]["arguments"]["text"]))
        body = await request.body()

        async def replay() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.inner(scope, replay, send)
