"""OAuth for a server, as its host declares it: what is sent where, and what a flow that fails does (spec 7, M18)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx2
import pytest
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, DefinitionError, TransientError
from capset_connect.mcp import McpServer
from capset_connect.mcp.connection import McpConnection
from tests.helpers.connect.mcp.opening import NONE, opened
from tests.helpers.connect.mcp.raw import NEWEST, raw
from tests.helpers.connect.mcp.urls import There, declared, serving


@dataclass
class Kept:
    """Tokens in memory."""

    tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError("this client is registered beforehand")


@dataclass
class Guarded:
    """A server of tools behind an authorization server, which is at the same address unless ``issuer`` says another."""

    inner: ASGIApp = field(default_factory=lambda: raw(revision=NEWEST))
    issuer: str = ""
    token: str = "first"
    is_open: bool = True
    asked: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The headers of each request for a token."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if request.url.path == "/mcp" and request.headers.get("authorization") == f"Bearer {self.token}":
            await self.inner(scope, receive, send)
        else:
            await self._answer(request)(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        base_url = str(request.base_url).rstrip("/")
        issuer = self.issuer or base_url
        match request.url.path:
            case "/.well-known/oauth-protected-resource/mcp":
                return JSONResponse({"resource": f"{base_url}/mcp", "authorization_servers": [issuer]})
            case "/.well-known/oauth-authorization-server":
                places = {"token_endpoint": f"{base_url}/token", "authorization_endpoint": f"{base_url}/authorize"}
                return JSONResponse({"issuer": issuer, "response_types_supported": ["code"], **places})
            case "/token":
                self.asked.append(dict(request.headers))
                if not self.is_open:
                    return JSONResponse({"error": "invalid_client"}, 401)
                return JSONResponse({"access_token": self.token, "token_type": "Bearer", "expires_in": 3600})
            case "/mcp":
                return JSONResponse({"error": "invalid_token"}, 401)
            case _:
                return Response(status_code=404)


def guarded(upstream: There, **options: Any) -> McpServer:
    token_store = Kept()

    async def auth(secrets: Secrets) -> ClientCredentialsOAuthProvider:
        secret = await secrets.get("BOOKS") or ""
        issuer = f"http://{upstream.host}"
        storage = cast("TokenStorage", token_store)
        return ClientCredentialsOAuthProvider(upstream.url, storage, "capset", secret, issuer=issuer)

    return declared(upstream, auth=auth, **options)


SECRETS: Mapping[str, str] = {"BOOKS": "s3cret", "TEAM": "t-1"}


@pytest.mark.spec("M18", "M2")
async def test_a_flow_gets_a_token_with_secrets_of_the_kernel_and_headers_stay_with_their_server() -> None:
    app = Guarded()
    async with serving(app) as upstream:
        async with opened(guarded(upstream, headers={"X-Team": "${TEAM}"}), secrets=SECRETS) as site:
            assert await site.call("books_echo") == "done"
            app.token = "second"  # the first is not taken any more
            assert await site.call("books_echo") == "done"
        assert [headers.get("x-team") for headers in upstream.headers if headers.get("mcp-method") == "tools/call"][
            -1
        ] == "t-1"
    assert len(app.asked) == 2
    basic = base64.b64encode(b"capset:s3cret").decode()
    assert {headers["authorization"] for headers in app.asked} == {f"Basic {basic}"}
    assert not any("x-team" in headers for headers in app.asked)


@pytest.mark.spec("M18", "M2", "T43")
async def test_a_server_leads_a_flow_to_no_internal_address() -> None:
    async with serving(Guarded()) as secret, serving(Guarded(issuer=f"http://{secret.host}")) as upstream:
        async with McpConnection(guarded(upstream), NONE) as connection:
            with pytest.raises(CapsetError, match="leads to an address that is not public"):
                await connection.offers()
        assert secret.headers == []


@pytest.mark.spec("M18")
async def test_a_flow_that_fails_is_told_and_a_call_that_needs_it_does_not_hang() -> None:
    app = Guarded(is_open=False)
    async with serving(app) as upstream, McpConnection(guarded(upstream), NONE) as connection:
        with pytest.raises(TransientError, match=r"its authorization failed: .*401"):
            await connection.offers()
    app.is_open = True
    async with serving(app) as upstream, opened(guarded(upstream), secrets=SECRETS) as site:
        assert await site.call("books_echo") == "done"
        app.token, app.is_open = "second", False
        with pytest.raises(TransientError, match="cannot be reached"):
            await site.call("books_echo")


@pytest.mark.spec("M18")
def test_what_cannot_be_meant_is_refused() -> None:
    options: dict[str, Any] = {"name": "books", "url": "https://example.com/mcp"}

    async def auth(_: Secrets) -> httpx2.Auth:
        return httpx2.BasicAuth("ada", "x")

    with pytest.raises(DefinitionError, match="auth must be a UserCredential, or a function of the secrets"):
        McpServer(**options, auth=cast("Any", "Bearer x"))
    with pytest.raises(DefinitionError, match="Authorization or auth, not both"):
        McpServer(**options, auth=auth, headers={"authorization": "Bearer x"})
    with pytest.raises(DefinitionError, match="auth does not apply to a server with a command"):
        McpServer(name="books", command=["books"], auth=auth)
