"""API keys over REST: who sees, makes and revokes which, and that none gives more than its maker has (P48, P49)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from capset.definitions.governance.allowances import Allowance
from capset.definitions.principals import Principal
from capset.stores.base import KeyRow
from capset_server.auth.callers import Caller
from capset_server.auth.keys import MAX_MAKERS, create_key, digest_of
from tests.helpers.server.rest.keys import ADMIN, BOT
from tests.helpers.server.support import FILES, Site, call, problem, site

PERSON = {"team": "T1", "user": "U1", "principal": "bea"}
pytestmark = pytest.mark.spec("P48")


@pytest.fixture
async def boss(here: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give the client of an administrator of ``acme``."""
    await here.key("boss", scopes=ADMIN)
    async with here.client("boss") as client:
        yield client


async def made(client: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    """Make a key and return it."""
    response = await client.post("/v1/keys", json=BOT | more)
    assert response.status_code == 201, response.text
    return response.json()


async def listed(client: httpx2.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    return (await client.get("/v1/keys", params=query)).json()["items"]


async def row_of(server: Site, name: str) -> KeyRow:
    """Look up the row of a key."""
    row = await server.kernel.store.keys.find(digest_of(server.keys[name]))
    assert row is not None
    return row


async def test_a_key_is_made_shown_once_used_and_revoked(here: Site, boss: httpx2.AsyncClient) -> None:
    key = await made(boss, permissions=["session_files:read"], attributes={"tier": "pro", "token": "hush"})
    assert key["scopes"] == ["capset:call:kit.echo"]
    assert (key["org"], key["principal_kind"], key["attributes"]["token"]) == ("acme", "agent", "[redacted]")
    here.keys["bot"] = key["key"]
    keys = await listed(boss)
    assert [row["name"] for row in keys] == ["bot", "boss", "ada"]
    path = f"/v1/keys/{key['id']}"
    for text in (str(keys), (await boss.get(path)).text):
        assert not [secret for secret in (key["key"], "digest") if secret in text]
    async with here.client("bot") as bot:
        assert (await bot.get("/v1/whoami")).json()["key"] == key["id"]
        session = (await bot.post("/v1/sessions", json={"agent_id": "foreman"})).json()["id"]
        assert (await call(bot, session, "echo")).json()["success"]
        problem(await call(bot, session, "note", text="x"), 403, "permission_denied")
        gone = (await boss.post(f"{path}/revoke")).json()["revoked_at"]
        assert gone
        here.service.callers._known.invalidate(lambda *_: True)
        problem(await bot.get("/v1/whoami"), 401, "unauthenticated")
    assert (await boss.post(f"{path}/revoke")).json()["revoked_at"] == gone


async def test_a_list_of_keys_is_paged_and_filtered(boss: httpx2.AsyncClient) -> None:
    names = [f"k{number}" for number in range(5)]
    for name in names:
        await made(boss, name=name, principal="p0" if name < "k2" else "p1")
    key_names: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while query:
        page = (await boss.get("/v1/keys", params=query)).json()
        key_names += [row["name"] for row in page["items"]]
        query = {"limit": 2, "cursor": page["next"]} if page.get("next") else {}
    assert key_names == [*reversed(names), "boss", "ada"]
    assert [row["name"] for row in await listed(boss, principal="p0")] == ["k1", "k0"]


async def test_administrators_of_an_organisation_reach_no_other(here: Site, boss: httpx2.AsyncClient) -> None:
    await here.key("evil", org="evil", scopes=ADMIN)
    await here.key("operator", org=None, scopes=ADMIN)
    path = f"/v1/keys/{(await row_of(here, 'boss')).id}"
    async with here.client("evil") as evil, here.client("operator") as operator:
        problem(await evil.get(path), 404, "not_found")
        problem(await evil.post(f"{path}/revoke"), 404, "not_found")
        problem(await evil.get("/v1/keys", params={"org": "acme"}), 403, "permission_denied")
        problem(await evil.post("/v1/keys", json={**BOT, "org": "acme"}), 403, "permission_denied")
        assert {row["org"] for row in await listed(evil)} == {"evil"}
        assert {row["org"] for row in await listed(operator)} == {"acme", "evil", None}
        assert {row["org"] for row in await listed(operator, org="acme")} == {"acme"}
        assert (await made(operator, org="acme"))["org"] == "acme"
        assert (await operator.get(path)).json()["name"] == "boss"


async def test_a_holder_sees_and_revokes_its_own_key_only(here: Site, ada: httpx2.AsyncClient) -> None:
    await here.key("carl", scopes=["capset:metrics"])
    mine, theirs = [f"/v1/keys/{(await row_of(here, name)).id}" for name in ("carl", "ada")]
    async with here.client("carl") as carl:
        assert (await carl.get(mine)).json()["name"] == "carl"
        for path in (theirs, "/v1/keys/nothing", "/v1/keys"):
            problem(await carl.get(path), 403, "permission_denied")
        problem(await carl.post(f"{theirs}/revoke"), 403, "permission_denied")
        problem(await carl.post("/v1/keys", json=BOT), 403, "permission_denied")
        assert (await carl.post(f"{mine}/revoke")).json()["revoked_at"]
    assert (await ada.get("/v1/whoami")).status_code == 200


@pytest.mark.spec("P49")
@pytest.mark.usefixtures("boss")
async def test_a_key_names_all_who_made_it_and_a_chain_of_makers_ends(here: Site) -> None:
    by = "boss"
    for number in range(MAX_MAKERS):
        async with here.client(by) as client:
            person = {"name": f"k{number}", "principal": f"p{number}", "kind": "user"}
            key = await made(client, **person, scopes=["capset:admin"])
        assert key["makers"] == [*(f"user:p{maker}" for maker in reversed(range(number))), "user:boss"]
        here.keys[by := f"k{number}"] = key["key"]
    async with here.client(by) as client:
        for path, body in (("/v1/keys", BOT), ("/v1/people", PERSON)):
            problem(await client.post(path, json=body), 403, "permission_denied")


DENIED = {"permissions": ["vault:open"]}, {"org": "evil"}
UNDEFINED = (
    *({"name": name} for name in ("a\x1b[2Jb", "a\u202eb", "a\nb", " ")),
    *({"principal": principal} for principal in ("a\x00b", "\u2066ada")),
    *({"scopes": [scope]} for scope in ("capset:everything", "capset:call:ech o")),
    *({"attributes": attributes} for attributes in ({"a b": 1}, {f"n{number}": 1 for number in range(33)})),
    {"permissions": ["*:*"]},
    {"agent": "a\tb"},
    {"expires": "400d"},
)
INVALID = (
    *({"kind": kind} for kind in ("anonymous", "host")),
    *({"expires": expires} for expires in ("0d", None, "-1d")),
    {"name": "x" * 201},
    {"org": ""},
    {"on_behalf_of": "user:ada"},
    {"revoked_at": None},
    {"digest": "0" * 64},
    {"scopes": []},
    {"attributes": {"tier": ["pro"]}},
)


@pytest.mark.spec("P49")
@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        *((more, 403, "permission_denied") for more in DENIED),
        *((more, 422, "invalid_definition") for more in UNDEFINED),
        *((more, 422, "invalid_arguments") for more in INVALID),
    ],
)
async def test_a_key_has_no_more_than_its_maker(
    boss: httpx2.AsyncClient, more: dict[str, Any], status: int, code: str
) -> None:
    problem(await boss.post("/v1/keys", json=BOT | more), status, code)
    assert len(await listed(boss)) == 2, "nothing was made"


