"""Two users of one gateway, each with credentials of their own for three servers (spec 11, V21, V22).

Two servers are public ones, which take a key: one of npm's, one of PyPI's. The third takes tokens of a real
authorization server. What each call was made with is noted where the servers send it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from capset_connect.vault.encryption import new_vault_key
from capset_server.client import Client
from lab.clients.mcp_clients.programs import NODE, client, need_npm
from lab.corpus import CACHE
from lab.mcpservers import Failed
from lab.mcpservers.packages import python_environment
from scripts import npm
from tests.helpers.cli.support import Command, clean_environment
from tests.helpers.connect.mcp.urls import There, serving
from tests.helpers.connect.vault.accounts import Accounts, accounts, consent, follow_consent
from tests.helpers.connect.vault.upstreams import Upstream
from tests.helpers.server.running import Running, running

CALLS: Final = 10_000
USERS: Final = ("ada", "bob")
CLIENTS: Final = ("official", "typescript")
KEYED: Final = ("gitlab", "redmine")
GITLAB: Final = "@modelcontextprotocol/server-gitlab"
PACKAGES: Final = {GITLAB: "2025.4.25", "zod": "3.25.76"}
"""With zod 4, which the server's own range permits, its tools have no schemas."""
REDMINE: Final = {"pypi": "mcp-redmine", "version": "2026.10.15.204909"}
EXPIRY: Final = (CALLS // 6, CALLS // 3)
"""After how many calls with keys the provider's tokens expire: a quarter and half of these."""
SECRET: Final = "client-secret-of-capset"

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1_200), pytest.mark.xdist_group("typescript")]
Noted = list[tuple[str, str | None, str]]
"""For each request: the service, whose credential came with it, and its text."""


@dataclass
class Services:
    """The services behind the servers: two that take keys, and a server with tokens of a provider."""

    accounts: Accounts
    noted: Noted = field(default_factory=Noted)

    def __post_init__(self) -> None:
        self.tokens = Upstream(self.accounts)
        self.keyed = Starlette(
            routes=[Route("/gitlab/projects", self._projects), Route("/redmine/issues.json", self._issues)]
        )

    async def _projects(self, request: Request) -> Response:
        key = request.headers["authorization"].removeprefix("Bearer ")
        return self._note("gitlab", key, request.query_params["search"], [])

    async def _issues(self, request: Request) -> Response:
        return self._note("redmine", request.headers["x-redmine-api-key"], request.query_params["subject"], {})

    def _note(self, service: str, key: str, text: str, answer: Any) -> Response:
        user = next((user for user in USERS if key == key_of(service, user)), None)
        self.noted.append((service, user, text))
        if len(self.noted) in EXPIRY:
            self.accounts.expire()
        return JSONResponse(answer, 200 if user is not None else 401)

    @property
    def all_noted(self) -> Noted:
        return [*self.noted, *(("books", user, text) for user, text in self.tokens.noted)]


def key_of(service: str, user: str) -> str:
    return f"{service}-key-of-{user}-0123456789"


