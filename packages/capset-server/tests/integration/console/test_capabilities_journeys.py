"""The catalogue of capabilities in a real browser (spec 9)."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.console.capabilities import desk, drawer, evil, many
from tests.helpers.server.support import site


@pytest.mark.browser
@pytest.mark.spec("N8")
async def test_somebody_searches_and_switches_a_preset(store: str, browser: Browser) -> None:
    async with (
        site(desk, drawer, evil, *many, store=store) as server,
        signed_in(browser, server, "ada", "/capabilities") as page,
    ):
        await page.get_by_label("Search").press_sequentially("drawer")
        cards = page.locator(".card.capability")
        await expect(cards).to_have_count(2)
        assert "text=drawer" in page.url
        # As a hand does: the field is left when the button is pressed, and may load the list before it is released.
        await cards.filter(has_text="A desk with a drawer").click(delay=300)
        await expect(page.get_by_role("heading", level=1)).to_have_text("The desk")
        preview = page.locator("#preview")
        switch = page.get_by_role("switch", name="gazing")
        was_on = await switch.is_checked()
        await switch.set_checked(not was_on)
        await expect(preview.get_by_text("gaze", exact=True)).to_have_count(0 if was_on else 1)
        await switch.set_checked(True)
        await expect(preview).to_contain_text("Look closely.")
        await page.get_by_label("size").fill("7")
        await expect(preview).to_contain_text("size: 7")
        await page.get_by_label("size").fill("many")
        await expect(preview.get_by_role("alert")).to_contain_text("size")
        await expect(page.get_by_label("size")).to_have_value("many")
        await page.goto("/capabilities/evil")
        await hold_page(page)
        assert await page.locator("main img").count() == 0, "what others wrote runs nothing"
