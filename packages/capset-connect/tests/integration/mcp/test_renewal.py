"""Secrets and access tokens that a server refuses: they are asked for again, once (spec 7, M101)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from capset.errors import DefinitionError, ToolError
from capset.wire.tool_sources import ApiShape, McpServerShape
from capset_connect.client_credentials import ClientCredentials
from capset_connect.mcp import McpServer
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.connector import SentCredentials
from capset_connect.mcp.server import server_of
from capset_connect.openapi.api import api_of
from tests.helpers.connect.mcp.opening import NONE, Named, opened
from tests.helpers.connect.mcp.raw import NEWEST, OLDER, Message, raw, result
from tests.helpers.connect.mcp.urls import There, declared, serving

SECRET = "s3cret+1/2"


@dataclass
class Gate:
    """A server that takes one token, and the authorization server that gives it, at the same address."""

    revision: str = NEWEST
    token: str = "token-0001"
    seconds: object = 3600
    is_open: bool = True
    refused: int = 0
    """How many requests were refused."""
    token_requests: list[tuple[dict[str, str], dict[str, list[str]]]] = field(
        default_factory=list[tuple[dict[str, str], dict[str, list[str]]]]
    )
    """The headers and the form of each request for a token."""

    def __post_init__(self) -> None:
        def called(message: Message) -> Response:
            return result(message, {"content": [{"type": "text", "text": f"you sent {self.token}"}]})

        self._inner = raw(called, revision=self.revision)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if request.url.path == "/token":
            form = parse_qs((await request.body()).decode())
            self.token_requests.append((dict(request.headers), form))
            await self._token()(scope, receive, send)
        elif request.headers.get("authorization") == f"Bearer {self.token}":
            await self._inner(scope, receive, send)
        else:
            self.refused += request.method == "POST"
            await JSONResponse({"error": "invalid_token"}, 401)(scope, receive, send)

    def _token(self) -> Response:
        if not self.is_open:
            return JSONResponse({"error": "invalid_client", "error_description": f"not {SECRET}"}, 401)
        return JSONResponse({"access_token": self.token, "token_type": "bearer", "expires_in": self.seconds})


def with_oauth(upstream: There, **options: Any) -> McpServer:
    credentials = ClientCredentials(
        token_url=f"http://{upstream.host}/token",
        client_id="capset",
        client_secret="${BOOKS}",
        scopes=["books:read", "books:lend"],
        parameters={"audience": "books"},
        **options,
    )
    return declared(upstream, oauth=credentials)


SECRETS: Mapping[str, str] = {"BOOKS": SECRET}


@pytest.mark.spec("M101", "M2")
@pytest.mark.parametrize("revision", [OLDER, NEWEST])
async def test_a_secret_that_is_refused_is_asked_for_again_once(revision: str) -> None:
    gate, secrets = Gate(revision), {"BOOKS": "token-0001"}
    async with serving(gate) as upstream:
        server = declared(upstream, headers={"Authorization": "Bearer ${BOOKS}", "X-Team": "a"})
        async with opened(server, secrets=secrets) as site:
            assert await site.call("books_echo") == "you sent [redacted]"
            gate.token = secrets["BOOKS"] = "token-0002"
            assert await site.call("books_echo") == "you sent [redacted]", "another token is masked, too"
            assert gate.refused == 1
            gate.token = "token-0003"
            with pytest.raises(ToolError, match="it answered 401 Unauthorized: declare a credential"):
                await site.call("books_echo")
            assert gate.refused == 2, "the secret is the same, so nothing is sent again"
            secrets["BOOKS"] = "token-0003"
            assert await site.call("books_echo") == "you sent [redacted]"
    assert {headers["x-team"] for headers in upstream.headers} == {"a"}


@pytest.mark.spec("M101", "T92")
@pytest.mark.parametrize("revision", [OLDER, NEWEST])
async def test_a_token_is_used_until_it_is_refused_and_fetched_once_for_all(revision: str) -> None:
    gate = Gate(revision)
    async with serving(gate) as upstream, opened(with_oauth(upstream), secrets=SECRETS) as site:
        for _ in range(2):
            assert await site.call("books_echo") == "you sent [redacted]"
        assert len(gate.token_requests) == 1
        gate.token = "token-0002"
        assert await asyncio.gather(*(site.call("books_echo") for _ in range(5))) == ["you sent [redacted]"] * 5
        assert len(gate.token_requests) == 2
    headers, form = gate.token_requests[0]
    assert headers["authorization"] == "Basic " + base64.b64encode(b"capset:s3cret%2B1%2F2").decode()
    assert form == {"grant_type": ["client_credentials"], "scope": ["books:read books:lend"], "audience": ["books"]}


@pytest.mark.spec("M101")
@pytest.mark.parametrize(("seconds", "is_kept"), [(0, False), ("3600", True), (None, True), ("soon", True)])
async def test_a_token_is_not_used_when_its_time_is_over(seconds: object, is_kept: bool) -> None:
    gate = Gate(seconds=seconds)
    async with serving(gate) as upstream, opened(with_oauth(upstream, method="post"), secrets=SECRETS) as site:
        for _ in range(2):
            await site.call("books_echo")
    assert (len(gate.token_requests) == 1, gate.refused) == (is_kept, 0)
    headers, form = gate.token_requests[0]
    assert (form["client_id"], form["client_secret"], "authorization" in headers) == (["capset"], [SECRET], False)


@pytest.mark.spec("M101", "T64")
async def test_a_token_that_is_not_given_is_told_and_its_server_is_reached_once_it_is() -> None:
    gate = Gate(is_open=False)
    async with serving(gate) as upstream:
        async with McpConnection(with_oauth(upstream), NONE) as connection:
            with pytest.raises(DefinitionError, match="the credential 'client_secret' needs the secret 'BOOKS'"):
                await connection.offers()
        gate.is_open = True
        async with opened(with_oauth(upstream), secrets=SECRETS) as site:
            assert await site.call("books_echo") == "you sent [redacted]"
            gate.token, gate.is_open = "token-0002", False
            with pytest.raises(ToolError, match=r"authorization failed: .* answered 401, invalid_client") as refused:
                await site.call("books_echo")
            assert SECRET not in str(refused.value)
            gate.is_open = True
            assert await site.call("books_echo") == "you sent [redacted]", "it is the same connection"


@pytest.mark.spec("M101", "M104", "M103", "M6")
def test_files_declare_them_with_places_for_secrets(tmp_path: Path) -> None:
    client = {"token_url": "https://login.example/token", "client_id": "capset", "client_secret": "${BOOKS}"}
    shape = McpServerShape.model_validate(
        {
            "url": "https://books.example/mcp",
            "oauth": {**client, "scopes": ["a"], "method": "post"},
            "proxy": "http://${PROXY_USER}:${PROXY_PASSWORD}@proxy.internal:3128",
            "ca_file": "own.pem",
            "max_timeout": 600,
        }
    )
    server = server_of("books", shape, tmp_path)
    assert server.oauth == ClientCredentials(
        token_url=client["token_url"],
        client_id="capset",
        client_secret="${BOOKS}",
        scopes=["a"],
        method="post",
    )
    assert (server.ca_file, server.longest) == (str(tmp_path / "own.pem"), 600)
    assert server.secrets == ("BOOKS", "PROXY_USER", "PROXY_PASSWORD")
    definition = {
        "document": "api.json",
        "oauth": {"login": client},
        "ca_file": "own.pem",
        "proxy": "https://proxy:8443",
    }
    api = api_of("books", ApiShape.model_validate(definition), tmp_path)
    assert (api.oauth["login"].token_url, api.ca_file) == (client["token_url"], str(tmp_path / "own.pem"))
    assert api.secrets == ("BOOKS",)


CLIENT: dict[str, Any] = {"token_url": "https://login.example/token", "client_id": "a", "client_secret": "b"}


@pytest.mark.spec("M101", "M103", "M104")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"oauth": CLIENT, "headers": {"authorization": "x"}}, "the header Authorization or oauth, not both"),
        ({"oauth": {**CLIENT, "token_url": "login"}}, "oauth: token_url: The URL is not an absolute URL"),
        ({"oauth": {**CLIENT, "parameters": {"grant_type": "password"}}}, "'grant_type' is not a valid name"),
        ({"oauth": {**CLIENT, "method": "jwt"}}, "oauth: method must be basic or post; got 'jwt'"),
        ({"oauth": {**CLIENT, "secret": "c"}}, "oauth must be ClientCredentials"),
        ({"proxy": "socks5://proxy:1080"}, "proxy: a proxy is http://HOST:PORT"),
        ({"ca_file": 1}, "ca_file must be a path"),
        ({"timeout": 60, "max_timeout": 30}, "max_timeout must be timeout, 60 s, or more; got 30"),
        ({"url": None, "command": ["books"], "proxy": "http://proxy"}, "proxy does not apply to a server"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], why: str) -> None:
    arguments: dict[str, Any] = {"name": "books", "url": "https://books.example/mcp", **options}
    with pytest.raises(DefinitionError) as refused:
        McpServer(**arguments)
    assert why in refused.value.message


@pytest.mark.spec("M101", "T64")
async def test_a_secret_is_masked_after_any_number_of_tokens_and_a_token_until_many_newer_ones() -> None:
    credentials = SentCredentials(Named(SECRETS))
    await credentials.secret("BOOKS")
    tokens = [f"token-{number:04}" for number in range(100)]
    for token in tokens:
        credentials.hide_token(token)
    assert {SECRET, tokens[-1]} <= {*credentials.hidden}
    assert tokens[0] not in credentials.hidden
