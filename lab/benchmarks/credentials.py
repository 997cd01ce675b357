"""A governed call of an MCP server with the credential of its user, beside one with a header for all (spec 11)."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from capset import Agent, Kernel, Principal
from capset.kernel.runtime import EnvironmentSecrets
from capset_connect.mcp import McpServer, McpServers
from capset_connect.mcp.connection import McpConnection
from capset_connect.pins.tool_pins import approve, approved_in
from capset_connect.vault.encryption import VaultKeyRing, new_vault_key
from capset_connect.vault.user_auth import UserCredential
from capset_connect.vault.user_secrets import secrets_of
from capset_connect.vault.user_vault import UserVault
from lab.benchmarks.rest_call import running
from lab.benchmarks.row import Row
from lab.benchmarks.turns import Job, in_turns

TARGET = 1.05
"""The most that the vault may cost, beside a static header: issue and spec 11."""
_ADA = Principal("ada", org="acme")
_KEY = "the-key-of-ada"
_STATIC, _OWN = "static header", "credential of its user"


def measure(*, quick: bool) -> list[Row]:
    """Return how many times a call with a static header one with a credential takes, on SQLite."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(["-m", "lab.benchmarks.mcp_upstream", "1"], folder) as (_, upstream),
    ):
        times = asyncio.run(_times(Path(folder), upstream, rounds=3 if quick else 12))
    peers = {name: f"{microseconds / 1e3:.3f} ms" for name, microseconds in times.items()}
    ratio = round(times[_OWN] / times[_STATIC], 3)
    name = "call of an MCP server with the credential of its user"
    return [Row(name, ratio, "times one with a static header", TARGET, "at most", peers)]


async def _times(folder: Path, upstream: str, *, rounds: int) -> dict[str, float]:
    options: dict[str, Any] = {
        "url": f"{upstream}/mcp", "internal": [upstream.removeprefix("http://")], "rules": {"*": {"effect": "read"}},
    }  # fmt: skip
    servers = {
        _STATIC: McpServer(name="static", headers={"Authorization": "Bearer ${BENCH_KEY}"}, **options),
        _OWN: McpServer(name="own", auth=UserCredential(), **options),
    }
    async with AsyncExitStack() as stack:
        jobs: dict[str, Job] = {}
        for name, server in servers.items():
            store = f"sqlite:///{folder / server.name}.db"
            jobs[name] = await stack.enter_async_context(_calling(server, store))
        return await in_turns(jobs, rounds=rounds)


@asynccontextmanager
async def _calling(server: McpServer, store: str) -> AsyncGenerator[Job]:
    """Yield a job that calls the server's tool as Ada, through the whole pipeline."""
    secrets = EnvironmentSecrets()
    os.environ["BENCH_KEY"] = _KEY
    vault = UserVault(VaultKeyRing([new_vault_key()]), secrets)
    vault.declare([server])
    async with Kernel(store=store, credentials=vault.open) as kernel, McpServers(secrets) as connections:
        if isinstance(server.auth, UserCredential):
            await vault.connections(kernel).enter_key(_ADA, server.pin_key, _KEY)
        own_secrets = await secrets_of(server, secrets, kernel.credentials, _ADA)
        async with McpConnection(server, own_secrets) as connection:
            await approve(kernel, server, await connection.offers(), _ADA)
        pins = await kernel.store.pins.list(server.pin_key)
        capability = connections.capability(server, pins, approved_in(kernel, server))
        async with kernel.open(Agent("bench", uses=[capability]), principal=_ADA) as session:
            (look,) = capability.every_tool

            async def call() -> object:
                return await session.call(look, a=1, b=2)

            yield call


if __name__ == "__main__":
    print(*measure(quick="--quick" in sys.argv), sep="\n")
