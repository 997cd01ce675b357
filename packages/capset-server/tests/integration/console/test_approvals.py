"""The inbox without a browser: what its pages show, and to whom (spec 9)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx2
import pytest

from capset.definitions.governance.settings import Governance
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from capset_testing import FakeClock
from tests.helpers.server.approving import till
from tests.helpers.server.console.inbox import EVIL, NAKED, at_console, hostile, inbox, requested, sent, stored
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send
from tests.helpers.server.support import Site, call, make_agent, make_session, site
from tests.waiting import until


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with inbox() as server:
        yield server


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with at_console(shop, "boss") as browser:
        yield browser


@pytest.mark.spec("N5")
async def test_the_list_says_who_asks_for_what_and_why(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop, "send_mail", to=["eve@example.com"], body="Dear all", api_key="sk-1")
    page = (await boss.get("/approvals", params={"tool": "send_mail"})).text
    for part in ("send_mail", "destructive", "user:kim", "helper", "every call of &#39;send_mail&#39;", "expires"):
        assert part in page, part
    assert "to: [&#34;eve@example.com&#34;]" in page
    assert "sk-1" not in page
    assert f'href="/approvals/{request}"' in page
    assert request not in (await boss.get("/approvals", params={"tool": "pay"})).text
    assert request in (await boss.get("/approvals", params={"principal": "user:kim", "status": "all"})).text
    assert request not in (await boss.get("/approvals", params={"status": "rejected"})).text
    assert (await boss.get("/approvals", params={"status": "lost"})).status_code == 422


@pytest.mark.spec("N5")
async def test_the_list_is_counted_by_age_and_sorted_both_ways() -> None:
    clock = FakeClock()
    async with site(till, clock=clock, governance=Governance(approval_seconds=900_000)) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("kim", scopes=["capset:call", "capset:write"])
        async with server.client("kim") as client:
            session = await make_session(client, "till")
            requests: list[str] = []
            for number, seconds in enumerate((90_000, 4_000, 400, 0)):
                requests.append((await call(client, session, "pay", to="bob", amount=number)).json()["approval"])
                clock.advance(seconds)
        async with at_console(server, "boss") as browser:
            newest, oldest = (await browser.get("/approvals")).text, (await browser.get("/approvals?order=oldest")).text
    assert "<strong>4 requests</strong> wait" in newest
    assert "under 5 min: 1 · under 1 h: 1 · under 1 d: 1 · older: 1" in newest
    ids = re.findall(r'data-request="([^"]+)"', newest)
    assert ids == requests[::-1]
    assert re.findall(r'data-request="([^"]+)"', oldest) == requests


@pytest.mark.spec("N5")
async def test_what_has_not_changed_is_not_sent_again(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)

    async def poll(url: str) -> httpx2.Response:
        return await boss.get(url, headers={"hx-request": "true"})

    async def unchanged(path: str) -> str:
        """Return what a page asks for again, if nothing has changed: a time of ten seconds may end in between."""
        page = (await boss.get(path)).text
        address = re.search(r'hx-get="([^"]*seen=[^"]*)" hx-trigger="every 2s"', page)
        assert address is not None, path
        next_url = address[1].replace("&amp;", "&")
        return next_url if (await poll(next_url)).status_code == 204 else ""

    for path in ("/approvals", f"/approvals/{request}", f"/approvals/{request}/beside"):
        poll_url = await until(partial(unchanged, path), "an answer that says that nothing has changed")
        await requested(shop, to=f"somebody new for {path}")
        answer = await poll(poll_url)
        assert (answer.status_code, "<html" in answer.text) == ((204 if path.endswith(request) else 200), False)
    await sent(boss, request, "reject")
    gone = await boss.get(f"/approvals/{request}/standing", headers={"hx-request": "true"})
    assert "Rejected" in gone.text
    assert 'hx-target="#decide"' in gone.text
    assert "every 2s" not in gone.text, "what is decided changes no more"


@pytest.mark.spec("N6")
async def test_a_request_shows_all_that_is_known_of_it() -> None:
    async with inbox() as shop, at_console(shop, "boss") as boss:
        request = await requested(shop, "send_mail", to=["eve@example.com"], body="Dear all,\nyours", api_key="sk-1")
        page = (await boss.get(f"/approvals/{request}")).text
        row = await stored(shop, request)
        for part in (
            *("Send a message to people outside.", "mail:send", "destructive", "Schema of its arguments", "user:kim"),
            *(f"/fingerprints/{row.runtime_hash}", f"/fingerprints/{row.tool_hash}", row.session, "Dear all,\nyours"),
            *("No earlier request for this tool", f"/approvals/{request}/conversation"),
        ):
            assert part in page, part
        assert "sk-1" not in page
        assert "[redacted]" in page
        assert f'href="/approvals/{request}?shown=1"' in page
        for path in (f"/approvals/{request}?shown=1", f"/approvals/{request}/edit?shown=1"):
            assert "sk-1" in (await boss.get(path)).text, path
        read = await boss.get(f"/approvals/{request}/conversation")
        assert "There is none" in read.text
        async with at_console(shop, "chief") as chief:
            page = (await chief.get(f"/approvals/{request}")).text
        assert "eve@example.com" in page
        assert "Schema of its arguments" not in page, "the fingerprint of a tool takes the scope capset:read"


@pytest.mark.spec("N6")
async def test_it_says_what_changed_since_the_last_one_that_was_approved(shop: Site, boss: httpx2.AsyncClient) -> None:
    first = await requested(shop, "send_mail", to=["bob"], body="Hello")
    await sent(boss, first, "approve")
    rejected = await requested(shop, "send_mail", to=["carl"], body="Hello")
    await sent(boss, rejected, "reject")
    request = await requested(shop, "send_mail", to=["eve"], body="Hello")
    page = (await boss.get(f"/approvals/{request}")).text
    since = page[page.index('id="since-title"') : page.index('id="conversation-title"')]
    assert f'href="/approvals/{first}"' in since
    assert "was approved by user:boss" in since
    assert re.findall(r"<tr><td>(.*?)</td><td><code>(.*?)</code></td><td><code>(.*?)</code>", since) == [
        ("to", "[&#34;bob&#34;]", "[&#34;eve&#34;]")
    ]
    assert since.count('<span class="badge good">same</span>') == 3
    changed = replace(await stored(shop, request), id=f"{request}a", tool_hash="9" * 64, digest="7" * 64)
    await shop.kernel.store.approvals.open(changed, most=9_999)
    page = (await boss.get(f"/approvals/{changed.id}")).text
    assert '<span class="badge bad">changed</span> the tool' in page
    assert '<span class="badge good">same</span> the code' in page


@pytest.mark.spec("N3")
async def test_another_organisation_gets_nothing_from_any_path(shop: Site) -> None:
    request = await requested(shop, to="a secret friend")
    async with at_console(shop, "spy") as spy:
        for path in ("", "/edit", "/standing", "/beside", "/conversation"):
            answer = await spy.get(f"/approvals/{request}{path}")
            assert "secret friend" not in answer.text
            assert answer.status_code == (200 if path == "/beside" else 404), path
        token = re.search(r'data-token="([0-9a-f]{64})"', (await spy.get("/approvals")).text)
        assert token is not None
        for action in ("approve", "reject", "edit"):
            form = {"token": token[1], "round": "0", "arguments/to": "eve"}
            assert (await spy.post(f"/approvals/{request}/{action}", data=form)).status_code == 404
        assert request not in (await spy.get("/approvals", params={"status": "all"})).text
    assert (await stored(shop, request)).status == "pending"


@pytest.mark.spec("N5", "N6")
async def test_hostile_text_is_text_everywhere() -> None:
    arguments = json.dumps({EVIL: EVIL, "list": [EVIL], "deep": {EVIL: {EVIL: EVIL}}, "lines": f"{EVIL}\n{EVIL}"})
    names = ("tool", "agent", "principal", "on_behalf_of", "reason")
    async with site(till, store="memory://") as server:
        await server.key("boss", scopes=["capset:admin"])
        texts = dict.fromkeys(names, EVIL) | {"arguments": arguments, "policies": json.dumps([EVIL])}
        last = {"status": "approved", "decided_by": f"user:{EVIL}", "note": EVIL, "modified": arguments}
        done = hostile(server, "01a00000-0000-7000-8000-000000000001", **texts, digest="1" * 64)
        await server.kernel.store.approvals.open(done, most=9)
        await server.kernel.store.approvals.move(replace(done, **last, decided_at=done.created_at), "pending")
        texts["arguments"] = json.dumps({EVIL: "other"})
        row = hostile(server, "01a00000-0000-7000-8000-000000000002", **texts)
        await server.kernel.store.approvals.open(row, most=9)
        async with at_console(server, "boss") as browser:
            for path in (
                *("/approvals", "/approvals?status=all", f"/approvals?status=all&tool={EVIL}&principal={EVIL}"),
                *(
                    f"/approvals/{approval.id}{more}"
                    for approval in (row, done)
                    for more in ("", "?all=1", "/conversation")
                ),
                *(f"/approvals/{row.id}/{more}" for more in ("edit", "standing", "beside")),
            ):
                page = await browser.get(path)
                assert page.status_code == 200, (path, page.text)
                body = re.sub(r"<(input|textarea)[^>]*>[^<]*", "", page.text)  # their text comes back exactly
                for naked in NAKED:
                    assert naked not in body, (path, naked)
                assert "<script>alert" not in page.text
                assert "&lt;script&gt;" in page.text, path


@pytest.mark.spec("N6")
async def test_a_megabyte_of_arguments_is_shown_in_part_and_as_a_whole() -> None:
    async with site(till) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("kim", scopes=["capset:call", "capset:write"])
        request = None
        async with server.client("kim") as client:
            session = await make_session(client, "till")
            response = await call(client, session, "pay", to="x" * 1_048_000 + " the end")
            request = response.json()["approval"]
        async with at_console(server, "boss") as browser:
            page = await browser.get(f"/approvals/{request}")
            assert (page.status_code, "the end" in page.text, "Show all of them" in page.text) == (200, False, True)
            assert len(page.text) < 60_000
            assert "/edit" not in page.text
            assert (await browser.get(f"/approvals/{request}/edit")).url.path == f"/approvals/{request}"
            assert "the end" in (await browser.get(f"/approvals/{request}?all=1")).text
            assert len((await browser.get("/approvals")).text) < 20_000
            assert (await sent(browser, str(request), "approve")).status_code == 200


@pytest.mark.spec("N6", "N13")
async def test_arguments_are_shown_whole_however_they_are_nested(shop: Site) -> None:
    """Else what stands at their end would be approved unseen: their indentation is longer than they are."""
    nested: object = [*["nothing"] * 200, "everything"]
    for _ in range(90):
        nested = [nested]
    row = hostile(shop, "01a00000-0000-7000-8000-0000000000d0", arguments=json.dumps({"steps": nested}))
    many = hostile(shop, f"{row.id[:-1]}1", arguments=json.dumps({f"step {number}": nested for number in range(101)}))
    for approval in (row, many):
        await shop.kernel.store.approvals.open(replace(approval, org="acme", digest=approval.id), most=99)
    async with at_console(shop, "boss") as browser:
        page = (await browser.get(f"/approvals/{row.id}")).text
        assert "everything" in page
        assert len((await browser.get(f"/approvals/{many.id}")).text) < 60_000
        all_of_it = await browser.get(f"/approvals/{many.id}?all=1")
        outside = await browser.post(f"/approve/{many.id}", data={"action": "sign_in", "key": shop.keys["boss"]})
        for page in (all_of_it.text, outside.text):
            assert page.count("everything") == 101
            assert len(page) < 1_000_000


@asynccontextmanager
async def thousand(folder: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give the browser of somebody for whom a thousand requests wait."""
    async with site(till, store=f"sqlite:///{folder}/many.db") as server:
        await server.key("boss", scopes=["capset:admin"])
        ids = [f"01a00000-0000-7000-8000-{number:012}" for number in range(1_000)]
        rows = [hostile(server, row_id, digest=f"{row_id:0>64}", principal=f"user:{row_id}") for row_id in ids]
        await asyncio.gather(*[server.kernel.store.approvals.open(row, most=9) for row in rows])
        async with at_console(server, "boss") as browser:
            yield browser


