"""The catalogue of capabilities (spec 9)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.helpers.server.console.app import sign_in, token_of
from tests.helpers.server.console.capabilities import EVIL, desk, drawer, evil, many
from tests.helpers.server.support import Site, make_agent, site

HTMX = {"hx-request": "true"}


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with site(desk, drawer, evil, *many) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        yield server


@pytest.fixture
async def browser(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with shop.client(None, follow_redirects=True) as client:
        await sign_in(client, shop.keys["boss"])
        yield client


@pytest.mark.spec("N8")
async def test_capabilities_are_found_and_paged(browser: httpx2.AsyncClient) -> None:
    first = await browser.get("/capabilities")
    assert (first.status_code, first.text.count('class="card capability"')) == (200, 60)
    following = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert following is not None
    second = await browser.get(following[1].replace("&amp;", "&"))
    assert second.text.count('class="card capability"') == 60
    for query in ("text=drawer", "category=furniture", "permission=desk:write&text=desk"):
        page = await browser.get(f"/capabilities?{query}")
        assert ("The desk" in page.text, "Number 1<" in page.text) == (True, False), query
    fragment = await browser.get("/capabilities?text=drawer", headers=HTMX)
    assert fragment.text.lstrip().startswith('<section id="found"')
    assert "<html" not in fragment.text
    assert "No capability fits" in (await browser.get("/capabilities?text=nothing+at+all")).text
    assert (await browser.get("/capabilities?status=odd")).status_code == 422


@pytest.mark.spec("N17")
async def test_the_hashes_of_all_capabilities_are_paged(browser: httpx2.AsyncClient) -> None:
    path, names = "/fingerprints", set[str]()
    while path:
        page = await browser.get(path)
        page_names = set(re.findall(r"<li class=\"card\"><p><strong>([^<]+)</strong>", page.text))
        assert not names & page_names
        names |= page_names
        following = re.search(r'rel="next" href="(/fingerprints\?installed=\d+)#installed"', page.text)
        path = following[1] if following else ""
    assert names >= {"desk", "drawer", *(capability.name for capability in many)}
    assert (await browser.get("/fingerprints?installed=x")).status_code == 422


@pytest.mark.spec("N8")
async def test_a_capability_is_shown_in_full(shop: Site, browser: httpx2.AsyncClient) -> None:
    async with shop.client("boss") as client:
        agent = await make_agent(client, "desk", name="Desk keeper")
    page = (await browser.get("/capabilities/desk")).text
    for part in ("A desk with a drawer.", "scribble", "desk:write", "asks for approval", "5/1h", "Write on the desk."):
        assert part in page, part
    assert re.search(r"<code>page</code></td><td><code>integer</code></td><td>yes</td>", page)
    assert "Default: <code>&#34;hello&#34;</code>" in page
    assert ("<svg" in page, ">drawer</text>" in page, "needs" in page) == (True, True, True)
    assert f'href="/agents/{agent["id"]}"' in page
    assert "Desk keeper" in page
    assert (await browser.get("/capabilities/nothing")).status_code == 404
    async with shop.client(None, follow_redirects=True) as other:
        await sign_in(other, shop.keys["spy"])
        assert "Desk keeper" not in (await other.get("/capabilities/desk")).text, "of another organisation"


@pytest.mark.spec("N8")
async def test_presets_and_configuration_show_what_comes_of_them_and_keep_nothing(
    shop: Site, browser: httpx2.AsyncClient
) -> None:
    page = await browser.get("/capabilities/desk")
    form = {"token": token_of(page)}
    without = await browser.post("/capabilities/desk", data=form, headers=HTMX)
    assert ("<code>scribble</code>" in without.text, "<code>gaze</code>" in without.text) == (True, False)
    with_gazing = await browser.post("/capabilities/desk", data={**form, "preset": "gazing"}, headers=HTMX)
    assert ("<code>gaze</code>" in with_gazing.text, "Look closely." in with_gazing.text) == (True, True)
    assert "<html" not in with_gazing.text
    sized = await browser.post("/capabilities/desk", data={**form, "config/size": "5"}, headers=HTMX)
    assert "size: 5" in sized.text
    assert "- id: desk" in sized.text
    for wrong in ("many", "1.5"):
        refused = await browser.post("/capabilities/desk", data={**form, "config/size": wrong})
        assert (refused.status_code, f'value="{wrong}"' in refused.text) == (200, True), "the form as it was sent"
        assert 'aria-invalid="true"' in refused.text
    assert (await browser.post("/capabilities/desk", data={"preset": "gazing"})).status_code == 403, "a forged form"
    async with shop.client("boss") as client:
        response = await client.get("/v1/agents", params={"name": "preview"})
        assert response.json()["items"] == []


@pytest.mark.spec("N8")
async def test_what_others_wrote_is_text(browser: httpx2.AsyncClient) -> None:
    for path in ("/capabilities/evil", "/capabilities?text=evil", f"/capabilities?text={EVIL[:60]}"):
        page = re.sub(r'value="[^"]*"', "", (await browser.get(path)).text)  # what comes back stays as it is
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\u202e" not in page
        assert ("{{7*7}}" in page) == ("gnp.exe" in page), "no template was made of it"
    assert "\\u{202e}gnp.exe" in (await browser.get("/capabilities/evil")).text


@pytest.mark.realtime
@pytest.mark.spec("N8")
async def test_what_it_works_with_here_is_found_out_afterwards(browser: httpx2.AsyncClient) -> None:
    page = (await browser.get("/capabilities/sandbox")).text
    assert 'hx-get="/capabilities/sandbox/readiness"' in page
    assert "On the machine of this server" in (await browser.get("/capabilities/sandbox/readiness")).text
