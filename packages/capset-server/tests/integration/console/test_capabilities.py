"""The catalogue of capabilities (spec 9)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.helpers.server.console.auditing import reading
from tests.helpers.server.console.capabilities import EVIL, desk, drawer, evil, many
from tests.helpers.server.support import Site, make_agent, site

pytestmark = pytest.mark.spec("N8")
HTMX = {"hx-request": "true"}


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with site(desk, drawer, evil, *many) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        yield server


async def test_capabilities_are_found_and_paged(boss: httpx2.AsyncClient) -> None:
    path = "/capabilities"
    for _ in range(2):
        page = (await boss.get(path)).text
        assert page.count('class="card capability"') == 60
        following = re.search(r'rel="next" href="([^"]+)"', page)
        assert following is not None
        path = following[1].replace("&amp;", "&")
    for query in ("text=drawer", "category=furniture", "permission=desk:write&text=desk"):
        page = await boss.get(f"/capabilities?{query}")
        assert ("The desk" in page.text, "Number 1<" in page.text) == (True, False), query
    fragment = await boss.get("/capabilities?text=drawer", headers=HTMX)
    assert fragment.text.lstrip().startswith('<section id="found"')
    assert "No capabilities found" in (await boss.get("/capabilities?text=nothing+at+all")).text
    assert (await boss.get("/capabilities?status=odd")).status_code == 422


@pytest.mark.spec("N17")
async def test_the_hashes_of_all_capabilities_are_paged(boss: httpx2.AsyncClient) -> None:
    path, names = "/fingerprints", set[str]()
    while path:
        page = await boss.get(path)
        page_names = set(re.findall(r'<li class="card"><p><strong>([^<]+)</strong>', page.text))
        assert not names & page_names
        names |= page_names
        following = re.search(r'rel="next" href="(/fingerprints\?installed=\d+)#installed"', page.text)
        path = following[1] if following else ""
    assert names >= {"desk", "drawer", *(capability.name for capability in many)}
    assert (await boss.get("/fingerprints?installed=x")).status_code == 422


async def test_a_capability_is_shown_in_full(shop: Site, boss: httpx2.AsyncClient) -> None:
    async with shop.client("boss") as client:
        agent = await make_agent(client, "desk", name="Desk keeper")
    page = (await boss.get("/capabilities/desk")).text
    for part in (
        *("A desk with a drawer.", "scribble", "desk:write", "asks for approval", "5/1h", "Write on the desk."),
        "<code>page</code></td><td><code>integer</code></td><td>yes</td>",
        *("Default: <code>&#34;hello&#34;</code>", "<svg", ">drawer</text>", "needs"),
        *(f'href="/agents/{agent["id"]}"', "Desk keeper"),
    ):
        assert part in page, part
    assert (await boss.get("/capabilities/nothing")).status_code == 404
    async with reading(shop, "spy") as spy:
        assert "Desk keeper" not in (await spy.get("/capabilities/desk")).text, "of another organisation"


async def test_presets_and_configuration_show_what_comes_of_them_and_keep_nothing(
    shop: Site, boss: httpx2.AsyncClient
) -> None:
    for form, shown, absent in (
        ({}, "<code>scribble</code>", "<code>gaze</code>"),
        ({"preset": "gazing"}, "<code>gaze</code>", "<html"),
        ({"preset": "gazing"}, "Look closely.", "<html"),
        ({"config/size": "5"}, "size: 5", "<html"),
        ({"config/size": "5"}, "- id: desk", "<html"),
    ):
        preview = await boss.post("/capabilities/desk", data=form, headers=HTMX)
        assert (shown in preview.text, absent in preview.text) == (True, False)
    for wrong in ("many", "1.5"):
        refused = await boss.post("/capabilities/desk", data={"config/size": wrong})
        assert (refused.status_code, f'value="{wrong}"' in refused.text) == (200, True), "the form as it was sent"
        assert 'aria-invalid="true"' in refused.text
    forged = await boss.post("/capabilities/desk", data={"preset": "gazing"}, headers={"x-capset-token": "0" * 64})
    assert forged.status_code == 403
    async with shop.client("boss") as client:
        response = await client.get("/v1/agents", params={"name": "preview"})
        assert response.json()["items"] == []


async def test_what_others_wrote_is_text(boss: httpx2.AsyncClient) -> None:
    for path in ("/capabilities/evil", "/capabilities?text=evil", f"/capabilities?text={EVIL[:60]}"):
        page = re.sub(r'value="[^"]*"', "", (await boss.get(path)).text)  # what comes back stays as it is
        for part in ("<script>alert", "<img", "\u202e"):
            assert part not in page
        assert ("{{7*7}}" in page) == ("gnp.exe" in page), "no template was made of it"
    assert "\\u{202e}gnp.exe" in (await boss.get("/capabilities/evil")).text


@pytest.mark.realtime
async def test_what_it_works_with_here_is_found_out_afterwards(boss: httpx2.AsyncClient) -> None:
    page = (await boss.get("/capabilities/sandbox")).text
    assert 'hx-get="/capabilities/sandbox/readiness"' in page
    assert "Readiness on this server" in (await boss.get("/capabilities/sandbox/readiness")).text
