"""The caller itself, principals and organisations over REST (spec 5, P50)."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version
from typing import Any

import pytest

from capset.definitions.governance.allowances import Allowance
from capset.definitions.principals import Principal
from capset.ext import Governance
from capset_server.auth.callers import Caller
from capset_server.auth.keys import create_key
from capset_server.rest import identities
from tests.helpers.server.auth.issuing import ISSUER, issuing, token
from tests.helpers.server.rest.keys import ADMIN, BOT
from tests.helpers.server.support import FILES, make_agent, make_session, problem, site

pytestmark = pytest.mark.spec("P50")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """Give the URL of a new store of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db"


async def test_a_caller_is_told_what_its_key_is_good_for(store: str) -> None:
    governance = Governance(default_permissions=["clock:read"])
    async with site(store=store, governance=governance) as server:
        principal = Principal(
            "carl",
            kind="agent",
            org="acme",
            permissions=FILES,
            attributes={"tier": "pro", "password": "hush"},
            allowance=Allowance(limits="9/1h"),
        )
        row, server.keys["carl"] = await create_key(
            server.kernel,
            "carl",
            principal,
            scopes=["capset:call:kit.echo"],
            lifetime=timedelta(days=1),
            agent="foreman",
        )
        async with server.client("carl") as client:
            whoami = (await client.get("/v1/whoami")).json()
            problem(await client.get("/v1/whoami", params={"org": "evil"}), 422, "invalid_arguments")
        allowance = whoami.pop("allowance")
        assert allowance["limits"] == ["9/1h"]
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
    scope = "capset:read capset:admin"
    async with issuing() as door:
        headers = {"Authorization": f"Bearer {token(scope=scope, permissions=['session_files:read'])}"}
        async with door.site.client(None, headers=headers) as client:
            whoami = (await client.get("/v1/whoami")).json()
            assert (whoami["principal"], whoami["credential"], whoami["key"]) == ("grace", "token", None)
            assert ISSUER not in str(whoami)
            problem(await client.post("/v1/keys", json=BOT), 422, "invalid_arguments")
            problem(
                await client.post("/v1/keys", json={**BOT, "expires": "30d", "permissions": ["vault:open"]}),
                403,
                "permission_denied",
            )
            response = await client.post("/v1/keys", json={**BOT, "expires": "30d"})
            assert response.status_code == 201, response.text
            assert (response.json()["org"], response.json()["principal"]) == ("acme", "bot")
            assert (await client.post(f"/v1/keys/{response.json()['id']}/revoke")).json()["revoked_at"]
            problem(await client.get(f"/v1/keys/jwt:{ISSUER.rpartition('/')[2]}"), 404, "not_found")
        headers = {"Authorization": f"Bearer {token(scope='capset:read')}"}
        async with door.site.client(None, headers=headers) as plain:
            problem(await plain.post("/v1/keys", json={**BOT, "expires": "1d"}), 403, "permission_denied")
            problem(await plain.get("/v1/keys/jwt:x"), 403, "permission_denied")


@pytest.mark.spec("P49")
async def test_who_acts_for_another_or_for_a_part_makes_no_keys() -> None:
    acting = Principal("helper", org="acme", permissions=FILES).acting_for(Principal("ada", org="acme"))
    admin = frozenset({"capset:admin"})
    for caller in (
        Caller(acting, admin, "jwt:x"),
        Caller(Principal("ada", org="acme"), admin, "jwt:x", None, ("/v1",)),
    ):
        async with site(anyone=caller) as server, server.client(None) as client:
            problem(await client.post("/v1/keys", json={**BOT, "expires": "1d"}), 403, "permission_denied")


async def test_principals_are_those_with_keys_or_sessions(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(store=store) as server:
        await server.key("boss", scopes=ADMIN)
        await server.key("eve", org="evil", scopes=ADMIN)
        await server.key("operator", org=None, scopes=ADMIN)
        async with server.client() as ada, server.client("boss") as boss, server.client("operator") as operator:
            await make_session(ada, "kit")
            bot_keys = [
                (await boss.post("/v1/keys", json={**BOT, "name": name, "attributes": {"tier": name}})).json()
                for name in ("old", "new")
            ]
            gone = (await boss.post("/v1/keys", json={**BOT, "principal": "gone"})).json()
            await boss.post(f"/v1/keys/{gone['id']}/revoke")
            full_page = (await boss.get("/v1/principals")).json()
            principals = {principal["id"]: principal for principal in full_page["items"]}
            assert [*principals] == ["ada", "boss", "bot", "gone"]
            assert full_page["is_partial"] is False
            assert principals["ada"]["last_session_at"]
            assert principals["bot"]["last_session_at"] is None
            assert [key["id"] for key in principals["bot"]["keys"]] == [key["id"] for key in reversed(bot_keys)]
            assert principals["bot"]["keys"][0]["attributes"] == {"tier": "new"}
            assert principals["gone"]["keys"] == []
            assert bot_keys[0]["key"] not in str(full_page)
            paged: list[str] = []
            query: dict[str, Any] = {"limit": 1}
            while True:
                page = (await boss.get("/v1/principals", params=query)).json()
                paged += [principal["id"] for principal in page["items"]]
                if page["next"] is None:
                    break
                query["cursor"] = page["next"]
            assert paged == [*principals]
            for wrong in ("x", "bm90IGpzb24", "W10"):
                problem(await boss.get("/v1/principals", params={"cursor": wrong}), 422, "invalid_arguments")
            problem(await ada.get("/v1/principals"), 403, "permission_denied")
            problem(await boss.get("/v1/principals", params={"org": "evil"}), 403, "permission_denied")
            of_evil = (await operator.get("/v1/principals", params={"org": "evil"})).json()["items"]
            assert [principal["id"] for principal in of_evil] == ["eve"]
            assert [principal["id"] for principal in (await operator.get("/v1/principals")).json()["items"]] == [
                "operator"
            ]
            await boss.post("/v1/keys", json={**BOT, "principal": "ada"})
            of_ada = (await boss.get("/v1/principals", params={"principal": "ada"})).json()
            assert [(principal["id"], principal["kind"], len(principal["keys"])) for principal in of_ada["items"]] == [
                ("ada", "agent", 1),
                ("ada", "user", 1),
            ]
            assert of_ada["items"][1]["last_session_at"] == principals["ada"]["last_session_at"]
            first = (await boss.get("/v1/principals", params={"principal": "ada", "limit": 1})).json()
            query = {"principal": "ada", "cursor": first["next"]}
            second = (await boss.get("/v1/principals", params=query)).json()
            assert [principal["kind"] for principal in (*first["items"], *second["items"])] == ["agent", "user"]
            assert second["next"] is None
            for missing in ("ad", "adaa", "eve"):
                assert (await boss.get("/v1/principals", params={"principal": missing})).json()["items"] == []
            monkeypatch.setattr(identities, "KEYS_READ", 2)
            assert (await boss.get("/v1/principals")).json()["is_partial"] is True


async def test_organisations_are_listed_to_operators(store: str) -> None:
    async with site(store=store) as server:
        await server.key("boss", scopes=ADMIN)
        await server.key("eve", org="evil", scopes=ADMIN)
        await server.key("operator", org=None, scopes=ADMIN)
        await server.key("clerk", org=None)
        async with server.client() as ada:
            await make_session(ada, "kit")
            await make_agent(ada, "kit")
        async with server.client("operator") as operator:
            page = (await operator.get("/v1/orgs")).json()
            assert page["items"] == [
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
