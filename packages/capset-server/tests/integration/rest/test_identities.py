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
    async with site(store=store, governance=governance) as here:
        who = Principal(
            "carl",
            kind="agent",
            org="acme",
            permissions=FILES,
            attributes={"tier": "pro", "password": "hush"},
            allowance=Allowance(limits="9/1h"),
        )
        row, here.keys["carl"] = await create_key(
            here.kernel, "carl", who, scopes=["capset:call:kit.echo"], lifetime=timedelta(days=1), agent="foreman"
        )
        async with here.client("carl") as client:
            found = (await client.get("/v1/whoami")).json()
            problem(await client.get("/v1/whoami", params={"org": "evil"}), 422, "invalid_arguments")
        allowance = found.pop("allowance")
        assert allowance["limits"] == ["9/1h"]
        kind = store.partition(":")[0].replace("postgresql", "postgres").partition("+")[0]
        assert found == {
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
        async with here.client("ada") as ada:
            assert (await ada.get("/v1/whoami")).json()["tools"] is None
        async with here.client(None) as nobody:
            problem(await nobody.get("/v1/whoami"), 401, "unauthenticated")


async def test_a_server_without_keys_says_so() -> None:
    anyone = Caller(Principal("dev"), frozenset({"capset:admin"}), None)
    async with site(anyone=anyone) as here, here.client(None) as client:
        found = (await client.get("/v1/whoami")).json()
        assert (found["credential"], found["key"], found["server"]["insecure"]) == ("none", None, True)


@pytest.mark.spec("P49")
async def test_callers_with_tokens_make_keys_for_a_while_only() -> None:
    scope = "capset:read capset:admin"
    async with issuing() as door:
        headers = {"Authorization": f"Bearer {token(scope=scope, permissions=['session_files:read'])}"}
        async with door.site.client(None, headers=headers) as client:
            found = (await client.get("/v1/whoami")).json()
            assert (found["principal"], found["credential"], found["key"]) == ("grace", "token", None)
            assert ISSUER not in str(found)
            problem(await client.post("/v1/keys", json=BOT), 422, "invalid_arguments")
            problem(
                await client.post("/v1/keys", json={**BOT, "expires": "30d", "permissions": ["vault:open"]}),
                403,
                "permission_denied",
            )
            made = await client.post("/v1/keys", json={**BOT, "expires": "30d"})
            assert made.status_code == 201, made.text
            assert (made.json()["org"], made.json()["principal"]) == ("acme", "bot")
            assert (await client.post(f"/v1/keys/{made.json()['id']}/revoke")).json()["revoked_at"]
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
        async with site(anyone=caller) as here, here.client(None) as client:
            problem(await client.post("/v1/keys", json={**BOT, "expires": "1d"}), 403, "permission_denied")


async def test_principals_are_those_with_keys_or_sessions(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(store=store) as here:
        await here.key("boss", scopes=ADMIN)
        await here.key("eve", org="evil", scopes=ADMIN)
        await here.key("operator", org=None, scopes=ADMIN)
        async with here.client() as ada, here.client("boss") as boss, here.client("operator") as operator:
            await make_session(ada, "kit")
            made = [
                (await boss.post("/v1/keys", json={**BOT, "name": name, "attributes": {"tier": name}})).json()
                for name in ("old", "new")
            ]
            gone = (await boss.post("/v1/keys", json={**BOT, "principal": "gone"})).json()
            await boss.post(f"/v1/keys/{gone['id']}/revoke")
            found = (await boss.get("/v1/principals")).json()
            known = {one["id"]: one for one in found["items"]}
            assert [*known] == ["ada", "boss", "bot", "gone"]
            assert found["is_partial"] is False
            assert known["ada"]["last_session_at"]
            assert known["bot"]["last_session_at"] is None
            assert [one["id"] for one in known["bot"]["keys"]] == [one["id"] for one in reversed(made)]
            assert known["bot"]["keys"][0]["attributes"] == {"tier": "new"}
            assert known["gone"]["keys"] == []
            assert made[0]["key"] not in str(found)
            paged: list[str] = []
            query: dict[str, Any] = {"limit": 1}
            while True:
                page = (await boss.get("/v1/principals", params=query)).json()
                paged += [one["id"] for one in page["items"]]
                if page["next"] is None:
                    break
                query["cursor"] = page["next"]
            assert paged == [*known]
            for wrong in ("x", "bm90IGpzb24", "W10"):
                problem(await boss.get("/v1/principals", params={"cursor": wrong}), 422, "invalid_arguments")
            problem(await ada.get("/v1/principals"), 403, "permission_denied")
            problem(await boss.get("/v1/principals", params={"org": "evil"}), 403, "permission_denied")
            of_evil = (await operator.get("/v1/principals", params={"org": "evil"})).json()["items"]
            assert [one["id"] for one in of_evil] == ["eve"]
            assert [one["id"] for one in (await operator.get("/v1/principals")).json()["items"]] == ["operator"]
            await boss.post("/v1/keys", json={**BOT, "principal": "ada"})
            of_ada = (await boss.get("/v1/principals", params={"principal": "ada"})).json()
            assert [(one["id"], one["kind"], len(one["keys"])) for one in of_ada["items"]] == [
                ("ada", "agent", 1),
                ("ada", "user", 1),
            ]
            assert of_ada["items"][1]["last_session_at"] == known["ada"]["last_session_at"]
            first = (await boss.get("/v1/principals", params={"principal": "ada", "limit": 1})).json()
            query = {"principal": "ada", "cursor": first["next"]}
            second = (await boss.get("/v1/principals", params=query)).json()
            assert [one["kind"] for one in (*first["items"], *second["items"])] == ["agent", "user"]
            assert second["next"] is None
            for missing in ("ad", "adaa", "eve"):
                assert (await boss.get("/v1/principals", params={"principal": missing})).json()["items"] == []
            monkeypatch.setattr(identities, "KEYS_READ", 2)
            assert (await boss.get("/v1/principals")).json()["is_partial"] is True


async def test_organisations_are_listed_to_operators(store: str) -> None:
    async with site(store=store) as here:
        await here.key("boss", scopes=ADMIN)
        await here.key("eve", org="evil", scopes=ADMIN)
        await here.key("operator", org=None, scopes=ADMIN)
        await here.key("clerk", org=None)
        async with here.client() as ada:
            await make_session(ada, "kit")
            await make_agent(ada, "kit")
        async with here.client("operator") as operator:
            found = (await operator.get("/v1/orgs")).json()
            assert found["items"] == [
                {"org": "", "keys": 2, "agents": 0, "sessions": 0},
                {"org": "acme", "keys": 2, "agents": 2, "sessions": 1},
                {"org": "evil", "keys": 1, "agents": 0, "sessions": 0},
            ]
            first = (await operator.get("/v1/orgs", params={"limit": 1})).json()
            second = (await operator.get("/v1/orgs", params={"limit": 1, "cursor": first["next"]})).json()
            assert [one["org"] for one in second["items"]] == ["acme"]
        for name in ("boss", "eve", "clerk", "ada"):
            async with here.client(name) as client:
                problem(await client.get("/v1/orgs"), 403, "permission_denied")
