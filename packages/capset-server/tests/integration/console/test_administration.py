"""Administration beside keys: who sees which tab, principals, limits, one's own account, and people (spec 9, N18)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from html import unescape
from typing import Any

import httpx2
import pytest

from capset import Principal
from capset.definitions.governance.allowances import Allowance
from capset.ext import Governance
from capset_server.auth.callers import Caller
from capset_server.auth.keys import create_key
from capset_server.console.pages.administration import TABS
from tests.helpers.server.auth.issuing import issuing, token
from tests.helpers.server.console.auditing import reading
from tests.helpers.server.console.keys import ADMIN, EVIL, HIDDEN, sign_in
from tests.helpers.server.support import Site, call, make_session, site

pytestmark = pytest.mark.spec("N18")
LIMITS = Allowance(limits=["20/1h", {"requests": 1_000, "window": "1d", "per": "org"}], usage=["cost=5/1d per all"])
BEA = {"person/team": "T1", "person/user": "U1", "person/principal": "bea", "person/kind": '"user"'}


@pytest.fixture(scope="module")
async def here() -> AsyncGenerator[Site]:
    """Give a server with limits, on which ``ada`` has made 17 calls."""
    async with site(governance=Governance(allowance=LIMITS)) as server:
        await server.key("boss", scopes=ADMIN)
        await server.key("spy", org="other", scopes=ADMIN)
        await server.key("operator", org=None, scopes=ADMIN)
        await server.key("auditor", scopes=["capset:audit"])
        bounded = Principal("bounded", kind="agent", org="acme", allowance=Allowance(limits="1/1h"))
        await create_key(server.kernel, "bounded", bounded, scopes=["capset:read"])
        async with server.client() as ada:
            session = await make_session(ada, "kit")
            for _ in range(17):
                assert (await call(ada, session, "echo", text="x")).is_success
        yield server


def tabs_in(page: httpx2.Response) -> list[str]:
    match = re.search(r'aria-label="Administration">(.*?)</nav>', page.text, re.DOTALL)
    return [] if match is None else re.findall(r">([^<]+)</a>", match[1])


@pytest.mark.parametrize(
    ("user", "first", "tabs"),
    [
        ("boss", "/keys", ["Keys", "Principals", "Limits", "People", "Deliveries"]),
        ("operator", "/keys", ["Keys", "Principals", "Organisations", "Limits", "People", "Deliveries"]),
        ("auditor", "/limits", ["Limits", "Deliveries"]),
    ],
)
async def test_each_sees_the_tabs_that_they_may_use(here: Site, user: str, first: str, tabs: list[str]) -> None:
    async with reading(here, user) as client:
        page = await client.get("/administration")
        assert (page.status_code, page.url.path, tabs_in(page)) == (200, first, tabs)
        assert re.search(r'href="/administration" aria-current="page"', page.text)
        for path, (title, _) in TABS.items():
            assert (await client.get(f"/{path}")).status_code == (200 if title in tabs else 403), path


@pytest.mark.parametrize(
    ("user", "query", "shown", "absent"),
    [
        ("boss", "", ["983 left.", "17 of 20 used, 3 left.", "0 of 1 used, 1 left.", "0 of 5 used"], []),
        ("boss", "?principal=bounded&kind=agent", ["0 of 1 used, 1 left."], ["17 of 20"]),
        ("auditor", "", ["17 of 1,000 used"], ["17 of 20"]),
        ("auditor", "?principal=ada", ["17 of 20 used"], []),
        ("operator", "?org=acme", ["17 of 1,000 used", "17 of 20 used"], []),
        ("operator", "", [], ["17 of 1,000"]),
    ],
)
async def test_limits_are_shown_in_words(
    here: Site, user: str, query: str, shown: list[str], absent: list[str]
) -> None:
    async with reading(here, user) as client:
        page = (await client.get(f"/limits{query}")).text
        for part in re.findall(r'hx-get="([^"]+)"', page):  # as a browser loads it
            page += (await client.get(unescape(part), headers={"hx-request": "true"})).text
    assert [words for words in (*shown, *absent) if words in page] == shown
    assert page.count("17 of 1,000 used") <= 1, "what all share is shown once"


async def test_a_principal_has_its_keys_limits_and_records(here: Site) -> None:
    async with reading(here) as client:
        page = await client.get("/principals/user/ada")
        for words in ("Last session opened", "17 of 20 used", 'href="/audit?principal=ada"', "session_files:read"):
            assert words in page.text, words
        listing = (await client.get("/principals", params={"text": "AD"})).text
        assert ("user:ada" in listing, "bounded" in listing) == (True, False)
        for path in ("/principals/agent/ada", "/principals/user/nobody", "/principals/x/ada"):
            assert (await client.get(path)).status_code == 404, path
        for query, status in (("principal=x&kind=host", 422), ("org=other", 403)):
            assert (await client.get(f"/limits?{query}")).status_code == status
    async with reading(here, "operator") as client:
        assert (await client.get("/principals/user/ada")).status_code == 404
        assert "17 of 20 used" in (await client.get("/principals/user/ada?org=acme")).text
        assert "/principals/user/ada?org=acme" in (await client.get("/principals?org=acme")).text


async def test_an_account_says_who_one_is(here: Site) -> None:
    async with reading(here, "auditor") as client:
        page = (await client.get("/account")).text
    for words in ("acme", "capset:audit", "0 of 20 used", "memory", "Revoke key", 'href="/account"'):
        assert words in page, words
    assert here.keys["auditor"] not in page


async def test_an_account_by_a_token_has_no_key() -> None:
    async with issuing() as door, door.site.client(None) as client:
        await sign_in(client, token(scope="capset:read capset:admin"))
        page = (await client.get("/account")).text
    assert ("with a token of the issuer" in page, "Revoke key" in page) == (True, False)


async def test_without_keys_nothing_is_made_or_revoked() -> None:
    anyone = Caller(Principal("dev", org="acme"), frozenset({"capset:admin"}), None)
    async with site(anyone=anyone) as server, server.client(None) as client:
        assert "No requests are waiting" in (await client.get("/")).text
        page = (await client.get("/account")).text
        assert ("everyone who reaches it acts as user:dev" in page, "Sign out" in page) == (True, False)
        listing = (await client.get("/keys")).text
        assert ("ada" in listing, "Create key" in listing) == (True, False)
        (row,) = await server.kernel.store.keys.list()
        assert "Revoke key" not in (await client.get(f"/keys/{row.id}")).text


async def people(server: Site) -> list[Mapping[str, Any]]:
    async with server.client("boss") as client:
        return (await client.get("/v1/people")).json()["items"]


async def test_people_are_entered_once_and_removed(here: Site) -> None:
    more = {"person/permissions": "session_files:read", "person/attributes": '{"tier": "gold"}'}
    form = {**BEA, **more, "person/principal": EVIL}
    async with reading(here) as client, reading(here, "spy") as spy:
        added = await client.post("/people", data=form)
        assert (added.status_code, "U1 of T1 decides as" in added.text, "<img" in added.text) == (200, True, False)
        assert ("session_files:read" in added.text, "gold" in added.text) == (True, True)
        assert (await client.post("/people", data=form)).status_code == 409
        (row,) = await people(here)
        assert (row["principal"], row["permissions"]) == (EVIL, ["session_files:read"])
        assert row["attributes"] == {"tier": "gold"}
        assert "U1" not in (await spy.get("/people")).text
        assert (await spy.post(f"/people/{row['id']}/remove")).status_code == 404
        removed = await client.post(f"/people/{row['id']}/remove")
    assert "can no longer decide" in removed.text
    assert await people(here) == []


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("team", "the team", 422),
        ("user", "", 422),
        ("principal", "", 422),
        ("permissions", "vault:open", 403),
        ("attributes", HIDDEN, 422),
        ("kind", '"host"', 422),
    ],
)
async def test_a_person_that_cannot_be_is_not_entered(here: Site, field: str, value: str, status: int) -> None:
    async with reading(here) as client:
        refused = await client.post("/people", data={**BEA, f"person/{field}": value})
    assert (refused.status_code, "Not added." in refused.text) == (status, True)
    assert f'id="field-person/{field}-error"' in refused.text
    assert await people(here) == []
