"""Deliveries that are sent again, and people who are entered, in a real browser (spec 9)."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.helpers.connect.notifications.receiving import paying, receiver, settled
from tests.helpers.net.support import answer
from tests.helpers.server.approving import asked
from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.console.keys import ADMIN, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.spec("N18")]


async def test_a_delivery_that_failed_is_sent_again(store: str, browser: Browser) -> None:
    async with (
        receiver(answer(410), answer(204)) as endpoint,
        paying(endpoint.hook(), store=store) as (server, http, session),
    ):
        await server.key("boss", scopes=ADMIN)
        await server.key("spy", org="other", scopes=ADMIN)
        request = await asked(http, session)
        await settled(server, "ops", request, "failed")
        async with server.client(None) as spy:
            await sign_in(spy, server.keys["spy"])
            assert request not in (await spy.get("/deliveries")).text
        async with server.client(None) as auditor:
            await sign_in(auditor, await server.key("auditor", scopes=["capset:audit"]))
            page = await auditor.get("/deliveries")
            assert (request in page.text, "/retry" in page.text) == (True, False)
        async with signed_in(browser, server, "boss", "/deliveries?state=failed") as page:
            await expect(page.get_by_role("row", name="approval.requested")).to_contain_text("410")
            await hold_page(page)
            await page.get_by_role("button", name="Retry").click()
            await expect(page.get_by_role("status")).to_contain_text("Queued again")
            await settled(server, "ops", request)
            await page.reload()
            await expect(page.get_by_role("row", name="approval.requested")).to_contain_text("delivered")
            await page.goto("/people")
            await hold_page(page)
            await page.get_by_label("Workspace").fill("T1")
            await page.get_by_label("User", exact=True).fill("U1")
            await page.get_by_label("Principal", exact=True).fill("bea")
            await page.get_by_role("button", name="Add person").click()
            await expect(page.get_by_role("status")).to_contain_text("U1 of T1 decides as bea.")
            await hold_page(page)
            page.once("dialog", lambda dialog: dialog.accept())
            await page.get_by_role("button", name="Remove U1 of T1").click()
            await expect(page.get_by_role("status")).to_contain_text("Removed")
