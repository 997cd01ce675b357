"""Calls of tools by forms."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import pytest

from tests.helpers.server.console.talking import HOSTILE, Visitor, session_of, shop, visitor
from tests.helpers.server.support import Site


@pytest.fixture
async def place() -> AsyncGenerator[tuple[Site, str, Visitor]]:
    """Give a server without a model, a session, and its owner, who has signed in."""
    async with shop() as server:
        session = await session_of(server)
        async with visitor(server) as page:
            yield server, session, page


@pytest.mark.spec("N13")
async def test_a_form_is_made_of_the_schema_and_its_errors_stand_at_the_fields(
    place: tuple[Site, str, Visitor],
) -> None:
    _, session, page = place
    path = f"/sessions/{session}/call"
    assert "unlock" not in re.findall(r'<option value="(\w+)"', (await page.get(path)).text)
    form = (await page.get(f"{path}?tool=write_todos")).text
    assert 'name="arguments/todos"' in form
    wrong = await page.post(path, {"arguments/todos": '[{"content": ""}]'}, tool="write_todos")
    assert wrong.status_code == 422
    assert "[{&#34;content&#34;: &#34;&#34;}]" in wrong.text, "as it was sent"
    assert "todos" in wrong.text
    assert 'role="alert"' in wrong.text
    not_json = await page.post(path, {"arguments/todos": "[1"}, tool="write_todos")
    assert (not_json.status_code, 'aria-invalid="true"' in not_json.text) == (422, True)
    fragment = await page.post(path, {"arguments/todos": "[1"}, fragment=True, tool="write_todos")
    assert (fragment.status_code, "<html" in fragment.text) == (200, False), "htmx swaps no answer that refuses"
    assert (await page.get(f"{path}?tool=unlock")).status_code == 404


@pytest.mark.spec("N13")
async def test_results_and_refusals_are_shown(place: tuple[Site, str, Visitor]) -> None:
    server, session, page = place
    path = f"/sessions/{session}/call"
    done = await page.post(path, tool="shout")
    assert "done" in done.text
    assert "<script>alert" not in done.text
    assert "\\u{202e}" in done.text
    record = await server.record(tool="shout")
    assert f"/audit/{record.id}" in done.text
    failed = await page.post(path, {"arguments/text": HOSTILE}, tool="refuse")
    assert "refused_politely" in failed.text
    assert "<script>alert" not in failed.text
    crashed = await page.post(path, tool="crash")
    assert "hunter2" not in crashed.text
    assert ">failed<" in crashed.text


@pytest.mark.spec("N13")
async def test_a_result_of_ten_megabytes_breaks_no_page(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    arguments = {"arguments/text": "é" * 10, "arguments/times": "1000000"}
    done = await page.post(f"/sessions/{session}/call", arguments, tool="shout")
    assert done.status_code == 200
    assert len(done.text) < 60_000
    assert "more characters" in done.text


@pytest.mark.spec("N13")
async def test_a_call_is_made_again_once_it_is_approved(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    path = f"/sessions/{session}/call"
    pending = await page.post(path, {"arguments/to": "bob", "arguments/amount": "3"}, tool="pay")
    assert "needs an approval" in pending.text
    approval = re.search(r'name="approval" value="([0-9a-f-]+)"', pending.text)
    assert approval is not None
    form = {"tool": "pay", "again": '{"to": "bob", "amount": 3}', "approval": approval[1]}
    early = await page.post(path, form)
    assert "bob has 3" not in early.text
    decided = await page.post(f"/sessions/{session}/approvals/{approval[1]}", fragment=True, answer="approve")
    assert "approved" in decided.text
    assert "bob has 3" in (await page.post(path, form)).text
    for text in ("[", "[" * 100_000):
        broken = await page.post(path, tool="pay", again=text, approval=approval[1])
        assert broken.status_code == 422, text[:9]


@pytest.mark.spec("N13")
async def test_a_used_up_limit_says_when_it_is_free_again(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    path = f"/sessions/{session}/call"
    answer = None
    for _ in range(2):
        answer = await page.post(path, {"arguments/to": "bob"}, tool="donate")
        approval = re.search(r'name="approval" value="([0-9a-f-]+)"', answer.text)
        if approval is None:
            break
        await page.post(f"/sessions/{session}/approvals/{approval[1]}", fragment=True, answer="approve")
        answer = await page.post(path, tool="donate", again='{"to": "bob"}', approval=approval[1])
    assert answer is not None
    assert ">refused<" in answer.text
    assert "try again in" in answer.text


@pytest.mark.spec("N6", "N13")
async def test_what_is_decided_beside_a_call_is_shown_whole_or_said_to_be_cut(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    for length, cut in ((10_000, False), (30_000, True)):
        fields = {"arguments/to": "x" * length + " the end", "arguments/amount": "3"}
        rendered = (await page.post(f"/sessions/{session}/call", fields, tool="pay")).text
        card = rendered[rendered.index('class="approval pending"') :].split("Call again")[0].split('name="again"')[0]
        assert ("the end" in card, "Show all of them</a> before you decide" in card) == (not cut, cut)
