"""API keys over REST: who sees, makes and revokes which, and that none gives more than its maker has (P48, P49)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from capset.definitions.governance.allowances import Allowance
from capset.definitions.principals import Principal
from capset_server.auth.callers import Caller
from capset_server.auth.keys import MAX_MAKERS, create_key, digest_of
from tests.helpers.server.rest.keys import ADMIN, BOT
from tests.helpers.server.support import FILES, Site, make_session, problem, site

PERSON = {"team": "T1", "user": "U1", "principal": "bea"}
pytestmark = pytest.mark.spec("P48")


async def boss(server: Site, name: str = "boss", org: str | None = "acme", **more: Any) -> None:
    """Make a key of an administrator."""
    await server.key(name, org=org, scopes=ADMIN, **more)


async def made(client: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    """Make a key and return it."""
    response = await client.post("/v1/keys", json=BOT | more)
    assert response.status_code == 201, response.text
    return response.json()


async def test_a_key_is_made_shown_once_used_and_revoked() -> None:
    async with site() as server:
        await boss(server)
        async with server.client("boss") as client:
            key = await made(client, permissions=["session_files:read"], attributes={"tier": "pro", "token": "hush"})
            assert key["scopes"] == ["capset:call:kit.echo"]
            assert (key["org"], key["principal_kind"], key["attributes"]["token"]) == ("acme", "agent", "[redacted]")
            server.keys["bot"] = key["key"]
            page = (await client.get("/v1/keys")).json()
            assert [row["name"] for row in page["items"]] == ["bot", "boss", "ada"]
            response = await client.get(f"/v1/keys/{key['id']}")
            for text in (str(page), response.text):
                assert key["key"] not in text
                assert "digest" not in text
            async with server.client("bot") as bot:
                assert (await bot.get("/v1/whoami")).json()["key"] == key["id"]
                gone = await client.post(f"/v1/keys/{key['id']}/revoke")
                assert gone.json()["revoked_at"]
                server.service.callers._known.forget(lambda *_: True)
                problem(await bot.get("/v1/whoami"), 401, "unauthenticated")
            repeated = await client.post(f"/v1/keys/{key['id']}/revoke")
            assert repeated.json()["revoked_at"] == gone.json()["revoked_at"]


async def test_a_list_of_keys_is_paged_and_filtered() -> None:
    async with site() as server:
        await boss(server)
        async with server.client("boss") as client:
            names = [f"k{number}" for number in range(5)]
            for name in names:
                await made(client, name=name, principal="p0" if name < "k2" else "p1")
            key_names: list[str] = []
            query: dict[str, Any] = {"limit": 2}
            while True:
                page = (await client.get("/v1/keys", params=query)).json()
                key_names += [row["name"] for row in page["items"]]
                if "next" not in page or page["next"] is None:
                    break
                query["cursor"] = page["next"]
            assert key_names == [*reversed(names), "boss", "ada"]
            of_one = (await client.get("/v1/keys", params={"principal": "p0"})).json()["items"]
            assert [row["name"] for row in of_one] == ["k1", "k0"]


async def test_administrators_of_an_organisation_reach_no_other() -> None:
    async with site() as server:
        await boss(server)
        await boss(server, "evil", org="evil")
        await boss(server, "operator", org=None)
        theirs = (await server.kernel.store.keys.find(digest_of(server.keys["boss"]))).id  # pyright: ignore[reportOptionalMemberAccess]
        async with server.client("evil") as evil, server.client("operator") as operator:
            problem(await evil.get(f"/v1/keys/{theirs}"), 404, "not_found")
            problem(await evil.post(f"/v1/keys/{theirs}/revoke"), 404, "not_found")
            problem(await evil.get("/v1/keys", params={"org": "acme"}), 403, "permission_denied")
            problem(await evil.post("/v1/keys", json={**BOT, "org": "acme"}), 403, "permission_denied")
            assert {row["org"] for row in (await evil.get("/v1/keys")).json()["items"]} == {"evil"}
            everything = (await operator.get("/v1/keys")).json()["items"]
            assert {row["org"] for row in everything} == {"acme", "evil", None}
            of_acme = (await operator.get("/v1/keys", params={"org": "acme"})).json()["items"]
            assert {row["org"] for row in of_acme} == {"acme"}
            key = await made(operator, org="acme")
            assert key["org"] == "acme"
            assert (await operator.get(f"/v1/keys/{theirs}")).json()["name"] == "boss"


async def test_a_holder_sees_and_revokes_its_own_key_only() -> None:
    async with site() as server:
        await server.key("carl", scopes=["capset:metrics"])
        carl_row = digest_row(server, "carl")
        other = digest_row(server, "ada")
        mine, theirs = (await carl_row).id, (await other).id
        async with server.client("carl") as carl:
            assert (await carl.get(f"/v1/keys/{mine}")).json()["name"] == "carl"
            for response in (
                carl.get(f"/v1/keys/{theirs}"),
                carl.get("/v1/keys/nothing"),
                carl.post(f"/v1/keys/{theirs}/revoke"),
                carl.get("/v1/keys"),
                carl.post("/v1/keys", json=BOT),
            ):
                problem(await response, 403, "permission_denied")
            assert (await carl.post(f"/v1/keys/{mine}/revoke")).json()["revoked_at"]
        async with server.client("ada") as ada:
            assert (await ada.get("/v1/whoami")).status_code == 200


def digest_row(server: Site, name: str) -> Any:
    """Look up the row of a key."""
    return server.kernel.store.keys.find(digest_of(server.keys[name]))


@pytest.mark.spec("P49")
async def test_a_key_names_all_who_made_it_and_a_chain_of_makers_ends() -> None:
    async with site() as server:
        await boss(server)
        by = "boss"
        for number in range(MAX_MAKERS):
            async with server.client(by) as client:
                person = {"name": f"k{number}", "principal": f"p{number}", "kind": "user"}
                key = await made(client, **person, scopes=["capset:admin"])
            assert key["makers"] == [*(f"user:p{maker}" for maker in reversed(range(number))), "user:boss"]
            server.keys[by := f"k{number}"] = key["key"]
        async with server.client(by) as client:
            problem(await client.post("/v1/keys", json=BOT), 403, "permission_denied")
            problem(await client.post("/v1/people", json=PERSON), 403, "permission_denied")


@pytest.mark.spec("P49")
@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"permissions": ["vault:open"]}, 403, "permission_denied"),
        ({"permissions": ["*:*"]}, 422, "invalid_definition"),
        ({"org": "evil"}, 403, "permission_denied"),
        ({"org": ""}, 422, "invalid_arguments"),
        ({"kind": "anonymous"}, 422, "invalid_arguments"),
        ({"kind": "host"}, 422, "invalid_arguments"),
        ({"on_behalf_of": "user:ada"}, 422, "invalid_arguments"),
        ({"revoked_at": None}, 422, "invalid_arguments"),
        ({"digest": "0" * 64}, 422, "invalid_arguments"),
        ({"scopes": []}, 422, "invalid_arguments"),
        ({"scopes": ["capset:everything"]}, 422, "invalid_definition"),
        ({"scopes": ["capset:call:ech o"]}, 422, "invalid_definition"),
        ({"name": "a\x1b[2Jb"}, 422, "invalid_definition"),
        ({"name": "a\u202eb"}, 422, "invalid_definition"),
        ({"name": "a\nb"}, 422, "invalid_definition"),
        ({"name": " "}, 422, "invalid_definition"),
        ({"name": "x" * 201}, 422, "invalid_arguments"),
        ({"principal": "a\x00b"}, 422, "invalid_definition"),
        ({"principal": "\u2066ada"}, 422, "invalid_definition"),
        ({"agent": "a\tb"}, 422, "invalid_definition"),
        ({"attributes": {"tier": ["pro"]}}, 422, "invalid_arguments"),
        ({"attributes": {"a b": 1}}, 422, "invalid_definition"),
        ({"attributes": {f"n{number}": 1 for number in range(33)}}, 422, "invalid_definition"),
        ({"expires": "0d"}, 422, "invalid_arguments"),
        ({"expires": "400d"}, 422, "invalid_definition"),
        ({"expires": None}, 422, "invalid_arguments"),
        ({"expires": "-1d"}, 422, "invalid_arguments"),
    ],
)
async def test_a_key_has_no_more_than_its_maker(more: dict[str, Any], status: int, code: str) -> None:
    async with site() as server:
        await boss(server)
        async with server.client("boss") as client:
            problem(await client.post("/v1/keys", json=BOT | more), status, code)
            assert len((await client.get("/v1/keys")).json()["items"]) == 2, "nothing was made"


@pytest.mark.spec("P49")
async def test_limits_of_the_maker_hold_for_what_it_makes() -> None:
    async with site() as server:
        principal = Principal("boss", org="acme", permissions=FILES, allowance=Allowance(limits="3/1h"))
        _, server.keys["boss"] = await create_key(server.kernel, "boss", principal, scopes=ADMIN)
        async with server.client("boss") as client:
            loose = await made(client)
            assert loose["allowance"]["limits"] == ["3/1h"]
            tight = await made(client, allowance={"limits": ["1/1h"], "session": {"calls": 5}})
            assert tight["allowance"] == {"limits": ["3/1h", "1/1h"], "session": {"calls": 5, "cost": None}} | {
                "run": None,
                "usage": [],
            }


@pytest.mark.spec("P49")
async def test_a_key_ends_with_its_makers() -> None:
    async with site() as server:
        await server.key("boss", scopes=ADMIN, lifetime=timedelta(hours=2))
        await boss(server, "lasting")
        async with server.client("boss") as client, server.client("lasting") as lasting:
            boss_expiry = (await client.get("/v1/whoami")).json()["expires_at"]
            assert (await made(client))["expires_at"] <= boss_expiry
            assert (await made(client, expires="1h"))["expires_at"] < boss_expiry
            ends = datetime.fromisoformat((await made(lasting, expires="366d"))["expires_at"])
            assert timedelta(days=365) < ends - datetime.fromisoformat(server.kernel.now()) <= timedelta(days=366)
            ends = datetime.fromisoformat((await made(lasting))["expires_at"])
            assert ends - datetime.fromisoformat(server.kernel.now()) <= timedelta(days=90), (
                "there is no key without end"
            )


@pytest.mark.spec("P49")
async def test_a_revoked_maker_makes_nothing_in_the_second_that_it_is_still_known() -> None:
    async with site() as server:
        await boss(server)
        async with server.client("boss") as client:
            assert (await client.get("/v1/whoami")).status_code == 200
            row = await digest_row(server, "boss")
            await server.kernel.store.keys.revoke(row.id, server.kernel.now())
            problem(await client.post("/v1/keys", json=BOT), 401, "unauthenticated")


@pytest.mark.spec("P49")
async def test_without_credentials_no_key_is_made_or_revoked() -> None:
    anyone = Caller(Principal("dev", permissions=FILES), frozenset({"capset:admin"}), None)
    async with site(anyone=anyone) as server:
        ada = await digest_row(server, "ada")
        async with server.client(None) as client:
            problem(await client.post("/v1/keys", json=BOT), 403, "permission_denied")
            problem(await client.post(f"/v1/keys/{ada.id}/revoke"), 403, "permission_denied")
            assert len((await client.get("/v1/keys")).json()["items"]) == 1


@pytest.mark.spec("P49")
async def test_the_same_request_makes_no_second_key() -> None:
    async with site() as server:
        await boss(server)
        await boss(server, "other")
        async with server.client("boss") as client, server.client("other") as other:
            headers = {"Idempotency-Key": "once"}
            answers = await asyncio.gather(*[client.post("/v1/keys", json=BOT, headers=headers) for _ in range(5)])
            assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
            (first,) = [answer.json() for answer in answers if answer.status_code == 201]
            body = problem(await client.post("/v1/keys", json=BOT, headers=headers), 409, "conflict")
            assert first["id"] in body["detail"]
            assert first["key"] not in str(body)
            changed = await client.post("/v1/keys", json={**BOT, "name": "another"}, headers=headers)
            problem(changed, 422, "invalid_arguments")
            assert (await other.post("/v1/keys", json=BOT, headers=headers)).status_code == 201, "another's are its own"
            wrong = {**BOT, "permissions": ["vault:open"]}
            for _ in range(2):
                refused = await client.post("/v1/keys", json=wrong, headers={"Idempotency-Key": "free"})
                problem(refused, 403, "permission_denied")
            replies: Any = server.kernel.store.replies
            assert not [row for row in replies._rows.values() if first["key"] in str(row)], "no secret is kept"


async def test_both_acts_are_on_record_without_secrets(tmp_path: Any) -> None:
    async with site(store=f"sqlite:///{tmp_path}/a.db") as server:
        await boss(server)
        async with server.client("boss") as client:
            boss_key_id = (await client.get("/v1/whoami")).json()["key"]
            key = await made(client)
            await client.post(f"/v1/keys/{key['id']}/revoke")
            records = (await client.get("/v1/audit", params={"kind": "act"})).json()["items"]
        about = {record["act"]: record for record in reversed(records)}
        for act in ("key.create", "key.revoke"):
            assert about[act]["arguments"]["id"] == key["id"]
            assert about[act]["principal"] == "boss"
            assert about[act]["source"] == f"rest 127.0.0.1 key {boss_key_id}", "by which a key's maker is found"
        assert key["key"] not in str(records)


@pytest.mark.spec("P49")
async def test_a_narrow_key_can_do_no_more_than_its_scope() -> None:
    async with site() as server:
        await boss(server)
        async with server.client("boss") as client:
            server.keys["bot"] = (await made(client))["key"]
        async with server.client("bot") as bot:
            session = await make_session_of(bot, server)
            response = await bot.post(
                f"/v1/sessions/{session}/calls", json={"tool": "note", "arguments": {"text": "x"}}
            )
            problem(response, 403, "permission_denied")
            response = await bot.post(
                f"/v1/sessions/{session}/calls", json={"tool": "echo", "arguments": {"text": "x"}}
            )
            assert response.json()["success"]


async def make_session_of(client: httpx2.AsyncClient, server: Site) -> str:
    async with server.client("ada") as ada:
        await make_session(ada, "kit")
    return (await client.post("/v1/sessions", json={"agent_id": "foreman"})).json()["id"]