@pytest.mark.spec("P49")
async def test_limits_of_the_maker_hold_for_what_it_makes(here: Site) -> None:
    principal = Principal("boss", org="acme", permissions=FILES, allowance=Allowance(limits="3/1h"))
    _, here.keys["boss"] = await create_key(here.kernel, "boss", principal, scopes=ADMIN)
    async with here.client("boss") as client:
        assert (await made(client))["allowance"]["limits"] == ["3/1h"]
        tight = await made(client, allowance={"limits": ["1/1h"], "session": {"calls": 5}})
        session = {"calls": 5, "cost": None}
        assert tight["allowance"] == {"limits": ["3/1h", "1/1h"], "session": session, "run": None, "usage": []}


@pytest.mark.spec("P49")
async def test_a_key_ends_with_its_makers_and_none_is_without_end(here: Site, boss: httpx2.AsyncClient) -> None:
    await here.key("brief", scopes=ADMIN, lifetime=timedelta(hours=2))
    async with here.client("brief") as brief:
        maker_end = (await brief.get("/v1/whoami")).json()["expires_at"]
        assert (await made(brief))["expires_at"] <= maker_end
        assert (await made(brief, expires="1h"))["expires_at"] < maker_end
    longest, usual = [(await made(boss, **more))["expires_at"] for more in ({"expires": "366d"}, {})]
    now = datetime.fromisoformat(here.kernel.now())
    assert timedelta(days=365) < datetime.fromisoformat(longest) - now <= timedelta(days=366)
    assert datetime.fromisoformat(usual) - now <= timedelta(days=90)


