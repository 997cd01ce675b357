"""MCP clients that know one URL: they find who gives tokens, sign in, and call a tool. No network.

One is the official SDK's; the other is capset's own, whose tools are pinned and governed.

The authorization server is played by a few lines, for a user who consents at once; a real one is a product of its own.
"""

import asyncio
import json
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import httpx2
from joserfc import jwt
from joserfc.jwk import ECKey
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import TextContent
from pydantic import AnyUrl

from capset import Agent, Kernel, Principal
from capset.ext import Secrets
from capset_connect.mcp import McpServer, open_mcp_servers

CAPSET = Path(sys.executable).with_name("capset")
CALLBACK = "http://127.0.0.1:9/callback"
KEY = ECKey.generate_key("P-256", {"kid": "2026-11"})


def issue(issuer: str, resource: str, scope: str) -> str:
    """Return a token for one resource, good for five minutes."""
    claims = {"iss": issuer, "aud": resource, "sub": "ada", "org": "acme", "scope": scope}
    return jwt.encode({"alg": "ES256", "kid": KEY.kid}, {**claims, "exp": int(time.time()) + 300}, KEY)


class Login(BaseHTTPRequestHandler):
    """An authorization server, without PKCE's check and without clients of its own: it believes everything."""

    codes: ClassVar[dict[str, dict[str, str]]] = {}

    def do_GET(self) -> None:
        """Answer with the metadata, with the keys, or with a code."""
        url, query = urlsplit(self.path), dict(parse_qsl(urlsplit(self.path).query))
        issuer = f"http://{self.headers['host']}"
        if url.path == "/authorize":
            code = secrets.token_urlsafe()
            self.codes[code] = query
            print("ada signs in, and consents to", query["scope"])
            self.say(302, {}, Location=f"{query['redirect_uri']}?code={code}&state={query['state']}")
        elif url.path == "/jwks":
            self.say(200, {"keys": [KEY.as_dict(private=False)]})
        else:
            paths = {"authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token"}
            self.say(200, {"issuer": issuer, **paths, "response_types_supported": ["code"]})

    def do_POST(self) -> None:
        """Exchange a code for a token."""
        form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        authorization = self.codes.pop(form["code"])
        token = issue(f"http://{self.headers['host']}", authorization["resource"], authorization["scope"])
        self.say(
            200, {"access_token": token, "token_type": "Bearer", "expires_in": 300, "scope": authorization["scope"]}
        )

    def say(self, status: int, body: dict[str, Any], **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""


class Memory:
    """Where the client keeps its token. It was registered beforehand, as ``desk``."""

    def __init__(self) -> None:
        self.token: OAuthToken | None = None
        self.client = OAuthClientInformationFull(client_id="desk", redirect_uris=[AnyUrl(CALLBACK)])

    async def get_tokens(self) -> OAuthToken | None:
        return self.token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@contextmanager
def login() -> Generator[str]:
    """Run the authorization server, and give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Login) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def capset(folder: str, issuer: str) -> Generator[str]:
    """Run capset, and give its public URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = ("--public-url", url, "--jwt-issuer", issuer, "--jwt-jwks", f"{issuer}/jwks")
    command = [CAPSET, "serve", "--port", str(port), *options]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert re.search(r"http://\S+", process.stderr.readline()), "the server says first where it is"
            yield url
        finally:
            process.terminate()
            process.communicate()


def sign_in(url: str) -> OAuthClientProvider:
    """Return what gets a token for the agent at this URL, and nothing else is known."""
    came: list[dict[str, str]] = []

    async def browse(address: str) -> None:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            location = (await browser.get(address)).headers["location"]
        came.append(dict(parse_qsl(urlsplit(location).query)))

    async def come_back() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**came.pop())

    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(CALLBACK)], grant_types=["authorization_code"])
    return OAuthClientProvider(url, metadata, Memory(), browse, come_back)


async def use(url: str) -> None:
    """Call a tool of the agent."""
    async with (
        httpx2.AsyncClient(auth=sign_in(url), trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool("add", {"a": 2, "b": 3})
    assert isinstance(result.content[0], TextContent)
    print(result.content[0].text)


async def govern(url: str) -> None:
    """Call it as a tool of an agent here, with a record."""

    async def auth(_: Secrets) -> OAuthClientProvider:
        return sign_in(url)

    server = McpServer(name="desk", url=url, auth=auth, internal=["127.0.0.1"], trust_first_use=True)
    ada = Principal("ada")
    async with (
        Kernel(store="memory://") as kernel,
        open_mcp_servers(kernel, [server]) as (capability,),
        kernel.open(Agent("reader", uses=[capability]), principal=ada) as session,
    ):
        add = next(tool for tool in capability.every_tool if tool.name == "desk_add")
        print(add.name, await session.call(add, a=4, b=5))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, login() as issuer, capset(folder, issuer) as url:
        headers = {"Authorization": f"Bearer {issue(issuer, f'{url}/v1', 'capset:write')}"}
        agent = {"name": "adder", "capabilities": ["test_math"]}
        created = httpx2.post(f"{url}/v1/agents", json=agent, headers=headers, trust_env=False).raise_for_status()
        endpoint = f"{url}/mcp/agents/{created.json()['id']}"
        metadata = httpx2.get(url + "/.well-known/oauth-protected-resource" + urlsplit(endpoint).path, trust_env=False)
        assert metadata.json()["authorization_servers"] == [issuer]
        assert metadata.json()["resource"] == endpoint
        print("the server says who gives tokens for this agent")
        asyncio.run(use(endpoint))
        asyncio.run(govern(endpoint))


main()
