"""A bank with an agent, as front ends speak with it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, make_agent, site

PAYS = (Call("unlock"), Call("pay", to="bob", amount=7), "Paid.")


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncGenerator[Site]:
    runner = AgentRunner(ScriptedModel(*PAYS, "Hello again."))
    async with site(till, store=f"sqlite:///{tmp_path / 'capset.db'}", generator=runner) as server:
        await server.key("boss", scopes=["capset:approve"])
        yield server


@pytest.fixture
async def agent(bank: Site) -> str:
    async with bank.client() as ada:
        return (await make_agent(ada, "kit", "till"))["id"]


def run_input(*messages: Any, **more: Any) -> dict[str, Any]:
    """Return what a client of AG-UI sends: all that it shows."""
    empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    numbered = [{"id": str(number), **message} for number, message in enumerate(messages)]
    return {"threadId": "t", "runId": "r", "messages": numbered, **empty, **more}


def user(content: str) -> dict[str, str]:
    """Return a message of AG-UI."""
    return {"role": "user", "content": content}


async def run(client: httpx2.AsyncClient, agent: str, body: dict[str, Any], path: str = "ag-ui") -> list[Any]:
    """Run an agent, and return the events."""
    response = await client.post(f"/v1/agents/{agent}/{path}", json=body, timeout=120)
    assert response.status_code == 200, response.text
    assert response.headers["x-capset-session"]
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


async def messages(client: httpx2.AsyncClient) -> str:
    """Return the stored conversation of the newest session, as text."""
    (session, *_) = (await client.get("/v1/sessions")).json()["items"]
    return (await client.get(f"/v1/sessions/{session['id']}/messages")).text
