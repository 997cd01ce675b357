"""``WWW-Authenticate`` leads to where credentials are given, and says what is lacking (spec 7, M14, M15)."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

import pytest

from tests.helpers.server.auth.issuing import AUDIENCE, Issuing, issuing, token
from tests.helpers.server.support import Site, problem
from tests.helpers.server.walk import MCP_HEADERS
from tests.helpers.server.wire import ask

AT = f'resource_metadata="{AUDIENCE}/.well-known/oauth-protected-resource'
MCP = "/mcp/agents/foreman"


@pytest.fixture(scope="module")
async def door() -> AsyncGenerator[Issuing]:
    """Give a site with a public URL, whose tokens are for its parts."""
    async with issuing(more={"audience": None, "public_url": AUDIENCE}) as issuer:
        yield issuer


async def challenge(site: Site, path: str, authorization: str | None = None) -> str:
    answer = await ask(site, "GET", path, key=None, **({"authorization": authorization} if authorization else {}))
    assert answer.status == 401
    return answer.headers["www-authenticate"]


@pytest.mark.spec("M14")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (MCP, f'Bearer scope="capset:call", {AT}{MCP}"'),
        ("/mcp", f'Bearer scope="capset:call", {AT}/mcp"'),
        ("/v1/agents", f'Bearer {AT}/v1"'),
        ("/v1/responses", f'Bearer {AT}/v1"'),
        ("/openapi.json", f'Bearer {AT}/v1"'),
        ("/nothing", f'Bearer {AT}"'),
    ],
)
async def test_a_client_without_a_credential_learns_where_to_get_one(door: Issuing, path: str, expected: str) -> None:
    assert await challenge(door.site, path) == expected
    assert await challenge(door.site, path, "Basic YWRhOmFkYQ==") == expected


@pytest.mark.spec("M14", "T23")
async def test_every_credential_that_is_refused_is_answered_alike(door: Issuing) -> None:
    refused = {
        "a key that there is not": "capset_" + "A" * 43,
        "no token": "a.b.c",
        "expired": token(aud=AUDIENCE, exp=int(time.time()) - 60),
        "another issuer": token(aud=AUDIENCE, iss="https://other.example.com"),
        "another server": token(aud="https://other.example.com"),
        "another part": token(aud=f"{AUDIENCE}/mcp/agents/other"),
    }
    for path, expected in (
        ("/v1/agents", f'Bearer error="invalid_token", {AT}/v1"'),
        (MCP, f'Bearer error="invalid_token", scope="capset:call", {AT}{MCP}"'),
    ):
        for why, credential in refused.items():
            assert await challenge(door.site, path, f"Bearer {credential}") == expected, why


@pytest.mark.spec("M15")
async def test_a_scope_that_is_missing_is_named(door: Issuing) -> None:
    access_token = token(aud=AUDIENCE, scope="capset:read")
    async with door.site.client(None, headers={"Authorization": f"Bearer {access_token}"}) as client:
        lacks = 'Bearer error="insufficient_scope", scope='
        for response, expected in (
            (await client.post("/v1/agents", json={"name": "x"}), f'{lacks}"capset:write", {AT}/v1"'),
            (await client.post(MCP, json={}, headers=MCP_HEADERS), f'{lacks}"capset:call", {AT}{MCP}"'),
            # Another token would not help.
            (await client.get("/v1/agents", headers={"Origin": "https://evil.example"}), None),
        ):
            problem(response, 403, "permission_denied")
            assert response.headers.get("www-authenticate") == expected


@pytest.mark.spec("M15")
async def test_a_server_for_keys_alone_names_the_scope_and_nothing_else(shared: Site) -> None:
    await shared.key("reader", scopes=["capset:read"])
    async with shared.client("reader") as client:
        response = await client.post("/v1/agents", json={"name": "x"})
        problem(response, 403, "permission_denied")
        assert response.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="capset:write"'
