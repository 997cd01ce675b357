"""The caller itself, principals and organisations over REST (spec 5, P50)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import httpx2
import pytest

from capset.definitions.governance.allowances import Allowance
from capset.definitions.principals import Principal
from capset.ext import Governance
from capset_server.auth.callers import Caller
from capset_server.auth.keys import create_key
from capset_server.rest import identities
from tests.helpers.kernel.fixtures import store
from tests.helpers.server.auth.issuing import ISSUER, issuing, token
from tests.helpers.server.rest.keys import ADMIN, BOT
from tests.helpers.server.support import FILES, Site, make_agent, make_session, problem, site

__all__ = ["store"]

pytestmark = pytest.mark.spec("P50")


async def test_a_caller_is_told_what_its_key_is_good_for(store: str) -> None:
    governance = Governance(default_permissions=["clock:read"])
    async with site(store=store, governance=governance) as server:
        attributes, allowance = {"tier": "pro", "password": "hush"}, Allowance(limits="9/1h")
        carl = Principal(
            "carl", kind="agent", org="acme", permissions=FILES, attributes=attributes, allowance=allowance
        )
        options: dict[str, Any] = {"scopes": ["capset:call:kit.echo"], "agent": "foreman"}
        row, server.keys["carl"] = await create_key(server.kernel, "carl", carl, lifetime=timedelta(days=1), **options)
        async with server.client("carl") as client:
            whoami = (await client.get("/v1/whoami")).json()
            problem(await client.get("/v1/whoami", params={"org": "evil"}), 422, "invalid_arguments")
        assert whoami.pop("allowance")["limits"] == ["9/1h"]
        kind = store.partition(":")[0].replace("postgresql", "postgres").partition("+")[0]
        assert whoami == {
            "principal": "carl",
            "kind": "agent",
            "org": "acme",
            "on_behalf_of": None,
            "permissions": ["clock:read", *FILES],
            "attributes": {"password": "[redacted]", "tier": "pro"},
            "scopes": ["capset:call:kit.echo"],
            "tools": ["kit.echo"],
            "credential": "key",
            "key": row.id,
            "expires_at": row.expires_at,
            "agent": "foreman",
            "parts": [""],
            "server": {"version": version("capset"), "store": kind, "insecure": False},
        }
        async with server.client("ada") as ada:
            assert (await ada.get("/v1/whoami")).json()["tools"] is None
        async with server.client(None) as nobody:
            problem(await nobody.get("/v1/whoami"), 401, "unauthenticated")


async def test_a_server_without_keys_says_so() -> None:
    anyone = Caller(Principal("dev"), frozenset({"capset:admin"}), None)
    async with site(anyone=anyone) as server, server.client(None) as client:
        whoami = (await client.get("/v1/whoami")).json()
        assert (whoami["credential"], whoami["key"], whoami["server"]["insecure"]) == ("none", None, True)


@pytest.mark.spec("P49")
async def test_callers_with_tokens_make_keys_for_a_while_only() -> None:
    async with issuing() as door:
        admin_token = token(scope="capset:read capset:admin", permissions=["session_files:read"])
        headers = {"Authorization": f"Bearer {admin_token}"}
        async with door.site.client(None, headers=headers) as client:
            whoami = (await client.get("/v1/whoami")).json()
            assert (whoami["principal"], whoami["credential"], whoami["key"]) == ("grace", "token", None)
            assert ISSUER not in str(whoami)
            problem(await client.post("/v1/keys", json=BOT), 422, "invalid_arguments")
            body = {**BOT, "expires": "30d"}
            too_much = await client.post("/v1/keys", json={**body, "permissions": ["vault:open"]})
            problem(too_much, 403, "permission_denied")
            key = (await client.post("/v1/keys", json=body)).json()
            assert (key["org"], key["principal"]) == ("acme", "bot")
            assert (await client.post(f"/v1/keys/{key['id']}/revoke")).json()["revoked_at"]
            problem(await client.get(f"/v1/keys/jwt:{ISSUER.rpartition('/')[2]}"), 404, "not_found")
        headers = {"Authorization": f"Bearer {token(scope='capset:read')}"}
        async with door.site.client(None, headers=headers) as plain:
            problem(await plain.post("/v1/keys", json={**BOT, "expires": "1d"}), 403, "permission_denied")
            problem(await plain.get("/v1/keys/jwt:x"), 403, "permission_denied")


@pytest.mark.spec("P49")
async def test_who_acts_for_another_or_for_a_part_makes_no_keys() -> None:
    acting = Principal("helper", org="acme", permissions=FILES).acting_for(Principal("ada", org="acme"))
    of_a_part = (Principal("ada", org="acme"), frozenset({"capset:admin"}), "jwt:x", None, ("/v1",))
    for caller in (Caller(acting, frozenset({"capset:admin"}), "jwt:x"), Caller(*of_a_part)):
        async with site(anyone=caller) as server, server.client(None) as client:
            problem(await client.post("/v1/keys", json={**BOT, "expires": "1d"}), 403, "permission_denied")


@asynccontextmanager
async def administered(store: str) -> AsyncGenerator[Site]:
    """Serve ``acme``, with a session of ada's, and ``evil``: each has an administrator, and there is an operator."""
    async with site(store=store) as server, server.client() as ada:
        for name, org in (("boss", "acme"), ("eve", "evil"), ("operator", None)):
            await server.key(name, org=org, scopes=ADMIN)
        await make_session(ada, "kit")
        yield server


