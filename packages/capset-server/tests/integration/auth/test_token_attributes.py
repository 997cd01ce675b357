"""Attributes that come by claims of a token, as the operator has declared (spec 5, P32)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from capset import Capability, Request, policy, tool
from capset.errors import DefinitionError
from capset_server.auth.tokens import Issuer
from tests.helpers.server.auth.issuing import AUDIENCE, ISSUER, Issuing, issuing, token
from tests.helpers.server.support import call, make_agent, problem
from tests.helpers.server.walk import MCP_HEADERS
from tests.waiting import moment

pytestmark = pytest.mark.spec("P33")
DECLARED = {"tier": "plan.tier", "level": "level", "region": "https://acme.example/region", "beta": "plan.flags.beta"}


@policy
async def pro(request: Request) -> bool:
    await moment(0.002)  # in which others are decided
    return request.principal.attributes.get("tier") == "pro"


@tool(effect="read", policies=[pro])
async def export() -> str:
    """Export."""
    return "exported"


tiers = Capability("tiers", tools=[export])


@pytest.fixture(scope="module")
async def two() -> AsyncGenerator[Issuing]:
    """Give a site that takes two claims."""
    async with issuing(more={"attributes": {"plan.tier": "plan.tier", "level": "level"}}) as issuer:
        yield issuer


def bearer(issuer: Issuing, access_token: str) -> httpx2.AsyncClient:
    return issuer.site.client(None, headers={"Authorization": f"Bearer {access_token}"})


async def said(issuer: Issuing, **more: Any) -> dict[str, Any]:
    caller = await issuer.site.service.callers.identify(f"Bearer {token(**more)}")
    return dict(caller.principal.attributes)


async def test_declared_claims_become_attributes_and_no_others() -> None:
    async with issuing(more={"attributes": DECLARED}) as issuer:
        plan = {"tier": "pro", "seats": 9, "flags": {"beta": True, "more": [1]}}
        more = {"https://acme.example/region": "eu", "level": 3, "role": "boss", "attributes": {"tier": "gold"}}
        attributes = await said(issuer, plan=plan, **more)
        assert attributes == {"tier": "pro", "level": 3, "region": "eu", "beta": True}
        assert type(attributes["level"]) is int
        for level in (2.5, "3", False):
            assert await said(issuer, level=level) == {"level": level}
        assert await said(issuer) == {}, "what is absent is left out"
        for plan in ({}, {"flags": None}, {"tier": None, "flags": {}}):
            assert await said(issuer, plan=plan, attributes={"tier": "pro"}) == {}
        assert await issuer.status(token(plan={"level": 3})) == 200
        for whole, tier in (("pro", "pro"), (None, "free")):
            assert await said(issuer, plan={"tier": "free"}, **{"plan.tier": whole}) == {"tier": tier}
    async with issuing() as issuer:
        assert await said(issuer, tier="pro", attributes={"tier": "pro"}) == {}, "where none is declared, there is none"


WRONG: dict[str, dict[str, Any]] = {
    "an object": {"level": {"of": 3}},
    "a list": {"level": [3]},
    "a long text": {"level": "x" * 1_001},
    "a number that readers round": {"level": 2**60},
    "a text where an object is expected": {"plan": "pro"},
    "a list where an object is expected": {"plan": [{"tier": "pro"}]},
    "an object at the end of a path": {"plan": {"tier": {"of": "pro"}}},
}


@pytest.mark.spec("T23")
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_claim_of_another_type_refuses_the_token_and_the_log_says_why(
    two: Issuing, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "capset.tokens"):
        assert await two.status(token(**WRONG[wrong])) == 401
    (line,) = [record.getMessage() for record in caplog.records if record.name == "capset.tokens"]
    assert "a token was refused: its claim" in line
    assert "level" in line or "plan" in line
    assert not [content for content in ("'pro'", "x" * 20) if content in line]
    async with two.site.client(None) as client:
        nothing = problem(await client.get("/v1/agents"), 401, "unauthenticated")["detail"]
    async with bearer(two, token(**WRONG[wrong])) as client:
        assert problem(await client.get("/v1/agents"), 401, "unauthenticated")["detail"] == nothing


async def test_more_than_there_is_room_for_refuses_the_token() -> None:
    declared = {f"a{number}": f"a{number}" for number in range(6)}
    async with issuing(more={"attributes": declared}) as issuer:
        largest_claims: dict[str, Any] = dict.fromkeys(list(declared)[:4], "x" * 900)
        assert await issuer.status(token(**largest_claims)) == 200
        assert await issuer.status(token(**largest_claims, a4="x" * 900)) == 401


@pytest.mark.spec("F34", "P16")
async def test_tokens_of_one_principal_with_other_attributes_share_nothing_that_is_open() -> None:
    async with issuing(more={"attributes": DECLARED}, capabilities=[tiers]) as issuer:
        async with issuer.site.client() as ada:
            agent = (await make_agent(ada, "tiers"))["id"]
        pro, free = (token(plan={"tier": tier}) for tier in ("pro", "free"))
        async with bearer(issuer, pro) as rich, bearer(issuer, free) as poor:
            session = (await rich.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            for _ in range(3):
                answers = await asyncio.gather(*(call(client, session, "export") for client in (rich, poor) * 4))
                assert [answer.status_code for answer in answers] == [200, 403] * 4
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "export", "arguments": {}}}
            for path in (f"/mcp/agents/{agent}", f"/mcp/sessions/{session}"):
                for client, is_let_in in ((rich, True), (poor, False)) * 2:
                    response = await client.post(path, json=body, headers=MCP_HEADERS)
                    assert ("exported" in response.text) == is_let_in
            path, headers = f"/v1/sessions/{session}/calls", {"Idempotency-Key": "once"}
            assert (await rich.post(path, json={"tool": "export"}, headers=headers)).status_code == 200
            problem(await poor.post(path, json={"tool": "export"}, headers=headers), 422, "invalid_arguments")


@pytest.mark.spec("P16")
async def test_an_mcp_session_id_is_for_the_attributes_that_it_was_given_for() -> None:
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    then = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    async with issuing(more={"attributes": DECLARED}, capabilities=[tiers]) as issuer:
        async with bearer(issuer, token(plan={"tier": "pro"}, n=1)) as client:
            begun = await client.post("/mcp/agents/foreman", json=first, headers=MCP_HEADERS)
        headers = MCP_HEADERS | {"mcp-session-id": begun.headers["mcp-session-id"]}
        for tier, status in (("pro", 200), ("free", 404)):
            async with bearer(issuer, token(plan={"tier": tier}, n=2)) as client:
                assert (await client.post("/mcp/agents/foreman", json=then, headers=headers)).status_code == status


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        *(({name: "tier"}, "the name of an attribute must match") for name in ("1st", "")),
        *(({"tier": claim}, "the attribute 'tier' needs the name of a claim") for claim in ("", " ", 5)),
        ({f"a{number}": "a" for number in range(33)}, "attributes are at most 32; got claims for 33"),
    ],
)
def test_a_mapping_is_of_names_to_claims(attributes: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(Issuer(ISSUER, AUDIENCE, "https://login.example.com/jwks"), attributes=attributes)


def test_an_issuer_keeps_its_mapping() -> None:
    mapping = {"tier": "plan.tier"}
    issuer = Issuer(ISSUER, AUDIENCE, "https://login.example.com/jwks", attributes=mapping)
    mapping["tier"] = "other"
    assert issuer.attributes == {"tier": "plan.tier"}
    assert {issuer, replace(issuer)} == {issuer}
