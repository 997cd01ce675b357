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

Links = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with auditing() as server:
        yield server


@pytest.fixture(scope="module")
async def links(shop: Site) -> Links:
    return await changed_agent(shop)


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with reading(shop) as client:
        yield client


@pytest.mark.spec("N17")
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
    assert (await boss.get(f"/fingerprints/{'0' * 64}")).status_code == 404
    assert (await boss.get("/fingerprints/x")).status_code == 422


@pytest.mark.spec("N17")
async def test_what_changed_since_is_one_link_away(boss: httpx2.AsyncClient, links: Links) -> None:
    before, after = links
    old = await boss.get(f"/fingerprints/{before['prompt_hash']}")
    assert "not in its newest turn" in old.text
    assert f'href="/fingerprints/{before["id"]}/diff/{after["id"]}"' in old.text
    assert f'href="/fingerprints/{before["prompt_hash"]}/diff/{after["prompt_hash"]}"' in old.text
    assert ">in its newest turn" in (await boss.get(f"/fingerprints/{after['prompt_hash']}")).text
    listing = await boss.get("/fingerprints")
    assert f'href="/fingerprints/{before["id"]}/diff/{after["id"]}">what changed' in listing.text


@pytest.mark.spec("N17")
async def test_any_two_are_compared(boss: httpx2.AsyncClient, links: Links) -> None:
    before, after = links
    comparison = await boss.get("/fingerprints/find", params={"before": before["id"], "after": f" {after['id']} "})
    assert comparison.url.path == f"/fingerprints/{before['id']}/diff/{after['id']}"
    assert '<span class="sign">-</span>Count to nine.' in comparison.text
    assert '<span class="sign">+</span>Count to ten.' in comparison.text
    for name in ("pay", "donate"):
        assert f'<span class="badge good">added</span> <code>{name}</code>' in comparison.text
    assert '<span class="badge bad">removed</span> <code>echo</code>' in comparison.text
    prompt = await boss.get(f"/fingerprints/{before['prompt_hash']}/diff/{after['prompt_hash']}")
    assert '<span class="sign">+</span>Count to ten.' in prompt.text
    tools = await boss.get(f"/fingerprints/{before['runtime_hash']}/diff/{after['runtime_hash']}")
    assert '<span class="badge good">tool added</span> <code>pay</code>' in tools.text
    assert '<span class="badge bad">tool removed</span> <code>echo</code>' in tools.text
    tool_fingerprint, other = (next(ref["hash"] for ref in link["tool_refs"]) for link in links)
    assert "changed" in (await boss.get(f"/fingerprints/{tool_fingerprint}/diff/{other}")).text
    same = await boss.get(f"/fingerprints/{tool_fingerprint}/diff/{tool_fingerprint}")
    assert "Nothing differs" in same.text
    unlike = await boss.get(f"/fingerprints/{tool_fingerprint}/diff/{before['prompt_hash']}")
    assert (unlike.status_code, "tool and prompt" in unlike.text) == (422, True)
    for path in ("x/diff/y", f"{tool_fingerprint}/diff/{'0' * 64}"):
        assert (await boss.get(f"/fingerprints/{path}")).status_code == 404
    assert (await boss.get("/fingerprints/find")).status_code == 422
    response = await boss.get("/fingerprints/find", params={"before": tool_fingerprint})
    assert response.url.path == f"/fingerprints/{tool_fingerprint}"


@pytest.mark.spec("N17", "N19")
async def test_hostile_prompts_are_shown_as_text(shop: Site, boss: httpx2.AsyncClient) -> None:
    texts = "\n".join(TEXTS)
    async with shop.client("caller") as client:
        agent = await make_agent(client, system_prompt=texts, capabilities=[])
        session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
        first = (await client.post("/v1/links", json={"session_id": session})).json()
        headers = {"If-Match": f'"{agent["version"]}"'}
        await client.patch(f"/v1/agents/{agent['id']}", json={"system_prompt": "x" + texts}, headers=headers)
        session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
        second = (await client.post("/v1/links", json={"session_id": session})).json()
    for path in (
        "/fingerprints",
        f"/fingerprints/{first['prompt_hash']}",
        f"/fingerprints/{first['static_hash']}",
        f"/fingerprints/{first['prompt_hash']}/diff/{second['prompt_hash']}",
        f"/fingerprints/{first['id']}/diff/{second['id']}",
    ):
        page = await boss.get(path)
        assert page.status_code == 200
        for text in ("<script>alert", "<img", "\u202e"):
            assert text not in page.text, (path, text)
        if path != "/fingerprints":
            assert str(escape(TEXTS[1])) in page.text
            assert "{{7*7}}" in page.text
    for path in (f"/fingerprints/{TEXTS[3]}/diff/{TEXTS[2]}", "/fingerprints/find?before=%3Cimg%3E&after=%3Cimg%3E"):
        assert "<img" not in (await boss.get(path)).text


@pytest.mark.spec("N17", "N3")
async def test_others_see_only_what_is_installed(shop: Site, links: Links) -> None:
    before, after = links
    async with reading(shop, "spy") as spy:
        for fingerprint in (before["prompt_hash"], before["static_hash"], before["runtime_hash"]):
            assert (await spy.get(f"/fingerprints/{fingerprint}")).status_code == 404
        for name in ("id", "prompt_hash", "runtime_hash"):
            assert (await spy.get(f"/fingerprints/{before[name]}/diff/{after[name]}")).status_code == 404
        tool = next(ref["hash"] for ref in before["tool_refs"])
        page = await spy.get(f"/fingerprints/{tool}")
        assert "No turn that was kept had it" in page.text
        assert before["session_id"] not in page.text
        assert before["agent_name"] not in (await spy.get("/fingerprints")).text
    async with reading(shop, "caller") as caller:
        page = await caller.get(f"/fingerprints/{before['prompt_hash']}")
        assert "That needs a key with the scope" in page.text
        assert "Newest turns" not in (await caller.get("/fingerprints")).text
