"""The inbox without a browser: what its pages show, to whom, and what its forms decide (spec 9)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Capability, tool
from capset.clock import iso
from capset.definitions.approvals import ApprovalRow
from capset.definitions.approvers import ApproverRule
from capset.definitions.governance import Governance
from capset.testing import FakeClock
from capset.testing.store_suite.support import approval_row
from tests.server.approving import till
from tests.server.support import Site, call, make_session, site

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe'
NAKED = ("<script>alert", "<img src=x", "49\u202e", "\u202e")


@tool(effect="destructive", approval="ask", permissions={"mail:send"})
async def send_mail(to: list[str], body: str, urgent: bool = False, api_key: str = "") -> str:
    """Send a message to people outside.

    Args:
        to: The addresses.
        body: The text.
        urgent: Whether it is.
    """
    return f"sent to {len(to)}"


mail = Capability("mail", tools=[send_mail])


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    """Give a server with the till; ``boss`` and ``chief`` of ``acme`` decide, ``kim`` asks, ``spy`` is elsewhere."""
    rule = ApproverRule(tools=["donate"], approvals=2)
    async with site(till, mail, governance=Governance(approvers=[rule], pending_approvals=1_000)) as found:
        await found.key("boss", scopes=["capset:admin"])
        await found.key("chief", scopes=["capset:approve"])
        await found.key("kim", scopes=["capset:call", "capset:write", "capset:approve"], permissions=["mail:send"])
        await found.key("spy", org="other", scopes=["capset:admin"])
        yield found


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with at_console(shop, "boss") as browser:
        yield browser


class at_console:
    """A client that has signed in to the console, and keeps its cookie."""

    def __init__(self, here: Site, who: str) -> None:
        self._client = here.client(None, follow_redirects=True)
        self._key = here.keys[who]

    async def __aenter__(self) -> httpx2.AsyncClient:
        page = await self._client.post("/login", data={"key": self._key, "next": "/approvals"})
        assert page.status_code == 200, page.text
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()


async def requested(here: Site, tool: str = "pay", who: str = "kim", **arguments: Any) -> str:
    """Ask for a call in a session of its own, and return the id of the request."""
    async with here.client(who) as client:
        session = await make_session(client, "till", "mail")
        response = await call(client, session, tool, **(arguments or {"to": "bob"}))
        assert response.status_code == 202, response.text
        return response.json()["approval"]


async def sent(browser: httpx2.AsyncClient, id: str, action: str, **form: str) -> httpx2.Response:
    """Send a form of a request's page, with what the page has put in it."""
    page = await browser.get(f"/approvals/{id}")
    token = re.search(r'data-token="([0-9a-f]{64})"', page.text)
    shown = re.search(r'name="round" value="(\d+)"', page.text)
    assert token is not None
    given = {"token": token[1], "round": shown[1] if shown else "0", **form}
    return await browser.post(f"/approvals/{id}/{action}", data=given)


async def stored(here: Site, id: str) -> ApprovalRow:
    return await here.kernel.approvals.get(id, org="acme")


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
    async with site(till, clock=clock, governance=Governance(approval_seconds=900_000)) as here:
        await here.key("boss", scopes=["capset:admin"])
        await here.key("kim", scopes=["capset:call", "capset:write"])
        async with here.client("kim") as client:
            session = await make_session(client, "till")
            made: list[str] = []
            for number, seconds in enumerate((90_000, 4_000, 400, 0)):
                made.append((await call(client, session, "pay", to="bob", amount=number)).json()["approval"])
                clock.advance(seconds)
        async with at_console(here, "boss") as browser:
            newest, oldest = (await browser.get("/approvals")).text, (await browser.get("/approvals?order=oldest")).text
    assert "<strong>4 requests</strong> wait" in newest
    assert "under 5 min: 1 · under 1 h: 1 · under 1 d: 1 · older: 1" in newest
    found = re.findall(r'data-request="([^"]+)"', newest)
    assert found == made[::-1]
    assert re.findall(r'data-request="([^"]+)"', oldest) == made


