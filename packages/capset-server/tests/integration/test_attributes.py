"""Attributes of callers: from keys, by every door, each call by its own, and never from a request (spec 5, P32)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from capset import Capability, Decision, Kernel, Principal, Request, allow, deny, policy, tool
from capset.errors import DefinitionError
from capset.ext import Governance
from capset.fingerprint.canonical import canonical
from capset_server.auth.keys import create_key
from tests.helpers.server.approving import donate, pay
from tests.helpers.server.mcp.support import text_of
from tests.helpers.server.runners import Parrot
from tests.helpers.server.sse import events_of
from tests.helpers.server.support import Site, call, make_agent, problem, site
from tests.helpers.server.town import belongings
from tests.helpers.server.walk import ADMINISTERED, MCP_HEADERS, steps
from tests.waiting import moment

pytestmark = pytest.mark.spec("P33")
SEEN: list[Request] = []
TIERS = ("pro", "free", "none")
Door = Literal["rest", "sse", "mcp session", "mcp agent", "mcp agent of old"]


@policy
async def pro(request: Request) -> Decision:
    """Let the tier pro through, after a moment in which others are decided."""
    SEEN.append(request)
    await moment(0.002)
    tier = request.principal.attributes.get("tier")
    return allow() if tier == "pro" else deny(f"this needs the tier pro, not {tier}")


pro_at_first = policy("pro_at_first", pro.evaluate, binding="snapshot")


@tool(effect="read", policies=[pro])
async def export(text: str = "") -> str:
    """Export."""
    return "exported"


@tool(effect="read", policies=[pro_at_first])
async def archive() -> str:
    """Export as it was decided when the session was opened."""
    return "archived"


tiers = Capability("tiers", description="What tiers may do.", tools=[export, archive])


@pytest.fixture(autouse=True)
def nobody_was_seen_yet() -> None:
    SEEN.clear()


@asynccontextmanager
async def opened(**more: Any) -> AsyncGenerator[tuple[Site, str, str]]:
    """Give a site where ``ada`` has a key of each tier, with one agent and one session of hers."""
    async with site(tiers, **more) as server:
        for tier in TIERS:
            await server.key(tier, principal="ada", attributes=None if tier == "none" else {"tier": tier, "level": 3})
        async with server.client() as ada:
            agent = (await make_agent(ada, "tiers"))["id"]
            session = (await ada.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
        yield server, agent, session


def said(server: Site, attributes: Mapping[str, Any] | None) -> str | None:
    """Return the keyed digest of attributes, as a record has it."""
    return None if attributes is None else server.kernel._open_runtime().digest(canonical(attributes))


async def through(door: Door, server: Site, tier: str, agent: str, session: str, name: str) -> tuple[bool, str]:
    """Call a tool by a door with the key of a tier; return whether it went through, and what was told."""
    async with server.client(tier) as client:
        if door == "rest":
            answer = (await call(client, session, name)).json()
            return answer["success"], json.dumps(answer)
        if door == "sse":
            body, headers = {"tool": name, "arguments": {}}, {"Accept": "text/event-stream"}
            streamed = await client.post(f"/v1/sessions/{session}/calls", json=body, headers=headers)
            answer = events_of(streamed.text)[-1].data
            return answer["success"], json.dumps(answer)
    path = f"/mcp/sessions/{session}" if door == "mcp session" else f"/mcp/agents/{agent}"
    result = await by_mcp(server, tier, path, name, of_old=door == "mcp agent of old")
    return not result.is_error, text_of(result)


async def by_mcp(server: Site, tier: str, path: str, name: str, *, of_old: bool) -> CallToolResult:
    headers = {"Authorization": f"Bearer {server.keys[tier]}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}{path}", http_client=http)
        async with McpClient(transport, mode="legacy" if of_old else "auto") as client:
            return await client.call_tool(name, {})


@pytest.mark.spec("F34", "P16")
@pytest.mark.parametrize("door", ["rest", "sse", "mcp session", "mcp agent", "mcp agent of old"])
@pytest.mark.parametrize("name", ["export", "archive"])
async def test_each_call_is_decided_by_the_attributes_of_its_own_key(door: Door, name: str) -> None:
    """Keys of one principal use one session at the same time, which is kept open for each of them."""
    async with opened() as (server, agent, session):
        order = [*TIERS, *reversed(TIERS), *TIERS]
        answers = await asyncio.gather(*(through(door, server, tier, agent, session, name) for tier in order))
        for tier, (went, text) in zip(order, answers, strict=True):
            assert went is (tier == "pro"), (tier, text)
            assert went or f"not {None if tier == 'none' else tier}" in text
        records = await server.records(tool=name)
        assert len(records) == len(order)
        assert len({record.session for record in records}) == 1, "one session is kept"
        digests = {tier: said(server, None if tier == "none" else {"tier": tier, "level": 3}) for tier in TIERS}
        by_outcome = {(record.attributes_digest, record.outcome) for record in records}
        assert by_outcome == {(digests["pro"], "succeeded"), (digests["free"], "denied"), (digests["none"], "denied")}


@pytest.mark.spec("F34")
async def test_a_list_of_tools_is_that_of_the_key() -> None:
    async with opened() as (server, agent, session):
        tool_names: dict[str, set[str]] = {}
        for tier in ("pro", "free"):
            async with server.client(tier) as client:
                tools = (await client.get(f"/v1/sessions/{session}/snapshot")).json()["tools"]
                tool_names[f"rest {tier}"] = {tool["name"] for tool in tools if tool["in_play"]}
                body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
                response = await client.post(f"/mcp/agents/{agent}", json=body, headers=MCP_HEADERS)
                tool_names[f"mcp {tier}"] = {
                    name for name in ("export", "archive") if f'"name":"{name}"' in response.text
                }
        both = {"export", "archive"}
        assert tool_names == {"rest pro": both, "mcp pro": both, "rest free": set(), "mcp free": set()}


@pytest.mark.spec("P9")
async def test_an_answer_that_is_kept_is_for_the_same_attributes() -> None:
    async with opened() as (server, _, session):
        options: dict[str, Any] = {"json": {"tool": "export", "arguments": {}}, "headers": {"Idempotency-Key": "once"}}
        path = f"/v1/sessions/{session}/calls"
        async with server.client("pro") as client:
            assert (await client.post(path, **options)).json()["data"] == "exported"
            assert (await client.post(path, **options)).headers["Idempotent-Replayed"] == "true"
        for tier in ("free", "none"):
            async with server.client(tier) as client:
                answer = await client.post(path, **options)
                assert "another request" in problem(answer, 422, "invalid_arguments")["detail"]


CLAIMED: dict[str, Any] = {"tier": "pro", "level": 9}
MEMBERS: dict[str, Any] = {
    "attributes": CLAIMED,
    "principal": {"id": "ada", "attributes": CLAIMED},
    "on_behalf_of_attributes": [CLAIMED],
    "env": {"tier": "pro"},
    "_meta": {"attributes": CLAIMED, "dev.capset/attributes": CLAIMED},
}
HEADERS = {
    "X-Attributes": json.dumps(CLAIMED),
    "X-Capset-Attributes": json.dumps(CLAIMED),
    "Capset-Attribute-Tier": "pro",
    "Attributes": "tier=pro",
    "X-Forwarded-User": "ada; tier=pro",
    "Baggage": "tier=pro,attributes=%7B%22tier%22%3A%22pro%22%7D",
    "Cookie": "tier=pro; attributes=tier%3Dpro",
}


def with_claims(body: Any) -> list[dict[str, Any]]:  # JSON
    """Return a body with each claim where a server might look for it; of MCP, in the parameters."""
    match body:
        case {"params": dict(params)}:
            return [{**body, "params": {**params, name: value}} for name, value in MEMBERS.items()]
        case dict():
            return [{**body, name: value} for name, value in MEMBERS.items()]
        case _:
            return []


@pytest.mark.nightly
@pytest.mark.spec("F16", "F34", "T1")
async def test_no_request_says_anything_of_who_sends_it() -> None:
    """Every operation of the API and of MCP, with attributes wherever they could stand."""
    watched = Capability("till", tools=[pay, donate], policies=[watch])
    site_of: dict[str, Any] = {"governance": Governance(own_approvals=True), "generator": Parrot()}
    async with site(watched, **site_of) as server:
        await server.key("ada", attributes={"tier": "free"})
        async with server.client(headers=HEADERS) as client:
            ada = await belongings(client, "a secret")
            document = (await client.get("/openapi.json")).json()
            refused = dict[str, int]()
            for step in steps(document, ada):
                options = dict(step.options)
                params = {**options.pop("params", {}), "attributes": "tier=pro", "tier": "pro"}
                await client.request(step.method, step.path, params=params, **options)
                for body in with_claims(options.pop("json", None)):
                    answer = await client.request(step.method, step.path, json=body, **options)
                    refused[step.name] = answer.status_code
                if step.name not in ("delete_file", "delete_session", "archive_agent"):
                    await step.take(client)
            for name, status in refused.items():
                expected = 200 if name.startswith("mcp") else 403 if name in ADMINISTERED else 422
                assert status == expected, (name, status)
            assert len(refused) > 12, "every operation with a body was asked"
        assert {
            (json.dumps(dict(request.principal.attributes)), request.principal.on_behalf_of_attributes)
            for request in SEEN
        } == {('{"tier": "free"}', ())}
        assert {json.dumps(dict(request.env)) for request in SEEN} == {"{}"}
        assert {record.attributes_digest for record in await server.records()} == {said(server, {"tier": "free"})}
        lineage = server.kernel.store.lineage
        envelope = await lineage.envelope("acme", ada.envelope)
        assert envelope is not None
        principal = json.loads(envelope.body)["runtime"]["toolkit_context"]["principal"]
        assert principal["attributes"] == {"tier": "free"}


@policy
def watch(request: Request) -> bool:
    """Note what policies are shown, and let everything through."""
    SEEN.append(request)
    return True


@pytest.mark.spec("F16", "F34")
@pytest.mark.parametrize("door", ["rest", "sse", "mcp"])
async def test_a_call_that_claims_a_tier_is_decided_without(door: str) -> None:
    async with opened() as (server, agent, session):
        async with server.client("free", headers=HEADERS) as client:
            path, headers = f"/v1/sessions/{session}/calls", {"Accept": "text/event-stream"} if door == "sse" else {}
            for member, value in MEMBERS.items() if door != "mcp" else ():
                body = {"tool": "export", "arguments": {}, member: value}
                problem(await client.post(path, json=body, headers=headers), 422, "invalid_arguments")
                reply = (await client.post(path, json={"tool": "export", "arguments": {member: value}})).json()
                assert reply["error"]["code"] in ("invalid_arguments", "permission_denied")
            for member, value in MEMBERS.items() if door == "mcp" else ():
                params = {"name": "export", "arguments": {}, "_meta": {}, member: value}
                body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
                for where in (f"/mcp/agents/{agent}", f"/mcp/sessions/{session}"):
                    answer = await client.post(where, json=body, headers=MCP_HEADERS)
                    assert "this needs the tier pro, not free" in answer.text
        assert SEEN
        assert {json.dumps(dict(request.principal.attributes)) for request in SEEN} == {'{"level": 3, "tier": "free"}'}
        assert not [record for record in await server.records() if record.outcome == "succeeded"]


@pytest.mark.spec("F27", "F34", "T16")
async def test_an_envelope_keeps_neither_secrets_nor_what_the_hosts_patterns_match() -> None:
    async with opened(governance=Governance(redact=["hush-[0-9]+"])) as (server, agent, _):
        hidden = {"tier": "pro", "api_key": "an-api-key", "plan": "hush-1234"}
        await server.key("rich", principal="ada", attributes=hidden)
        async with server.client("rich") as client:
            session = (await client.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            assert (await call(client, session, "export")).json()["success"]
            link = (await client.post("/v1/links", json={"session_id": session})).json()
            response = await client.get(f"/v1/links/{link['id']}/envelope")
            for text in ("an-api-key", "hush-1234"):
                assert text not in response.text
                assert text not in (await client.get(f"/v1/sessions/{session}/snapshot")).text
                assert text not in (await client.get("/v1/audit")).text
            principal = response.json()["envelope"]["runtime"]["toolkit_context"]["principal"]
        assert principal["attributes"] == {"tier": "pro"}
        assert principal["dropped"] == ["attributes.api_key", "attributes.plan"]


@pytest.mark.parametrize("principal", [Principal("bot").acting_for(Principal("ada", attributes={"tier": "pro"}))])
async def test_a_key_tells_nothing_of_others(principal: Principal) -> None:
    async with Kernel("memory://") as kernel:
        with pytest.raises(DefinitionError, match="that acts for itself"):
            await create_key(kernel, "key", principal)
        assert await kernel.store.keys.list() == []
