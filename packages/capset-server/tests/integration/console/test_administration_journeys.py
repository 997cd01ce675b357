"""Administration in a real browser: keys that are made, used and revoked (spec 9)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from playwright.async_api import Browser, Error, Page, expect

from tests.helpers.server.console.browsing import hold_page, sign_in, signed_in, visiting
from tests.helpers.server.console.keys import ADMIN, EVIL
from tests.helpers.server.support import Site, site
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.spec("N18")]


async def make_key(page: Page) -> str:
    """Fill in the form of a new key, once with too much, and return the key that it shows."""
    await page.goto("/")
    await page.get_by_role("link", name="Administration").click()
    await page.get_by_role("link", name="Make a key").click()
    await hold_page(page)
    await page.get_by_label("Name").fill("ci")
    await page.get_by_label("Principal", exact=True).fill("robot")
    await page.get_by_label("Permissions").fill("vault:open")
    await page.get_by_label("capset:audit").check()
    await page.get_by_role("button", name="Make the key").click()
    await expect(page.get_by_role("alert")).to_contain_text("vault:open")
    await expect(page.get_by_label("Permissions")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_label("capset:audit")).to_be_checked()
    await hold_page(page)
    await page.get_by_label("Permissions").fill("session_files:read")
    await page.get_by_role("button", name="Make the key").dblclick()
    await expect(page.get_by_role("heading", name="The key is made")).to_be_visible()
    await hold_page(page)
    key = await page.get_by_label("The key", exact=True).inner_text()
    await page.get_by_role("button", name="Copy the key").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == key
    return key


async def content_of(page: Page) -> str:
    """Return what a page has, once the browser has settled on it."""

    async def content() -> str:
        with suppress(Error):
            return await page.content()
        return ""

    return await until(content, "the browser to show a page")


async def leave_and_come_back(page: Page, key: str) -> None:
    """Look for a key where a browser might have kept it."""
    assert key not in page.url
    assert key not in str(await page.context.cookies())
    await page.get_by_role("link", name="All keys").click()
    await expect(page.get_by_role("link", name="ci", exact=True)).to_be_visible()
    with suppress(Error):  # a browser may refuse to show the answer to a form again
        await page.go_back()
    assert key not in await content_of(page)


async def administer(server: Site, browser: Browser) -> None:
    """Make a key, sign in with it elsewhere, revoke it, and see that sign-in end."""
    await server.key("boss", scopes=ADMIN)
    async with signed_in(browser, server, "boss", permissions=["clipboard-read", "clipboard-write"]) as page:
        key = await make_key(page)
        await leave_and_come_back(page, key)
        assert [row.name for row in await server.kernel.store.keys.list()].count("ci") == 1
        async with visiting(browser, server.url) as second:
            await sign_in(second, key, "/account")
            await expect(second.get_by_text("session_files:read")).to_be_visible()
            await hold_page(second)
            await page.goto("/keys")
            await hold_page(page)
            await page.get_by_role("link", name="ci", exact=True).click()
            await hold_page(page)
            page.once("dialog", lambda dialog: dialog.dismiss())
            await page.get_by_role("button", name="Revoke this key").click()
            await expect(page.get_by_text("valid", exact=True)).to_be_visible()
            page.once("dialog", lambda dialog: dialog.accept())
            await page.get_by_role("button", name="Revoke this key").click()
            await expect(page.get_by_role("status")).to_contain_text("The key ci is revoked.")
            await page.wait_for_timeout(1_100)  # servers take a revoked key for a second more
            await second.reload()
            await expect(second.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_key_is_made_used_and_revoked(store: str, browser: Browser) -> None:
    async with site(store=store) as server:
        await administer(server, browser)


async def test_somebody_revokes_the_key_that_they_signed_in_with(store: str, browser: Browser) -> None:
    async with site(store=store) as server:
        async with signed_in(browser, server, "ada") as page:
            await page.get_by_text("user:ada").first.click()
            await page.get_by_role("link", name="Your account").click()
            page.once("dialog", lambda dialog: dialog.accept())
            await page.get_by_role("button", name="Revoke this key").click()
            await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        (row,) = await server.kernel.store.keys.list()
        assert row.revoked_at


async def test_the_pages_have_no_fault_with_text_of_others(store: str, browser: Browser) -> None:
    async with site(store=store) as server:
        await server.key("operator", org=None, scopes=ADMIN)
        await server.key(EVIL, org=EVIL, principal=EVIL, scopes=["capset:read"], attributes={"tier": EVIL + "\u202e"})
        async with signed_in(browser, server, "operator", "/organisations") as page:
            await hold_page(page)
            await page.get_by_role("row", name=EVIL).get_by_role("link", name="principals").click()
            await hold_page(page)
            await page.get_by_role("link", name=EVIL).click()
            await expect(page.get_by_text("\\u{202e}")).to_be_visible()
            await hold_page(page)
            await page.get_by_role("link", name=EVIL).click()
            await expect(page.get_by_role("heading", name=f"Key {EVIL}")).to_be_visible()
            await hold_page(page)
            await page.goto("/limits")
            await expect(page.get_by_text("Nothing limits it by itself.")).to_be_visible()
            await hold_page(page)
