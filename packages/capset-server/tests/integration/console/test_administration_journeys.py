"""Administration in a real browser: keys that are made, used and revoked, and deliveries (spec 9)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from playwright.async_api import Browser, Error, Page, expect

from tests.helpers.connect.notifications.receiving import paying, receiver, settled
from tests.helpers.net.support import answer
from tests.helpers.server.approving import asked
from tests.helpers.server.console.auditing import reading
from tests.helpers.server.console.browsing import hold_page, sign_in, signed_in, visiting
from tests.helpers.server.console.keys import ADMIN, EVIL
from tests.helpers.server.support import site
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.spec("N18")]


async def make_key(page: Page) -> str:
    """Fill in the form of a new key, once with too much, and return the key that it shows."""
    await page.get_by_role("link", name="Administration").click()
    await page.get_by_role("link", name="Create key").click()
    await page.get_by_label("Name").fill("ci")
    await page.get_by_label("Principal", exact=True).fill("robot")
    await page.get_by_label("Permissions").fill("vault:open")
    await page.get_by_label("capset:audit").check()
    await page.get_by_role("button", name="Create key").click()
    await expect(page.get_by_role("alert")).to_contain_text("vault:open")
    await expect(page.get_by_label("Permissions")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_label("capset:audit")).to_be_checked()
    await hold_page(page)
    await page.get_by_label("Permissions").fill("session_files:read")
    await page.get_by_role("button", name="Create key").dblclick()
    await expect(page.get_by_role("heading", name="Key created")).to_be_visible()
    await hold_page(page)
    key = await page.get_by_label("API key", exact=True).inner_text()
    await page.get_by_role("button", name="Copy key").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == key
    return key


async def leave_and_come_back(page: Page, key: str) -> None:
    """Look for a key where a browser might have kept it."""
    assert key not in page.url
    assert key not in str(await page.context.cookies())
    await page.get_by_role("link", name="All keys").click()
    await expect(page.get_by_role("link", name="ci", exact=True)).to_be_visible()
    with suppress(Error):  # a browser may refuse to show the answer to a form again
        await page.go_back()

    async def content() -> str:
        with suppress(Error):
            return await page.content()
        return ""

    assert key not in await until(content, "the browser to show a page")


async def test_a_key_is_made_used_and_revoked(store: str, browser: Browser) -> None:
    rights = ["clipboard-read", "clipboard-write"]
    async with site(store=store) as server:
        await server.key("boss", scopes=ADMIN)
        async with (
            signed_in(browser, server, "boss", permissions=rights) as page,
            visiting(browser, server.url) as second,
        ):
            key = await make_key(page)
            await leave_and_come_back(page, key)
            assert [row.name for row in await server.kernel.store.keys.list()].count("ci") == 1
            await sign_in(second, key, "/account")
            await expect(second.get_by_text("session_files:read")).to_be_visible()
            await page.goto("/keys")
            await page.get_by_role("link", name="ci", exact=True).click()
            page.once("dialog", lambda dialog: dialog.dismiss())
            await page.get_by_role("button", name="Revoke key").click()
            await expect(page.get_by_text("valid", exact=True)).to_be_visible()
            page.once("dialog", lambda dialog: dialog.accept())
            await page.get_by_role("button", name="Revoke key").click()
            await expect(page.get_by_role("status")).to_contain_text("The key ci is revoked.")
            await page.wait_for_timeout(1_100)  # servers take a revoked key for a second more
            await second.reload()
            await expect(second.get_by_role("heading", name="Sign in")).to_be_visible()


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


async def test_a_delivery_that_failed_is_sent_again(store: str, browser: Browser) -> None:
    async with (
        receiver(answer(410), answer(204)) as endpoint,
        paying(endpoint.hook(), store=store) as (server, http, session),
    ):
        await server.key("boss", scopes=ADMIN)
        await server.key("spy", org="other", scopes=ADMIN)
        await server.key("auditor", scopes=["capset:audit"])
        request = await asked(http, session)
        await settled(server, "ops", request, "failed")
        for user, is_shown in (("spy", False), ("auditor", True)):
            async with reading(server, user) as client:
                listing = (await client.get("/deliveries")).text
            assert (request in listing, "/retry" in listing) == (is_shown, False)
        async with signed_in(browser, server, "boss", "/deliveries?state=failed") as page:
            await expect(page.get_by_role("row", name="approval.requested")).to_contain_text("410")
            await hold_page(page)
            await page.get_by_role("button", name="Retry").click()
            await expect(page.get_by_role("status")).to_contain_text("Queued again")
            await settled(server, "ops", request)
            await page.reload()
            await expect(page.get_by_role("row", name="approval.requested")).to_contain_text("delivered")
