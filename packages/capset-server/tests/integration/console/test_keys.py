"""Keys in the console: made and shown once, never with more than their maker has, and revoked (spec 9, N18)."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Mapping
from html import unescape
from typing import Any, get_args

import httpx2
import pytest

from capset.stores.base import KeyRow
from capset_server.auth.keys import Scope
from capset_server.console.pages.keys import SCOPES
from tests.helpers.server.console.keys import ADMIN, EVIL, HIDDEN, client, here, sign_in
from tests.helpers.server.console.visitors import token_of
from tests.helpers.server.support import Site, site
from tests.waiting import until

__all__ = ["client", "here"]

pytestmark = pytest.mark.spec("N18")
SECRET = re.compile(r"capset_[\w-]{43}")


async def form(client: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    """Load the form of a new key, and fill it in."""
    page = await client.get("/keys/new")
    assert page.status_code == 200, page.text
    match = re.search(r'name="once" value="([^"]+)"', page.text)
    assert match is not None
    fields = {"key/name": "ci", "key/principal": "robot", "key/kind": '"agent"', "key/expires": "30d"}
    return {"token": token_of(page), "once": match[1], **fields, "scope": ["capset:read"], **more}


async def rows(server: Site) -> list[KeyRow]:
    return [row for row in await server.kernel.store.keys.list() if row.name == "ci"]


async def test_a_key_is_made_with_all_that_the_form_says(here: Site, client: httpx2.AsyncClient) -> None:
    more = {
        "tools": "kit.echo\r\n kit.note ",
        "key/permissions": "session_files:read\n",
        "key/agent": "foreman",
        "key/attributes": '{"tier": "gold", "seats": 3}',
        "key/allowance/limits": "100/1h",
        "key/allowance/usage": "tokens=1000/1d",
        "key/allowance/session/calls": "5",
        "key/allowance/run/cost": "1.5",
    }
    created = await client.post("/keys", data=await form(client, **more))
    assert created.status_code == 201, created.text
    (key,) = set(SECRET.findall(created.text))
    async with here.client(None, headers={"Authorization": f"Bearer {key}"}) as robot:
        me = (await robot.get("/v1/whoami")).json()
    assert (me["principal"], me["kind"], me["org"], me["agent"]) == ("robot", "agent", "acme", "foreman")
    assert me["scopes"] == ["capset:call:kit.echo", "capset:call:kit.note", "capset:read"]
    assert (me["permissions"], me["attributes"]) == (["session_files:read"], {"tier": "gold", "seats": 3})
    assert me["allowance"]["limits"] == ["100/1h"]
    assert me["allowance"]["session"]["calls"] == 5
    assert me["allowance"]["run"]["cost"] == 1.5
    page = await client.get(f"/keys/{me['key']}")
    for text in ("capset:call:kit.echo", "session_files:read", "seats = 3", "100/1h", "5 calls", "foreman"):
        assert text in page.text


async def test_a_key_is_shown_once_and_a_form_makes_one() -> None:
    log = io.BytesIO()
    async with site(log=log) as server, server.client(None) as client:
        await sign_in(client, await server.key("boss", scopes=ADMIN))
        sent = await form(client)
        created = await client.post("/keys", data=sent)
        (key,) = set(SECRET.findall(created.text))
        assert (created.status_code, created.headers["cache-control"]) == (201, "no-store")
        assert not {"location", "set-cookie"} & {*created.headers}
        (row,) = await rows(server)
        repeated = await client.post("/keys", data=sent)
        assert (repeated.status_code, row.id in repeated.text) == (409, True)
        assert len(await rows(server)) == 1
        changed = await client.post("/keys", data={**sent, "key/name": "other"})
        assert changed.status_code == 422
        for path in ("/keys", f"/keys/{row.id}", "/principals", "/principals/agent/robot", "/keys/new"):
            page = await client.get(path)
            assert (page.status_code, key in page.text) == (200, False)
        for refused in (repeated, changed):
            assert not SECRET.search(refused.text)
        assert key not in str(await server.records())
    logged = log.getvalue()  # the whole of it: it is written some time after each answer
    assert b'"/keys"' in logged
    assert key.encode() not in logged


async def test_a_form_that_is_sent_twice_at_once_makes_one_key() -> None:
    async with site() as server, server.client(None) as client:
        await sign_in(client, await server.key("boss", scopes=ADMIN))
        sent = await form(client)
        answers = await asyncio.gather(*(client.post("/keys", data=sent) for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
        assert len(await rows(server)) == 1


@pytest.mark.parametrize(
    ("more", "status", "field"),
    [
        ({"key/permissions": "vault:open"}, 403, "permissions"),
        ({"key/permissions": "*:*"}, 422, None),
        ({"key/org": "other"}, 403, None),
        ({"scope": ["capset:everything"]}, 422, "scopes"),
        ({"scope": []}, 422, "scopes"),
        ({"tools": "not a tool"}, 422, "tools"),
        ({"key/kind": '"anonymous"'}, 422, "kind"),
        ({"key/kind": "agent"}, 422, "kind"),
        ({"key/expires": "367d"}, 422, None),
        ({"key/expires": "1w"}, 422, "expires"),
        ({"key/expires": ""}, 422, "expires"),
        ({"key/name": ""}, 422, "name"),
        ({"key/name": "a\nb"}, 422, None),
        ({"key/principal": ""}, 422, "principal"),
        ({"key/attributes": "tier = gold"}, 422, "attributes"),
        ({"key/attributes": '{"a": [1]}'}, 422, "attributes"),
        ({"key/allowance/limits": "100/1h\nmany"}, 422, "allowance-limits"),
        ({"key/allowance/session/calls": "-1"}, 422, "allowance-session-calls"),
        ({"once": ""}, 422, None),
        ({"once": "é" * 20}, 422, None),
    ],
    ids=str,
)
async def test_a_form_that_asks_for_too_much_makes_no_key(
    here: Site, client: httpx2.AsyncClient, more: Mapping[str, Any], status: int, field: str | None
) -> None:
    before = await here.kernel.store.keys.list()
    refused = await client.post("/keys", data=await form(client, **more))
    assert refused.status_code == status, refused.text
    assert await here.kernel.store.keys.list() == before
    assert "No key was created." in refused.text
    assert 'value="robot"' in refused.text or more.get("key/principal") == ""
    if field in ("scopes", "tools"):
        assert f'id="{field}-' in refused.text
        assert "field-error" in refused.text
    elif field is not None:
        assert f'id="field-key/{field.replace("-", "/")}-error"' in refused.text
    typed = [
        field_value
        for name, field_value in more.items()
        if name not in ("key/kind", "key/org", "scope", "once") and field_value
    ]
    for value in typed:
        assert value.partition("\n")[0] in unescape(refused.text)


async def test_operators_choose_the_organisation(here: Site, client: httpx2.AsyncClient) -> None:
    assert 'name="key/org"' not in (await client.get("/keys/new")).text
    async with here.client(None) as operator:
        await sign_in(operator, here.keys["operator"])
        assert 'name="key/org"' in (await operator.get("/keys/new")).text
        for org in ("elsewhere", ""):
            created = await operator.post(
                "/keys", data=await form(operator, **{"key/org": org, "key/name": f"of {org}"})
            )
            assert created.status_code == 201, created.text
        orgs = {row.name: row.org for row in await here.kernel.store.keys.list()}
        assert (orgs["of elsewhere"], orgs["of "]) == ("elsewhere", None)
        page = await operator.get("/keys", params={"org": "elsewhere"})
        assert ("of elsewhere" in page.text, "boss" in page.text) == (True, False)
        assert "elsewhere" in (await operator.get("/organisations")).text
    assert (await client.get("/organisations")).status_code == 403
    assert (await client.get("/keys", params={"org": "elsewhere"})).status_code == 403


async def test_those_who_do_not_administer_reach_their_own_key_only(here: Site) -> None:
    await here.key("carl", scopes=["capset:call"])
    keys = {key.name: key.id for key in await here.kernel.store.keys.list()}
    async with here.client(None) as carl:
        await sign_in(carl, here.keys["carl"])
        account = await carl.get("/account")
        assert (keys["carl"] in account.text, "Administration" in account.text) == (True, False)
        for path in ("/keys", "/keys/new", "/principals", "/limits", "/administration", f"/keys/{keys['boss']}"):
            assert (await carl.get(path)).status_code == 403, path
        token = token_of(account)
        sent = {"token": token, "once": "0" * 32, "key/name": "ci", "key/principal": "x", "scope": "capset:admin"}
        assert (await carl.post("/keys", data=sent)).status_code == 403
        assert (await carl.post(f"/keys/{keys['boss']}/revoke", data={"token": token})).status_code == 403
        assert (await carl.get(f"/keys/{keys['carl']}")).status_code == 200
        signed_out = await carl.post(f"/keys/{keys['carl']}/revoke", data={"token": token})
        assert (signed_out.status_code, signed_out.headers["location"]) == (303, "/login")
        assert "Max-Age=0" in signed_out.headers["set-cookie"]
        assert (await carl.get("/account")).status_code == 303
    row = await here.kernel.store.keys.get(keys["carl"])
    assert row is not None
    assert row.revoked_at


async def test_a_key_that_is_revoked_ends_the_sign_ins_with_it(here: Site, client: httpx2.AsyncClient) -> None:
    created = await client.post("/keys", data=await form(client, scope=["capset:admin"], **{"key/name": EVIL}))
    key = SECRET.findall(created.text)[0]
    row = next(candidate for candidate in await here.kernel.store.keys.list() if candidate.name == EVIL)
    async with here.client(None) as second:
        await sign_in(second, key)
        assert (await second.get("/keys")).status_code == 200
        revoked = await client.post(f"/keys/{row.id}/revoke", data={"token": token_of(created)}, follow_redirects=True)
        assert "is revoked." in revoked.text
        assert "<img" not in revoked.text

        async def is_signed_out() -> bool:  # servers take a revoked key for a second more
            return (await second.get("/keys")).status_code == 303

        await until(is_signed_out, "the sign-in to end with its key")
        assert (await second.post("/login", data={"key": key})).status_code == 401


async def test_text_of_others_is_escaped(here: Site, client: httpx2.AsyncClient) -> None:
    await here.key("evil", principal=EVIL, attributes={"tier": EVIL + HIDDEN})
    (row,) = [key for key in await here.kernel.store.keys.list() if key.name == "evil"]
    created = await client.post("/keys", data=await form(client, **{"key/attributes": EVIL, "key/name": EVIL + HIDDEN}))
    principal = await client.get("/principals", params={"text": EVIL})
    link = re.search(r'href="(/principals/user/[^"]+)"', principal.text)
    assert link is not None
    hidden = [principal, await client.get(link[1]), await client.get(f"/keys/{row.id}")]
    pages = [created, *hidden, await client.get("/keys"), await client.get("/limits", params={"principal": EVIL})]
    for page in pages:
        assert page.status_code in (200, 422), page.text
        assert "onerror=alert(1)&gt;{{7*7}}" in page.text
        assert "<img" not in page.text
        assert len(page.content) < 200_000
    assert all("\\u{202e}" in page.text and HIDDEN not in page.text for page in hidden)


def test_every_scope_is_offered() -> None:
    assert {*SCOPES} == {*get_args(Scope)}
