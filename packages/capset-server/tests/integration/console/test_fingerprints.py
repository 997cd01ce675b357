"""Fingerprints in the console: what a hash covers, when it was live, what differs (spec 9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from html import unescape
from typing import Any

import httpx2
import pytest
from markupsafe import escape

from tests.helpers.server.console.auditing import TEXTS, auditing, changed_agent, reading
from tests.helpers.server.support import Site, make_agent

pytestmark = pytest.mark.spec("N17")
Links = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with auditing() as server:
        yield server


@pytest.fixture(scope="module")
async def links(shop: Site) -> Links:
    return await changed_agent(shop)


async def test_a_hash_is_shown_with_what_it_covers_and_when_it_was_live(boss: httpx2.AsyncClient, links: Links) -> None:
    before, _ = links
    tool = next(ref for ref in before["tool_refs"] if ref["name"] == "echo")
    for fingerprint, texts in (
        (before["prompt_hash"], ("Count to nine.", "systemPrompt")),
        (before["runtime_hash"], (tool["hash"], "echo")),
        (before["static_hash"], ("Count to nine.", "capabilities")),
        (tool["hash"], ("Give back what was given.", "schema")),
        (tool["code"], ("files",)),
    ):
        page = await boss.get(f"/fingerprints/{fingerprint}")
        assert page.status_code == 200
        for text in (fingerprint, *texts, "When it was live", f'href="/sessions/{before["session_id"]}"'):
            assert text in unescape(page.text), text
    for fingerprint, status in (("0" * 64, 404), ("x", 422)):
        assert (await boss.get(f"/fingerprints/{fingerprint}")).status_code == status


async def test_what_changed_since_is_one_link_away(boss: httpx2.AsyncClient, links: Links) -> None:
    before, after = links
    old = await boss.get(f"/fingerprints/{before['prompt_hash']}")
    assert "not in its newest turn" in old.text
    assert f'href="/fingerprints/{before["id"]}/diff/{after["id"]}"' in old.text
    assert f'href="/fingerprints/{before["prompt_hash"]}/diff/{after["prompt_hash"]}"' in old.text
    assert ">in its newest turn" in (await boss.get(f"/fingerprints/{after['prompt_hash']}")).text
    listing = await boss.get("/fingerprints")
    assert f'href="/fingerprints/{before["id"]}/diff/{after["id"]}">what changed' in listing.text


async def test_any_two_are_compared(boss: httpx2.AsyncClient, links: Links) -> None:
    before, after = links
    tool_hash, other_tool = (link["tool_refs"][0]["hash"] for link in links)
    prompt_changes = ['sign">-</span>Count to nine.', 'sign">+</span>Count to ten.']
    tool_changes = ["added</span> <code>pay<", "added</span> <code>donate<", "removed</span> <code>echo<"]
    for one, other, words in (
        (before["id"], after["id"], [*prompt_changes, *tool_changes]),
        (before["prompt_hash"], after["prompt_hash"], prompt_changes),
        (before["runtime_hash"], after["runtime_hash"], [f"tool {change}" for change in tool_changes]),
        (tool_hash, other_tool, ["changed"]),
        (tool_hash, tool_hash, ["No differences"]),
    ):
        page = await boss.get("/fingerprints/find", params={"before": one, "after": f" {other} "})
        assert page.url.path == f"/fingerprints/{one}/diff/{other}"
        for text in words:
            assert text in page.text, text
    unlike = await boss.get(f"/fingerprints/{tool_hash}/diff/{before['prompt_hash']}")
    assert (unlike.status_code, "tool and prompt" in unlike.text) == (422, True)
    for path, status in (("find", 422), ("x/diff/y", 404), (f"{tool_hash}/diff/{'0' * 64}", 404)):
        assert (await boss.get(f"/fingerprints/{path}")).status_code == status
    alone = await boss.get("/fingerprints/find", params={"before": tool_hash})
    assert alone.url.path == f"/fingerprints/{tool_hash}"


@pytest.mark.spec("N19")
async def test_hostile_prompts_are_shown_as_text(shop: Site, boss: httpx2.AsyncClient) -> None:
    links: list[dict[str, Any]] = []
    async with shop.client("caller") as client:
        agent = await make_agent(client, system_prompt="new", capabilities=[])
        for prompt in ("\n".join(TEXTS), "x" + "\n".join(TEXTS)):
            assert (await client.patch(f"/v1/agents/{agent['id']}", json={"system_prompt": prompt})).is_success
            session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
            links.append((await client.post("/v1/links", json={"session_id": session})).json())
    first, second = links
    for path in (
        *("", f"/{first['prompt_hash']}", f"/{first['static_hash']}"),
        *(f"/{first[name]}/diff/{second[name]}" for name in ("prompt_hash", "id")),
    ):
        page = await boss.get(f"/fingerprints{path}")
        assert page.status_code == 200
        for text in ("<script>alert", "<img", "\u202e"):
            assert text not in page.text, (path, text)
        for text in (str(escape(TEXTS[1])), "{{7*7}}") if path else ():
            assert text in page.text, (path, text)
    for path in (f"/fingerprints/{TEXTS[3]}/diff/{TEXTS[2]}", "/fingerprints/find?before=%3Cimg%3E&after=%3Cimg%3E"):
        assert "<img" not in (await boss.get(path)).text


@pytest.mark.spec("N3")
async def test_others_see_only_what_is_installed(shop: Site, links: Links) -> None:
    before, after = links
    async with reading(shop, "spy") as spy:
        for path in (
            *(before[name] for name in ("prompt_hash", "static_hash", "runtime_hash")),
            *(f"{before[name]}/diff/{after[name]}" for name in ("id", "prompt_hash", "runtime_hash")),
        ):
            assert (await spy.get(f"/fingerprints/{path}")).status_code == 404, path
        tool = next(ref["hash"] for ref in before["tool_refs"])
        page = await spy.get(f"/fingerprints/{tool}")
        assert "No stored turn has used it" in page.text
        assert before["session_id"] not in page.text
        assert before["agent_name"] not in (await spy.get("/fingerprints")).text
    async with reading(shop, "caller") as caller:
        page = await caller.get(f"/fingerprints/{before['prompt_hash']}")
        assert "You need a key with the scope" in page.text
        assert "Newest turns" not in (await caller.get("/fingerprints")).text
