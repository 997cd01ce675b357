"""Allowances of agents, keys and servers over REST (spec 4, G36)."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from capset import Agent, Capability, Principal, tool
from capset.ext import Allowance, Budget, Governance, Limit
from capset_server.auth.keys import create_key
from tests.helpers.server.rest.turns import turn
from tests.helpers.server.runners import Parrot
from tests.helpers.server.support import Site, call, kit, make_agent, problem, site

WITHIN: dict[str, Any] = {"limits": ["100/1h"], "session": {"calls": 2, "cost": 2.5}, "run": {"calls": 20}}


def said(allowance: dict[str, Any] | None) -> Any:
    """Return an allowance of an answer without the members that say nothing."""
    if not isinstance(allowance, dict):
        return allowance
    return {name: said(value) for name, value in allowance.items() if value not in (None, [])}


async def opened(client: httpx2.AsyncClient, agent: str | None = None, **allowance: Any) -> str:
    """Make a session of an agent, or of a new one with an allowance, and return its id."""
    agent = agent or (await make_agent(client, "kit", allowance=allowance))["id"]
    answer = await client.post("/v1/sessions", json={"agent_id": agent})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def codes(client: httpx2.AsyncClient, session: str, *tools: str) -> list[str | None]:
    """Call tools one after the other, and return the code of each."""
    errors = [(await call(client, session, tool_name)).json().get("error") for tool_name in tools]
    return [error and error["code"] for error in errors]


@pytest.mark.spec("G36", "P4", "P7")
async def test_an_agent_has_an_allowance_that_no_hash_covers(asker: httpx2.AsyncClient) -> None:
    plain = await make_agent(asker, "kit")
    agent = await make_agent(asker, "kit", allowance={**WITHIN, "limits": [{"requests": 100.0, "window": "60m"}]})
    assert said(agent["allowance"]) == WITHIN, "in the one form in which it is kept"
    assert agent["static_hash"] == plain["static_hash"]
    assert plain["allowance"] is None
    assert (await asker.get(f"/v1/agents/{agent['id']}")).json() == agent
    copied = await make_agent(asker, "kit", name="copy", allowance=agent["allowance"])
    assert copied["allowance"] == agent["allowance"]
    (listed,) = (await asker.get("/v1/agents", params={"name": "copy"})).json()["items"]
    assert listed["allowance"] == agent["allowance"]


@pytest.mark.spec("G36", "P5", "P7")
async def test_an_allowance_is_merged_compared_and_brought_back(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit", allowance=WITHIN)
    url = f"/v1/agents/{agent['id']}"

    async def changed(allowance: Any) -> tuple[Any, int]:
        now = (await asker.patch(url, json={"allowance": allowance})).json()
        assert now["static_hash"] == agent["static_hash"]
        return said(now["allowance"]), now["version"]

    assert await changed({"session": {"calls": 3}}) == ({**WITHIN, "session": {"calls": 3, "cost": 2.5}}, 2)
    assert await changed({"limits": None, "run": None}) == ({"session": {"calls": 3, "cost": 2.5}}, 3)
    assert await changed({"session": {"calls": 3, "cost": None}}) == ({"session": {"calls": 3}}, 4)
    assert (await changed({"session": {"calls": 3.0}}))[1] == 4, "what changes nothing makes no version"
    assert await changed({"session": {"calls": None}}) == (None, 5), "an allowance that says nothing is none"
    assert (await changed(None))[1] == 5
    diff = (await asker.get(f"{url}/diff", params={"before": 1, "after": 2})).json()
    (field,) = diff["fields"]
    assert (field["path"], field["before"], field["after"]) == ("allowance.session.calls", 2, 3)
    assert not diff["composition"]["hashes"]["static"]["moved"]
    back = (await asker.post(f"{url}/rollback", json={"version": 1})).json()
    assert (said(back["allowance"]), back["version"]) == (WITHIN, 6)
    assert (await asker.get(f"{url}/versions/4")).json()["allowance"]["session"]["calls"] == 3


@pytest.mark.spec("G36", "G13")
@pytest.mark.parametrize(
    ("allowance", "path", "message"),
    [
        ({"limits": ["100/1w"]}, "allowance.limits.0", "a window is a whole number and s, m, h or d"),
        ({"limits": ["0/1h"]}, "allowance.limits.0", "a limit's requests are a whole number"),
        ({"limits": ["1/1h", 5]}, "allowance.limits.1", "a limit is '100/1h'"),
        ({"limits": [{"requests": True, "window": "1h"}]}, "allowance.limits.0", "a whole number, 1 to"),
        ({"limits": [{"requests": 1, "window": "1h", "per": "moon"}]}, "allowance.limits.0", "per is one of"),
        ({"limits": "100/1h"}, "allowance.limits", "valid list"),
        ({"limits": [f"{count}/1h" for count in range(1, 22)]}, "allowance.limits", "at most 20"),
        ({"session": {"calls": -1}}, "allowance.session.calls", "greater than or equal to 0"),
        ({"session": {"calls": True}}, "allowance.session.calls", "valid integer"),
        ({"run": {"cost": -0.5}}, "allowance.run.cost", "greater than or equal to 0"),
        ({"run": {"tokens": 5}}, "allowance.run.tokens", "no such parameter"),
        ({"usage": ["tokens=5"]}, "allowance.usage.0", "has a window, such as '1d'"),
        ({"usage": [{"tokens": -5, "window": "1d"}]}, "allowance.usage.0", "tokens are 1 to"),
        ({"usage": ["steps=1/1h"] * 21}, "allowance.usage", "at most 20 items"),
        ({"day": {"calls": 5}}, "allowance.day", "no such parameter"),
        (5, "allowance", "valid dictionary"),
    ],
)
async def test_what_does_not_fit_is_named_and_nothing_is_half_done(
    asker: httpx2.AsyncClient, allowance: Any, path: str, message: str
) -> None:
    agent = await make_agent(asker, "kit")
    url, body = f"/v1/agents/{agent['id']}", {"name": "new", "allowance": allowance}
    before = (await asker.get("/v1/agents")).json()["total"]
    for method, place in (
        ("PATCH", url),
        ("POST", f"{url}/preview"),
        ("POST", "/v1/agents/preview"),
        ("POST", "/v1/agents"),
    ):
        (field,) = problem(await asker.request(method, place, json=body), 422, "invalid_arguments")["fields"]
        assert (field["path"], message in field["expected"]) == (path, True), field
    assert (await asker.get(url)).json() == agent
    assert (await asker.get("/v1/agents")).json()["total"] == before


@pytest.mark.spec("G36", "G15")
async def test_a_session_keeps_the_allowance_that_its_agent_had(asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "kit", allowance={"session": {"calls": 1}})
    first = await opened(asker, agent["id"])
    await asker.patch(f"/v1/agents/{agent['id']}", json={"allowance": None})
    second = await opened(asker, agent["id"])
    assert await codes(asker, first, "echo", "echo") == [None, "budget_exceeded"]
    assert await codes(asker, second, "echo", "echo") == [None, None]


@pytest.mark.spec("G36")
async def test_agents_of_one_name_in_two_organisations_share_no_limit(shared: Site) -> None:
    for name, org in (("eve", "evil"), ("bob", "bobs")):
        await shared.key(name, org=org)
    limit = {"requests": 1, "window": "1d", "per": "all"}
    async with shared.client("eve") as eve, shared.client("bob") as bob:
        sessions = [(client, await opened(client, limits=[limit])) for client in (eve, bob)]
        for client, session in sessions:
            assert await codes(client, session, "echo", "echo") == [None, "limit_exceeded"]


@pytest.mark.spec("G36")
async def test_the_lowest_of_server_principal_and_agent_holds() -> None:
    for server, principal, agent in ((1, 2, 3), (3, 1, 2), (2, 3, 1)):
        governed = Governance(allowance=Allowance(session=Budget(calls=server)))
        async with site(governance=governed) as test_server:
            holder = Principal("kim", org="acme", allowance=Allowance(session=Budget(calls=principal)))
            _, test_server.keys["kim"] = await create_key(test_server.kernel, "kim", holder, scopes=["capset:admin"])
            async with test_server.client("kim") as kim:
                session = await opened(kim, session={"calls": agent})
                assert await codes(kim, session, "echo", "echo") == [None, "budget_exceeded"]


@pytest.mark.spec("G36", "P14")
async def test_two_keys_of_a_principal_have_allowances_of_their_own_in_one_session(shared: Site) -> None:
    for name, limits in (("narrow", ["1/1h"]), ("wide", ["5/1h"])):
        holder = Principal("kim", org="acme", allowance=Allowance(limits=limits))
        row, shared.keys[name] = await create_key(shared.kernel, name, holder, scopes=["capset:admin"])
        assert row.allowance == {"limits": limits}
    async with shared.client("narrow") as narrow, shared.client("wide") as wide:
        session = await opened(narrow)
        assert await codes(narrow, session, "echo", "echo") == [None, "limit_exceeded"]
        assert await codes(wide, session, *["echo"] * 6) == [*[None] * 5, "limit_exceeded"]


@pytest.mark.spec("G36", "P3")
async def test_an_agent_in_code_shows_its_allowance_and_has_it() -> None:
    allowance = Allowance(limits=Limit(1, "1d", per="session", scope="process"), run=Budget(cost=3))
    worker = Agent("worker", uses=[kit], allowance=allowance)
    async with site(agents=[worker]) as server, server.client() as ada:
        detail = (await ada.get("/v1/agents/worker")).json()
        limit = {"requests": 1, "window": "1d", "per": "session", "scope": "process"}
        assert said(detail["allowance"]) == {"limits": [limit], "run": {"cost": 3.0}}
        session = await opened(ada, "worker")
        assert await codes(ada, session, "echo", "echo") == [None, "limit_exceeded"]
        assert await codes(ada, await opened(ada, "worker"), "echo") == [None]


@tool(effect="write", cost=2)
async def costly() -> int:
    """Cost something."""
    return 1


@pytest.mark.spec("G36", "G15", "P10")
@pytest.mark.parametrize("scope", ["server", "agent"])
async def test_each_turn_is_a_run_with_a_budget_of_its_own(scope: str) -> None:
    allowance = {"run": {"calls": 2, "cost": 3}, "session": {"calls": 5}}
    governed = Governance(allowance=Allowance(run=Budget(2, 3), session=Budget(5)) if scope == "server" else None)
    purse = Capability("purse", tools=[costly])
    async with site(purse, generator=Parrot(), governance=governed) as server, server.client() as ada:
        created = await make_agent(ada, "kit", "purse", **({"allowance": allowance} if scope == "agent" else {}))
        session = await opened(ada, created["id"])

        async def call_in_turn(tools: str) -> list[str | None]:
            before = len(await server.records(session=session))
            await turn(ada, session, {"call": tools})
            return [record.code for record in (await server.records(session=session))[before:]]

        assert await call_in_turn("echo echo echo") == [None, None, "budget_exceeded"]
        assert await call_in_turn("costly costly echo") == [None, "budget_exceeded", None], "a turn has its own budget"
        assert await call_in_turn("echo echo") == [None, "budget_exceeded"], "the session's five calls were made"
        refused = (await server.records(session=session))[-1]
        assert (refused.outcome, "the session may make 5 calls" in (refused.reason or "")) == ("limited", True)


@pytest.mark.spec("G36", "G15")
async def test_of_many_calls_at_once_a_session_has_what_its_budget_says(asker: httpx2.AsyncClient) -> None:
    session = await opened(asker, session={"calls": 3})
    answers = await asyncio.gather(*(call(asker, session, "echo") for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 17