@pytest.mark.spec("N5")
async def test_a_thousand_open_requests_are_paged(tmp_path: Path) -> None:
    async with thousand(tmp_path) as browser:
        assert "<strong>1,000 requests</strong> wait" in (await browser.get("/approvals")).text
        ids: list[str] = []
        path: str | None = "/approvals"
        while path is not None:
            page = (await browser.get(path)).text
            ids += re.findall(r'data-request="([^"]+)"', page)
            following = re.search(r'rel="next" href="([^"]+)"', page)
            path = following and following[1].replace("&amp;", "&")
        assert len(ids) == len(set(ids)) == 1_000


@pytest.mark.realtime
@pytest.mark.spec("N5")
async def test_a_page_of_a_thousand_open_requests_comes_quickly(tmp_path: Path) -> None:
    async with thousand(tmp_path) as browser:
        took: list[float] = []
        for _ in range(20):
            begun = time.perf_counter()
            assert "<strong>1,000 requests</strong> wait" in (await browser.get("/approvals")).text
            took.append(time.perf_counter() - begun)
        assert sorted(took)[10] < 0.5, "the median, on a machine that has other things to do"


@pytest.mark.spec("N6")
async def test_it_shows_how_the_agent_itself_has_changed(tmp_path: Path) -> None:
    """With the links of both runs, for those who may see them: its version, and the difference of the fingerprints."""
    runner = AgentRunner(ScriptedModel(Call("pay", to="bob"), "Paid.", Call("pay", to="bob")))
    async with site(till, store=f"sqlite:///{tmp_path}/runs.db", generator=runner) as server, server.client() as ada:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("chief", scopes=["capset:approve"])
        agent = await make_agent(ada, "till", system_prompt="You pay.")
        requests: list[str] = []
        for prompt in ("You pay.", "You pay whoever asks."):
            await ada.patch(f"/v1/agents/{agent['id']}", json={"system_prompt": prompt})
            session = (await ada.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
            assert (await ada.post("/v1/links", json={"session_id": session})).status_code == 201
            await send(ada, session, "pay")
            events = await read_until(ada, session, "turn.suspended")
            requests.append(next(event.data["data"]["id"] for event in events if event.type == "approval.requested"))
            if len(requests) == 1:
                async with at_console(server, "boss") as browser:
                    await sent(browser, requests[0], "approve")
                await read_until(ada, session, "turn.ended")
        async with at_console(server, "boss") as browser:
            page = (await browser.get(f"/approvals/{requests[1]}")).text
        assert f'<a href="/agents/{agent["id"]}">helper</a>, version 2' in page
        since = page[page.index('id="since-title"') : page.index('id="conversation-title"')]
        assert since.count('<span class="badge good">same</span>') == 3, "its prompt is no part of these"
        assert '<span class="badge waiting">changed</span> the agent' in since
        assert "You pay whoever asks." in since
        async with at_console(server, "chief") as chief:
            page = (await chief.get(f"/approvals/{requests[1]}")).text
        assert "You pay whoever asks." not in page, "links are for those who audit"
        assert "fingerprints</a> say" not in page


@pytest.mark.spec("M20", "N6")
async def test_who_is_signed_in_to_the_console_is_led_there(shop: Site) -> None:
    request = await requested(shop)
    async with shop.client(None) as stranger:
        assert "console" not in (await stranger.get(f"/approve/{request}")).text
    async with at_console(shop, "boss") as browser:
        for request_id in (request, "no-such-id"):
            page = await browser.get(f"/approve/{request_id}")
            assert (page.status_code, f'href="../approvals/{request_id}"' in page.text) == (200, True)
            assert "Sign in to decide" in page.text, "the page has a sign-in of its own"
        console_page = await browser.get(f"/approvals/{request}")
        assert (console_page.status_code, "bob" in console_page.text) == (200, True)
