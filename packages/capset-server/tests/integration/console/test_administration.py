"""Administration beside keys: who sees which tab, principals, organisations, limits, and one's own account (N18)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape

import httpx2
import pytest

from capset import Principal
from capset.definitions.governance.allowances import Allowance
from capset.ext import Governance
from capset_server.auth.callers import Caller
from capset_server.auth.keys import create_key
from capset_server.console.pages.administration import TABS
from tests.helpers.server.auth.issuing import issuing, token
from tests.helpers.server.console.keys import ADMIN, sign_in
from tests.helpers.server.support import Site, call, make_session, site

pytestmark = pytest.mark.spec("N18")
LIMITS = Allowance(limits=["20/1h", {"requests": 1_000, "window": "1d", "per": "org"}], usage=["cost=5/1d per all"])


@pytest.fixture(scope="module")
async def here() -> AsyncGenerator[Site]:
    """Give a server with limits, on which ``ada`` has made 17 calls."""
    async with site(governance=Governance(allowance=LIMITS)) as server:
        await server.key("boss", scopes=ADMIN)
        await server.key("operator", org=None, scopes=ADMIN)
        await server.key("auditor", scopes=["capset:audit"])
        bounded = Principal("bounded", kind="agent", org="acme", allowance=Allowance(limits="1/1h"))
        await create_key(server.kernel, "bounded", bounded, scopes=["capset:read"])
        async with server.client() as ada:
            session = await make_session(ada, "kit")
            for _ in range(17):
                assert (await call(ada, session, "echo", text="x")).is_success
        yield server


@asynccontextmanager
async def visit(server: Site, user: str) -> AsyncGenerator[httpx2.AsyncClient]:
    async with server.client(None, follow_redirects=True) as client:
        await client.post("/login", data={"key": server.keys[user]})
        yield client


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
    async with visit(here, user) as client:
        page = await client.get("/administration")
        assert (page.status_code, page.url.path, tabs_in(page)) == (200, first, tabs)
        assert re.search(r'href="/administration" aria-current="page"', page.text)
        for path, (title, _) in TABS.items():
            assert (await client.get(f"/{path}")).status_code == (200 if title in tabs else 403), path


async def limits_in(client: httpx2.AsyncClient, path: str = "/limits") -> str:
    """Load the page of limits, and its parts as a browser does."""
    page = (await client.get(path)).text
    parts = [unescape(part) for part in re.findall(r'hx-get="([^"]+)"', page)]
    return page + "".join([(await client.get(part, headers={"hx-request": "true"})).text for part in parts])


async def test_limits_are_shown_in_words(here: Site) -> None:
    async with visit(here, "boss") as client:
        page = await limits_in(client)
        for words in ("17 of 1,000 used, 983 left.", "17 of 20 used, 3 left.", "0 of 1 used, 1 left.", "0 of 5 used"):
            assert words in page, words
        assert page.count("17 of 1,000 used") == 1, "what all share is shown once"
        bounded_page = (await client.get("/limits", params={"principal": "bounded", "kind": "agent"})).text
        assert ("0 of 1 used, 1 left." in bounded_page, "17 of 20" in bounded_page) == (True, False)
        assert (await client.get("/limits", params={"principal": "x", "kind": "host"})).status_code == 422
        assert (await client.get("/limits", params={"org": "other"})).status_code == 403
    async with visit(here, "auditor") as client:
        page = await limits_in(client)
        assert ("17 of 1,000 used" in page, "17 of 20" in page) == (True, False)
        assert "17 of 20 used" in (await client.get("/limits", params={"principal": "ada"})).text
    async with visit(here, "operator") as client:
        page = await limits_in(client, "/limits?org=acme")
        assert ("17 of 1,000 used" in page, "17 of 20 used" in page) == (True, True)
        assert "17 of 1,000" not in await limits_in(client)


async def test_a_principal_has_its_keys_limits_and_records(here: Site) -> None:
    async with visit(here, "boss") as client:
        page = await client.get("/principals/user/ada")
        assert page.status_code == 200
        for words in ("Opened its last session", "17 of 20 used", 'href="/audit?principal=ada"', "session_files:read"):
            assert words in page.text, words
        listing = (await client.get("/principals", params={"principal": "ada"})).text
        assert ("user:ada" in listing, "bounded" in listing) == (True, False)
        for path in ("/principals/agent/ada", "/principals/user/nobody", "/principals/x/ada"):
            assert (await client.get(path)).status_code == 404, path
    async with visit(here, "operator") as client:
        assert (await client.get("/principals/user/ada")).status_code == 404
        page = await client.get("/principals/user/ada", params={"org": "acme"})
        assert (page.status_code, "17 of 20 used" in page.text) == (200, True)
        principals_page = (await client.get("/principals", params={"org": "acme"})).text
        assert "/principals/user/ada?org=acme" in principals_page


async def test_an_account_says_who_one_is(here: Site) -> None:
    async with visit(here, "auditor") as client:
        page = (await client.get("/account")).text
        for words in ("acme", "capset:audit", "session_files:read", "0 of 20 used", "memory", "Revoke this key"):
            assert words in page, words
        assert 'href="/account"' in page, "the link in the bar"
        assert here.keys["auditor"] not in page


async def test_an_account_by_a_token_has_no_key() -> None:
    async with issuing() as door, door.site.client(None) as client:
        await sign_in(client, token(scope="capset:read capset:admin"))
        page = (await client.get("/account")).text
        assert ("By a token of the issuer" in page, "Revoke this key" in page) == (True, False)


async def test_without_keys_nothing_is_made_or_revoked() -> None:
    anyone = Caller(Principal("dev", org="acme"), frozenset({"capset:admin"}), None)
    async with site(anyone=anyone) as server, server.client(None) as client:
        page = (await client.get("/account")).text
        assert ("everybody who reaches it is user:dev" in page, "Sign out" in page) == (True, False)
        listing = (await client.get("/keys")).text
        assert ("ada" in listing, "Make a key" in listing) == (True, False)
        (row,) = await server.kernel.store.keys.list()
        assert "Revoke this key" not in (await client.get(f"/keys/{row.id}")).text
