"""Credentials of APIs: where they go, and where they do not (spec 7, M9)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from capset.errors import DefinitionError, ToolError
from capset.stores.base import ApprovalQuery
from capset_connect.client_credentials import ClientCredentials
from capset_connect.openapi import OpenApi, OpenApiClient
from tests.helpers.connect.openapi.support import (
    ADA,
    There,
    declared,
    document,
    echo,
    no_secret,
    opened,
    pets,
    serving,
    things,
)
from tests.helpers.kernel.support import records_of


@pytest.mark.spec("M9")
@pytest.mark.parametrize(
    ("scheme", "credential", "header", "sent"),
    [
        ("key", "${TOKEN}", "x-key", "s3cret-value"),
        ("bearer", "${TOKEN}", "authorization", "Bearer s3cret-value"),
        ("oauth", "${TOKEN}", "authorization", "Bearer s3cret-value"),
        ("basic", "ada:${TOKEN}", "authorization", "Basic YWRhOnMzY3JldC12YWx1ZQ=="),
        ("baked", "${TOKEN}", "cookie", "sid=s3cret-value"),
    ],
)
async def test_credentials_go_where_the_document_says_and_not_back(
    scheme: str, credential: str, header: str, sent: str
) -> None:
    data = document(security=[{"tls": []}, {scheme: []}])
    async with serving(echo()) as upstream:
        api = things(upstream, data, credentials={scheme: credential})
        async with opened(api, secrets={"TOKEN": "s3cret-value"}) as site:
            answer = await site.call("things_find")
            assert upstream.last.headers[header] == sent
            assert "[redacted]" in answer["headers"][header]
            assert "s3cret" not in json.dumps(answer)
            assert "s3cret" not in str(await records_of(site.kernel.audit))
        async with opened(api) as site:
            with pytest.raises(ToolError, match=r"the secret 'TOKEN', which is not set"):
                await site.call("things_find")
    assert len(upstream.got) == 1


@pytest.mark.spec("M9")
async def test_keys_in_queries_and_alternatives() -> None:
    data = document(
        security=[{"key": [], "asked": []}, {"bearer": []}],
        parameters=[{"in": "query", "name": "key", "schema": {"type": "string"}}],
    )
    async with serving(echo()) as upstream:
        api = things(upstream, data, credentials={"key": "abc", "asked": "d&e"})
        async with opened(api) as site:
            assert list(site.tool("things_find").parameters) == [], "a key is no argument"
            await site.call("things_find")
            assert (upstream.last.target, upstream.last.headers["x-key"]) == ("/things?key=d%26e", "abc")
        data["paths"]["/things"]["get"]["parameters"] = [{"in": "query", "name": "any", "schema": {"type": "object"}}]
        async with opened(replace(api, document=data)) as site:
            await site.call("things_find", any={"keys": "1"})
            with pytest.raises(ToolError, match="'any' cannot be sent: it has a member with the name of a credential"):
                await site.call("things_find", any={"key": "1"})
            assert upstream.last.target == "/things?keys=1&key=d%26e"
        async with opened(things(upstream, data)) as site:
            assert list(site.capability.every_tool) == [], "without a credential it is approved only by name"
        (offer,) = await OpenApiClient(things(upstream, data), no_secret).offers()
        assert offer.problems == (
            "it needs a credential: declare one in credentials for 'asked' (apiKey) and 'key' (apiKey) or "
            "'bearer' (http)",
        )
        async with opened(things(upstream, document(security=[{"bearer": []}, {}]))) as site:
            await site.call("things_find")
            assert "authorization" not in upstream.last.headers


@pytest.mark.spec("M108", "T97")
@pytest.mark.parametrize(
    ("together", "why"),
    [
        (("basic", "bearer"), "'basic' and 'bearer' both go into its header 'authorization': declare its value in"),
        (("bearer", "oauth"), "'bearer' and 'oauth' both go into its header 'authorization'"),
        (("bearer", "named"), "'bearer' and 'named' both go into its header 'authorization'"),
        (("asked", "again"), "'again' and 'asked' both go into its query 'key'"),
    ],
)
async def test_two_credentials_for_one_place_are_refused_by_name(together: tuple[str, str], why: str) -> None:
    data = document(security=[{name: [] for name in together}])
    data["components"]["securitySchemes"] |= {
        "named": {"type": "apiKey", "in": "header", "name": "Authorization"},
        "again": {"type": "apiKey", "in": "query", "name": "key"},
    }
    credentials = dict.fromkeys(together, "a:b")
    async with serving(echo()) as upstream:
        api = things(upstream, data, credentials=credentials)
        (offer,) = await OpenApiClient(api, no_secret).offers()
        assert why in offer.problems[0]
        async with opened(api) as site:
            assert list(site.capability.every_tool) == []
        data["paths"]["/things"]["get"]["security"].append({"key": []})
        async with opened(things(upstream, data, credentials={**credentials, "key": "k"})) as site:
            await site.call("things_find")
            assert upstream.last.headers["x-key"] == "k", "the alternative is taken that can be sent"
            assert "authorization" not in upstream.last.headers


@pytest.mark.spec("M8")
@pytest.mark.parametrize("field", ["pin", "password"])
async def test_what_is_write_only_is_on_no_record(field: str) -> None:
    secret = {"type": "string", "format": "password"}
    schema = {"type": "object", "properties": {field: secret, "city": {"type": "string"}}}
    data = document()
    data["paths"]["/things"]["post"] = {
        "operationId": "make",
        "requestBody": {"content": {"application/json": {"schema": schema}}},
    }
    async with serving(echo()) as upstream, opened(things(upstream, data)) as site:
        await site.call("things_make", body={field: "1234-5678", "city": "Oslo"})
        assert json.loads(upstream.last.body)[field] == "1234-5678"
        (record,) = await records_of(site.kernel.audit, tool="things_make")
        assert "1234-5678" not in (record.arguments or "")
        assert ("Oslo" in (record.arguments or "")) is (field == "password"), "the rest too, if its name does not tell"


@pytest.mark.spec("M8", "G51", "T49")
async def test_approvers_see_all_of_a_body_but_what_is_write_only() -> None:
    secret = {"type": "string", "format": "password"}
    schema = {"type": "object", "properties": {"pin": secret, "city": {"type": "string"}}}
    data = document()
    data["paths"]["/things"]["post"] = {
        "operationId": "make",
        "requestBody": {"content": {"application/json": {"schema": schema}}},
    }
    async with serving(echo()) as upstream, opened(things(upstream, data, rules={"make": {"approval": "ask"}})) as site:
        ready = site.session.options(approvals="defer")
        await ready.try_call(site.tool("things_make"), body={"pin": "1234-5678", "city": "Oslo"})
        (row,) = (await site.kernel.approvals.list(ApprovalQuery(ADA.org))).items
        assert json.loads(row.arguments) == {"body": {"pin": "[redacted]", "city": "Oslo"}}
        assert row.unmasked is None


@dataclass
class Gate:
    """An API that takes one token, and the authorization server that gives it."""

    token: str = "token-0001"
    issued: int = 0
    refused: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if request.url.path == "/token":
            self.issued += 1
            response = JSONResponse({"access_token": self.token, "token_type": "Bearer", "expires_in": 60})
        elif request.headers.get("authorization") == f"Bearer {self.token}":
            response = JSONResponse({"body": (await request.body()).decode(), "token": self.token})
        else:
            self.refused += 1
            response = JSONResponse({"error": "invalid_token"}, 401)
        await response(scope, receive, send)


def guarded(upstream: There, scheme: str = "oauth", **options: Any) -> OpenApi:
    data = document(security=[{scheme: []}])
    data["paths"]["/things"]["post"] = {
        "operationId": "make",
        "security": [{scheme: []}],
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
    }
    return things(upstream, data, **options)


@pytest.mark.spec("M101", "M9")
@pytest.mark.parametrize("scheme", ["oauth", "bearer"])
async def test_access_tokens_are_fetched_and_fetched_again_once_when_they_are_refused(scheme: str) -> None:
    gate = Gate()
    async with serving(gate) as upstream:
        client = ClientCredentials(token_url=f"{upstream.url}/token", client_id="capset", client_secret="${THINGS}")
        async with opened(
            guarded(upstream, scheme, oauth={scheme: client}), secrets={"THINGS": "s3cret-value"}
        ) as site:
            for _ in range(2):
                assert await site.call("things_find") == {"body": "", "token": "[redacted]"}
            assert (gate.issued, gate.refused) == (1, 0)
            gate.token = "token-0002"
            answer = await site.call("things_make", body={"a": 1})
            assert (json.loads(answer["body"]), answer["token"]) == ({"a": 1}, "[redacted]")
            assert (gate.issued, gate.refused) == (2, 1)
        async with opened(guarded(upstream, scheme, oauth={scheme: client})) as site:
            with pytest.raises(ToolError, match="needs the secret 'THINGS', which is not set"):
                await site.call("things_find")


@pytest.mark.spec("M101", "M9")
async def test_a_secret_that_an_api_refuses_is_asked_for_again_once() -> None:
    gate, secrets = Gate(), {"THINGS": "token-0001"}
    renewed = ["token-0002", "token-0001"]

    class Renewing:
        async def get(self, name: str) -> str | None:
            return renewed.pop() if renewed else secrets.get(name)

    async with serving(gate) as upstream:
        api = guarded(upstream, credentials={"oauth": "${THINGS}"})
        client = OpenApiClient(api, Renewing())
        offers = {offer.name: offer for offer in await client.offers()}
        gate.token = "token-0002"
        assert await client.call(offers["find"].shape, {}) == {"body": "", "token": "[redacted]"}
        assert gate.refused == 1
        with pytest.raises(ToolError, match="answered 401 Unauthorized"):
            await client.call(offers["find"].shape, {})
        assert gate.refused == 2, "the secret is the same, so nothing is sent again"


@pytest.mark.spec("M101")
async def test_access_tokens_are_for_schemes_of_tokens_alone() -> None:
    client = ClientCredentials(token_url="https://login.example/token", client_id="a", client_secret="b")
    async with serving(echo()) as upstream:
        for scheme, is_usable in (("oauth", True), ("basic", False), ("key", False)):
            offers = await OpenApiClient(guarded(upstream, scheme, oauth={scheme: client}), no_secret).offers()
            assert {not offer.problems for offer in offers} == {is_usable}
    with pytest.raises(DefinitionError, match="'oauth' is in credentials and in oauth"):
        OpenApi(name="things", document={}, credentials={"oauth": "x"}, oauth={"oauth": client})


@pytest.mark.spec("M9")
async def test_headers_of_the_host_are_no_arguments() -> None:
    async with serving(pets()) as upstream:
        api = declared(upstream, headers={"X-Trace": "of ${NAME}"})
        async with opened(api, secrets={"NAME": "the host"}) as site:
            assert list(site.tool("pets_me").parameters) == []
            assert (await site.call("pets_me"))["trace"] == "of [redacted]"
            assert upstream.last.headers["x-trace"] == "of the host"
    with pytest.raises(DefinitionError, match="'Host' cannot be set"):
        OpenApi(name="pets", document={}, headers={"Host": "evil.example"})


@pytest.mark.spec("M9")
async def test_a_document_does_not_choose_who_gets_the_credentials() -> None:
    app = pets()
    async with serving(app) as upstream:
        app.servers = [{"url": "https://evil.example"}]
        (offer, *_) = await OpenApiClient(declared(upstream, headers={"X-Key": "${KEY}"}), no_secret).offers()
        assert offer.problems == (
            "its server 'https://evil.example' has another origin than its document and would get credentials; "
            "give the url",
        )
        async with opened(declared(upstream, headers={"X-Key": "${KEY}"})) as site:
            assert list(site.capability.every_tool) == []
        (offer, *_) = await OpenApiClient(declared(upstream), no_secret).offers()
        assert offer.problems == ()
        assert offer.shape["server"] == "https://evil.example", "which is part of the pin"
        (offer, *_) = await OpenApiClient(declared(upstream, url=upstream.url), no_secret).offers()
        assert "server" not in offer.shape


@pytest.mark.spec("M8")
@pytest.mark.parametrize(("place", "member"), [("query", "repo"), ("cookie", "repo"), ("cookie", "session")])
async def test_no_member_of_an_object_stands_beside_a_parameter_or_the_hosts_cookie(place: str, member: str) -> None:
    async with serving(echo()) as upstream:
        parameters = [
            {"in": place, "name": "repo", "schema": {"type": "string"}},
            {"in": place, "name": "filter", "schema": {"type": "object"}, "style": "form", "explode": True},
        ]
        api = things(upstream, document(parameters=parameters), headers={"Cookie": "session=host"})
        async with opened(api) as site:
            with pytest.raises(ToolError, match="'filter' cannot be sent: it has a member with the name of"):
                await site.call("things_find", repo="mine", filter={member: "other"})
            assert (await site.call("things_find", repo="mine", filter={"a": "b"}))["query"] in ("repo=mine&a=b", "")
