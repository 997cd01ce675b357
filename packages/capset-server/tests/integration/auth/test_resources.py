"""The server as a resource of OAuth: what it says of itself, and which tokens are for it (spec 7, M14)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from capset.errors import DefinitionError
from capset_server.auth.resources import WELL_KNOWN, ProtectedResource
from capset_server.auth.tokens import Issuer
from tests.helpers.server.auth.issuing import AUDIENCE, ISSUER, Issuing, issuing, token
from tests.helpers.server.support import Site, problem, site
from tests.helpers.server.walk import MCP_HEADERS

PUBLIC = AUDIENCE
BEGIN = ["capset:read", "capset:call"]
PARTS = {
    "": BEGIN,
    "/v1": BEGIN,
    "/mcp": ["capset:call"],
    "/mcp/agents/foreman": ["capset:call"],
    "/mcp/agents/my%20agent": ["capset:call"],
    "/mcp/sessions/0199c1f2": ["capset:call"],
}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.fixture(scope="module")
async def door() -> AsyncGenerator[Issuing]:
    """Give a site with a public URL, whose tokens are for its parts."""
    async with issuing(more={"audience": None, "public_url": PUBLIC}) as issuer:
        yield issuer


async def metadata(site: Site, path: str) -> httpx2.Response:
    async with site.client(None) as client:
        return await client.get(WELL_KNOWN + path)


async def status(site: Site, access_token: str, path: str) -> int:
    """Return what a token is answered with, over MCP or REST."""
    async with site.client(None, headers={"Authorization": f"Bearer {access_token}"}) as client:
        if path.startswith("/mcp"):
            return (await client.post(path, json=LIST, headers=MCP_HEADERS)).status_code
        return (await client.get(path)).status_code


@pytest.mark.spec("M14")
@pytest.mark.parametrize("path", PARTS)
async def test_each_part_says_who_gives_tokens_for_it(door: Issuing, path: str) -> None:
    response = await metadata(door.site, path)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {
        "resource": PUBLIC + path,
        "authorization_servers": [ISSUER],
        "scopes_supported": PARTS[path],
        "bearer_methods_supported": ["header"],
        "resource_name": "capset",
    }


@pytest.mark.spec("M14")
async def test_what_is_no_part_has_no_metadata_and_neither_has_a_server_without_an_issuer(door: Issuing) -> None:
    for path in ("/v2", "/v1/agents", "/mcp/agents", "/mcp/agents/", "/mcp/agents/a/b", "/mcp/tools/a", "/%0d%0aX: y"):
        problem(await metadata(door.site, path), 404, "not_found")
    problem(await metadata(door.site, "/mcp/agents/" + "a" * 201), 414, "id_too_long")
    async with door.site.client(None) as client:
        assert (await client.head(WELL_KNOWN)).status_code == 200
        refused = await client.post(WELL_KNOWN)
        problem(refused, 405, "method_not_allowed")
        assert refused.headers["allow"] == "GET"
        problem(await client.get(f"{WELL_KNOWN}ful"), 404, "not_found")
    async with site() as keys_only, issuing() as unnamed:
        for server in (keys_only, unnamed.site):
            for path in PARTS:
                problem(await metadata(server, path), 404, "not_found")


@pytest.mark.spec("M14")
async def test_it_is_said_to_everybody_alike(door: Issuing) -> None:
    plain = (await metadata(door.site, "/mcp")).json()
    tokens = token(aud=f"{PUBLIC}/v1"), token(aud="https://other.example.com")
    for credential in (*tokens, door.site.keys["ada"], "nothing"):
        async with door.site.client(None, headers={"Authorization": f"Bearer {credential}"}) as client:
            await client.get("/v1/agents")  # after which some are known
            assert (await client.get(f"{WELL_KNOWN}/mcp")).json() == plain


@pytest.mark.spec("M14", "T42")
async def test_no_header_of_a_request_changes_what_is_said(door: Issuing) -> None:
    plain = (await metadata(door.site, "/mcp")).json()
    for sent in (
        {"host": "localhost"},
        {"host": "127.0.0.1:1"},
        {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https", "x-forwarded-prefix": "/evil"},
        {"forwarded": "host=evil.example;proto=https"},
    ):
        async with door.site.client(None, headers=sent) as client:
            assert (await client.get(f"{WELL_KNOWN}/mcp")).json() == plain
            assert PUBLIC in (refused := await client.get("/mcp")).headers["www-authenticate"]
            assert "evil" not in str(refused.headers)
    async with door.site.client(None, headers={"host": "evil.example"}) as client:
        problem(await client.get(f"{WELL_KNOWN}/mcp"), 421, "wrong_host")


REST = {"/v1/agents", "/openapi.json"}
MCP = {"/mcp/agents/foreman", "/mcp/agents/other"}
ELSEWHERE = [
    *(f"{PUBLIC.upper()}/v1", f"{PUBLIC}/v1/agents", f"{PUBLIC}/mc", f"{PUBLIC}/mcp?all", f"{PUBLIC}/mcp/../v1"),
    *(f"{PUBLIC}:8443", f"{PUBLIC}.evil.example", f"{PUBLIC}@evil.example", PUBLIC.replace("https", "http")),
    *("capset", "", "https://", [], None, [7], {"a": PUBLIC}),
]


@pytest.mark.spec("M14", "T42")
@pytest.mark.parametrize(
    ("audience", "opens"),
    [
        (PUBLIC, REST | MCP),
        (f"{PUBLIC}/", REST | MCP),
        (f"{PUBLIC}/mcp", MCP),
        (f"{PUBLIC}/mcp/agents", MCP),
        (f"{PUBLIC}/mcp/agents/foreman", {"/mcp/agents/foreman"}),
        (f"{PUBLIC}/mcp/agents/fore%6dan", {"/mcp/agents/foreman"}),
        (f"{PUBLIC}/v1", REST),
        (f"{PUBLIC}:443/v1", REST),
        ([f"{PUBLIC}/v1", "https://other.example.com"], REST),
        ([f"{PUBLIC}/v1", f"{PUBLIC}/mcp/agents/other"], REST | {"/mcp/agents/other"}),
        *((audience, set()) for audience in ELSEWHERE),
    ],
)
async def test_a_token_is_for_its_resource_and_what_is_below(door: Issuing, audience: Any, opens: set[str]) -> None:
    access_token = token(aud=audience)
    for path in sorted(REST | MCP, reverse=True):
        is_there = path != "/mcp/agents/other"
        expected = 401 if path not in opens else 200 if is_there else 404
        assert await status(door.site, access_token, path) == expected, path


@pytest.mark.spec("M14")
async def test_a_declared_audience_is_for_all_and_is_the_one_resource_if_it_is_a_url_here() -> None:
    async with issuing(more={"public_url": PUBLIC, "audience": f"{PUBLIC}/mcp"}) as issuer:
        for path in ("/mcp", "/mcp/agents/foreman"):
            assert (await metadata(issuer.site, path)).json()["resource"] == f"{PUBLIC}/mcp"
        for path in ("", "/v1"):
            problem(await metadata(issuer.site, path), 404, "not_found")
        for path in ("/v1/agents", "/mcp/agents/foreman"):
            assert await status(issuer.site, token(aud=f"{PUBLIC}/mcp"), path) == 200
            assert await status(issuer.site, token(aud=f"{PUBLIC}{path}"), path) == 401
    async with issuing(more={"public_url": PUBLIC, "audience": "capset"}) as issuer:
        assert (await metadata(issuer.site, "/mcp/agents/foreman")).json()["resource"] == f"{PUBLIC}/mcp/agents/foreman"
        assert await status(issuer.site, token(aud="capset"), "/mcp/agents/foreman") == 200


@pytest.mark.spec("M14")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"public_url": "capset.example.com"}, "not an absolute URL"),
        ({"public_url": "http://capset.example.com"}, "https, or http on loopback"),
        ({"public_url": f"{PUBLIC}/?a"}, "no query"),
        ({"public_url": f"{PUBLIC}#a"}, "no query"),
        ({"public_url": "https://ada@capset.example.com"}, "user name"),
        ({"public_url": PUBLIC, "issuer": "login"}, "issuer"),
        ({"public_url": PUBLIC, "issuer": "http://login.example.com"}, "issuer must be https"),
        ({"public_url": PUBLIC, "audience": f"{PUBLIC}/api"}, "not a part of the server"),
        ({}, "name its audience"),
        ({"public_url": PUBLIC, "audience": " "}, "audience must not be empty"),
    ],
)
def test_half_a_resource_is_refused(options: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"issuer": ISSUER, "audience": None, "jwks": "keys.json", **options}
    with pytest.raises(DefinitionError, match=message):
        Issuer(**values)


@pytest.mark.spec("M14", "T42")
async def test_a_host_may_have_mounted_it_below_a_path() -> None:
    def mounted(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "root_path": "/capset"}, receive, send)

        return call

    public = f"{PUBLIC}/capset"
    async with issuing(more={"audience": None, "public_url": f"{public}/"}, around=mounted) as issuer:
        async with issuer.site.client(None) as client:
            refused = await client.get("/capset/v1/agents")
            at = f"{public}{WELL_KNOWN}/v1"
            assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{at}"'
            assert (await client.get(at.removeprefix(PUBLIC))).json()["resource"] == f"{public}/v1"
            # Where clients look that were told the URL of the resource alone (RFC 9728 §3.1).
            assert (await client.get(f"{WELL_KNOWN}/capset/v1")).json()["resource"] == f"{public}/v1"
        for expected, audiences in (
            (200, (f"{public}/v1", public)),
            (401, (PUBLIC, f"{PUBLIC}/v1", f"{public}x/v1", f"{public}/mcp")),
        ):
            for audience in audiences:
                assert await status(issuer.site, token(aud=audience), "/capset/v1/agents") == expected, audience


@pytest.mark.spec("M14")
def test_a_public_url_is_written_in_one_form() -> None:
    resource = ProtectedResource("HTTPS://Capset.Example.com:443/", ISSUER)
    assert (resource.public_url, resource.host) == (PUBLIC, "capset.example.com")
    assert ProtectedResource("http://[::1]:8000", ISSUER).host == "[::1]"
    assert resource.metadata_url("/mcp/agents/a\r\nb") == f"{PUBLIC}{WELL_KNOWN}/mcp/agents/a%0D%0Ab"
