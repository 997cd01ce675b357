"""Tokens as Keycloak writes them, for the realm of the recipe in ``docs/guide/oauth.md``."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from capset import Capability, tool
from capset.definitions.governance.settings import Governance, Roles
from scripts.packages import ROOT
from tests.helpers.kernel.support import records_of
from tests.helpers.server.auth.issuing import ISSUER, Issuing, issuing, key, token
from tests.helpers.server.support import call, make_session

PUBLIC = "https://capset.example.com"
REALM: dict[str, Any] = {
    "aud": [PUBLIC, "account"],
    "sub": "8f2c1f3e-2f0b-4a53-9d3e-0d1a6c0f5b7e",
    "org": None,
    "jti": "onrtac:5b1c0e7a-2b1f-4a7b-8c55-3f0c1f2d9e11",
    "typ": "Bearer",
    "azp": "librarian",
    "sid": "c1d7f0a2-5d0e-4b0c-9f53-1f8b2c3d4e5f",
    "acr": "1",
    "allowed-origins": ["http://127.0.0.1:8765"],
    "realm_access": {"roles": ["offline_access", "default-roles-tools", "uma_authorization", "reader"]},
    "resource_access": {"account": {"roles": ["manage-account", "view-profile"]}},
    "scope": "openid profile capset:call capset:read capset:write",
    "roles": ["offline_access", "default-roles-tools", "uma_authorization", "reader"],
    "preferred_username": "grace",
    "email_verified": True,
}


@tool(effect="read", permissions=["books:use"])
async def title() -> str:
    """Say a title."""
    return "Persuasion"


@pytest.fixture(scope="module")
async def realm() -> AsyncGenerator[Issuing]:
    """Give a server with the options of the recipe; a realm has a key for signatures and one for encryption."""
    encryption: dict[str, Any] = {**key("two", "RSA").as_dict(private=False), "use": "enc", "alg": "RSA-OAEP"}
    async with issuing(
        key("one", "RSA"),
        encryption,
        more={"audience": PUBLIC, "public_url": PUBLIC, "org": "acme"},
        capabilities=[Capability("books", tools=[title])],
        governance=Governance(roles=Roles({"reader": ["books:use"]})),
    ) as issuer:
        yield issuer


def written(**more: Any) -> str:
    """Return a token of the realm."""
    return token(key("one", "RSA"), {"typ": "JWT"}, **{**REALM, **more})


@pytest.mark.spec("P14", "M14")
async def test_a_token_of_a_realm_opens_what_its_scopes_and_roles_say(realm: Issuing) -> None:
    for roles, status in ((REALM["roles"], 200), (["offline_access"], 403)):
        async with realm.site.client(None, headers={"Authorization": f"Bearer {written(roles=roles)}"}) as client:
            called = await call(client, await make_session(client, "books"), "title")
            assert called.status_code == status, called.text
    succeeded, refused = await records_of(realm.site.kernel.audit, tool="title")
    assert (succeeded.principal, succeeded.org, succeeded.outcome) == (REALM["sub"], "acme", "succeeded")
    assert refused.outcome == "denied"


def test_the_recipe_agrees_with_itself() -> None:
    page = (ROOT / "docs" / "guide" / "oauth.md").read_text(encoding="utf-8")
    match = re.search(r'^```json title="capset-call.json"\n(.*?)^```', page, re.MULTILINE | re.DOTALL)
    assert match is not None
    scope = json.loads(match[1])
    mappers = {mapper["protocolMapper"]: mapper["config"] for mapper in scope["protocolMappers"]}
    assert (scope["name"], scope["attributes"]["include.in.token.scope"]) == ("capset:call", "true")
    assert mappers["oidc-audience-mapper"]["included.custom.audience"] == PUBLIC
    assert mappers["oidc-usermodel-realm-role-mapper"]["claim.name"] == "roles"
    assert {config["id.token.claim"] for config in mappers.values()} == {"false"}, "an id token is none for the server"
    assert f"--jwt-audience {PUBLIC} " in page


@pytest.mark.spec("P14", "M14")
async def test_other_tokens_of_the_realm_open_nothing(realm: Issuing) -> None:
    assert await realm.status(written()) == 200
    for description, status, claims in (
        ("for the account console alone", 401, {"aud": "account"}),
        ("for the client, as an id token is", 401, {"aud": "librarian", "typ": "ID"}),
        ("without the scope basic, which brings the subject", 401, {"sub": None}),
        ("of another realm", 401, {"iss": f"{ISSUER}other"}),
        ("without scopes for capset", 403, {"scope": "openid profile email"}),
    ):
        assert await realm.status(written(**claims)) == status, description