@pytest.mark.spec("N5")
async def test_what_has_not_changed_is_not_sent_again(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    for path in ("/approvals", f"/approvals/{request}", f"/approvals/{request}/beside"):

        async def asked(again: str) -> httpx2.Response:
            return await boss.get(again, headers={"hx-request": "true"})

        async with asyncio.timeout(20):
            while True:  # a time of ten seconds may end in between
                page = (await boss.get(path)).text
                address = re.search(r'hx-get="([^"]*seen=[^"]*)" hx-trigger="every 2s"', page)
                assert address is not None, path
                again = address[1].replace("&amp;", "&")
                if (await asked(again)).status_code == 204:
                    break
        await requested(shop, to=f"somebody new for {path}")
        answer = await asked(again)
        assert (answer.status_code, "<html" in answer.text) == ((204 if path.endswith(request) else 200), False)
    await sent(boss, request, "reject")
    gone = await boss.get(f"/approvals/{request}/standing", headers={"hx-request": "true"})
    assert "Rejected" in gone.text
    assert 'hx-target="#decide"' in gone.text
    assert "every 2s" not in gone.text, "what is decided changes no more"


@pytest.mark.spec("N6")
async def test_a_request_shows_all_that_is_known_of_it(shop: Site, boss: httpx2.AsyncClient) -> None:
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
    assert "The tool, its code and all that the agent had are the same." in since
    changed = replace(await stored(shop, request), id=f"{request}a", tool_hash="9" * 64, digest="7" * 64)
    await shop.kernel.store.approvals.open(changed, most=9_999)
    page = (await boss.get(f"/approvals/{changed.id}")).text
    assert '<span class="badge bad">changed</span> the tool' in page
    assert '<span class="badge good">same</span> the code' in page


@pytest.mark.spec("N7")
async def test_each_decision_is_that_of_rest(shop: Site, boss: httpx2.AsyncClient) -> None:
    once, session, no, other = [await requested(shop, to=f"bob {number}") for number in range(4)]
    done = await sent(boss, once, "approve", scope="once", note="  fine\r\nthen ")
    assert (done.status_code, "Approved." in done.text, "user:boss" in done.text) == (200, True, True)
    row = await stored(shop, once)
    assert (row.status, row.scope, row.note, row.decided_by) == ("approved", "once", "fine\nthen", "user:boss")
    await sent(boss, session, "approve", scope="session")
    assert (await stored(shop, session)).scope == "session"
    await sent(boss, no, "reject", note="not today")
    row = await stored(shop, no)
    assert (row.status, row.note) == ("rejected", "not today")
    assert (await sent(boss, other, "approve", scope="ever")).status_code == 422
    assert (await sent(boss, other, "approve", round="x")).status_code == 422
    assert (await sent(boss, other, "reject", note="x" * 1_001)).status_code == 422
    assert (await stored(shop, other)).status == "pending"


@pytest.mark.spec("N7")
async def test_the_second_of_two_decisions_is_answered_kindly(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    await sent(boss, request, "approve")
    async with at_console(shop, "chief") as chief:
        late = await sent(chief, request, "reject", note="no")
        assert late.status_code == 409
        assert "You were too late" in late.text
        assert "<strong>user:boss</strong> has approved" in late.text
        edited = await sent(chief, request, "edit", **{"arguments/to": "eve"})
        assert (edited.status_code, "You were too late" in edited.text) == (409, True)
    row = await stored(shop, request)
    assert (row.status, row.decided_by, row.modified) == ("approved", "user:boss", None)


@pytest.mark.spec("N7")
async def test_another_decides_what_is_ones_own(shop: Site) -> None:
    request = await requested(shop)
    async with at_console(shop, "kim") as kim:
        page = (await kim.get(f"/approvals/{request}")).text
        assert "You cannot approve this: a request is approved by another principal" in page
        assert "Approve once" not in page
        refused = await sent(kim, request, "approve")
        assert (refused.status_code, "by another principal" in refused.text) == (403, True)
        assert (await stored(shop, request)).status == "pending"
        await sent(kim, request, "reject", note="a mistake")
    assert (await stored(shop, request)).status == "rejected"


@pytest.mark.spec("N7")
async def test_arguments_are_edited_in_a_form_of_their_schema(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop, "send_mail", to=["bob", "eve"], body="Hello", urgent=True)
    page = (await boss.get(f"/approvals/{request}/edit")).text
    assert re.search(r'<textarea id="field-arguments/to"[^>]*>\nbob\neve</textarea>', page)
    assert 'name="arguments/body"' in page
    assert '<option value="true" selected>' in page
    form = {"arguments/to": "bob", "arguments/body": "", "arguments/urgent": "false"}
    wrong = await sent(boss, request, "edit", **form, **{"arguments/api_key": "[redacted]"})
    assert wrong.status_code == 422
    assert re.search(r'class="field-error" id="field-arguments/api_key-help">the whole value', wrong.text)
    assert re.search(r'<textarea id="field-arguments/to"[^>]*>\nbob</textarea>', wrong.text), "as it was sent"
    assert (await stored(shop, request)).status == "pending"
    done = await sent(boss, request, "edit", **form, note="one is enough")
    assert (done.status_code, "Approved." in done.text) == (200, True)
    row = await stored(shop, request)
    assert json.loads(row.modified or "") == {"to": ["bob"], "body": "", "urgent": False}
    assert row.note == "one is enough"
    assert "What was asked for" in done.text


@pytest.mark.spec("N7")
async def test_errors_of_rest_stand_at_their_fields(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    wrong = await sent(boss, request, "edit", **{"arguments/to": "eve", "arguments/amount": "many"})
    assert wrong.status_code == 422
    assert re.search(r'class="field-error" id="field-arguments/amount-help">a whole number is expected', wrong.text)
    missing = await sent(boss, request, "edit", **{"arguments/amount": "3"})
    assert (missing.status_code, "<code>to</code>" in missing.text or "field-arguments/to-help" in missing.text) == (
        422,
        True,
    )
    for text, status in (('{"to": "eve", "amount": 4', 422), ("[1]", 422), ('{"to": 4}', 422), ('{"to": "eve"}', 200)):
        answer = await sent(boss, request, "edit", json=text)
        assert answer.status_code == status, text
        if status == 422:
            assert text.replace('"', "&#34;") in answer.text, "as it was sent"
    assert json.loads((await stored(shop, request)).modified or "") == {"to": "eve"}


@pytest.mark.spec("N7")
@pytest.mark.parametrize("body", ["a\r\nb", "a\rb"])
async def test_what_a_form_cannot_say_is_edited_as_json(shop: Site, boss: httpx2.AsyncClient, body: str) -> None:
    request = await requested(shop, "send_mail", to=["x", ""], body=body)
    page = (await boss.get(f"/approvals/{request}/edit")).text
    assert 'name="json"' in page
    assert "arguments/body" not in page
    assert body.replace("\r", "\\r").replace("\n", "\\n") in page


@pytest.mark.spec("N7")
async def test_of_several_approvers_each_sees_how_many_have_approved(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop, "donate", to="a museum")
    page = (await boss.get("/approvals", params={"tool": "donate"})).text
    assert "0 of 2 approvals" in page
    first = await sent(boss, request, "approve", note="I know them")
    assert "Your approval counts: 1 of 2 are given." in first.text
    assert "You cannot approve this" in first.text
    async with at_console(shop, "chief") as chief:
        page = (await chief.get(f"/approvals/{request}")).text
        assert re.search(r"approved by <strong>user:boss</strong>.*: I know them", page)
        done = await sent(chief, request, "approve")
        assert "Approved." in done.text
    assert (await stored(shop, request)).status == "approved"


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


def hostile(here: Site, id: str, **values: Any) -> ApprovalRow:
    """Return a request as no tool of ours could make it, but others' names and texts could."""
    now = here.kernel.clock.time_ns()
    times = {"created_at": iso(now), "expires_at": iso(now + 3_600_000_000_000)}
    return replace(approval_row(id), **times, **values)


@pytest.mark.spec("N5", "N6")
async def test_hostile_text_is_text_everywhere() -> None:
    arguments = json.dumps({EVIL: EVIL, "list": [EVIL], "deep": {EVIL: {EVIL: EVIL}}, "lines": f"{EVIL}\n{EVIL}"})
    names = ("tool", "agent", "principal", "on_behalf_of", "reason")
    async with site(till, store="memory://") as here:
        await here.key("boss", scopes=["capset:admin"])
        texts = dict.fromkeys(names, EVIL) | {"arguments": arguments, "policies": json.dumps([EVIL])}
        last = {"status": "approved", "decided_by": f"user:{EVIL}", "note": EVIL, "modified": arguments}
        done = hostile(here, "01a00000-0000-7000-8000-000000000001", **texts, digest="1" * 64)
        await here.kernel.store.approvals.open(done, most=9)
        await here.kernel.store.approvals.move(replace(done, **last, decided_at=done.created_at), "pending")
        texts["arguments"] = json.dumps({EVIL: "other"})
        row = hostile(here, "01a00000-0000-7000-8000-000000000002", **texts)
        await here.kernel.store.approvals.open(row, most=9)
        async with at_console(here, "boss") as browser:
            for path in (
                *("/approvals", "/approvals?status=all", f"/approvals?status=all&tool={EVIL}&principal={EVIL}"),
                *(f"/approvals/{one.id}{more}" for one in (row, done) for more in ("", "?all=1", "/conversation")),
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
    async with site(till) as here:
        await here.key("boss", scopes=["capset:admin"])
        await here.key("kim", scopes=["capset:call", "capset:write"])
        request = None
        async with here.client("kim") as client:
            session = await make_session(client, "till")
            response = await call(client, session, "pay", to="x" * 1_048_000 + " the end")
            request = response.json()["approval"]
        async with at_console(here, "boss") as browser:
            page = await browser.get(f"/approvals/{request}")
            assert (page.status_code, "the end" in page.text, "Show all of them" in page.text) == (200, False, True)
            assert len(page.text) < 60_000
            assert "/edit" not in page.text
            assert (await browser.get(f"/approvals/{request}/edit")).url.path == f"/approvals/{request}"
            assert "the end" in (await browser.get(f"/approvals/{request}?all=1")).text
            assert len((await browser.get("/approvals")).text) < 20_000
            assert (await sent(browser, str(request), "approve")).status_code == 200


@pytest.mark.spec("N5")
async def test_a_thousand_open_requests_are_paged_quickly(tmp_path: Path) -> None:
    async with site(till, store=f"sqlite:///{tmp_path}/many.db") as here:
        await here.key("boss", scopes=["capset:admin"])
        ids = [f"01a00000-0000-7000-8000-{number:012}" for number in range(1_000)]
        rows = [hostile(here, one, digest=f"{one:0>64}", principal=f"user:{one}") for one in ids]
        await asyncio.gather(*[here.kernel.store.approvals.open(row, most=9) for row in rows])
        async with at_console(here, "boss") as browser:
            took: list[float] = []
            for _ in range(20):
                begun = time.perf_counter()
                page = (await browser.get("/approvals")).text
                took.append(time.perf_counter() - begun)
            assert "<strong>1,000 requests</strong> wait" in page
            seen: list[str] = []
            path: str | None = "/approvals"
            while path is not None:
                page = (await browser.get(path)).text
                seen += re.findall(r'data-request="([^"]+)"', page)
                following = re.search(r'rel="next" href="([^"]+)"', page)
                path = following and following[1].replace("&amp;", "&")
        assert len(seen) == len(set(seen)) == 1_000
        assert sorted(took)[10] < 0.5, "the median, on a machine that has other things to do"
        print(f"p95 of the list: {sorted(took)[18] * 1000:.0f} ms")


@pytest.mark.spec("N7")
async def test_a_request_that_expires_while_it_is_looked_at() -> None:
    clock = FakeClock()
    async with site(till, clock=clock) as here:
        await here.key("boss", scopes=["capset:admin"])
        await here.key("kim", scopes=["capset:call", "capset:write"])
        async with here.client("kim") as client:
            session = await make_session(client, "till")
            request = (await call(client, session, "pay", to="bob")).json()["approval"]
        async with at_console(here, "boss") as browser:
            token = re.search(r'data-token="([0-9a-f]{64})"', (await browser.get(f"/approvals/{request}")).text)
            assert token is not None
            clock.advance(3_601)
            late = await browser.post(f"/approvals/{request}/approve", data={"token": token[1], "round": "0"})
            assert (late.status_code, "the request has expired" in late.text) == (409, True)
            assert "It expired without a decision" in late.text
            standing = await browser.get(f"/approvals/{request}/standing", headers={"hx-request": "true"})
            assert "It expired without a decision" in standing.text
