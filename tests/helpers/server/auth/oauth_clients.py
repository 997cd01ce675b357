"""The official MCP client with a person who signs in, and where it keeps its token."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.helpers.server.auth.authorizing import CALLBACK
from tests.helpers.server.mcp.support import Era


@dataclass
class Wallet(TokenStorage):
    """Where a client keeps its token, and as whom it is known."""

    token: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@asynccontextmanager
async def connected(url: str, era: Era, wallet: Wallet, document: str | None = None) -> AsyncGenerator[Client]:
    """Connect the official client to an MCP endpoint of which it knows the URL, with a person who signs in."""
    came: list[dict[str, list[str]]] = []

    async def sign_in(address: str) -> None:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            answer = await browser.get(address)
        assert answer.status_code == 302, answer.text
        came.append(parse_qs(urlsplit(answer.headers["location"]).query))

    async def come_back() -> AuthorizationCodeResult:
        parameters = {name: values[0] for name, values in came.pop().items()}
        return AuthorizationCodeResult(**parameters)

    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(CALLBACK)], grant_types=["authorization_code"])
    auth = OAuthClientProvider(url, metadata, wallet, sign_in, come_back, document)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=30, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client
