"""What has been used so far of limits and budgets, over REST (spec 5, P51)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from capset import Agent, Capability, Principal, tool
from capset.definitions.governance.usage import AgentUsage
from capset.ext import Allowance, Budget, Governance, Limit
from capset.kernel.governance.quotas import session_limits
from capset.kernel.governance.usage import UsageMeter
from capset.stores.base import ModelUser
from capset_server.auth.keys import create_key
from capset_server.client import Client
from capset_testing import FakeClock
from tests.helpers.kernel.fixtures import store
from tests.helpers.server.rest.keys import ADMIN
from tests.helpers.server.support import Site, call, foreman, problem, site

__all__ = ["store"]

pytestmark = pytest.mark.spec("P51")


@tool(effect="read", limits=["2/1h", Limit(9, "1d", per="session"), Limit(5, "1h", scope="process")])
async def stamp() -> str:
    """Stamp."""
    return "stamped"


office = Agent(
    "office", uses=[Capability("stamps", tools=[stamp])], allowance=Allowance(limits=Limit(50, "1d", per="org"))
)
GOVERNANCE = Governance(allowance=Allowance(limits=Limit(100, "1d", per="all"), session=Budget(calls=20, cost=4)))
CARL = ModelUser("acme", "office", "carl", "user")
OWN = Allowance(limits=["10/1h", Limit(7, "1h", per="session")], usage="tokens=1000,cost=2.5/1d")


async def limited(server: Site, name: str = "carl", **more: Any) -> None:
    """Make a key with limits."""
    principal = Principal(name, org="acme", allowance=OWN)
    _, server.keys[name] = await create_key(
        server.kernel, name, principal, scopes=["capset:call", "capset:read"], **more
    )


async def used(client: httpx2.AsyncClient, **query: str) -> dict[tuple[str, str, float], float | None]:
    """Return what was used, by subject, resource and what is allowed."""
    answer = await client.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    for entry in items:
        assert entry["left"] == (None if entry["used"] is None else entry["most"] - entry["used"])
    return {(row["subject"], row["resource"], row["most"]): row["used"] for row in items}


async def test_a_caller_sees_what_it_has_used_and_has_left(store: str) -> None:
    async with site(store=store, agents=[foreman, office], governance=GOVERNANCE) as server:
        await limited(server)
        async with server.client("carl") as client:
            usual = {("this server", "calls", 100.0): 0.0, ("this principal", "calls", 10.0): 0.0}
            models = {("this principal", "model_tokens", 1_000.0): 0.0, ("this principal", "model_cost", 2.5): 0.0}
            assert await used(client) == usual | models
            session = (await client.post("/v1/sessions", json={"agent_id": "office"})).json()["id"]
            for _ in range(3):
                await call(client, session, "stamp")
            terms = session_limits(
                "", Principal("carl", org="acme"), agent="", agent_id=None, allowances=[("principal", OWN)], budgets=()
            )
            assert terms is not None
            meter = UsageMeter(terms.usage, server.kernel.store, server.kernel.clock, CARL)
            for step in ("settled", "under way"):
                await meter.reserve(step, AgentUsage(steps=1, tokens=400, cost=1.0))
            await meter.settle("settled", AgentUsage(tokens=300, cost=0.5))
            after = dict.fromkeys(usual, 2.0)
            models = {("this principal", "model_tokens", 1_000.0): 300.0, ("this principal", "model_cost", 2.5): 0.5}
            assert await used(client) == after | models, "two were let through, the third was refused"
            of_session = await used(client, session=session)
            assert of_session == after | models | {
                ("this principal", "calls", 7.0): 2.0,
                ("the agent 'office'", "calls", 50.0): 2.0,
                ("'stamp'", "calls", 2.0): 2.0,
                ("'stamp'", "calls", 9.0): 2.0,
                ("'stamp'", "calls", 5.0): 2.0,
                ("this session", "calls", 20.0): 2.0,
                ("this session", "cost", 4.0): 0.0,
            }
            items = (await client.get("/v1/usage", params={"session": session})).json()["items"]
            windows = {entry["most"]: (entry.get("window"), entry["per"], entry["scope"]) for entry in items}
            assert windows[2.0] == ("1h", "principal", "shared")
            assert windows[5.0] == ("1h", "principal", "process")
            assert windows[20.0] == (None, "session", "shared")


async def test_others_are_seen_by_those_who_administer_or_audit() -> None:
    async with site(agents=[foreman, office], governance=GOVERNANCE) as server:
        await limited(server)
        await server.key("boss", scopes=ADMIN)
        await server.key("auditor", scopes=["capset:audit"])
        await server.key("eve", org="evil", scopes=ADMIN)
        await server.key("operator", org=None, scopes=ADMIN)
        async with server.client("carl") as carl:
            session = (await carl.post("/v1/sessions", json={"agent_id": "office"})).json()["id"]
            await call(carl, session, "stamp")
            usage = await used(carl)
            problem(await carl.get("/v1/usage", params={"principal": "boss"}), 403, "permission_denied")
        for name, more in (("boss", {}), ("auditor", {}), ("operator", {"org": "acme"})):
            async with server.client(name) as client:
                assert await used(client, principal="carl", **more) == usage
                agent = await used(client, principal="carl", kind="agent", **more)
                assert [*agent] == [("this server", "calls", 100.0)], "another principal of the same id"
                problem(
                    await client.get("/v1/usage", params={"session": session}),
                    404 if name != "auditor" else 403,
                    "not_found" if name != "auditor" else "permission_denied",
                )
        async with server.client("eve") as eve:
            problem(await eve.get("/v1/usage", params={"principal": "carl", "org": "acme"}), 403, "permission_denied")
            theirs = await used(eve, principal="carl")
            assert theirs == {("this server", "calls", 100.0): 1.0}, "of their own carl, who has no key"
            both = {"principal": "carl", "session": session}
            problem(await eve.get("/v1/usage", params=both), 422, "invalid_arguments")
            problem(await eve.get("/v1/usage", params={"org": "evil"}), 422, "invalid_arguments")


async def test_nothing_is_said_where_nothing_is_limited() -> None:
    async with site() as server, server.client() as client:
        assert await used(client) == {}


@pytest.mark.spec("R28")
async def test_what_models_used_is_counted_by_time_agent_and_principal(store: str) -> None:
    clock = FakeClock()
    async with site(store=store, clock=clock) as server:
        meter = UsageMeter((), server.kernel.store, clock, CARL)
        await server.key("auditor", scopes=["capset:audit"])
        for hours, cost in ((0, 0.5), (1, 0.25)):
            clock.advance(3_600 * hours)
            step = AgentUsage(steps=1, calls=2, tokens=300, cost=cost)
            await meter.settle(f"step-{hours}", step)
        await server.kernel.store.usage.count(replace(CARL, org="other"), step, clock.time_ns())
        async with server.client("auditor") as auditor:
            used = (await auditor.get("/v1/usage/models")).json()
            assert (used["steps"], used["calls"], used["tokens"], used["cost"]) == (2, 4, 600, 0.75)
            assert (used["bucket_seconds"], [bucket["cost"] for bucket in used["buckets"]]) == (3_600, [0.5, 0.25])
            assert [(row["name"], row["tokens"]) for row in used["agents"]] == [("office", 600)]
            assert [(row["name"], row["tokens"]) for row in used["principals"]] == [("user:carl", 600)]
            params = {"since": "2020-01-01T00:00:00Z", "principal": "carl"}
            daily = (await auditor.get("/v1/usage/models", params=params)).json()
            assert (daily["bucket_seconds"], daily["cost"]) == (86_400, 0.75)
            assert (await auditor.get("/v1/usage/models", params={"agent": "scribe"})).json()["buckets"] == []
            for since, until in (("02T00:00", "01T00:00"), ("01T12:30", "01T12:10")):
                past = {"since": f"2026-01-{since}:00Z", "until": f"2026-01-{until}:00Z"}
                problem(await auditor.get("/v1/usage/models", params=past), 422, "invalid_arguments")
        async with Client(server.url, key=server.keys["auditor"]) as typed:
            assert (await typed.model_usage()).cost == 0.75
        await server.key("caller", scopes=["capset:call"])
        async with server.client("caller") as caller:
            problem(await caller.get("/v1/usage/models"), 403, "permission_denied")
