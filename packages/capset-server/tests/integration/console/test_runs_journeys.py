"""Runs in a real browser: an operator finds one, and unfolds what happened in it."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from capset_agents.playback.scripts import Call
from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.console.talking import session_of, shop
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send

pytestmark = pytest.mark.browser


@pytest.mark.spec("N38")
async def test_an_operator_finds_a_run_and_what_happened_in_it(browser: Browser, store: str) -> None:
    async with shop(Call("shout", text="ahoy", times=2), "Done.", store=store) as server:
        session = await session_of(server, "plain")
        async with server.client("plain") as client:
            await send(client, session, "Shout twice")
            await read_until(client, session, "turn.ended")
        async with signed_in(browser, server, "boss", "/runs") as page:
            await hold_page(page)
            await page.get_by_label("State").select_option("succeeded")
            await page.get_by_role("button", name="Filter").click()
            await expect(page.locator("tbody tr")).to_have_count(1)
            await page.locator("tbody tr td a").first.click()
            await expect(page.get_by_text("Shout twice")).to_be_visible()
            await expect(page.get_by_text("ahoyahoy")).to_be_hidden()
            await page.locator(".tree summary", has_text="shout").click()
            await expect(page.get_by_text("ahoyahoy")).to_be_visible()
            await hold_page(page)
            await page.get_by_role("link", name="Records").click()
            await expect(page.locator("tbody tr")).to_have_count(1)
