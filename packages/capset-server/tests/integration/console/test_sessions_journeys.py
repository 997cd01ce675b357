"""Sessions in a real browser: conversations, approvals within them, files and calls."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from pydantic import JsonValue

from capset_agents.playback.scripts import Call, ScriptStep, ToolCall
from capset_server.auth.keys import revoke_key
from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.console.talking import HOSTILE, Brake, session_of, shop

pytestmark = pytest.mark.browser
TODOS: list[JsonValue] = [
    {"content": "Plan it", "activeForm": "Planning it", "status": "completed"},
    {"content": "Do it", "activeForm": "Doing it", "status": "in_progress"},
]
PAYS = (
    ScriptStep(
        reasoning="First I plan.", text="On it.", calls=[ToolCall(tool="write_todos", arguments={"todos": TODOS})]
    ),
    Call("pay", to="bob", amount=7),
    f"Paid bob.\n```python\nprint(7)\n```\n{HOSTILE}",
    "Good bye.",
)


async def say(page: Page, text: str) -> None:
    """Send a message, as people do."""
    await page.get_by_label("Message").fill(text)
    await page.get_by_label("Message").press("Enter")


async def texts(place: Locator) -> list[str]:
    """Return the words of a place, but for times, which go on."""
    text: str = await place.evaluate(
        "one => { const copy = one.cloneNode(true); copy.querySelectorAll('time, .nothing').forEach(t => t.remove());"
        " return copy.textContent; }"
    )
    return text.split()


async def conversation_of_two_turns(browser: Browser, store: str) -> None:
    """Walk through a conversation whose agent pays once it may."""
    async with shop(*PAYS, store=store) as server:
        session = await session_of(server)
        async with signed_in(browser, server, "boss", f"/sessions/{session}") as page:
            await expect(page.get_by_text("No messages yet")).to_be_visible()
            await say(page, "Pay bob, please")
            log = page.get_by_role("log")
            await expect(log.get_by_text("Pay bob, please")).to_be_visible()
            await expect(log.get_by_text("On it.")).to_be_visible()
            await expect(page.get_by_text("1 of 2 tasks done")).to_be_visible()
            await expect(page.get_by_text("The agent is waiting for an approval.")).to_be_visible()
            await hold_page(page)
            await page.get_by_label("Note").fill("fine")
            await page.get_by_role("button", name="Approve").click()
            await expect(log.get_by_text("Paid bob.")).to_be_visible()
            await expect(log.get_by_text("By user:boss")).to_be_visible()
            await expect(log.locator("pre", has_text="print(7)")).to_be_visible()
            await expect(log.get_by_text("alert(1)")).to_be_visible()
            await expect(log.get_by_text("\\u{202e}")).to_be_visible()
            await expect(page.get_by_text("The agent is waiting")).to_have_count(0)
            await hold_page(page)
            live_texts = await texts(log)
            await page.reload()
            assert await texts(log) == live_texts, "the same, live and loaded"
            await say(page, "Bye")
            await expect(page.get_by_role("log").get_by_text("Good bye.")).to_be_visible()
            await page.get_by_role("link", name="Timeline").first.click()
            await expect(page.get_by_role("img", name="Timeline")).to_be_visible()
            await expect(page.get_by_role("cell", name="waits for an approval")).to_be_visible()
            await hold_page(page)


@pytest.mark.spec("N12")
async def test_a_conversation_with_an_approval_of_ones_own(browser: Browser, store: str) -> None:
    await conversation_of_two_turns(browser, store)


@pytest.mark.spec("N12")
async def test_somebody_else_approves_in_another_browser(browser: Browser, store: str) -> None:
    async with shop(*PAYS, store=store, own=False) as server:
        session = await session_of(server, "plain")
        async with signed_in(browser, server, "plain", f"/sessions/{session}") as page:
            await say(page, "Pay bob, please")
            await expect(page.get_by_text("You cannot approve this")).to_be_visible()
            await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
            async with signed_in(browser, server, "boss", "/approvals") as other:
                await other.get_by_role("link", name="pay").first.click()
                await other.get_by_role("button", name="Approve once").click()
                await expect(other.get_by_text("approved").first).to_be_visible()
            await expect(page.get_by_role("log").get_by_text("Paid bob.")).to_be_visible()
            await expect(page.get_by_role("log").get_by_text("By user:boss")).to_be_visible()


@pytest.mark.spec("N12")
async def test_a_turn_is_reloaded_in_its_middle_cancelled_and_taken_back(browser: Browser, store: str) -> None:
    brake = Brake()
    moves = (ScriptStep(text="Wait for it.", calls=[ToolCall(tool="work")]), "It worked.", Call("work"), "Never said.")
    async with shop(*moves, brake=brake, store=store) as server:
        session = await session_of(server)
        async with signed_in(browser, server, "boss", f"/sessions/{session}") as page:
            await say(page, "Work")
            log = page.get_by_role("log")
            await expect(log.get_by_text("half done")).to_be_visible()
            await page.reload()
            await expect(log.get_by_text("Wait for it.")).to_be_visible()
            await expect(log.get_by_role("progressbar")).to_have_attribute("value", "0.5")
            brake.go.set()
            await expect(log.get_by_text("It worked.")).to_be_visible()
            await expect(log.get_by_role("progressbar")).to_have_count(0)
            brake.go.clear()
            await say(page, "Again")
            await page.get_by_role("button", name="Cancel turn").click()
            await expect(log.get_by_text("Cancelled by user:boss.")).to_be_visible()
            await expect(page.get_by_text("The agent is working.")).to_have_count(0)
            page.on("dialog", lambda dialog: dialog.accept())
            await page.get_by_role("button", name="Rewind to before this").last.click()
            await expect(page.get_by_text("This turn is no longer part of the conversation.")).to_be_visible()
            await page.get_by_role("button", name="Fork here").first.click()
            await expect(page.get_by_text("This session has the same conversation")).to_be_visible()
            assert not page.url.endswith(session)


@pytest.mark.spec("N12")
async def test_a_page_is_left_when_its_key_is_revoked(browser: Browser, store: str) -> None:
    async with shop("Hi.", store=store) as server:
        session = await session_of(server)
        async with signed_in(browser, server, "boss", f"/sessions/{session}") as page:
            await say(page, "Hello")
            await expect(page.get_by_role("log").get_by_text("Hi.")).to_be_visible()
            (row,) = [key for key in await server.kernel.store.keys.list() if key.name == "boss"]
            await revoke_key(server.kernel, row.id)
            await expect(page.get_by_role("heading", name="Sign in")).to_be_visible(timeout=15_000)


@pytest.mark.spec("N13")
async def test_a_tool_is_called_by_a_form(browser: Browser, store: str) -> None:
    async with shop(store=store) as server:
        session = await session_of(server)
        async with signed_in(browser, server, "boss", f"/sessions/{session}") as page:
            await expect(page.get_by_text("This server has no model")).to_be_visible()
            await hold_page(page)
            await page.get_by_role("main").get_by_role("link", name="Call a tool").first.click()
            await page.get_by_label("Tool", exact=True).select_option("pay")
            await page.get_by_role("button", name="Choose").click()
            await page.get_by_label("To", exact=True).fill("bob")
            await page.get_by_label("amount").fill("many")
            await page.get_by_role("button", name="Call tool").click()
            await expect(page.get_by_text("a whole number is expected").last).to_be_visible()
            await expect(page.get_by_label("To", exact=True)).to_have_value("bob")
            await hold_page(page)
            await page.get_by_label("amount").fill("8")
            await page.get_by_role("button", name="Call tool").click()
            await expect(page.get_by_text("needs an approval")).to_be_visible()
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("By user:boss")).to_be_visible()
            await page.get_by_role("button", name="Call again").click()
            await expect(page.get_by_text("bob has 8")).to_be_visible()
            await hold_page(page)


@pytest.mark.spec("N14")
async def test_a_file_is_uploaded_edited_downloaded_and_deleted(browser: Browser, store: str) -> None:
    name = 'a"><img src=x onerror=alert(1)>.txt'
    async with shop(store=store) as server:
        session = await session_of(server)
        async with signed_in(browser, server, "boss", f"/sessions/{session}/files/") as page:
            await expect(page.get_by_text("No files here")).to_be_visible()
            await page.get_by_label("Upload").set_input_files(
                {"name": name, "mimeType": "text/html", "buffer": b"<script>alert(1)</script>\none\n"}
            )
            await page.get_by_role("link", name=name).click()
            await expect(page.get_by_text("<script>alert(1)</script>")).to_be_visible()
            await hold_page(page)
            await page.get_by_role("link", name="Edit").click()
            await hold_page(page)
            await page.get_by_label("Content").fill("changed\n")
            await page.get_by_role("button", name="Save").click()
            await expect(page.get_by_role("main").get_by_text("changed", exact=True)).to_be_visible()
            async with page.expect_download() as started:
                await page.get_by_role("link", name="Download").click()
            assert (await (await started.value).path()).read_text() == "changed\n"
            page.on("dialog", lambda dialog: dialog.accept())
            await page.get_by_role("button", name="Delete").click()
            await expect(page.get_by_text("No files here")).to_be_visible()


@pytest.mark.spec("N14")
async def test_other_things_are_shown_beside_the_conversation(browser: Browser, store: str) -> None:
    async with shop("Hi.", store=store) as server:
        session = await session_of(server)
        async with signed_in(browser, server, "boss", "/sessions") as page:
            await hold_page(page)
            await page.get_by_role("link", name="New session").click()
            await hold_page(page)
            await page.goto(f"/sessions/{session}")
            side = page.get_by_role("complementary")
            await side.get_by_role("link", name="Context").click()
            await expect(
                side.get_by_text("lacks permissions").or_(side.get_by_text("vault:open")).first
            ).to_be_visible()
            await hold_page(page)
            await side.get_by_role("link", name="Call a tool").click()
            await side.get_by_label("Tool", exact=True).select_option("shout")
            await side.get_by_role("button", name="Choose").click()
            await side.get_by_role("button", name="Call tool").click()
            await expect(side.get_by_text("<script>alert(1)</script>")).to_be_visible()
            await say(page, "Hello")
            await expect(page.get_by_role("log").get_by_text("Hi.")).to_be_visible()
            for pane in ("state", "context", "about", "files/"):
                await page.goto(f"/sessions/{session}/{pane}")
                await hold_page(page)
            page.on("dialog", lambda dialog: dialog.accept())
            await page.goto(f"/sessions/{session}/about")
            await page.get_by_role("button", name="Delete session").click()
            await expect(page.get_by_text("The session was deleted")).to_be_visible()
