"""Moving a session to a version that has what is of high risk (spec 5, P3, P5)."""

from __future__ import annotations

import pytest

from capset import Capability, Decision, Request, allow, policy, tool
from tests.helpers.server.support import ALL_SCOPES, call, problem, site


@tool(effect="read")
async def gold() -> str:
    """Count the gold."""
    return "gold"


vault = Capability("vault", risk="high", tools=[gold])


@pytest.mark.spec("P3", "P5")
async def test_what_was_taken_from_an_agent_does_not_come_back_by_moving() -> None:
    async with site(vault) as server:
        await server.key("boss", principal="ada", scopes=[*ALL_SCOPES, "capset:admin"])
        async with server.client("boss") as boss, server.client("ada") as ada:
            response = await boss.post("/v1/agents", json={"name": "banker", "capabilities": ["vault", "kit"]})
            agent = response.json()["id"]
            early = (await ada.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            await ada.patch(f"/v1/agents/{agent}", json={"capabilities": ["kit"]})
            late = (await ada.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            body = problem(await ada.patch(f"/v1/sessions/{late}", json={"agent_version": 1}), 403, "permission_denied")
            assert "only an administrator can enable 'vault'" in body["detail"]
            assert (await call(ada, late, "gold")).status_code == 404
            for version in (1, 2):
                moved = await ada.patch(f"/v1/sessions/{early}", json={"agent_version": version})
                assert moved.status_code == 200, "one that has it keeps it, and may give it up"
            assert (await boss.patch(f"/v1/sessions/{late}", json={"agent_version": 1})).status_code == 200
            assert (await call(ada, late, "gold")).json()["data"] == "gold"


@pytest.mark.spec("P3", "P5")
async def test_a_comparison_evaluates_what_was_taken_from_an_agent_for_administrators_alone() -> None:
    principal_ids: list[str] = []

    @policy
    def watch(request: Request) -> Decision:
        principal_ids.append(request.principal.id)
        return allow()

    safe = Capability("safe", risk="high", tools=[gold], policies=[watch])
    async with site(safe) as server:
        await server.key("boss", principal="boss", scopes=[*ALL_SCOPES, "capset:admin"])
        async with server.client("boss") as boss, server.client("ada") as ada:
            response = await boss.post("/v1/agents", json={"name": "banker", "capabilities": ["safe", "kit"]})
            url = f"/v1/agents/{response.json()['id']}"
            await boss.patch(url, json={"description": "Guards."})
            comparison = (await ada.get(f"{url}/diff", params={"before": 1})).json()
            assert comparison["composition"] is not None, "the present version has it: it is enabled"
            await ada.patch(url, json={"capabilities": ["kit"]})
            principal_ids.clear()
            comparison = (await ada.get(f"{url}/diff", params={"before": 1, "after": 3})).json()
            assert (comparison["composition"], principal_ids) == (None, [])
            assert "capabilities[safe]" in [field["path"] for field in comparison["fields"]]
            (notice,) = comparison["notices"]
            assert notice == "version 1: not evaluated, since only an administrator can enable 'safe'"
            comparison = (await boss.get(f"{url}/diff", params={"before": 1})).json()
            assert comparison["composition"]["differs"] is True
            assert (comparison["notices"], principal_ids) == ([], ["boss"])
