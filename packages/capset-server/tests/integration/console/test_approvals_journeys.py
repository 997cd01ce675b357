"""The inbox in a real browser: live, by keys, and by two people at once (spec 9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from capset import Capability, tool
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from capset_testing import FakeClock
from tests.helpers.server.approving import asked, till
from tests.helpers.server.console.browsing import faults_of, hold_page, signed_in, visiting
from tests.helpers.server.console.inbox import EVIL, hostile, stored
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send
from tests.helpers.server.support import Site, make_session, site

pytestmark = pytest.mark.browser
SOON = 10_000
"""Milliseconds within which what happens elsewhere is shown: the 3 s of N5, and what a busy machine takes beside."""


@tool(effect="read")
async def letter() -> str:
    """Read a letter."""
    return EVIL


post = Capability("post", tools=[letter])


@asynccontextmanager
async def inbox(store: str, **options: Any) -> AsyncGenerator[Site]:
    """Serve the till and the post; a boss and a chief decide, and a caller asks."""
    async with site(till, post, store=store, **options) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("chief", scopes=["capset:approve", "capset:read"])
        await server.key("caller", scopes=["capset:call", "capset:write"])
        yield server


@pytest.fixture
async def shop(store: str) -> AsyncGenerator[Site]:
    async with inbox(store) as server:
        yield server


async def requested(server: Site, to: str = "bob") -> str:
    async with server.client("caller") as client:
        return await asked(client, await make_session(client, "till"), to=to)


async def rejected_elsewhere(server: Site, request: str, note: str | None = None) -> None:
    async with server.client("chief") as client:
        assert (await client.post(f"/v1/approvals/{request}/reject", json={"note": note})).is_success


@pytest.mark.spec("N5", "N6", "N7")
async def test_somebody_approves_what_an_agent_asked_for(store: str, browser: Browser) -> None:
    """They sign in by a link to the request, read all of it, and approve it."""
    moves = AgentRunner(ScriptedModel([Call("letter")], Call("pay", to="bob", amount=700), "Paid."))
    async with inbox(store, generator=moves) as server, server.client("caller") as caller:
        session = await make_session(caller, "till", "post")
        await send(caller, session, "Read the letter, and do as it says")
        events = await read_until(caller, session, "turn.suspended")
        request = next(event.data["data"]["id"] for event in events if event.type == "approval.requested")
        async with visiting(browser, server.url) as page:
            await page.goto(f"/approvals/{request}")
            await hold_page(page)
            await page.get_by_label("API key").fill(server.keys["boss"])
            await page.get_by_role("button", name="Sign in").click()
            await expect(page).to_have_url(f"{server.url}/approvals/{request}")
            await expect(page.get_by_role("heading", name="pay")).to_be_visible()
            await expect(page.get_by_text("Read the letter, and do as it says")).to_be_visible()
            await expect(page.locator(".said.result")).to_contain_text("<script>alert(1)</script>")
            await hold_page(page)
            await page.get_by_label("Reason").fill("as every month")
            await page.get_by_role("button", name="Approve once").click()
            await expect(page.locator(".told")).to_contain_text("Approved")
            await expect(page.locator("#standing")).to_contain_text("used", timeout=SOON)
            await expect(page.get_by_text("Reason: as every month")).to_be_visible()
            await hold_page(page)
        await read_until(caller, session, "turn.ended")
        row = await stored(server, request)
        assert (row.status, row.decided_by, row.note) == ("used", "user:boss", "as every month")


@pytest.mark.spec("N5")
async def test_requests_come_and_go_by_themselves(shop: Site, browser: Browser) -> None:
    async with signed_in(browser, shop, "boss", "/approvals") as page:
        await expect(page.get_by_text("No open requests")).to_be_visible()
        await hold_page(page)
        first = await requested(shop)
        await expect(page.locator(f"#request-{first}")).to_be_visible(timeout=SOON)
        await expect(page).to_have_title("(1) Approvals · capset")
        await requested(shop, to="carla")
        await expect(page).to_have_title("(2) Approvals · capset", timeout=SOON)
        await expect(page.locator("#announced")).to_have_text("2 open requests")
        await hold_page(page)
        await rejected_elsewhere(shop, first)
        await expect(page.locator(f"#request-{first}")).to_have_count(0, timeout=SOON)
        await expect(page).to_have_title("(1) Approvals · capset")


@pytest.mark.spec("N5")
async def test_nothing_moves_under_the_pointer(shop: Site, browser: Browser) -> None:
    old = [await requested(shop, to=f"bob {number}") for number in range(3)]
    async with signed_in(browser, shop, "boss", "/approvals") as page:
        row = page.locator(f"#request-{old[1]}")
        await row.hover()
        before = await row.bounding_box()
        new = await requested(shop, to="carla")
        await rejected_elsewhere(shop, old[2])
        await expect(page.get_by_role("button", name="Show 1 new")).to_be_visible(timeout=SOON)
        await expect(page.locator(f"#request-{old[2]} .gone")).to_contain_text("it was decided")
        await expect(page.locator(f"#request-{new}")).to_have_count(0)
        assert before is not None
        assert await row.bounding_box() == before
        assert await faults_of(page) == []
        await page.get_by_role("button", name="Show 1 new").click()
        await expect(page.locator(f"#request-{new}")).to_be_visible()
        await expect(page.locator(f"#request-{old[2]}")).to_have_count(0)
        await expect(page.locator("#held")).to_be_hidden()
        await page.mouse.move(5, 5)
        last = await requested(shop, to="dora")
        await expect(page.locator(f"#request-{last}")).to_be_visible(timeout=SOON)


@pytest.mark.spec("N5", "N7")
async def test_keys_lead_from_request_to_request_and_decide_nothing_alone(shop: Site, browser: Browser) -> None:
    third, second, first = [await requested(shop, to=f"bob {number}") for number in range(3)]
    focused = "document.activeElement.closest('[data-request]')?.dataset.request ?? ''"
    async with signed_in(browser, shop, "boss", "/approvals") as page:
        for key, request in (("j", first), ("j", second), ("j", third), ("j", third), ("k", second)):
            await page.keyboard.press(key)
            assert await page.evaluate(focused) == request
        await page.keyboard.press("?")
        await expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.locator(f"#request-{second} a").focus()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{shop.url}/approvals/{second}")
        await expect(page.locator(f"#beside-{second} a")).to_have_attribute("aria-current", "true")
        await page.keyboard.press("r")
        await page.keyboard.type("aje? fine")
        await expect(page.get_by_label("Reason")).to_have_value("aje? fine")
        await page.locator("h1").click()
        await page.keyboard.press("a")
        await expect(page.get_by_role("button", name="Approve once")).to_be_focused()
        assert (await stored(shop, second)).status == "pending"
        await page.keyboard.press("Enter")
        await expect(page.locator(".told")).to_contain_text("Approved")
        assert (await stored(shop, second)).decided_by == "user:boss"
        await page.keyboard.press("n")
        await expect(page).to_have_url(f"{shop.url}/approvals/{third}")
        await expect(page.locator(f"#beside-{third} a")).to_be_visible()
        await page.keyboard.press("j")
        assert await page.evaluate(focused) in (first, third)
        await page.keyboard.press("e")
        await expect(page).to_have_url(f"{shop.url}/approvals/{third}/edit")
        await hold_page(page)


@pytest.mark.spec("N35")
async def test_several_are_selected_and_decided_by_keys(shop: Site, browser: Browser) -> None:
    other, last, first = [await requested(shop, to=f"bob {number}") for number in range(3)]
    async with signed_in(browser, shop, "boss", "/approvals") as page:
        approve = page.get_by_role("button", name="Approve selected, for one call each")
        await expect(approve).to_be_hidden()
        for key in ("j", "x", "j", "x"):
            await page.keyboard.press(key)
        await hold_page(page)
        await page.keyboard.press("r")
        await page.keyboard.type("ax")
        await page.locator("h1").click()
        new = await requested(shop, to="carla")
        await page.get_by_role("button", name="Show 1 new").click(timeout=SOON)
        await expect(page.locator(f"#request-{new}")).to_be_visible()
        boxes = [page.locator(f"#request-{request} input") for request in (first, last, other, new)]
        assert [await box.is_checked() for box in boxes] == [True, True, False, False]
        await page.keyboard.press("a")
        await expect(approve).to_be_focused()
        assert (await stored(shop, first)).status == "pending"
        await page.keyboard.press("Enter")
        await expect(page.locator(".told")).to_contain_text("Approved: 2.")
        rows = [await stored(shop, request) for request in (first, last, other)]
        assert [(row.status, row.note) for row in rows] == [("approved", "ax")] * 2 + [("pending", None)]
        await page.keyboard.press("j")
        await page.keyboard.press("a")
        await expect(page.locator(f"#request-{new} input")).to_be_checked()
        await page.get_by_label("Select all").check()
        await page.get_by_role("button", name="Reject selected").click()
        await expect(page.get_by_text("No open requests")).to_be_visible()


@pytest.mark.spec("N35")
async def test_a_selected_row_stays_selected_when_an_equal_request_joins_it(shop: Site, browser: Browser) -> None:
    first = await requested(shop)
    async with signed_in(browser, shop, "boss", "/approvals") as page:
        row = page.locator(f"#request-{first}")
        box = row.locator("input")
        await box.check()
        second = await requested(shop)
        await page.get_by_role("button", name="Show 1 new").click(timeout=SOON)
        await expect(row).to_contain_text("2 identical requests")
        await expect(box).to_be_checked()
        await rejected_elsewhere(shop, second)
        await expect(row.locator(".gone")).to_contain_text("1 of 2", timeout=SOON)
        await page.get_by_role("button", name="Refresh the list").click()
        await expect(page.locator("#announced")).to_have_text("1 request is no longer selected")
        await expect(box).to_be_checked()
        await hold_page(page)


@pytest.mark.spec("N7")
async def test_of_two_who_decide_at_once_one_does_and_the_other_sees_it(shop: Site, browser: Browser) -> None:
    for _ in range(3):
        request = await requested(shop)
        path = f"/approvals/{request}"
        async with signed_in(browser, shop, "boss", path) as boss, signed_in(browser, shop, "chief", path) as chief:
            await asyncio.gather(
                boss.get_by_role("button", name="Approve once").click(),
                chief.get_by_role("button", name="Reject").click(),
            )
            row = await stored(shop, request)
            won, lost = (boss, chief) if row.decided_by == "user:boss" else (chief, boss)
            assert row.status == ("approved" if won is boss else "rejected")
            await expect(won.locator(".told")).to_contain_text(row.status.capitalize())
            await expect(lost.get_by_role("alert")).to_contain_text("Your decision had no effect")
            await expect(lost.get_by_role("alert")).to_contain_text(str(row.decided_by))
            assert await lost.get_by_role("button", name="Reject").count() == 0
        records = await shop.kernel.audit.read(limit=1_000)
        acts = [row for row in records if row.approval == request and row.phase == "act"]
        assert len([row for row in acts if row.act in ("approval.approve", "approval.reject")]) == 1


@pytest.mark.spec("N6", "N7")
async def test_a_decision_of_another_is_seen_while_one_writes(shop: Site, browser: Browser) -> None:
    request = await requested(shop)
    async with signed_in(browser, shop, "boss", f"/approvals/{request}") as page:
        await page.get_by_label("Reason").fill("I am still thinking")
        await page.wait_for_timeout(2_500)
        await expect(page.get_by_label("Reason")).to_have_value("I am still thinking")
        await rejected_elsewhere(shop, request, "not today")
        await expect(page.get_by_text("Reason: not today")).to_be_visible(timeout=SOON)
        await expect(page.locator("#standing")).to_contain_text("rejected")
        await expect(page.get_by_label("Reason")).to_have_count(0)


@pytest.mark.spec("N5", "N6")
async def test_hostile_text_does_nothing_in_a_browser(shop: Site, browser: Browser) -> None:
    texts = dict.fromkeys(("tool", "agent", "principal", "on_behalf_of", "reason"), EVIL)
    row = hostile(shop, "01a00000-0000-7000-8000-000000000002", **texts, arguments='{"a":"b\\u202ec<img src=x>"}')
    await shop.kernel.store.approvals.open(row, max_pending=9)
    async with signed_in(browser, shop, "boss", "/approvals") as page:
        side_effects: list[str] = []
        page.on("dialog", lambda dialog: side_effects.append(dialog.message))
        page.on("request", lambda request: side_effects.append(request.url) if request.url.endswith("/x") else None)
        for path in ("/approvals", f"/approvals/{row.id}", f"/approvals/{row.id}/edit"):
            await page.goto(path)
            await expect(page.locator("main")).to_contain_text("<script>alert(1)</script>")
            assert await page.locator("main img, main script").count() == 0
            await page.wait_for_timeout(2_300)  # what is asked for again is as harmless
            assert await page.locator("main img, main script").count() == 0
            await hold_page(page)
        assert side_effects == []


@pytest.mark.spec("N7")
async def test_a_request_expires_while_it_is_looked_at(store: str, browser: Browser) -> None:
    clock = FakeClock()
    async with inbox(store, clock=clock) as server:
        request = await requested(server)
        async with signed_in(browser, server, "boss", f"/approvals/{request}") as page:
            await expect(page.get_by_role("button", name="Approve once")).to_be_visible()
            clock.advance(3_601)
            await expect(page.get_by_text("It expired without a decision")).to_be_visible(timeout=SOON)
            await expect(page.get_by_role("button", name="Approve once")).to_have_count(0)
