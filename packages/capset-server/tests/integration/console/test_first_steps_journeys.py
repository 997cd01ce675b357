"""The first steps of a new user: an agent, a run, an approval and its record, in twelve clicks (spec 9, N14)."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.async_api import Browser, expect

from capset_agents.playback.scripts import Call
from tests.helpers.server.console.browsing import signed_in
from tests.helpers.server.console.talking import shop

_COUNT: Final = (
    "addEventListener('click', event => { if (event.isTrusted && event.detail > 0)"
    " localStorage.setItem('clicks', 1 + Number(localStorage.getItem('clicks') || 0)); }, true)"
)
"""Counts the clicks of a mouse on all pages; what a form's key sends is no click."""


@pytest.mark.browser
@pytest.mark.gate
@pytest.mark.spec("N14")
async def test_a_new_user_gets_from_nothing_to_the_record(browser: Browser, store: str) -> None:
    async with (
        shop(Call("pay", to="bob"), "Paid.", store=store) as server,
        signed_in(browser, server, "boss") as page,
    ):
        await page.add_init_script(_COUNT)
        await page.goto("/")
        await page.get_by_role("link", name="Agents").click()
        await page.get_by_role("link", name="New agent").click()
        await page.get_by_label("Name", exact=True).fill("payer")
        await page.get_by_label("Add a capability").fill("till")
        await page.get_by_role("button", name="Add till", exact=True).click()
        await expect(page.locator("#editor-said")).to_have_text("till is added.")
        await page.get_by_role("button", name="Create agent").click()
        await page.get_by_role("button", name="Run agent").click()
        await page.get_by_label("Message").fill("Pay bob")
        await page.get_by_role("button", name="Send").click()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("log").get_by_text("Paid.")).to_be_visible()
        await page.get_by_role("link", name="Record").last.click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("pay")
        clicks = int(await page.evaluate("localStorage.getItem('clicks')"))
    assert 8 <= clicks <= 12
