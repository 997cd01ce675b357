"""Agents in a real browser: made, ordered, mended, saved, saved against each other, and rolled back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from capset import Capability, tool
from capset_server.auth.keys import revoke_key
from tests.helpers.server.console.browsing import hold_page, sign_in, signed_in
from tests.helpers.server.support import Site, make_agent, site

pytestmark = [pytest.mark.browser, pytest.mark.spec("N10")]
HOSTILE = "</textarea><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}\u202eabc"


@tool(effect="read", name="echo")
async def shout(text: str) -> str:
    """Shout."""
    return text.upper()


loud = Capability("loud", title="Loud", description="Shouts.", tools=[shout])
quiet = Capability("quiet", title="Quiet", description="Whispers.", instructions="Whisper.")
evil = Capability("evil", title=HOSTILE, description=HOSTILE, instructions=HOSTILE)


@pytest.fixture
async def shop(store: str) -> AsyncGenerator[Site]:
    """Give a server with a database; ``boss`` is an administrator, ``ada`` is none."""
    async with site(loud, quiet, evil, store=store) as server:
        await server.key("boss", scopes=["capset:admin"])
        yield server


async def entries(page: Page) -> list[str]:
    """Return the capabilities of the form, in order."""
    return await page.locator("#entries input[name$='-id']").evaluate_all("inputs => inputs.map(input => input.value)")


async def drag(page: Page, handle: str, target: str) -> None:
    """Drag a handle to the top of an element, in steps, as a hand does."""
    await page.locator(handle).scroll_into_view_if_needed()
    await page.locator(handle).hover()
    await page.mouse.down()
    await page.mouse.move(300, 400, steps=3)
    await page.locator(target).hover(position={"x": 20, "y": 4})
    await page.locator(target).hover(position={"x": 20, "y": 4})
    await page.mouse.up()


async def stored(shop: Site, path: str) -> dict[str, Any]:
    async with shop.client("ada") as client:
        return (await client.get(f"/v1{path}")).json()


async def made(shop: Site, *capabilities: str, **more: Any) -> dict[str, Any]:
    async with shop.client("ada") as client:
        return await make_agent(client, *capabilities, **more)


async def test_an_agent_is_made_ordered_mended_and_saved(shop: Site, browser: Browser) -> None:
    async with signed_in(browser, shop, "ada", "/agents") as page:
        await page.get_by_role("link", name="New agent").click()
        await page.get_by_label("Name", exact=True).fill("clerk")
        await page.get_by_label("System prompt").fill("You are a clerk.")
        preview = page.get_by_role("region", name="Preview")
        await expect(preview).to_contain_text("You are a clerk.")
        for name in ("kit", "quiet", "loud"):
            await page.get_by_label("Add a capability").fill(name)
            await page.get_by_role("button", name=f"Add {name}", exact=True).click()
            await expect(page.locator("#editor-said")).to_have_text(f"{name} is added.")
        # The conflict stands at both, and in the list.
        for place in (page.locator("#c0"), page.locator("#c2"), preview):
            await expect(place).to_contain_text("two different tools named 'echo'")
        await expect(page.locator("#c1")).not_to_contain_text("two different")
        await hold_page(page)
        # By keys: the focus stays on the button that was pressed.
        await page.get_by_role("button", name="loud up").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#editor-said")).to_have_text("loud is number 2 of 3.")
        assert await entries(page) == ["kit", "loud", "quiet"]
        await expect(page.get_by_role("button", name="loud up")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#editor-said")).to_have_text("loud is number 1 of 3.")
        # By dragging.
        await drag(page, "#c1 .handle", "#c2")
        assert (await entries(page))[0] == "quiet"
        # Mended where it is told.
        await page.locator("#c2").get_by_label("Prefix").fill("loud_")
        await expect(preview).to_contain_text("loud_echo")
        await expect(page.locator("#c2")).not_to_contain_text("two different")
        assert await entries(page) == ["quiet", "loud", "kit"]
        await page.get_by_role("button", name="Create agent").click()
        await expect(page.locator(".told")).to_contain_text("Saved as version 1.")
        await expect(page.get_by_role("heading", level=1)).to_have_text("clerk")
        agent = await stored(shop, page.url.removeprefix(shop.url))
    quiet_entry, loud_entry, kit_entry = agent["capabilities"]
    assert (quiet_entry, loud_entry["id"], kit_entry) == ("quiet", "loud", "kit")
    assert agent["system_prompt"] == "You are a clerk."


@pytest.mark.spec("N11")
async def test_two_who_edit_at_once_lose_nothing(shop: Site, browser: Browser) -> None:
    agent = await made(shop, "kit", system_prompt="Old.", description="Old.")
    path = f"/agents/{agent['id']}/edit"
    async with signed_in(browser, shop, "boss", path) as first, signed_in(browser, shop, "ada", path) as second:
        await second.get_by_label("System prompt").fill("Second.")
        await expect(second.locator("#preview-diff")).to_contain_text("Second.")
        await first.get_by_label("Description").fill("First.")
        await first.get_by_role("button", name="Save as version 2").click()
        await expect(first.locator(".told")).to_contain_text("Saved as version 2.")
        await second.get_by_role("button", name="Save as version 2").click()
        clash = second.locator("#clash")
        await expect(clash).to_contain_text("Version 2 was saved by somebody else")
        await expect(clash).to_contain_text("user:boss")
        await expect(second.get_by_label("System prompt")).to_have_value("Second.")
        await clash.get_by_text("Their changes", exact=True).click()
        await expect(clash).to_contain_text("First.")
        await hold_page(second)
        await second.get_by_role("button", name="Take their changes where I made none").click()
        await expect(second.get_by_label("Description")).to_have_value("First.")
        await expect(second.get_by_label("System prompt")).to_have_value("Second.")
        await expect(clash).to_have_count(0)
        await second.get_by_role("button", name="Save as version 3").click()
        await expect(second.locator(".told")).to_contain_text("Saved as version 3.")
    now = await stored(shop, f"/agents/{agent['id']}")
    assert (now["version"], now["description"], now["system_prompt"]) == (3, "First.", "Second.")


async def test_what_is_typed_outlives_every_error(shop: Site, browser: Browser) -> None:
    await shop.key("leaver")
    async with signed_in(browser, shop, "leaver", "/agents/new") as page:
        await page.get_by_label("Name", exact=True).fill("kept")
        # The server is away.
        await page.context.set_offline(True)
        await page.get_by_label("System prompt").fill("One.")
        await page.get_by_role("button", name="Create agent").click()
        await expect(page.locator("#messages")).to_contain_text("cannot be reached")
        await page.context.set_offline(False)
        old = await page.locator("body").get_attribute("data-token")
        # The sign-in ends, and another begins in another window.
        (key,) = [row for row in await shop.kernel.store.keys.list() if row.name == "leaver"]
        await revoke_key(shop.kernel, key.id)
        await page.get_by_role("button", name="Create agent").click()
        await expect(page.locator("#messages")).to_contain_text("Sign in in another window")
        await expect(page.get_by_label("Name", exact=True)).to_have_value("kept")
        other = await page.context.new_page()
        await sign_in(other, shop.keys["ada"])
        await other.close()
        await page.get_by_role("button", name="Create agent").click()
        await expect(page.locator("#messages")).to_contain_text("no longer valid")
        await page.wait_for_function("token => document.body.dataset.token !== token", arg=old)
        await page.get_by_role("button", name="Create agent").click()
        await expect(page.locator(".told")).to_contain_text("Saved as version 1.")
        agent = await stored(shop, page.url.removeprefix(shop.url))
    assert (agent["name"], agent["system_prompt"]) == ("kept", "One.")


async def test_what_is_typed_while_the_server_answers_stays(shop: Site, browser: Browser) -> None:
    async with signed_in(browser, shop, "ada", "/agents/new") as page:
        arrived, answered = asyncio.Event(), asyncio.Event()

        async def wait(route: Route) -> None:
            arrived.set()
            await answered.wait()
            await route.continue_()

        await page.route("**/agents/new", wait)
        await page.get_by_label("System prompt").fill("One.")
        await page.get_by_label("Add a capability").fill("kit")
        await page.get_by_role("button", name="Add or search").click()
        await arrived.wait()
        await page.get_by_label("System prompt").fill("One. And more.")
        await page.get_by_label("Name", exact=True).fill("late")
        answered.set()
        await expect(page.locator("#editor-said")).to_have_text("kit is added.")
        await expect(page.get_by_label("System prompt")).to_have_value("One. And more.")
        await expect(page.get_by_label("Name", exact=True)).to_have_value("late")


async def test_every_page_holds_with_hostile_text(shop: Site, browser: Browser) -> None:
    fields: dict[str, Any] = dict.fromkeys(("system_prompt", "description", "model"), HOSTILE)
    agent = await made(shop, "evil", instructions=[HOSTILE], tags=[HOSTILE], **fields)
    async with signed_in(browser, shop, "boss") as page:
        for path in ("", f"/{agent['id']}", f"/{agent['id']}/versions?before=1", f"/{agent['id']}/edit"):
            await page.goto(f"/agents{path}")
            await hold_page(page)
        await page.get_by_label("System prompt").fill(HOSTILE + HOSTILE)
        await expect(page.locator("#preview-diff")).to_contain_text("{{7*7}}")
        assert await page.locator("img, script:not([src])").count() == 0


async def test_one_is_asked_before_typed_text_is_left(shop: Site, browser: Browser) -> None:
    async with signed_in(browser, shop, "ada", "/agents/new") as page:
        await page.get_by_label("Name", exact=True).press_sequentially("mine")
        dialogs: list[str] = []

        async def stay(dialog: Any) -> None:
            dialogs.append(dialog.type)
            await dialog.dismiss()

        page.on("dialog", stay)
        await page.get_by_role("link", name="Leave without saving").click()
        await expect(page.get_by_label("Name", exact=True)).to_have_value("mine")
        assert dialogs == ["beforeunload"]
