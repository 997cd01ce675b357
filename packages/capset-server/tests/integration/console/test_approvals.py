"""The inbox without a browser: what its pages show, to whom, and what its forms decide (spec 9)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from capset import Capability, tool
from capset.definitions.governance.settings import Governance
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from capset_testing import FakeClock
from tests.helpers.server.approving import till
from tests.helpers.server.console.auditing import reading
from tests.helpers.server.console.inbox import EVIL, NAKED, at_console, hostile, inbox, requested, sent, stored
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send
from tests.helpers.server.support import Site, call, make_agent, make_session, site
from tests.waiting import until

FIRST = "01a00000-0000-7000-8000-000000000001"
SECOND = "01a00000-0000-7000-8000-000000000002"


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with inbox() as server:
        yield server


@asynccontextmanager
async def asking(
    capability: Capability = till, **options: Any
) -> AsyncGenerator[tuple[Site, Callable[..., Awaitable[str]]]]:
    """Give a server with a boss, and what asks for a call in a session of somebody else."""
    async with site(capability, **options) as server, server.client() as ada:
        await server.key("boss", scopes=["capset:admin"])
        session = await make_session(ada, capability.name)

        async def ask(tool: str, **arguments: Any) -> str:
            return (await call(ada, session, tool, **arguments)).json()["approval"]

        yield server, ask


def changes_in(page: str) -> str:
    """Return what a page says of the last request that was approved."""
    return page[page.index('id="since-title"') : page.index('id="conversation-title"')]


@pytest.mark.spec("N5")
async def test_the_list_says_who_asks_for_what_and_why(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop, "send_mail", to=["eve@example.com"], body="Dear all", api_key="sk-1")
    page = (await boss.get("/approvals?tool=send_mail")).text
    for part in (
        *("send_mail", "destructive", "user:kim", "helper", "every call of &#39;send_mail&#39;", "expires"),
        *("to: [&#34;eve@example.com&#34;]", f'href="/approvals/{request}?tool=send_mail"'),
    ):
        assert part in page, part
    assert "sk-1" not in page
    for query, is_listed in (("tool=pay", False), ("principal=user:kim&status=all", True), ("status=rejected", False)):
        assert (request in (await boss.get(f"/approvals?{query}")).text) is is_listed
    assert (await boss.get("/approvals?status=lost")).status_code == 422


@pytest.mark.spec("N5")
async def test_the_list_is_counted_by_age_and_sorted_both_ways() -> None:
    clock = FakeClock()
    requests: list[str] = []
    async with asking(clock=clock, governance=Governance(approval_seconds=900_000)) as (server, ask):
        for amount, seconds in enumerate((90_000, 4_000, 400, 0)):
            requests.append(await ask("pay", to="bob", amount=amount))
            clock.advance(seconds)
        async with at_console(server, "boss") as browser:
            newest, oldest = [(await browser.get(f"/approvals{order}")).text for order in ("", "?order=oldest")]
    assert "<strong>4 open requests</strong>" in newest
    assert "0–5 min: 1 · 5–60 min: 1 · 1–24 h: 1 · older: 1" in newest
    assert re.findall(r'data-request="([^"]+)"', newest) == requests[::-1]
    assert re.findall(r'data-request="([^"]+)"', oldest) == requests


@pytest.mark.spec("N5")
async def test_what_has_not_changed_is_not_sent_again(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    poll = partial(boss.get, headers={"hx-request": "true"})

    async def unchanged(path: str) -> str:
        """Return what a page asks for again, if nothing has changed: a time of ten seconds may end in between."""
        page = (await boss.get(path)).text
        address = re.search(r'hx-get="([^"]*seen=[^"]*)" hx-trigger="every 2s"', page)
        assert address is not None, path
        next_url = address[1].replace("&amp;", "&")
        return next_url if (await poll(next_url)).status_code == 204 else ""

    async def status_after_another(path: str) -> int:
        """Return the status of the answer to what a page asks for again, after another request has been made."""
        poll_url = await until(partial(unchanged, path), "an answer that says that nothing has changed")
        await requested(shop)
        answer = await poll(poll_url)
        assert "<html" not in answer.text
        return answer.status_code

    async def is_untouched() -> bool:
        return await status_after_another(f"/approvals/{request}") == 204

    for path in ("/approvals", f"/approvals/{request}/beside"):
        assert await status_after_another(path) == 200
    await until(is_untouched, "the page of a request to stay as it is while another is made")
    await sent(boss, request, "reject")
    gone = (await poll(f"/approvals/{request}/standing?round=0")).text
    assert ("Rejected" in gone, 'hx-target="#decide"' in gone) == (True, True)
    assert "every 2s" not in gone, "what is decided changes no more"


@pytest.mark.spec("N6")
async def test_a_request_shows_all_that_is_known_of_it() -> None:
    async with inbox() as shop, at_console(shop, "boss") as boss, at_console(shop, "chief") as chief:
        request = await requested(shop, "send_mail", to=["eve@example.com"], body="Dear all,\nyours", api_key="sk-1")
        path, row = f"/approvals/{request}", await stored(shop, request)
        page = (await boss.get(path)).text
        for part in (
            *("Send a message to people outside.", "mail:send", "destructive", "Schema of the arguments", "user:kim"),
            *(f"/fingerprints/{row.runtime_hash}", f"/fingerprints/{row.tool_hash}", row.session, "Dear all,\nyours"),
            *("No earlier request for this tool", f"{path}/conversation", "[redacted]", f'href="{path}?shown=1"'),
        ):
            assert part in page, part
        assert "sk-1" not in page
        for shown in (f"{path}?shown=1", f"{path}/edit?shown=1"):
            assert "sk-1" in (await boss.get(shown)).text, shown
        assert "No conversation" in (await boss.get(f"{path}/conversation")).text
        page = (await chief.get(path)).text
        assert "eve@example.com" in page
        assert "Schema of the arguments" not in page, "the fingerprint of a tool takes the scope capset:read"


@pytest.mark.spec("N6")
async def test_it_says_what_changed_since_the_last_one_that_was_approved(shop: Site, boss: httpx2.AsyncClient) -> None:
    first, rejected, request = [
        await requested(shop, "send_mail", to=[to], body="Hello") for to in ("bob", "carl", "eve")
    ]
    await sent(boss, first, "approve")
    await sent(boss, rejected, "reject")
    since = changes_in((await boss.get(f"/approvals/{request}")).text)
    assert (f'href="/approvals/{first}"' in since, "was approved by user:boss" in since) == (True, True)
    assert re.findall(r"<tr><td>(.*?)</td><td><code>(.*?)</code></td><td><code>(.*?)</code>", since) == [
        ("to", "[&#34;bob&#34;]", "[&#34;eve&#34;]")
    ]
    assert since.count('<span class="badge good">same</span>') == 3
    changed = replace(await stored(shop, request), id=f"{request}a", tool_hash="9" * 64, digest="7" * 64)
    await shop.kernel.store.approvals.open(changed, max_pending=9_999)
    page = (await boss.get(f"/approvals/{changed.id}")).text
    assert '<span class="badge bad">changed</span> the tool' in page
    assert '<span class="badge good">same</span> the code' in page


@pytest.mark.spec("N5", "N6")
async def test_hostile_text_is_text_everywhere() -> None:
    arguments = json.dumps({EVIL: EVIL, "list": [EVIL], "deep": {EVIL: {EVIL: EVIL}}, "lines": f"{EVIL}\n{EVIL}"})
    texts: dict[str, str] = dict.fromkeys(("tool", "agent", "principal", "on_behalf_of", "reason"), EVIL)
    texts["policies"] = json.dumps([EVIL])
    async with site(till) as server:
        await server.key("boss", scopes=["capset:admin"])
        done = hostile(server, FIRST, **texts, arguments=arguments, digest="1" * 64)
        decision = {"status": "approved", "decided_by": f"user:{EVIL}", "note": EVIL, "modified": arguments}
        row = hostile(server, SECOND, **texts, arguments=json.dumps({EVIL: "other"}))
        approvals = server.kernel.store.approvals
        await approvals.open(done, max_pending=9)
        await approvals.move(replace(done, **decision, decided_at=done.created_at), "pending")
        await approvals.open(row, max_pending=9)
        async with at_console(server, "boss") as browser:
            for path in (
                *("", "?status=all", f"?status=all&tool={EVIL}&principal={EVIL}"),
                *(f"/{request}{more}" for request in (FIRST, SECOND) for more in ("", "?all=1", "/conversation")),
                *(f"/{SECOND}/{more}" for more in ("edit", "standing?round=0", "beside")),
            ):
                page = await browser.get(f"/approvals{path}")
                assert page.status_code == 200, (path, page.text)
                body = re.sub(r"<(input|textarea)[^>]*>[^<]*", "", page.text)  # their text comes back exactly
                for naked in NAKED:
                    assert naked not in body, (path, naked)
                assert "<script>alert" not in page.text
                assert "&lt;script&gt;" in page.text, path


@pytest.mark.spec("N6")
async def test_a_megabyte_of_arguments_is_shown_in_part_and_as_a_whole() -> None:
    async with asking() as (server, ask), at_console(server, "boss") as browser:
        request = await ask("pay", to="x" * 1_048_000 + " the end")
        page = await browser.get(f"/approvals/{request}")
        assert (page.status_code, "the end" in page.text, "Show all of them" in page.text) == (200, False, True)
        assert ("/edit" in page.text, len(page.text) < 60_000) == (False, True)
        assert (await browser.get(f"/approvals/{request}/edit")).url.path == f"/approvals/{request}"
        assert "the end" in (await browser.get(f"/approvals/{request}?all=1")).text
        assert len((await browser.get("/approvals")).text) < 20_000
        assert (await sent(browser, request, "approve")).status_code == 200


@pytest.mark.spec("N6", "N13")
async def test_arguments_are_shown_whole_however_they_are_nested(shop: Site, boss: httpx2.AsyncClient) -> None:
    """Else what stands at their end would be approved unseen: their indentation is longer than they are."""
    nested: object = [*["nothing"] * 200, "everything"]
    for _ in range(90):
        nested = [nested]
    few, many = {"steps": nested}, {f"step {number}": nested for number in range(101)}
    for request, arguments in ((FIRST, few), (SECOND, many)):
        row = hostile(shop, request, arguments=json.dumps(arguments), org="acme", digest=request)
        await shop.kernel.store.approvals.open(row, max_pending=99)
    assert "everything" in (await boss.get(f"/approvals/{FIRST}")).text
    assert len((await boss.get(f"/approvals/{SECOND}")).text) < 60_000
    all_of_it = await boss.get(f"/approvals/{SECOND}?all=1")
    outside = await boss.post(f"/approve/{SECOND}", data={"action": "sign_in", "key": shop.keys["boss"]})
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
        await asyncio.gather(*[server.kernel.store.approvals.open(row, max_pending=9) for row in rows])
        async with at_console(server, "boss") as browser:
            yield browser


@pytest.mark.spec("N5")
async def test_a_thousand_open_requests_are_paged(tmp_path: Path) -> None:
    ids: list[str] = []
    pages = 0
    path: str | None = "/approvals"
    async with thousand(tmp_path) as browser:
        while path is not None:
            page, pages = (await browser.get(path)).text, pages + 1
            ids += re.findall(r'data-request="([^"]+)"', page)
            following = re.search(r'rel="next" href="([^"]+)"', page)
            path = following and following[1].replace("&amp;", "&")
    assert (len(ids), len(set(ids)), pages) == (1_000, 1_000, 10)


@pytest.mark.spec("N6")
async def test_it_shows_how_the_agent_itself_has_changed(tmp_path: Path) -> None:
    """With the links of both runs, for those who may see them: its version, and the difference of the fingerprints."""
    runner = AgentRunner(ScriptedModel(Call("pay", to="bob"), "Paid.", Call("pay", to="bob")))
    async with site(till, store=f"sqlite:///{tmp_path}/runs.db", generator=runner) as server, server.client() as ada:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("chief", scopes=["capset:approve"])
        agent = await make_agent(ada, "till", system_prompt="You pay.")
        async with at_console(server, "boss") as boss, at_console(server, "chief") as chief:
            request = session = ""
            for prompt in ("You pay.", "You pay whoever asks."):
                if request:
                    await sent(boss, request, "approve")
                    await read_until(ada, session, "turn.ended")
                await ada.patch(f"/v1/agents/{agent['id']}", json={"system_prompt": prompt})
                session = (await ada.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
                assert (await ada.post("/v1/links", json={"session_id": session})).status_code == 201
                await send(ada, session, "pay")
                events = await read_until(ada, session, "turn.suspended")
                request = next(event.data["data"]["id"] for event in events if event.type == "approval.requested")
            page = (await boss.get(f"/approvals/{request}")).text
            assert f'<a href="/agents/{agent["id"]}">helper</a>, version 2' in page
            since = changes_in(page)
            assert since.count('<span class="badge good">same</span>') == 3, "its prompt is no part of these"
            assert '<span class="badge waiting">changed</span> the agent' in since
            assert "You pay whoever asks." in since
            page = (await chief.get(f"/approvals/{request}")).text
            assert "You pay whoever asks." not in page, "links are for those who audit"
            assert "see its <a" not in page


@pytest.mark.spec("M20", "N6")
async def test_who_is_signed_in_to_the_console_is_led_there(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    async with shop.client(None) as stranger:
        assert "console" not in (await stranger.get(f"/approve/{request}")).text
    for request_id in (request, "no-such-id"):
        page = await boss.get(f"/approve/{request_id}")
        assert (page.status_code, f'href="../approvals/{request_id}"' in page.text) == (200, True)
        assert "Sign in to decide" in page.text, "the page has a sign-in of its own"


@pytest.mark.spec("N7")
async def test_each_decision_is_that_of_rest(shop: Site, boss: httpx2.AsyncClient) -> None:
    once, session, no, other = [await requested(shop, to=f"bob {number}") for number in range(4)]
    done = await sent(boss, once, "approve", scope="once", note="  fine\r\nthen ")
    assert (done.status_code, "Approved." in done.text, "user:boss" in done.text) == (200, True, True)
    await sent(boss, session, "approve", scope="session")
    await sent(boss, no, "reject", note="not today")
    for action, wrong in (
        ("approve", {"scope": "ever"}),
        ("approve", {"round": "x"}),
        ("reject", {"note": "x" * 1_001}),
    ):
        assert (await sent(boss, other, action, **wrong)).status_code == 422
    rows = [await stored(shop, request) for request in (once, session, no, other)]
    assert [(row.status, row.scope, row.note, row.decided_by) for row in rows] == [
        ("approved", "once", "fine\nthen", "user:boss"),
        ("approved", "session", None, "user:boss"),
        ("rejected", "once", "not today", "user:boss"),
        ("pending", "once", None, None),
    ]


@pytest.mark.spec("N7")
async def test_the_second_of_two_decisions_is_answered_kindly(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    await sent(boss, request, "approve")
    async with at_console(shop, "chief") as chief:
        late = await sent(chief, request, "reject", note="no")
        assert "<strong>user:boss</strong> approved this request" in late.text
        edited = await sent(chief, request, "edit", **{"arguments/to": "eve"})
    for refused in (late, edited):
        assert (refused.status_code, "Your decision had no effect" in refused.text) == (409, True)
    row = await stored(shop, request)
    assert (row.status, row.decided_by, row.modified) == ("approved", "user:boss", None)


@pytest.mark.spec("N7")
async def test_another_decides_what_is_ones_own(shop: Site) -> None:
    request = await requested(shop)
    async with at_console(shop, "kim") as kim:
        page = (await kim.get(f"/approvals/{request}")).text
        assert "You cannot approve this: a request must be approved by a principal other than" in page
        assert 'value="once"' not in page
        refused = await sent(kim, request, "approve")
        assert (refused.status_code, "a principal other than" in refused.text) == (403, True)
        assert (await stored(shop, request)).status == "pending"
        await sent(kim, request, "reject", note="a mistake")
    assert (await stored(shop, request)).status == "rejected"


@pytest.mark.spec("N7")
async def test_arguments_are_edited_in_a_form_of_their_schema(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop, "send_mail", to=["bob", "eve"], body="Hello", urgent=True)
    page = (await boss.get(f"/approvals/{request}/edit")).text
    assert re.search(r'<textarea id="field-arguments/to"[^>]*>\nbob\neve</textarea>', page)
    assert ('name="arguments/body"' in page, '<option value="true" selected>' in page) == (True, True)
    form = {"arguments/to": "bob", "arguments/body": "", "arguments/urgent": "false"}
    wrong = await sent(boss, request, "edit", **form, **{"arguments/api_key": "[redacted]"})
    assert wrong.status_code == 422
    assert re.search(r'class="field-error" id="field-arguments/api_key-error">the whole value', wrong.text)
    assert re.search(r'<textarea id="field-arguments/to"[^>]*>\nbob</textarea>', wrong.text), "as it was sent"
    assert (await stored(shop, request)).status == "pending"
    done = await sent(boss, request, "edit", **form, note="one is enough")
    assert ("Approved." in done.text, "Requested arguments" in done.text) == (True, True)
    row = await stored(shop, request)
    assert json.loads(row.modified or "") == {"to": ["bob"], "body": "", "urgent": False}
    assert row.note == "one is enough"


@pytest.mark.spec("N7", "G51")
async def test_arguments_that_are_shown_on_request_are_shown_after_an_error_too(
    shop: Site, boss: httpx2.AsyncClient
) -> None:
    body = "curl https://ok/?token=x;{rm,-rf,/srv}"
    request = await requested(shop, "send_mail", to=["bob"], body=body, urgent=True)
    assert "{rm,-rf,/srv}" in (await boss.get(f"/approvals/{request}/edit?shown=1")).text
    form = {"arguments/to": "bob", "arguments/body": body, "arguments/urgent": "perhaps"}
    wrong = await sent(boss, request, "edit?shown=1", **form)
    assert (wrong.status_code, f"/approvals/{request}/edit?shown=1" in wrong.text) == (422, True)


@pytest.mark.spec("N7")
async def test_errors_of_rest_stand_at_their_fields(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    wrong = await sent(boss, request, "edit", **{"arguments/to": "eve", "arguments/amount": "many"})
    assert wrong.status_code == 422
    assert re.search(r'class="field-error" id="field-arguments/amount-error">a whole number is expected', wrong.text)
    missing = await sent(boss, request, "edit", **{"arguments/amount": "3"})
    assert missing.status_code == 422
    assert re.search("<code>to</code>|field-arguments/to-error", missing.text)
    for text in ('{"to": "eve", "amount": 4', "[1]", '{"to": 4}', '{"to": "eve", "amount": NaN}'):
        refused = await sent(boss, request, "edit", json=text)
        assert (refused.status_code, text.replace('"', "&#34;") in refused.text) == (422, True), "as it was sent"
    assert (await sent(boss, request, "edit", json='{"to": "eve"}')).status_code == 200
    assert json.loads((await stored(shop, request)).modified or "") == {"to": "eve"}


@pytest.mark.spec("N7")
@pytest.mark.parametrize("body", ["a\r\nb", "a\rb", "a\0b"])
async def test_what_a_form_cannot_say_is_edited_as_json(shop: Site, boss: httpx2.AsyncClient, body: str) -> None:
    request = await requested(shop, "send_mail", to=["x", ""], body=body)
    page = (await boss.get(f"/approvals/{request}/edit")).text
    assert ('name="json"' in page, "arguments/body" in page) == (True, False)
    assert json.dumps(body)[1:-1] in page


@pytest.mark.spec("N7")
async def test_a_choice_that_is_left_alone_stays_as_it_was_asked_for() -> None:
    """A browser chooses the first one itself where none is chosen."""

    @tool(effect="write", approval="ask")
    async def sort_out(what: Literal["löschen", "prüfen"]) -> str:
        """Sort something out."""
        return what

    async with (
        asking(Capability("desk", tools=[sort_out])) as (server, ask),
        at_console(server, "boss") as browser,
    ):
        page = (await browser.get(f"/approvals/{await ask('sort_out', what='prüfen')}/edit")).text
    assert re.findall(r'<option value="([^"]*)" selected', page) == ["&#34;prüfen&#34;"]


@pytest.mark.spec("N7")
async def test_of_several_approvers_each_sees_how_many_have_approved(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop, "donate", to="a museum")
    assert "0 of 2 approvals" in (await boss.get("/approvals?tool=donate")).text
    first = (await sent(boss, request, "approve", note="I know them")).text
    assert "Your approval is recorded: 1 of 2 are given." in first
    assert "You cannot approve this" in first
    async with at_console(shop, "chief") as chief:
        page = (await chief.get(f"/approvals/{request}")).text
        assert re.search(r"approved by <strong>user:boss</strong>.*: I know them", page)
        assert "Approved." in (await sent(chief, request, "approve")).text
    assert (await stored(shop, request)).status == "approved"


@pytest.mark.spec("N6", "N7")
async def test_arguments_that_another_has_changed_are_shown_before_they_are_approved(
    shop: Site, boss: httpx2.AsyncClient
) -> None:
    request = await requested(shop, "donate", to="a museum")
    page = (await boss.get(f"/approvals/{request}")).text
    poll = re.search(r'hx-get="([^"]*/standing[^"]*)"', page)
    assert poll is not None
    async with at_console(shop, "chief") as chief:
        await sent(chief, request, "edit", json='{"to": "a zoo"}')
    answer = await boss.get(poll[1].replace("&amp;", "&"), headers={"hx-request": "true"})
    assert (answer.headers["hx-redirect"], "Approve once" in answer.text) == (f"/approvals/{request}", False)
    page = (await boss.get(answer.headers["hx-redirect"])).text
    for part, is_shown in (
        *(("An approver has changed the arguments", True), ("a zoo", True), ("Approve once", True)),
        ("Approve for the session", False),
    ):
        assert (part in page) is is_shown, part


@pytest.mark.spec("N3", "N6")
async def test_who_only_asks_sees_their_own_request_and_no_link_that_is_refused(shop: Site) -> None:
    await shop.key("asker", scopes=["capset:call", "capset:write"])
    request = await requested(shop, user="asker")
    async with reading(shop, "asker") as asker:
        page = await asker.get(f"/approvals/{request}")
        assert (page.status_code, "the scope capset:approve" in page.text, "Reject" in page.text) == (200, True, False)
        links = set(re.findall(r'(?:href|hx-get)="(/[^"#]*)"', page.text))
        statuses = {link: (await asker.get(link.replace("&amp;", "&"))).status_code for link in links}
        assert {link: status for link, status in statuses.items() if status >= 400} == {}
        refused = await asker.get("/approvals", headers={"accept": "text/html"})
        assert (refused.status_code, "issue a key with more scopes" in refused.text) == (403, True)


@pytest.mark.spec("N7")
async def test_a_request_that_expires_while_it_is_looked_at() -> None:
    clock = FakeClock()
    async with asking(clock=clock) as (server, ask), at_console(server, "boss") as browser:
        path = f"/approvals/{await ask('pay', to='bob')}"
        token = re.search(r'data-token="([0-9a-f]{64})"', (await browser.get(path)).text)
        assert token is not None
        clock.advance(3_601)
        late = await browser.post(f"{path}/approve", data={"token": token[1], "round": "0"})
        assert (late.status_code, "The request has expired" in late.text) == (409, True)
        standing = await browser.get(f"{path}/standing?round=0", headers={"hx-request": "true"})
        for page in (late, standing):
            assert "It expired without a decision" in page.text