async def principals_of(client: httpx2.AsyncClient, **query: Any) -> dict[str, Any]:
    response = await client.get("/v1/principals", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_principals_are_those_with_keys_or_sessions(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with administered(store) as server, server.client("boss") as boss:
        old, new = [
            (await boss.post("/v1/keys", json={**BOT, "name": name, "attributes": {"tier": name}})).json()
            for name in ("old", "new")
        ]
        gone = (await boss.post("/v1/keys", json={**BOT, "principal": "gone"})).json()
        await boss.post(f"/v1/keys/{gone['id']}/revoke")
        full_page = await principals_of(boss)
        principals = {principal["id"]: principal for principal in full_page["items"]}
        assert [*principals] == ["ada", "boss", "bot", "gone"]
        assert full_page["is_partial"] is False
        assert principals["ada"]["last_session_at"]
        assert principals["bot"]["last_session_at"] is None
        assert [key["id"] for key in principals["bot"]["keys"]] == [new["id"], old["id"]]
        assert principals["bot"]["keys"][0]["attributes"] == {"tier": "new"}
        assert principals["gone"]["keys"] == []
        assert old["key"] not in str(full_page)
        paged: list[str] = []
        query: dict[str, Any] = {"limit": 1}
        while query:
            page = await principals_of(boss, **query)
            paged += [principal["id"] for principal in page["items"]]
            query = {"limit": 1, "cursor": page["next"]} if page["next"] else {}
        assert paged == [*principals]
        for wrong in ("x", "bm90IGpzb24", "W10"):
            problem(await boss.get("/v1/principals", params={"cursor": wrong}), 422, "invalid_arguments")
        monkeypatch.setattr(identities, "KEYS_READ", 2)
        assert (await principals_of(boss))["is_partial"] is True


async def test_principals_of_one_id_are_told_apart_and_those_of_others_are_not_listed(store: str) -> None:
    async with (
        administered(store) as server,
        server.client("boss") as boss,
        server.client("operator") as operator,
        server.client() as ada,
    ):
        problem(await ada.get("/v1/principals"), 403, "permission_denied")
        problem(await boss.get("/v1/principals", params={"org": "evil"}), 403, "permission_denied")
        for org, name in ({"org": "evil"}, "eve"), ({}, "operator"):
            assert [row["id"] for row in (await principals_of(operator, **org))["items"]] == [name]
        await boss.post("/v1/keys", json={**BOT, "principal": "ada"})
        both = (await principals_of(boss, principal="ada"))["items"]
        kinds = [(principal["id"], principal["kind"], len(principal["keys"])) for principal in both]
        assert kinds == [("ada", "agent", 1), ("ada", "user", 1)]
        assert [bool(principal["last_session_at"]) for principal in both] == [False, True]
        first = await principals_of(boss, principal="ada", limit=1)
        second = await principals_of(boss, principal="ada", cursor=first["next"])
        assert (first["items"] + second["items"], second["next"]) == (both, None)
        for missing in ("ad", "adaa", "eve"):
            assert (await principals_of(boss, principal=missing))["items"] == []


async def test_organisations_are_listed_to_operators(store: str) -> None:
    async with administered(store) as server:
        await server.key("clerk", org=None)
        async with server.client() as ada:
            await make_agent(ada, "kit")
        async with server.client("operator") as operator:
            assert (await operator.get("/v1/orgs")).json()["items"] == [
                {"org": "", "keys": 2, "agents": 0, "sessions": 0},
                {"org": "acme", "keys": 2, "agents": 2, "sessions": 1},
                {"org": "evil", "keys": 1, "agents": 0, "sessions": 0},
            ]
            first = (await operator.get("/v1/orgs", params={"limit": 1})).json()
            second = (await operator.get("/v1/orgs", params={"limit": 1, "cursor": first["next"]})).json()
            assert [org["org"] for org in second["items"]] == ["acme"]
        for name in ("boss", "eve", "clerk", "ada"):
            async with server.client(name) as client:
                problem(await client.get("/v1/orgs"), 403, "permission_denied")
