"""What a session was made for, and what it shows of its data (spec 5, P8, P11)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
import pytest
from pydantic import BaseModel

from capset import Capability, Context, Decision, Request, Resource, allow, deny, policy, tool
from capset.fingerprint.hashes import invocation_hash
from tests.helpers.server.support import Site, call, make_agent, problem, site

TICKET = {"tenant": "acme", "ticket": 7}


class Progress(BaseModel):
    """How far a session is; the pin is nobody's business."""

    done: int = 0
    pin: str = "1234"


hints = Resource("hints", list[str], scope="user", default=list)
diary = Resource("diary", str, scope="session", default=lambda: "dear diary")


@tool(effect="write")
async def work(ctx: Context, hint: str) -> None:
    """Do some work."""
    await ctx.state(Progress).increment("done")
    await ctx.resource(hints).push(hint)


@policy
async def for_tenants(request: Request) -> Decision:
    """Let nobody in whom the environment does not name."""
    return allow() if "tenant" in request.env else deny("no tenant in the environment")


@tool(effect="read", policies=[for_tenants])
async def vault() -> str:
    """Look into the vault."""
    return "gold"


bench = Capability(
    "bench",
    tools=[work, vault],
    resources=[hints, diary],
    state={"session": Progress},
    expose=["done", "hints"],
)


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    """Give a server with a bench."""
    async with site(bench) as server:
        yield server


async def of_bench(client: httpx2.AsyncClient, **more: object) -> str:
    """Make a session of an agent with a bench."""
    agent = await make_agent(client, "bench")
    response = await client.post("/v1/sessions", json={"agent_id": agent["id"], **more})
    assert response.status_code == 201, response.text
    return response.json()["id"]


@pytest.mark.spec("P11", "C36")
async def test_only_what_is_exposed_can_be_read(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await of_bench(asker)
    assert (await call(asker, session, "work", hint="lift")).json()["success"]
    response = await asker.get(f"/v1/sessions/{session}/state")
    assert response.status_code == 200
    assert response.json() == {"session": {"done": 1}, "user": {"hints": ["lift"]}}
    await shared.key("bob")
    async with shared.client("bob") as bob:
        problem(await bob.get(f"/v1/sessions/{session}/state"), 404, "not_found")
        assert (await bob.get(f"/v1/sessions/{await of_bench(bob)}/state")).json()["user"] == {"hints": []}


@pytest.mark.spec("P11")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST", "DELETE"])
async def test_state_is_read_only(asker: httpx2.AsyncClient, method: str) -> None:
    path = f"/v1/sessions/{await of_bench(asker)}/state"
    answer = await asker.request(method, path, json={"session": {"done": 9}})
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET"


@pytest.mark.spec("P8", "F9", "F14")
async def test_of_an_invocation_the_hash_alone_is_kept(shared: Site, asker: httpx2.AsyncClient) -> None:
    agent = await make_agent(asker, "bench")
    session = (await asker.post("/v1/sessions", json={"agent_id": agent["id"], "invocation": TICKET})).json()
    hashed = invocation_hash(TICKET)
    assert session["invocation_hash"] == hashed
    session_row = await shared.kernel.store.sessions.get(session["id"])
    assert session_row is not None
    assert "acme" not in (session_row.definition, session_row.context, session_row.invocation_hash)
    assert (await asker.get(f"/v1/sessions/{session['id']}/snapshot")).json()["invocation_hash"] == hashed
    link = (await asker.post("/v1/links", json={"session_id": session["id"]})).json()
    assert link["invocation_hash"] == hashed
    other = {"session_id": session["id"], "invocation": {"tenant": "evil"}}
    assert (await asker.post("/v1/links", json=other)).json()["invocation_hash"] == invocation_hash({"tenant": "evil"})


@pytest.mark.spec("P8")
async def test_links_carry_a_sessions_context(asker: httpx2.AsyncClient) -> None:
    session = await of_bench(asker, context={"ticket": 7, "from": "session", "none": None})
    session_body = (await asker.get(f"/v1/sessions/{session}")).json()
    assert session_body["context"] == {"ticket": 7, "from": "session", "none": None}
    body = {"session_id": session, "context": {"from": "link"}}
    link = (await asker.post("/v1/links", json=body)).json()["id"]
    envelope = (await asker.get(f"/v1/links/{link}/envelope")).json()["envelope"]
    assert envelope["context"] == {"ticket": 7, "from": "link", "none": None}


@pytest.mark.spec("P8", "F16")
async def test_policies_see_neither(asker: httpx2.AsyncClient) -> None:
    session = await of_bench(asker, invocation=TICKET, context=TICKET)
    refused = await call(asker, session, "vault")
    assert refused.status_code == 403
    assert "no tenant" in refused.json()["error"]["message"]


@pytest.mark.spec("P8")
@pytest.mark.parametrize(
    "more",
    [
        {"invocation": []},
        {"context": "x"},
        {"context": {"password": "hunter2"}},
        {"context": {"long": "x" * 70_000}},
    ],
    ids=["an invocation that is no object", "no object", "a secret", "too long"],
)
async def test_what_cannot_be_kept_is_refused(asker: httpx2.AsyncClient, more: dict[str, object]) -> None:
    agent = await make_agent(asker, "bench")
    body = problem(await asker.post("/v1/sessions", json={"agent_id": agent["id"], **more}), 422, "invalid_arguments")
    assert "hunter2" not in str(body)
