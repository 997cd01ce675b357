"""Clients that know only a URL: they find the authorization server, get a token, and call tools (spec 7, M14, M15)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from tests.helpers.net.support import answer, server
from tests.helpers.net.tls import Tls
from tests.helpers.server.auth.authorizing import CALLBACK, Provider, protected, provider
from tests.helpers.server.auth.oauth_clients import Wallet, connected
from tests.helpers.server.mcp.support import Era, text_of
from tests.helpers.server.support import Site


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> Era:
    """Give each way in which the official client speaks."""
    return request.param


@pytest.fixture
async def by() -> AsyncGenerator[Provider]:
    """Give an authorization server that knows the client ``desk``."""
    async with provider() as auth_server:
        auth_server.register("desk", CALLBACK)
        yield auth_server


@pytest.fixture
async def here(by: Provider) -> AsyncGenerator[Site]:
    """Give a server that takes its tokens."""
    async with protected(by) as protected_site:
        yield protected_site


@pytest.fixture
def wallet() -> Wallet:
    """Give the wallet of a client that was registered beforehand."""
    return Wallet(client=OAuthClientInformationFull(client_id="desk", redirect_uris=[AnyUrl(CALLBACK)]))


async def greet(url: str, era: Era, wallet: Wallet, document: str | None = None) -> None:
    """Connect to an agent, and call a tool of it."""
    async with connected(url, era, wallet, document) as client:
        assert text_of(await client.call_tool("echo", {"text": "hello"})) == "hello"


@pytest.mark.spec("M14")
async def test_a_client_that_knows_the_url_alone_gets_a_token_and_calls_a_tool(
    here: Site, by: Provider, wallet: Wallet, era: Era
) -> None:
    url = f"{here.url}/mcp/agents/foreman"
    async with connected(url, era, wallet) as client:
        assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
        assert text_of(await client.call_tool("echo", {"text": "found it"})) == "found it"
    (request,) = by.asked
    assert (request["resource"], request["scope"], request["code_challenge_method"]) == (url, "capset:call", "S256")
    assert wallet.token is not None
    assert wallet.token.scope == "capset:call"
    record = await here.record()
    assert (record.tool, record.principal, record.org) == ("echo", "grace", "acme")


@pytest.mark.spec("M14")
async def test_a_client_may_be_known_by_its_metadata_document(tmp_path: Path, era: Era) -> None:
    tls = Tls(tmp_path, "localhost")
    async with server(tls=tls.server) as host, provider(tls.client) as by, protected(by) as protected_site:
        document = host.url("/client.json", "localhost", "https")
        metadata = {"client_id": document, "client_name": "tests", "redirect_uris": [CALLBACK]}
        host.pages["/client.json"] = answer(200, json.dumps(metadata).encode(), content_type="application/json")
        wallet = Wallet()
        await greet(f"{protected_site.url}/mcp/agents/foreman", era, wallet, document)
        assert wallet.client is not None
        assert [request["client_id"] for request in by.asked] == [wallet.client.client_id] == [document]
        assert [request.target for request in host.asked] == ["/client.json"], "which is kept"


@pytest.mark.spec("M14")
async def test_one_resource_that_the_operator_declares_is_found_from_every_endpoint(
    by: Provider, wallet: Wallet, era: Era
) -> None:
    async with protected(by, "/mcp") as protected_site:
        await greet(f"{protected_site.url}/mcp/agents/foreman", era, wallet)
        assert [request["resource"] for request in by.asked] == [f"{protected_site.url}/mcp"]


@pytest.mark.spec("M14", "T42")
@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({}, []),
        ({"aud": "https://other.example.com"}, ["capset:call"]),
        ({"aud": "{url}/v1"}, ["capset:call"]),
        ({"aud": "{url}/mcp/agents/other"}, ["capset:call"]),
        ({"iss": "https://other.example.com"}, ["capset:call"]),
        ({"exp": 1}, ["capset:call"]),
    ],
    ids=str,
)
async def test_a_client_signs_in_again_only_if_its_token_is_refused(
    here: Site, by: Provider, wallet: Wallet, claims: dict[str, Any], scopes: list[str]
) -> None:
    url = f"{here.url}/mcp/agents/foreman"
    token_claims = {"aud": url, "scope": "capset:call", **claims}
    token_claims["aud"] = token_claims["aud"].replace("{url}", here.url)
    wallet.token = OAuthToken(access_token=by.token(**token_claims))
    await greet(url, "auto", wallet)
    assert [request["scope"] for request in by.asked] == scopes


@pytest.mark.spec("M15")
async def test_a_client_that_lacks_the_scope_of_a_tool_asks_for_it_and_goes_on(
    here: Site, by: Provider, wallet: Wallet, era: Era
) -> None:
    by.narrowed["capset:call"] = "capset:call:kit.echo"  # all that the person consents to at first
    async with connected(f"{here.url}/mcp/agents/foreman", era, wallet) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
        assert text_of(await client.call_tool("echo", {"text": "hello"})) == "hello"
        assert len(by.asked) == 1
        assert not (await client.call_tool("note", {"text": "kept"})).is_error
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "note"]
    assert set(by.asked[1]["scope"].split()) >= {"capset:call:kit.echo", "capset:call:kit.note"}
    assert wallet.token is not None
    assert set((wallet.token.scope or "").split()) == {"capset:call:kit.echo", "capset:call:kit.note"}
    assert [record.tool for record in await here.records()] == ["echo", "note"]
