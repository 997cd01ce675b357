"""Turns of agents whose model follows a script: suspended for approvals, continued by any server, cancelled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Principal
from capset.ext import Allowance
from capset.stores.base import AuditQuery
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call, ScriptStep
from capset_agents.runner import AgentRunner
from capset_server.auth.keys import create_key
from tests.helpers.server.approving import till
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import events, send
from tests.helpers.server.runners import Parrot
from tests.helpers.server.support import Site, make_agent, make_session, problem, site

PAYS = (Call("pay", to="bob", amount=7), "Paid.")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'capset.db'}"


def runner(*moves: Call | str | ScriptStep) -> AgentRunner:
    """Return a runner whose model follows a script."""
    return AgentRunner(ScriptedModel(*moves))


@pytest.fixture
async def bank(url: str) -> AsyncGenerator[Site]:
    """Give a server whose agent pays once it may; ``boss`` approves."""
    async with site(till, store=url, generator=runner(*PAYS)) as server:
        await server.key("boss", scopes=["capset:approve"])
        yield server


async def begin(client: httpx2.AsyncClient, content: str = "pay bob") -> tuple[str, str]:
    """Begin a turn of a new session, and return the ids of both."""
    session = await make_session(client, "till")
    begun = await send(client, session, content)
    assert begun.status_code == 202, begun.text
    return session, begun.json()["turn"]


async def suspended(client: httpx2.AsyncClient) -> tuple[str, str, dict[str, Any]]:
    """Begin a turn and wait for its request; return the ids of the session and the turn, and the request."""
    session, turn = await begin(client)
    return session, turn, (await read_until(client, session, "turn.suspended"))[-2].data["data"]


async def approve(server: Site, request: dict[str, Any]) -> None:
    """Have the boss approve a request."""
    async with server.client("boss") as boss:
        decided = await boss.post(f"/v1/approvals/{request['id']}/approve", json={})
        assert decided.status_code == 200, decided.text


@pytest.mark.spec("R24")
async def test_keys_and_stored_agents_limit_what_every_server_of_a_database_uses_of_models(url: str) -> None:
    answers = [ScriptStep(text="Hi.")] * 9
    async with (
        site(till, store=url, generator=runner(*answers)) as server,
        site(till, store=url, generator=runner(*answers)) as replica,
    ):
        kim = Principal("kim", org="acme", allowance=Allowance(usage="steps=2/1h"))
        _, server.keys["kim"] = await create_key(server.kernel, "kim", kim, scopes=["capset:admin"])
        await server.key("bob")
        replica.keys = server.keys
        async with server.client("kim") as first_client, replica.client("kim") as two, replica.client("bob") as bob:
            agent = await make_agent(first_client, "till", allowance={"usage": ["steps=3/1h per org"]})
            assert agent["allowance"]["usage"] == [{"steps": 3, "window": "1h", "per": "org"}]
            errors: list[str | None] = []
            for client in (first_client, two, first_client, bob, bob):
                session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
                await send(client, session, "hi")
                last = (await read_until(client, session, "turn.ended", "turn.failed"))[-1].data["data"]
                errors.append(last.get("error", {}).get("message"))
    own_error = "Budget exceeded: this principal may use 2 steps within 1h, and has used 2."
    org_error = "Budget exceeded: this organisation with the agent 'helper' may use 3 steps within 1h, and has used 3."
    assert errors == [None, None, own_error, None, org_error]


@pytest.mark.spec("P10", "R15")
async def test_a_turn_waits_for_its_approval_and_goes_on(bank: Site) -> None:
    async with bank.client() as ada:
        session, turn, request = await suspended(ada)
        assert (request["tool"], request["arguments"]) == ("pay", {"to": "bob", "amount": 7})
        refused = problem(await send(ada, session, "faster"), 409, "turn_suspended")
        assert request["id"] in refused["detail"]
        problem(await ada.post(f"/v1/sessions/{session}/turns/{turn}/resume"), 409, "turn_suspended")
        rewound = await ada.post(f"/v1/sessions/{session}/rewind", json={"turn": turn})
        assert rewound.status_code == 409, rewound.text
        await approve(bank, request)
        assert (await read_until(ada, session, "turn.ended"))[-1].data["data"] == {"output": "Paid."}
        conversation = (await ada.get(f"/v1/sessions/{session}/messages")).json()
        kinds = [item["message"]["kind"] for item in conversation["items"]]
        assert (kinds, conversation["next"]) == (["request", "response", "request", "response"], None)
        page = (await ada.get(f"/v1/sessions/{session}/messages", params={"limit": 3})).json()
        assert (len(page["items"]), page["total"], page["next"]) == (3, 4, 3)


@pytest.mark.spec("R7", "P39")
async def test_another_server_goes_on_with_a_suspended_turn(bank: Site, url: str) -> None:
    async with bank.client() as ada:
        session, _, request = await suspended(ada)
    async with site(till, store=url, generator=runner(*PAYS)) as other:
        other.keys |= bank.keys
        await approve(other, request)
        async with other.client("ada") as ada, bank.client() as bank_client:
            turn_events = await read_until(bank_client, session, "turn.ended")
            assert [event.type for event in turn_events].count("turn.resumed") == 1
            assert (await events(ada, session)) == turn_events


@pytest.mark.spec("R8", "T39")
async def test_a_key_that_was_revoked_does_not_go_on(bank: Site) -> None:
    async with bank.client() as ada:
        session, _, request = await suspended(ada)
        keys = bank.kernel.store.keys
        (row,) = [key for key in await keys.list() if key.name == "ada"]
        await bank.key("ada", principal="ada")
        await keys.revoke(row.id, bank.kernel.now())
        await approve(bank, request)
    async with bank.client() as ada:
        error = (await read_until(ada, session, "turn.failed"))[-1].data["data"]["error"]
        assert error["code"] == "unauthenticated"


@pytest.mark.spec("R8", "G54")
async def test_a_running_turn_ends_once_its_key_is_revoked(url: str) -> None:
    parrot = Parrot()
    async with site(till, store=url, generator=parrot) as server, server.client() as ada:
        session = await make_session(ada, "till")
        assert (await send(ada, session, {"wait": True})).status_code == 202
        await parrot.started.wait()
        (row,) = await server.kernel.store.keys.list()
        await server.key("again", principal="ada")
        await server.kernel.store.keys.revoke(row.id, server.kernel.now())
        async with server.client("again") as renewed_client:
            turn_events = await read_until(renewed_client, session, "turn.failed")
        assert (turn_events[-1].data["data"]["error"]["code"], parrot.cut) == ("unauthenticated", 1)


@pytest.mark.spec("P10")
async def test_a_turn_that_waits_can_be_cancelled(bank: Site) -> None:
    async with bank.client() as ada:
        session, turn, _ = await suspended(ada)
        path = f"/v1/sessions/{session}/turns/{turn}/cancel"
        await bank.key("eve")
        async with bank.client("eve") as eve:
            problem(await eve.post(path), 404, "not_found")
        assert (await ada.post(path)).status_code == 204
        turn_events = await events(ada, session)
        assert (turn_events[-1].type, turn_events[-1].data["data"]) == ("turn.cancelled", {"by": "user:ada"})
        for gone in (path, f"/v1/sessions/{session}/turns/{turn}/resume"):
            problem(await ada.post(gone), 404, "not_found")


@pytest.mark.spec("R15", "P7")
async def test_a_conversation_is_forked_and_rewound_to_a_turn_until_its_agent_is_archived(url: str) -> None:
    async with site(till, store=url, generator=runner("One.", "Two.", "Three.")) as server, server.client() as ada:
        session, first = await begin(ada, "one")
        await read_until(ada, session, "turn.ended")
        second = (await send(ada, session, "two")).json()["turn"]
        await read_until(ada, session, "turn.ended")
        path = f"/v1/sessions/{session}"

        async def texts_of(session_id: str) -> list[str]:
            items = (await ada.get(f"/v1/sessions/{session_id}/messages")).json()["items"]
            return [item["message"]["parts"][0]["content"] for item in items]

        forked = (await ada.post(f"{path}/fork", json={"turn": first})).json()
        assert await texts_of(forked["id"]) == ["one", "One."]
        full_fork = (await ada.post(f"{path}/fork", json={})).json()
        assert await texts_of(full_fork["id"]) == ["one", "One.", "two", "Two."]
        assert (await ada.post(f"{path}/rewind", json={"turn": second})).json() == {"removed": 2}
        assert await texts_of(session) == ["one", "One."]
        problem(await ada.post(f"{path}/rewind", json={"turn": second}), 404, "not_found")
        problem(await ada.post(f"{path}/fork", json={"turn": "none"}), 404, "not_found")
        await send(ada, forked["id"], "and now?")
        assert (await read_until(ada, forked["id"], "turn.ended"))[-1].data["data"] == {"output": "Two."}
        page = await server.kernel.audit.query(AuditQuery(act="session.rewind", kind="act"))
        assert [(act.session, act.principal) for act in page.items] == [(session, "ada")]
        agent = (await ada.get(path)).json()["agent_id"]
        assert (await ada.delete(f"/v1/agents/{agent}")).status_code == 204
        problem(await ada.post(f"{path}/fork", json={}), 409, "conflict")
        assert (await ada.get(path)).status_code == 200, "that of an archived agent can still be read"
        assert "archived" in problem(await send(ada, session, "more"), 403, "permission_denied")["detail"]


@pytest.mark.spec("R2")
async def test_a_model_that_is_not_allowed_is_named(bank: Site) -> None:
    async with bank.client() as ada:
        agent = await make_agent(ada, "till", model="openai:expensive")
        session = (await ada.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
        await send(ada, session, "hello")
        error = (await read_until(ada, session, "turn.failed"))[-1].data["data"]["error"]
        assert (error["code"], "openai:expensive" in error["message"]) == ("model_unavailable", True)
