"""Pictures of twelve pages, light and dark. With ``CAPSET_SCREENSHOTS=1`` they are those of the documentation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from capset_agents.playback.scripts import Call
from scripts.packages import ROOT
from tests.helpers.server.approving import asked
from tests.helpers.server.console.browsing import signed_in
from tests.helpers.server.console.talking import shop
from tests.helpers.server.support import make_agent, make_session

FOLDER: Final = ROOT / "docs/look/screens"
SIZE: Final[ViewportSize] = {"width": 1200, "height": 800}
PAGES: Final = {
    "approvals": "/approvals",
    "approval": "/approvals/{approval}",
    "agents": "/agents",
    "editor": "/agents/{agent}/edit",
    "chat": "/sessions/{session}",
    "call": "/sessions/{session}/call?tool=pay",
    "context": "/sessions/{session}/context",
    "capabilities": "/capabilities",
    "capability": "/capabilities/session_file_system",
    "audit": "/audit",
    "charts": "/audit/charts",
    "keys": "/keys",
}


@pytest.mark.browser
@pytest.mark.spec("N19")
async def test_twelve_pages_are_pictured(browser: Browser, tmp_path: Path) -> None:
    folder = FOLDER if os.environ.get("CAPSET_SCREENSHOTS") else tmp_path
    async with shop(Call("pay", to="bob"), "Bob has his 5.", store=f"sqlite:///{tmp_path}/x.db") as server:
        async with server.client("plain") as client:
            await asked(client, await make_session(client, "till"), to="alice")
            approval = await asked(client, await make_session(client, "till"), to="carol")
        async with server.client("boss") as client:
            uses = ("till", "session_file_system", "stateless_todo_list")
            prompt = "You pay bills.\nAsk before you pay more than 100."
            agent = await make_agent(client, *uses, name="payer", description="Pays what is due.", system_prompt=prompt)
            session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
        places = {"approval": approval, "agent": agent["id"], "session": session}
        async with signed_in(browser, server, "boss") as page:
            await page.set_viewport_size(SIZE)
            await page.goto(f"/sessions/{session}")
            await page.get_by_label("Message").fill("Pay bob, please")
            await page.get_by_label("Message").press("Enter")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("log").get_by_text("Bob has his 5.")).to_be_visible()
            for name, path in PAGES.items():
                await page.goto(path.format_map(places))
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await page.wait_for_timeout(700)  # for what is loaded after the page; a stream never ends
                for scheme in ("light", "dark"):
                    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                    file = folder / f"console-{name}-{scheme}.png"
                    await page.screenshot(path=file)
                    assert file.stat().st_size > 5_000
