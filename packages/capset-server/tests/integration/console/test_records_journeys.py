"""The record and fingerprints in a real browser."""

from __future__ import annotations

import csv
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from capset_server.console.pages import records as pages
from tests.helpers.server.console.auditing import TEXTS, auditing, called, changed_agent
from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.support import Site
from tests.helpers.stores.scale.filling import connected_to

pytestmark = pytest.mark.browser


@pytest.fixture
async def shop(store: str) -> AsyncGenerator[Site]:
    async with auditing(store=store) as server:
        yield server


@pytest.mark.spec("N16")
async def test_somebody_finds_a_refusal_and_proves_it(shop: Site, browser: Browser) -> None:
    await called(shop, "one", *TEXTS)
    async with signed_in(browser, shop, "boss", "/audit") as page:
        await hold_page(page)
        await page.get_by_label("Outcome").select_option("denied")
        await page.get_by_label("Since (UTC)").fill("2020-01-01T00:00:00")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page.get_by_label("Since (UTC)")).to_have_value("2020-01-01T00:00")
        await expect(page.locator("tbody")).to_contain_text("lacks the permission")
        async with page.expect_download() as loading:
            await page.get_by_role("link", name="Export CSV").click()
        download = await loading.value
        assert download.suggested_filename == "records.csv"
        with (await download.path()).open(newline="") as file:
            assert len([*csv.reader(file)]) == 2
        await page.locator("tbody tr td a").first.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("unlock")
        await expect(page.locator(".proof")).to_contain_text("verified")
        await hold_page(page)
        await page.get_by_role("link", name="Records of the session").click()
        await expect(page.locator("tbody tr")).to_have_count(3 + len(TEXTS))
        assert await page.evaluate("document.querySelectorAll('tbody img, tbody script').length") == 0


@pytest.mark.spec("N16")
async def test_the_button_walks_the_chain_and_finds_what_was_changed(
    shop: Site, store: str, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LINKS", 3)
    session = await called(shop, *map(str, range(8)))
    async with signed_in(browser, shop, "boss", "/audit/verify") as page:
        await page.get_by_role("button", name="Verify the chain").click()
        await expect(page.locator("#verification")).to_contain_text("records, every hash holds.")
        await hold_page(page)
        changed = (await shop.records(session=session, tool="echo"))[5]
        with connected_to(store) as connection:
            connection.execute(f'UPDATE records SET arguments = \'{{"text":"x"}}\' WHERE seq = {changed.seq}')
        await page.get_by_role("button", name="Verify again").click()
        await expect(page.locator("#verification .alert")).to_contain_text(f"broken at record {changed.seq}.")
        await hold_page(page)


@pytest.mark.spec("N16", "N4")
async def test_charts_are_drawn_in_both_colours(shop: Site, browser: Browser) -> None:
    await called(shop, "one", "two")
    drawn = "() => [...document.querySelectorAll('.plot canvas')].map((canvas) => canvas.toDataURL())"
    async with signed_in(browser, shop, "boss", "/audit/charts") as page:
        await expect(page.locator(".plot canvas")).to_have_count(3)
        light = await page.evaluate(drawn)
        await page.locator("summary .who").click()
        await page.get_by_role("button", name="Switch theme").click()
        await page.wait_for_function(f"(before) => !({drawn})().some((drawn) => before.includes(drawn))", arg=light)
        await page.get_by_text("As a table").first.click()
        await expect(page.get_by_role("region", name="How calls ended")).to_contain_text("succeeded")
        await hold_page(page)
        await page.goto("/audit/timeline")
        await hold_page(page)
        full = page.locator("svg.bars a:has(rect.succeeded)")  # an empty bar follows where its time has just ended
        await full.last.click(position={"x": 3, "y": 3})
        await expect(page.locator("tbody tr")).to_have_count(4)


@pytest.mark.spec("N17")
async def test_somebody_sees_what_changed_since_a_turn(shop: Site, browser: Browser) -> None:
    before, after = await changed_agent(shop)
    async with signed_in(browser, shop, "boss", "/fingerprints") as page:
        await page.locator(f'a[href$="{before["prompt_hash"]}"]').click()
        await expect(page.locator("#content")).to_contain_text("Count to nine.")
        await page.get_by_role("link", name="What changed since").click()
        await expect(page.locator(".diff .added").first).to_contain_text("Count to ten.")
        await expect(page.locator("#content")).to_contain_text("donate")
        await hold_page(page)
        await page.get_by_label("Hash", exact=True).fill(before["runtime_hash"])
        await page.get_by_label("Compare with").fill(after["runtime_hash"])
        await page.get_by_role("button", name="Show").click()
        await expect(page.locator("#content")).to_contain_text("tool added")
        await hold_page(page)
