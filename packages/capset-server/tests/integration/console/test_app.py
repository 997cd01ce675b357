"""The console around its pages: signing in and out, forged forms, headers, and what strangers see (spec 9)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import httpx2
import pytest

from capset_server.auth.keys import revoke_key
from capset_server.auth.sign_ins import FAILURES
from capset_server.console.app import SIGN_IN
from capset_server.console.login import local_path
from tests.helpers.server.console.app import browser, shop, sign_in, token_of
from tests.helpers.server.console.inbox import sent, stored
from tests.helpers.server.support import Site, call, make_session, site

__all__ = ["browser", "shop"]


async def requested(shop: Site) -> str:
    async with shop.client("caller") as client:
        session = await make_session(client, "till")
        return (await call(client, session, "pay", to="bob")).json()["approval"]


@pytest.mark.spec("N1")
async def test_a_stranger_is_led_to_the_sign_in_and_back(shop: Site, browser: httpx2.AsyncClient) -> None:
    path = f"/approvals/{await requested(shop)}"
    first = await browser.get(f"{path}?a=b")
    assert (first.status_code, "Sign in" in first.text, "bob" in first.text) == (200, True, False)
    assert f'value="{path}?a=b"' in first.text
    page = await sign_in(browser, shop.keys["boss"], path)
    assert (page.status_code, page.url.path, "bob" in page.text) == (200, path, True)
    assert shop.keys["boss"] not in page.text
    policy = page.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert (page.headers["cache-control"], page.headers["x-frame-options"]) == ("no-store", "DENY")


@pytest.mark.spec("N1", "T46")
@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb", "x", ""])
def test_a_sign_in_leads_nowhere_else(target: str) -> None:
    assert local_path(target) == ""


@pytest.mark.spec("N1", "T46")
async def test_a_sign_in_ends_when_its_key_is_revoked(shop: Site, browser: httpx2.AsyncClient) -> None:
    await shop.key("leaver", scopes=["capset:admin"])
    assert (await sign_in(browser, shop.keys["leaver"])).url.path != "/login"
    (row,) = [key for key in await shop.kernel.store.keys.list() if key.name == "leaver"]
    await revoke_key(shop.kernel, row.id)
    assert (await browser.get("/approvals")).url.path == "/login"


@pytest.mark.spec("N1")
@pytest.mark.parametrize(
    ("public_url", "name", "secure"),
    [(None, SIGN_IN.cookie, False), ("https://a.example", f"__Host-{SIGN_IN.cookie}", True)],
)
async def test_the_cookie_is_for_the_browser_alone(public_url: str | None, name: str, secure: bool) -> None:
    async with site(public_url=public_url) as server, server.client(None) as client:
        cookie = (await sign_in(client, server.keys["ada"])).headers["set-cookie"]
    assert cookie.startswith(f"{name}=")
    for part in ("HttpOnly", "SameSite=Lax", "Path=/", f"Max-Age={SIGN_IN.seconds}"):
        assert part in cookie
    assert ("Secure" in cookie) is secure


@pytest.mark.spec("N2", "T46")
async def test_a_form_counts_only_from_a_page_of_the_sign_in(shop: Site, browser: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    token = token_of(await sign_in(browser, shop.keys["boss"], f"/approvals/{request}"))
    async with shop.client(None, follow_redirects=True) as other:
        theirs = token_of(await sign_in(other, shop.keys["ada"], "/approvals"))
    headers_and_forms: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {}),
        ({}, {"token": "0" * 64}),
        ({}, {"token": theirs}),
        ({"origin": "https://evil.example"}, {"token": token}),
        ({"sec-fetch-site": "cross-site"}, {"token": token}),
    ]
    for headers, form in headers_and_forms:
        refused = await browser.post(f"/approvals/{request}/approve", data={**form, "round": "0"}, headers=headers)
        assert refused.status_code == 403, (headers, form)
    assert (await stored(shop, request)).status == "pending"


@pytest.mark.spec("N1", "T46")
@pytest.mark.parametrize(("path", "form"), [("/login", {}), ("/approve/0199", {"action": "sign_in"})])
async def test_wrong_sign_ins_are_limited_and_a_valid_key_always_signs_in(path: str, form: dict[str, str]) -> None:
    """All that comes through a proxy has one address."""
    async with site() as server, server.client(None) as client:

        async def tried(key: str, times: int) -> Counter[int]:
            ways = [client.post(path, data={**form, "key": key}) for _ in range(times)]
            return Counter([answer.status_code for answer in await asyncio.gather(*ways)])

        assert await tried(server.keys["ada"], 2 * FAILURES) == {303: 2 * FAILURES}
        assert await tried("wrong", 30) == {401: FAILURES, 429: 30 - FAILURES}
        assert await tried(server.keys["ada"], 1) == {303: 1}
        assert await tried("wrong", 1) == {429: 1}, "a sign-in does not forget what failed"


@pytest.mark.spec("N1", "T46")
async def test_a_sign_out_ends_every_copy_of_the_cookie_on_every_server(store: str) -> None:
    async with site(store=store) as server, site(store=store) as other, server.client(None) as browser:
        await sign_in(browser, server.keys["ada"])
        copied = {"Cookie": f"{SIGN_IN.cookie}={browser.cookies[SIGN_IN.cookie]}"}
        async with server.client(None, headers=copied) as copy, other.client(None, headers=copied) as elsewhere:
            for thief in (copy, elsewhere):
                assert (await thief.get("/agents")).status_code == 200
            forged = await browser.post("/logout", headers={"Sec-Fetch-Site": "cross-site"})
            assert "set-cookie" not in forged.headers
            assert (await copy.get("/agents")).status_code == 200, "another site cannot sign a user out"
            assert (await browser.post("/logout")).headers["location"] == "/login"
            for thief in (browser, copy, elsewhere):
                response = await thief.get("/agents")
                assert (response.status_code, response.headers["location"]) == (303, "/login?next=%2Fagents")


@pytest.mark.spec("N4")
async def test_static_files_are_kept_by_browsers_and_small(browser: httpx2.AsyncClient) -> None:
    page = await browser.get("/login")
    paths = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
    assert len(paths) >= 4
    size = len(page.content)
    for path in paths:
        answered = await browser.get(path)
        assert answered.status_code == 200
        assert answered.headers["cache-control"] == "public, max-age=31536000, immutable"
        size += len(answered.content)
    assert size < 150_000
    assert (await browser.get("/static/0000/console.css")).status_code == 404


@pytest.mark.spec("N4")
async def test_what_was_done_is_said_once(shop: Site, browser: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    await sign_in(browser, shop.keys["boss"])
    assert "Approved." in (await sent(browser, request, "approve")).text
    assert "Approved." not in (await browser.get("/approvals")).text
    assert (await stored(shop, request)).decided_by == "user:boss"
