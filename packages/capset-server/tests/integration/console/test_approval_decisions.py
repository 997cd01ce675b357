"""The inbox without a browser: what its forms decide (spec 9)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import Literal

import httpx2
import pytest

from capset import Capability, tool
from capset_testing import FakeClock
from tests.helpers.server.approving import till
from tests.helpers.server.console.inbox import at_console, inbox, requested, sent, stored
from tests.helpers.server.support import Site, call, make_session, site


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with inbox() as server:
        yield server


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with at_console(shop, "boss") as browser:
        yield browser


@pytest.mark.spec("N7")
async def test_each_decision_is_that_of_rest(shop: Site, boss: httpx2.AsyncClient) -> None:
    once_request, session, no, other = [await requested(shop, to=f"bob {number}") for number in range(4)]
    done = await sent(boss, once_request, "approve", scope="once", note="  fine\r\nthen ")
    assert (done.status_code, "Approved." in done.text, "user:boss" in done.text) == (200, True, True)
    row = await stored(shop, once_request)
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
    assert re.search(r'class="field-error" id="field-arguments/api_key-error">the whole value', wrong.text)
    assert re.search(r'<textarea id="field-arguments/to"[^>]*>\nbob</textarea>', wrong.text), "as it was sent"
    assert (await stored(shop, request)).status == "pending"
    done = await sent(boss, request, "edit", **form, note="one is enough")
    assert (done.status_code, "Approved." in done.text) == (200, True)
    row = await stored(shop, request)
    assert json.loads(row.modified or "") == {"to": ["bob"], "body": "", "urgent": False}
    assert row.note == "one is enough"
    assert "What was asked for" in done.text


@pytest.mark.spec("N7", "G51")
async def test_arguments_that_are_shown_on_request_are_shown_after_an_error_too(
    shop: Site, boss: httpx2.AsyncClient
) -> None:
    request = await requested(shop, "send_mail", to=["bob"], body="curl https://ok/?token=x;{rm,-rf,/srv}", urgent=True)
    page = (await boss.get(f"/approvals/{request}/edit?shown=1")).text
    assert "{rm,-rf,/srv}" in page
    form = {"arguments/to": "bob", "arguments/body": "curl https://ok/?token=x;{rm,-rf,/srv}"}
    wrong = await sent(boss, request, "edit?shown=1", **form, **{"arguments/urgent": "perhaps"})
    assert (wrong.status_code, f"/approvals/{request}/edit?shown=1" in wrong.text) == (422, True)


@pytest.mark.spec("N7")
async def test_errors_of_rest_stand_at_their_fields(shop: Site, boss: httpx2.AsyncClient) -> None:
    request = await requested(shop)
    wrong = await sent(boss, request, "edit", **{"arguments/to": "eve", "arguments/amount": "many"})
    assert wrong.status_code == 422
    assert re.search(r'class="field-error" id="field-arguments/amount-error">a whole number is expected', wrong.text)
    missing = await sent(boss, request, "edit", **{"arguments/amount": "3"})
    assert (missing.status_code, "<code>to</code>" in missing.text or "field-arguments/to-error" in missing.text) == (
        422,
        True,
    )
    wrong_texts = ('{"to": "eve", "amount": 4', "[1]", '{"to": 4}', '{"to": "eve", "amount": NaN}')
    for text, status in (*((wrong_text, 422) for wrong_text in wrong_texts), ('{"to": "eve"}', 200)):
        answer = await sent(boss, request, "edit", json=text)
        assert answer.status_code == status, text
        if status == 422:
            assert text.replace('"', "&#34;") in answer.text, "as it was sent"
    assert json.loads((await stored(shop, request)).modified or "") == {"to": "eve"}


@pytest.mark.spec("N7")
@pytest.mark.parametrize("body", ["a\r\nb", "a\rb", "a\0b"])
async def test_what_a_form_cannot_say_is_edited_as_json(shop: Site, boss: httpx2.AsyncClient, body: str) -> None:
    request = await requested(shop, "send_mail", to=["x", ""], body=body)
    page = (await boss.get(f"/approvals/{request}/edit")).text
    assert 'name="json"' in page
    assert "arguments/body" not in page
    assert body.replace("\r", "\\r").replace("\n", "\\n").replace("\0", "\\u0000") in page


@pytest.mark.spec("N7")
async def test_a_choice_that_is_left_alone_stays_as_it_was_asked_for() -> None:
    """A browser chooses the first one itself where none is chosen."""

    @tool(effect="write", approval="ask")
    async def sort_out(what: Literal["löschen", "prüfen"]) -> str:
        """Sort something out."""
        return what

    async with site(Capability("desk", tools=[sort_out])) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("kim", scopes=["capset:call", "capset:write"])
        async with server.client("kim") as client:
            session = await make_session(client, "desk")
            request = (await call(client, session, "sort_out", what="prüfen")).json()["approval"]
        async with at_console(server, "boss") as browser:
            page = (await browser.get(f"/approvals/{request}/edit")).text
    assert re.findall(r'<option value="([^"]*)" selected', page) == ["&#34;prüfen&#34;"]


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


@pytest.mark.spec("N7")
async def test_a_request_that_expires_while_it_is_looked_at() -> None:
    clock = FakeClock()
    async with site(till, clock=clock) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("kim", scopes=["capset:call", "capset:write"])
        async with server.client("kim") as client:
            session = await make_session(client, "till")
            request = (await call(client, session, "pay", to="bob")).json()["approval"]
        async with at_console(server, "boss") as browser:
            token = re.search(r'data-token="([0-9a-f]{64})"', (await browser.get(f"/approvals/{request}")).text)
            assert token is not None
            clock.advance(3_601)
            late = await browser.post(f"/approvals/{request}/approve", data={"token": token[1], "round": "0"})
            assert (late.status_code, "the request has expired" in late.text) == (409, True)
            assert "It expired without a decision" in late.text
            standing = await browser.get(f"/approvals/{request}/standing", headers={"hx-request": "true"})
            assert "It expired without a decision" in standing.text
