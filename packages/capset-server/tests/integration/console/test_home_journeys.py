"""The first page in a real browser (spec 9, N36)."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.helpers.server.approving import asked
from tests.helpers.server.console.auditing import auditing, called
from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.support import make_session

pytestmark = pytest.mark.browser


@pytest.mark.spec("N36")
async def test_the_first_page_leads_on_and_so_do_errors(store: str, browser: Browser) -> None:
    async with auditing(store=store) as shop, signed_in(browser, shop, "boss") as page:
        await called(shop, "one")
        async with shop.client("caller") as client:
            await asked(client, await make_session(client, "till"))
        await page.goto("/")
        await expect(page.get_by_role("heading", name="Waiting for a decision")).to_be_visible()
        await hold_page(page)
        await page.goto("/agents/nothing")
        await hold_page(page)
        await page.get_by_role("main").get_by_role("link", name="Home").click()
        await page.get_by_role("link", name="Decide").click()
        await expect(page.get_by_role("link", name="pay")).to_be_visible()