def declared(keyed: There, books: There, issuer: str, programs: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the configuration of the gateway."""
    own, read = "${USER_CREDENTIAL}", {"*": {"effect": "read"}}
    urls = {name: f"http://{keyed.host}/{name}" for name in KEYED}
    return {
        "name": "tools",
        "providers": {
            "town": {
                "issuer": issuer,
                "client_id": "capset",
                "client_secret": "${CLIENT_SECRET}",
                "internal": [issuer.removeprefix("http://")],
            }
        },
        "mcp_servers": {
            "gitlab": {
                "command": programs["gitlab"],
                "env": {"GITLAB_PERSONAL_ACCESS_TOKEN": own, "GITLAB_API_URL": urls["gitlab"]},
                "tools": ["search_repositories"],
                "auth": "user",
                "rules": read,
            },
            "redmine": {
                "command": programs["redmine"],
                "env": {"REDMINE_API_KEY": own, "REDMINE_URL": urls["redmine"]},
                "tools": ["redmine_request"],
                "auth": "user",
                "rules": read,
            },
            "books": {
                "url": books.url,
                "internal": [books.host],
                "auth": {"provider": "town", "scopes": ["read"]},
                "rules": read,
            },
        },
    }


def call_of(service: str, text: str) -> tuple[str, dict[str, Any]]:
    """Return the tool of a service, and the arguments with which a text reaches it."""
    match service:
        case "gitlab":
            return "gitlab_search_repositories", {"search": text}
        case "redmine":
            return "redmine_redmine_request", {"path": "issues.json", "params": {"subject": text}}
        case _:
            return "books_echo", {"text": text}


def installed() -> Mapping[str, list[str]]:
    """Install the public servers, and return the command of each; skip the test without the registries."""
    folder = CACHE / "keyed"
    try:
        npm.install_exactly(folder, PACKAGES)
        environment = python_environment("redmine", REDMINE)
    except (npm.NotInstalled, Failed) as error:
        pytest.skip(str(error))
    script = folder / "node_modules" / GITLAB / "dist" / "index.js"
    return {"gitlab": [*NODE, str(script)], "redmine": [str(environment / "bin" / "mcp-redmine")]}


@asynccontextmanager
async def gateway(folder: Path, services: Services, keyed: There, books: There) -> AsyncGenerator[Running]:
    """Run the gateway, whose tools the local principal has approved with credentials of its own."""
    file = declared(keyed, books, services.accounts.issuer, await asyncio.to_thread(installed))
    (folder / "gateway.yaml").write_text(yaml.safe_dump(file))
    environ = {"CAPSET_VAULT_KEY": new_vault_key(), "CLIENT_SECRET": SECRET}
    capset = Command(folder, clean_environment(folder, **environ))
    for name in KEYED:
        done = await asyncio.to_thread(capset, "connect", name, "--agent", "gateway.yaml", stdin="key-of-the-approver")
        assert done.code == 0, done.err
    await connect_in_browser(capset, services.accounts)
    for name in (*KEYED, "books"):
        done = await asyncio.to_thread(capset, "mcp", "approve", name, "--agent", "gateway.yaml")
        assert done.code == 0, done.err
    options = ("gateway.yaml", "--public-url", "https://tools.example.com")
    with running(folder, *options, verb="gateway", **environ) as server:
        yield server


async def connect_in_browser(capset: Command, provider: Accounts) -> None:
    """Connect the local principal to books by ``capset connect``."""
    provider.user = "approver"
    command = ("connect", "books", "--agent", "gateway.yaml", "--no-browser")
    with capset.start(*command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = ""
        while "grant access at" not in line:
            line = await asyncio.to_thread(process.stderr.readline)
            assert line, "the command has ended"
        assert await follow_consent(line.partition(" at ")[2].strip()) == 200
        await asyncio.to_thread(process.communicate)
    assert process.returncode == 0


async def connect(server: Running, provider: Accounts, user: str, key: str) -> None:
    """Connect a user to all three: two keys, and a consent at the provider."""
    async with Client(server.url, key=key, plain_http=True) as api:
        for name in KEYED:
            await api.connections.enter_key(name, key_of(name, user))
        provider.user = user
        await api.connections.complete(await consent(await api.connections.authorize("books")))


def make_calls(program: str, door: dict[str, Any], folder: Path, texts: Mapping[str, str]) -> None:
    """Make one call for each text, of the service that it is for."""
    with client(program, door, folder) as call:
        for text, service in texts.items():
            tool, arguments = call_of(service, text)
            failed, answer = call(tool, **arguments)
            assert not failed, (text, answer)


@pytest.mark.spec("V3", "V11", "V21", "V22", "V23")
async def test_no_call_has_the_credential_of_the_other_user(tmp_path: Path) -> None:
    need_npm()
    services_of, each = (*KEYED, "books"), CALLS // (len(USERS) * len(CLIENTS))
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(accounts())
        services = Services(provider)
        keyed = await stack.enter_async_context(serving(services.keyed))
        books = await stack.enter_async_context(serving(services.tokens))
        server = await stack.enter_async_context(gateway(tmp_path, services, keyed, books))
        doors = {user: {"url": f"{server.url}/mcp", "key": server.key(user)} for user in USERS}
        for user, door in doors.items():
            await connect(server, provider, user, door["key"])
        texts = {
            (user, program): {f"{user}-{program}-{number}": services_of[number % 3] for number in range(each)}
            for user in USERS
            for program in CLIENTS
        }
        async with asyncio.TaskGroup() as calls:
            for (user, program), numbered in texts.items():
                calls.create_task(asyncio.to_thread(make_calls, program, doors[user], tmp_path, numbered))
        expected = {
            (service, user, text): 1 for (user, _), numbered in texts.items() for text, service in numbered.items()
        }
        assert Counter(services.all_noted) == expected
        grants = Counter(request["grant_type"] for request in provider.token_requests)
        assert grants == {"authorization_code": 3, "refresh_token": 4}
        records = json.loads((await asyncio.to_thread(server.capset, "audit", "query", "--json")).out)["items"]
    assert {record["credential"].split()[1] for record in records if record["tool"]} == {"user:ada", "user:bob"}
    secrets = [key_of(service, user) for service in KEYED for user in USERS]
    secrets += [token for issued in provider.issued for token in (issued.access, issued.refresh) if token]
    left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [secret for secret in (*secrets, SECRET) if secret.encode() in left] == []