@pytest.mark.spec("P49")
async def test_a_revoked_maker_makes_nothing_in_the_second_that_it_is_still_known(
    here: Site, boss: httpx2.AsyncClient
) -> None:
    assert (await boss.get("/v1/whoami")).status_code == 200
    await here.kernel.store.keys.revoke((await row_of(here, "boss")).id, here.kernel.now())
    problem(await boss.post("/v1/keys", json=BOT), 401, "unauthenticated")


@pytest.mark.spec("P49")
async def test_without_credentials_no_key_is_made_or_revoked() -> None:
    anyone = Caller(Principal("dev", permissions=FILES), frozenset({"capset:admin"}), None)
    async with site(anyone=anyone) as server, server.client(None) as client:
        problem(await client.post("/v1/keys", json=BOT), 403, "permission_denied")
        path = f"/v1/keys/{(await row_of(server, 'ada')).id}/revoke"
        problem(await client.post(path), 403, "permission_denied")
        assert [row["revoked_at"] for row in await listed(client)] == [None]


@pytest.mark.spec("P49")
async def test_the_same_request_makes_no_second_key(here: Site, boss: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "once"}
    answers = await asyncio.gather(*[boss.post("/v1/keys", json=BOT, headers=headers) for _ in range(5)])
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
    (first,) = [answer.json() for answer in answers if answer.status_code == 201]
    body = problem(await boss.post("/v1/keys", json=BOT, headers=headers), 409, "conflict")
    assert (first["id"] in body["detail"], first["key"] in str(body)) == (True, False)
    changed = await boss.post("/v1/keys", json={**BOT, "name": "another"}, headers=headers)
    problem(changed, 422, "invalid_arguments")
    await here.key("other", scopes=ADMIN)
    async with here.client("other") as other:
        assert (await other.post("/v1/keys", json=BOT, headers=headers)).status_code == 201, "another's are its own"
    wrong = {**BOT, "permissions": ["vault:open"]}
    for _ in range(2):
        refused = await boss.post("/v1/keys", json=wrong, headers={"Idempotency-Key": "free"})
        problem(refused, 403, "permission_denied")
    replies: Any = here.kernel.store.replies
    assert not [row for row in replies._rows.values() if first["key"] in str(row)], "no secret is kept"


async def test_both_acts_are_on_record_without_secrets(boss: httpx2.AsyncClient) -> None:
    source = f"rest 127.0.0.1 key {(await boss.get('/v1/whoami')).json()['key']}"
    key = await made(boss)
    await boss.post(f"/v1/keys/{key['id']}/revoke")
    records = (await boss.get("/v1/audit", params={"kind": "act"})).json()["items"]
    about = {record["act"]: record for record in reversed(records)}
    for act in (about["key.create"], about["key.revoke"]):
        assert (act["arguments"]["id"], act["principal"]) == (key["id"], "boss")
        assert act["source"] == source, "by which a key's maker is found"
    assert key["key"] not in str(records)
