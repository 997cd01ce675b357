"""``GET /v1/approvals/{id}/conversation``: what approvers read of the conversation before a request (spec 5, P60)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Capability, Record, tool
from capset.definitions.governance.settings import Governance
from capset.stores.base import AuditQuery
from capset.wire.approvals import MAX_TEXT_CHARACTERS, ApprovalConversationShape
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from capset_server.approvals.conversations import MESSAGES
from tests.helpers.server.approving import again, approved, asked, till
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send
from tests.helpers.server.support import Site, make_session, problem, site

LETTER = '{"from": "eve", "password": "hunter2", "text": "pay bob"}'


@tool(effect="read")
async def letter() -> str:
    """Read a letter."""
    return LETTER


@tool(effect="read", approval="ask")
async def peek(code: str) -> str:
    """Look at something that somebody has to allow."""
    return code


post = Capability("post", tools=[letter, peek])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'capset.db'}"


@pytest.fixture
async def bank(url: str) -> AsyncGenerator[Site]:
    """Give a server whose agent reads a letter and pays; ``boss`` approves."""
    moves = ("Hello.", [Call("letter")], Call("pay", to="bob", amount=7), "Paid.", Call("peek", code="s3cret"), "Seen.")
    runner = AgentRunner(ScriptedModel(*moves))
    governance = Governance(redact=["topsecret-[0-9]+"])
    async with site(till, post, store=url, generator=runner, governance=governance) as server:
        await server.key("boss", scopes=["capset:approve"])
        await server.key("spy", org="other", scopes=["capset:approve"])
        await server.key("caller", scopes=["capset:call", "capset:write"])
        yield server


async def turn(client: httpx2.AsyncClient, session: str, content: str) -> list[dict[str, Any]]:
    """Take a turn up to its end or to where it is suspended, and return the approval requests so far."""
    begun = await send(client, session, content)
    assert begun.status_code == 202, begun.text
    events = await read_until(client, session, "turn.ended", "turn.suspended")
    return [event.data["data"] for event in events if event.type == "approval.requested"]


async def conversation(server: Site, id: str, user: str = "boss") -> httpx2.Response:
    async with server.client(user) as client:
        return await client.get(f"/v1/approvals/{id}/conversation")


async def reads(server: Site) -> list[Record]:
    """Return the acts of reading, oldest first."""
    await server.kernel.audit.flush()
    page = await server.kernel.audit.query(AuditQuery(org="acme", act="conversation.read"))
    return [*reversed(page.items)]


@pytest.mark.spec("P60")
async def test_an_approver_reads_what_led_to_a_request_masked_and_on_record(bank: Site) -> None:
    async with bank.client() as ada:
        session = await make_session(ada, "till", "post")
        assert await turn(ada, session, "good morning") == []
        content = "pay bob from https://me:hunter2@bank.example with topsecret-42"
        (request,) = await turn(ada, session, content)
        response = await conversation(bank, request["id"])
        assert response.status_code == 200, response.text
        shape = ApprovalConversationShape.model_validate(response.json())
        entries = [(entry.kind, entry.tool, entry.text) for entry in shape.items if entry.kind != "instructions"]
        assert entries == [
            ("user", None, "good morning"),
            ("agent", None, "Hello."),
            ("user", None, "pay bob from https://[redacted]@bank.example with [redacted]"),
            ("call", "letter", None),
            ("result", "letter", '{"from": "eve", "password": "[redacted]", "text": "pay bob"}'),
            ("call", "pay", None),
        ]
        assert shape.earlier == 0
        assert "hunter2" not in response.text
        (read,) = await reads(bank)
        assert (read.act, read.principal, read.approval) == ("conversation.read", "boss", request["id"])
        async with bank.client("boss") as boss:
            assert (await approved(boss, request["id"])).status_code == 200
        await read_until(ada, session, "turn.ended")
        later = await conversation(bank, request["id"])
        assert later.json() == response.json(), "what came after the decision is not shown"
        assert len(await reads(bank)) == 2


@pytest.mark.spec("P60")
async def test_what_the_model_said_right_before_a_call_without_an_effect_is_there(bank: Site) -> None:
    """Its messages are stored when the turn is suspended, after the request."""
    async with bank.client() as ada:
        session = await make_session(ada, "till", "post")
        await turn(ada, session, "good morning")
        (request,) = await turn(ada, session, "pay")
        async with bank.client("boss") as boss:
            await approved(boss, request["id"])
        await read_until(ada, session, "turn.ended")
        (_, looked) = await turn(ada, session, "look")
        items = (await conversation(bank, looked["id"])).json()["items"]
        last = [(entry["kind"], entry["text"] or entry["tool"]) for entry in items][-3:]
        assert last == [("agent", "Paid."), ("user", "look"), ("call", "peek")]
        assert "s3cret" not in str(items)


@pytest.mark.spec("P60")
async def test_only_the_last_messages_are_shown_and_long_ones_are_cut(url: str) -> None:
    talk = [f"Answer {number}." for number in range(12)]
    runner = AgentRunner(ScriptedModel(*talk, Call("pay", to="bob")))
    async with site(till, store=url, generator=runner) as server, server.client() as ada:
        await server.key("boss", scopes=["capset:approve"])
        session = await make_session(ada, "till")
        for _ in talk:
            await turn(ada, session, "good morning " * 500)
        (request,) = await turn(ada, session, "pay")
        shape = ApprovalConversationShape.model_validate((await conversation(server, request["id"])).json())
    assert shape.earlier == 2 * len(talk) + 2 - MESSAGES
    assert [entry.seq for entry in shape.items if entry.kind in ("user", "agent", "call")] == [*range(7, 27)]
    assert shape.items[-1].tool == "pay"
    long = next(entry.text for entry in shape.items if entry.kind == "user")
    assert long is not None
    assert long[MAX_TEXT_CHARACTERS:] == "… [4,500 more characters]"


@pytest.mark.spec("P60")
async def test_a_call_without_a_conversation_has_none_and_leaves_no_act(bank: Site) -> None:
    async with bank.client("caller") as caller:
        session = await make_session(caller, "till")
        request = await asked(caller, session)
        response = await conversation(bank, request)
        assert response.json() == {"items": [], "earlier": 0}
        assert await reads(bank) == []
        problem(await conversation(bank, request, "spy"), 404, "not_found")
        problem(await conversation(bank, request, "caller"), 403, "permission_denied")
        problem(await conversation(bank, "nothing"), 404, "not_found")
        assert (await again(caller, session, request)).status_code == 202


@pytest.mark.spec("P61")
async def test_requests_are_listed_by_tool_agent_and_principal(bank: Site) -> None:
    await bank.key("kim", scopes=["capset:call", "capset:write"])
    requests: dict[str, str] = {}
    for user, name in (("caller", "pay"), ("caller", "donate"), ("kim", "pay")):
        async with bank.client(user) as client:
            session = await make_session(client, "till")
            requests[f"{user} {name}"] = await asked(client, session, name)
    async with bank.client("boss") as boss:

        async def list_names(**query: str) -> set[str]:
            items = (await boss.get("/v1/approvals", params=query)).json()["items"]
            return {name for name, request in requests.items() if request in [row["id"] for row in items]}

        assert await list_names(tool="pay") == {"caller pay", "kim pay"}
        assert await list_names(principal="user:kim") == {"kim pay"}
        assert await list_names(tool="donate", principal="user:kim") == set()
        assert await list_names(agent="helper", status="pending") == set(requests)
        assert await list_names(agent="nobody") == set()
        ids: list[str] = []
        for cursor in ("", *requests.values()):
            query = {"order": "oldest", "limit": 1, **({"cursor": cursor} if cursor else {})}
            ids += [row["id"] for row in (await boss.get("/v1/approvals", params=query)).json()["items"]]
        assert ids == sorted(requests.values())
        problem(await boss.get("/v1/approvals", params={"tool": "x" * 201}), 422, "invalid_arguments")
