"""Every page in a real browser, with one of everything to show, looked at by axe (spec 9, N19)."""

from __future__ import annotations

import httpx2
import pytest
from playwright.async_api import Browser

from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.console.owned import READS, Owned, owned

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
__all__ = ["owned"]  # a fixture


@pytest.mark.spec("N19")
async def test_no_page_has_a_serious_fault(owned: Owned, browser: Browser) -> None:
    await owned.site.key("chief", scopes=["capset:admin"])
    looked: set[str] = set()
    async with signed_in(browser, owned.site, "chief") as page, owned.site.client(None) as client:
        client.cookies.update(
            {cookie.get("name", ""): cookie.get("value", "") for cookie in await page.context.cookies()}
        )
        for route in READS:
            path = owned.path_of(route)
            if await is_page(client, path):
                await page.goto(path)
                await hold_page(page)
                looked.add(route.path)
    assert {"/agents/{id}/edit", "/sessions/{id}", "/audit/{id}", "/principals/{kind}/{id:path}"} <= looked
    assert len(looked) >= len(READS) // 2


async def is_page(client: httpx2.AsyncClient, path: str) -> bool:
    """Return whether there is a whole page at a path, and no download, redirection, stream or part of a page."""
    async with client.stream("GET", path) as answer:
        is_html = answer.headers.get("content-type", "").startswith("text/html")
        return is_html and (await answer.aread()).startswith(b"<!doctype html>")
