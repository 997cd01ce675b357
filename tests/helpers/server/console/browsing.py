"""A real browser at the console: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, ViewportSize, async_playwright, expect

from scripts import npm
from tests.helpers.server.support import Site

HERE: Final = Path(__file__).parent
_FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-proxy-server"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_MILLISECONDS: Final = 20_000
expect.set_options(timeout=_MILLISECONDS)
WIDE: Final[ViewportSize] = {"width": 1400, "height": 1000}
NARROW: Final[ViewportSize] = {"width": 360, "height": 780}
_IS_CUT: Final = "[...document.querySelectorAll('.stacks')].some((table) => table.scrollWidth > table.clientWidth)"
"""Whether a table that becomes blocks where it is too wide is cut nevertheless."""
_SERIOUS: Final = ("serious", "critical")
_OF_THE_NETWORK: Final = (
    *("the server responded with a status of", "SSE reconnect failed with status 401"),
    *("net::ERR_", "Failed to fetch"),
)
"""What the browser says of refusals, and of a server that is away, which are no faults of a page."""


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    """Run the browser; skip the test where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium is installed: scripts/install_for_tests.sh chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(browser: Browser, url: str, **options: Any) -> AsyncGenerator[Page]:
    """Open a window of its own, with cookies of its own; in the end no script may have failed or been refused."""
    # Without motion, so that no colour is measured on its way to another.
    context = await browser.new_context(base_url=url, viewport=WIDE, reduced_motion="reduce", **options)
    context.set_default_timeout(_MILLISECONDS)
    page = await context.new_page()
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(part in message.text for part in _OF_THE_NETWORK):
            complaints.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page
    finally:
        await context.close()
    assert complaints == [], f"a script or the policy of the page complained: {complaints}"


async def sign_in(page: Page, key: str, to: str = "/") -> None:
    """Sign in with a key, and go to a page."""
    await page.goto("/login")
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(lambda address: not address.endswith("/login"))
    if to != "/":
        await page.goto(to)


@asynccontextmanager
async def signed_in(browser: Browser, site: Site, user: str, to: str = "/", **options: Any) -> AsyncGenerator[Page]:
    """Open a window in which somebody, whose key the site has, is signed in."""
    async with visiting(browser, site.url, **options) as page:
        await sign_in(page, site.keys[user], to)
        yield page


@cache
def _axe() -> str:
    try:
        npm.install(HERE)
    except npm.NotInstalled as error:
        pytest.skip(str(error))
    return (HERE / "node_modules" / "axe-core" / "axe.min.js").read_text()


async def faults_of(page: Page) -> list[str]:
    """Return what axe finds on a page that is serious, or critical: WCAG A and AA."""
    # Through the debugger, which no policy of the page stops, as it would stop an added script.
    await page.evaluate(_axe())
    report: dict[str, Any] = await page.evaluate(
        "() => axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    )
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'][:200] for node in violation['nodes']]}"
        for violation in report["violations"]
        if violation["impact"] in _SERIOUS
    ]


async def hold_page(page: Page) -> None:
    """Assert what holds of every page: no serious fault in both colours, nothing wider than a phone, no table cut."""
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # colours do not change slowly
        assert await faults_of(page) == [], f"{page.url}, {scheme}"
    size = page.viewport_size
    assert not await page.evaluate(_IS_CUT), f"{page.url} has a table that is cut"
    await page.set_viewport_size(NARROW)
    assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], f"{page.url} is too wide"
    assert not await page.evaluate(_IS_CUT), f"{page.url} has a table that is cut in a narrow window"
    if size is not None:
        await page.set_viewport_size(size)
