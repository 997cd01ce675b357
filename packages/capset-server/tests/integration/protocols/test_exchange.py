"""Answers to approval requests, over the protocols of others, and what comes of them (spec 6, R18, R19)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset.definitions.governance.approvers import ApproverRule
from capset.definitions.governance.settings import Governance
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from tests.helpers.server.approving import till
from tests.helpers.server.support import make_agent, site


class Desk:
    """Somebody whose agent pays, and who may approve that."""

    def __init__(self, client: httpx2.AsyncClient, agent: str) -> None:
        self.client = client
        self.agent = agent

    async def respond(self, **fields: Any) -> httpx2.Response:
        async with asyncio.timeout(60):
            return await self.client.post("/v1/responses", json={"model": self.agent, **fields})

    async def status(self, request: str) -> str:
        return (await self.client.get(f"/v1/approvals/{request}")).json()["status"]

    async def run(self, **fields: Any) -> httpx2.Response:
        """Run the agent over AG-UI."""
        body = {"threadId": "t", "runId": "r", "state": {}, "messages": [], "tools": [], "context": []}
        body |= {"forwardedProps": {}, **fields}
        async with asyncio.timeout(60):
            return await self.client.post(f"/v1/agents/{self.agent}/ag-ui", json=body)


@asynccontextmanager
async def desk(folder: Path, *rules: ApproverRule, to: str = "bob") -> AsyncGenerator[Desk]:
    runner = AgentRunner(ScriptedModel(Call("pay", to=to, amount=7), "Paid.", Call("pay", to="eve"), "Paid, too."))
    governance = Governance(own_approvals=True, approvers=rules)
    store = f"sqlite:///{folder / 'capset.db'}"
    async with site(till, store=store, generator=runner, governance=governance) as server:
        await server.key("kim", scopes=["capset:call", "capset:approve", "capset:write"])
        async with server.client("kim") as client:
            yield Desk(client, (await make_agent(client, "kit", "till"))["id"])


def approved(request: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "mcp_approval_response", "approval_request_id": request, "approve": True, **more}]


@pytest.mark.spec("R18")
async def test_an_answer_for_a_turn_that_is_over_decides_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as kim:
        first = (await kim.respond(input="pay bob")).json()
        done = (await kim.respond(input=approved(first["output"][0]["id"]), previous_response_id=first["id"])).json()
        second = (await kim.respond(input="pay eve", previous_response_id=done["id"])).json()
        request = second["output"][0]["id"]
        late = await kim.respond(input=approved(request), previous_response_id=first["id"])
        assert (late.status_code, "is over" in late.text) == (409, True)
        assert await kim.status(request) == "pending"


@pytest.mark.spec("R18", "R19", "G51", "T49")
async def test_what_is_masked_is_approved_where_it_can_be_shown_and_not_in_a_chat(tmp_path: Path) -> None:
    async with desk(tmp_path, to="https://ok/?token=x") as kim:
        first = (await kim.respond(input="pay")).json()
        request = first["output"][0]["id"]
        refused = await kim.respond(input=approved(request), previous_response_id=first["id"])
        assert (refused.status_code, "is masked here" in refused.text) == (403, True)
        assert await kim.status(request) == "pending"
        revealed = (await kim.client.get(f"/v1/approvals/{request}/arguments")).json()
        assert revealed["arguments"]["to"] == "https://ok/?token=x"
        assert (await kim.client.post(f"/v1/approvals/{request}/approve", json={})).is_success


@pytest.mark.spec("R18", "R19", "G48")
async def test_an_approval_that_is_not_enough_is_said_to_be_so(tmp_path: Path) -> None:
    async with desk(tmp_path, ApproverRule(tools=["pay"], approvals=2)) as kim:
        first = (await kim.respond(input="pay bob")).json()
        request = first["output"][0]["id"]
        response = await kim.respond(input=approved(request), previous_response_id=first["id"])
        assert (response.status_code, response.json()["error"]["code"]) == (409, "turn_suspended")
        assert "further approvals" in response.text
        assert len((await kim.client.get(f"/v1/approvals/{request}")).json()["approvals"]) == 1


@pytest.mark.spec("R18", "R19")
@pytest.mark.parametrize("reason", ["x" * 1_001, "a\0b"])
async def test_a_reason_is_as_rest_takes_it(tmp_path: Path, reason: str) -> None:
    async with desk(tmp_path) as kim:
        first = (await kim.respond(input="pay bob")).json()
        request = first["output"][0]["id"]
        answer = approved(request, reason=reason)
        refused = [await kim.respond(input=answer, previous_response_id=first["id"])]
        await kim.run(messages=[{"id": "1", "role": "user", "content": "pay bob"}])
        payload = {"approved": True, "reason": reason}
        refused.append(await kim.run(resume=[{"interruptId": "int-x", "status": "resolved", "payload": payload}]))
        for response in refused:
            assert (response.status_code, "at most 1,000 characters" in response.text) == (422, True)
        assert await kim.status(request) == "pending"
