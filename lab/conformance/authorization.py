"""OAuth as a host would do it for the client under test: the SDK's flows, with a browser that agrees to everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

REDIRECT: Final = AnyUrl("http://localhost:3000/callback")
"""Where the browser is sent with the code; nothing listens there."""
DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"
"""The client's id at servers that take such URLs; the suite expects this one."""


class Storage:
    """Tokens, and what an authorization server knows of the client, in memory."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, if there are any."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration, if there is one."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration."""
        self.client = client_info


class Browser:
    """Somebody who agrees at once: opens the page of an authorization server, and takes the code from its redirect."""

    def __init__(self) -> None:
        self._answer: Mapping[str, str] = {}

    async def open(self, url: str) -> None:
        """Open a page."""
        async with httpx2.AsyncClient(trust_env=False) as http:
            response = await http.get(url, follow_redirects=False)
        self._answer = dict(httpx2.URL(response.headers["location"]).params)

    async def answer(self) -> AuthorizationCodeResult:
        """Return what the redirect said."""
        return AuthorizationCodeResult.model_validate(self._answer)


def provider(url: str, context: Mapping[str, Any]) -> OAuthClientProvider:
    """Return the authentication of a server's requests, with the registration that a scenario gives, if it does."""
    metadata = OAuthClientMetadata(
        client_name="capset",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    registration = None
    if "client_id" in context:
        registration = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context.get("client_secret"),
            redirect_uris=[REDIRECT],
            token_endpoint_auth_method="client_secret_basic" if "client_secret" in context else "none",
        )
    browser = Browser()
    return OAuthClientProvider(url, metadata, Storage(registration), browser.open, browser.answer, DOCUMENT)
