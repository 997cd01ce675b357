"""The inbox in a real browser."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from tests.server.approving import till
from tests.server.console.browsing import hold_page, signed_in, visiting
from tests.server.support import Site, call, make_session, site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    """Give a server with the till, and a boss who may do everything."""
    async with site(till) as found:
        await found.key("boss", scopes=["capset:admin"])
        await found.key("caller", scopes=["capset:call", "capset:write"])
        yield found


@pytest.mark.spec("N5")
async def test_somebody_approves_what_another_asked_for(shop: Site, browser: Browser) -> None:
    async with shop.client("caller") as client:
        session = await make_session(client, "till")
        asked = (await call(client, session, "pay", to="bob")).json()["approval"]
    async with signed_in(browser, shop, "boss") as page:
        await page.get_by_role("link", name="pay").first.click()
        await hold_page(page)
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("status")).to_contain_text("Approved")
    assert (await shop.kernel.approvals.get(asked, org="acme")).decided_by == "user:boss"


async def test_the_sign_in_has_no_fault(shop: Site, browser: Browser) -> None:
    async with visiting(browser, shop.url) as page:
        await page.goto("/login")
        await hold_page(page)
    async with signed_in(browser, shop, "boss", "/approvals") as page:
        await hold_page(page)
