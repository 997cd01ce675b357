"""Connections in a real browser: a key, a delegation, and a provider (spec 11, V30)."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.helpers.connect.vault.calendars import secretary, vault_of
from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.support import site

pytestmark = pytest.mark.browser


@pytest.mark.spec("V20", "V24", "V30")
async def test_a_user_connects_delegates_and_disconnects(store: str, browser: Browser) -> None:
    async with (
        site(agents=[secretary], vault=vault_of(), store=store) as server,
        signed_in(browser, server, "ada", "/connections") as page,
    ):
        await hold_page(page)
        await page.get_by_role("link", name="calendar", exact=True).click()
        await page.get_by_label("Your key for calendar").fill("the-key-of-ada")
        await hold_page(page)
        await page.get_by_role("button", name="Connect", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("calendar is connected")
        await page.get_by_role("link", name="calendar", exact=True).click()
        await page.get_by_label("Principal").fill("agent:helper")
        await page.get_by_role("button", name="Let it use this connection").click()
        await expect(page.get_by_role("status")).to_contain_text("agent:helper may use calendar")
        await hold_page(page)
        await page.get_by_role("button", name="End").click()
        await expect(page.get_by_role("status")).to_contain_text("The delegation is ended.")
        page.on("dialog", lambda dialog: dialog.accept())
        await page.get_by_role("button", name="Disconnect").click()
        await expect(page.get_by_role("status")).to_contain_text("calendar is disconnected")
