"""Moving a session to a version that has what is of high risk (spec 5, P3, P5)."""

from __future__ import annotations

import pytest

from capset import Capability, tool
from tests.server.support import ALL_SCOPES, call, problem, site


@tool(effect="read")
async def gold() -> str:
    """Count the gold."""
    return "gold"


vault = Capability("vault", risk="high", tools=[gold])


@pytest.mark.spec("P3", "P5")
async def test_what_was_taken_from_an_agent_does_not_come_back_by_moving() -> None:
    async with site(vault) as here:
        await here.key("boss", principal="ada", scopes=[*ALL_SCOPES, "capset:admin"])
        async with here.client("boss") as boss, here.client("ada") as ada:
            made = await boss.post("/v1/agents", json={"name": "banker", "capabilities": ["vault", "kit"]})
            agent = made.json()["id"]
            early = (await ada.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            await ada.patch(f"/v1/agents/{agent}", json={"capabilities": ["kit"]})
            late = (await ada.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            said = problem(await ada.patch(f"/v1/sessions/{late}", json={"agent_version": 1}), 403, "permission_denied")
            assert "only an administrator enables 'vault'" in said["detail"]
            assert (await call(ada, late, "gold")).status_code == 404
            for version in (1, 2):
                moved = await ada.patch(f"/v1/sessions/{early}", json={"agent_version": version})
                assert moved.status_code == 200, "one that has it keeps it, and may give it up"
            assert (await boss.patch(f"/v1/sessions/{late}", json={"agent_version": 1})).status_code == 200
            assert (await call(ada, late, "gold")).json()["data"] == "gold"
