"""The server below a path, which a proxy cuts off or does not, and slashes at the end of paths (spec 5, P92)."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest

from capset.errors import DefinitionError
from capset_server.http.root_path import place_request, root_path_of
from capset_server.http.uvicorn_server import bind
from tests.helpers.server.http import cutting_proxy
from tests.helpers.server.support import Site, call, problem, site
from tests.helpers.server.walk import MCP_HEADERS

ROOT = "/capset"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
WELL_KNOWN = "/.well-known/oauth-protected-resource"
LINKS = re.compile(r"""\b(?:href|src|action|(?:data-)?hx-(?:get|post|put|patch|delete))="(/[^"]*)\"""")


@pytest.mark.spec("P92")
@pytest.mark.parametrize(
    ("path", "before", "root", "after"),
    [
        ("/v1/agents", "", ROOT, "/capset/v1/agents"),
        ("/capset/v1/agents", "", ROOT, "/capset/v1/agents"),
        ("/capset", "", ROOT, "/capset/"),
        ("/capsets/v1", "", ROOT, "/capset/capsets/v1"),
        ("/inner/v1/agents", "/inner", ROOT, "/capset/v1/agents"),
        ("/inner/v1/agents", "/inner", None, "/inner/v1/agents"),
        ("/inner/v1/agents", "/inner", "", "/v1/agents"),
        (f"{WELL_KNOWN}/capset/mcp", "", ROOT, f"/capset{WELL_KNOWN}/mcp"),
        (f"{WELL_KNOWN}/mcp", "", ROOT, f"/capset{WELL_KNOWN}/mcp"),
        ("/mcp/", "", None, "/mcp"),
        ("/capset/mcp/", "", ROOT, "/capset/mcp"),
        ("/mcp/agents/a/", "", None, "/mcp/agents/a"),
        ("/v1/sessions/s/files/", "", None, "/v1/sessions/s/files/"),
    ],
)
def test_a_request_is_below_the_root_however_it_came(path: str, before: str, root: str | None, after: str) -> None:
    scope = place_request({"type": "http", "path": path, "root_path": before}, root)
    assert (scope["path"], scope["root_path"]) == (after, before if root is None else root)


@pytest.mark.spec("P92")
def test_the_root_is_the_path_of_the_public_url() -> None:
    assert root_path_of(None, None) is None
    assert root_path_of(None, "https://a.example") == root_path_of("/", None) == ""
    assert root_path_of(None, "https://a.example/tools/a/") == root_path_of("/tools/a/", None) == "/tools/a"
    for root, public in (("capset", None), ("/a b", None), ("/a/../b", None), (None, "https://a.example/a%20b")):
        with pytest.raises(DefinitionError, match="a slash and letters"):
            root_path_of(root, public)
    with pytest.raises(DefinitionError, match="the public URL has the path '/other'"):
        root_path_of("/capset", "https://a.example/other")


@pytest.mark.spec("P92", "T94")
@pytest.mark.parametrize("root", ["/v1", "/mcp/capset", "/approvals"])
async def test_a_root_that_is_a_path_of_the_servers_own_is_refused(root: str) -> None:
    with pytest.raises(DefinitionError, match="a path of the server's own"):
        async with site(root_path=root):
            pass


@pytest.mark.spec("P92")
async def test_what_the_server_says_of_itself_is_below_the_root() -> None:
    async with site(root_path=ROOT) as server, server.client() as ada:
        for came in ("", ROOT):  # cut off, and not
            created = await ada.post(f"{came}/v1/sessions", json={"agent_id": "foreman"})
            assert created.headers["location"] == f"{ROOT}/v1/sessions/{created.json()['id']}"
            assert (await ada.get(f"{came}/openapi.json")).json()["servers"] == [{"url": ROOT}]
            assert (await ada.get(f"{came}/v1/healthz")).status_code == 200
            wrong = await ada.put(f"{came}/v1/sessions", json={})
            assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
        assert (await call(ada, created.json()["id"], "echo")).json()["data"] == "hello"


@pytest.mark.spec("P92", "P16")
async def test_a_slash_at_the_end_of_an_endpoint_of_mcp_is_none(shared: Site) -> None:
    await shared.key("of foreman", agent="foreman")
    async with shared.client("of foreman") as client:
        for path in ("/mcp/agents/foreman", "/mcp/agents/foreman/", "/mcp/"):
            response = await client.post(path, json=LIST, headers=MCP_HEADERS)
            assert (response.status_code, '"name":"echo"' in response.text) == (200, True)


@pytest.mark.spec("P92")
@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/mcp/.well-known/openid-configuration",
    ],
)
async def test_metadata_that_is_not_there_is_not_found(shared: Site, path: str) -> None:
    """And asks for no key: a client that seeks an authorization server would take a 401 for a reason to seek one."""
    async with shared.client(None) as client:
        problem(await client.get(path), 404, "not_found")
        problem(await client.get("/v1/sessions/s/files/.well-known/a"), 401, "unauthenticated")


@asynccontextmanager
async def proxy_to(port: int) -> AsyncGenerator[str]:
    """Run a proxy that cuts the root off, and give its URL."""
    command = [sys.executable, cutting_proxy.__file__, ROOT, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(await asyncio.to_thread(process.stdout.readline))}"
        finally:
            process.kill()


@pytest.mark.realtime
@pytest.mark.gate
@pytest.mark.spec("P92", "T94")
async def test_everything_is_reached_through_a_proxy_that_cuts_the_root_off() -> None:
    bound = bind("127.0.0.1", 0)
    async with (
        proxy_to(bound.getsockname()[1]) as public,
        site(bound=bound, public_url=f"{public}{ROOT}") as server,
    ):
        key = await server.key("boss", scopes=["capset:admin"])
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(base_url=public, headers=headers, trust_env=False, timeout=60) as boss:
            assert (await boss.get("/v1/healthz")).status_code == 404, "the proxy has nothing else"
            assert (await boss.get(f"{ROOT}/openapi.json")).json()["servers"] == [{"url": ROOT}]
            created = await boss.post(f"{ROOT}/v1/sessions", json={"agent_id": "foreman"})
            assert (await boss.get(created.headers["location"])).json()["id"] == created.json()["id"]
            listing = await boss.post(f"{ROOT}/mcp/agents/foreman/", json=LIST, headers=MCP_HEADERS)
            assert '"name":"echo"' in listing.text
        async with httpx2.AsyncClient(base_url=public, trust_env=False, follow_redirects=True) as browser:
            start_page = await browser.get(f"{ROOT}/")
            assert start_page.url.path == f"{ROOT}/login"
            page = await browser.post(f"{ROOT}/login", data={"key": key, "next": "/agents"})
            (signed_in,) = page.history
            assert "; Path=/capset;" in signed_in.headers["set-cookie"]
            assert (page.status_code, page.url.path) == (200, f"{ROOT}/agents")
            links = set(LINKS.findall(page.text))
            assert links
            assert [link for link in links if not link.startswith(f"{ROOT}/")] == []
            for link in links:
                if "/static/" in link:
                    assert (await browser.get(link)).status_code == 200
            approval = await browser.post(f"{ROOT}/approve/0199", data={"action": "sign_in", "key": key})
            assert approval.url.path == f"{ROOT}/approve/0199"
