"""The rows of the inbox: equal requests, decisions on several at once, and which request is next (spec 9, N35)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.helpers.server.approving import asked
from tests.helpers.server.console.inbox import at_console, inbox, requested, sent, stored
from tests.helpers.server.support import Site, make_session


@pytest.fixture
async def shop() -> AsyncGenerator[Site]:
    async with inbox() as server:
        yield server


def rows_in(page: str) -> dict[str, str]:
    """Return what each row of the list selects, by the id of the request that it stands for."""
    pattern = r'data-request="([^"]+)">\s*<input type="checkbox" name="request" value="([^"]+)"'
    return dict(re.findall(pattern, page))


async def decided(
    browser: httpx2.AsyncClient, *selection: str, path: str = "/approvals/decisions", **form: str
) -> httpx2.Response:
    """Send the form of the list with a selection."""
    token = re.search(r'data-token="([0-9a-f]{64})"', (await browser.get("/approvals")).text)
    assert token is not None
    return await browser.post(path, data={"token": token[1], "request": [*selection], **form})


@pytest.mark.spec("N35")
async def test_equal_requests_share_a_row_and_are_decided_together(shop: Site, boss: httpx2.AsyncClient) -> None:
    first, second = await requested(shop, to="bob"), await requested(shop, to="bob")
    other = await requested(shop, to="eve")
    page = (await boss.get("/approvals")).text
    assert rows_in(page) == {other: f"{other}:0", first: f"{second}:0 {first}:0"}
    assert "2 identical requests" in page
    done = await decided(boss, f"{second}:0 {first}:0", answer="reject", note="once is enough")
    assert "Rejected: 2." in done.text
    rows = [await stored(shop, request) for request in (first, second, other)]
    assert [(row.status, row.note) for row in rows] == [("rejected", "once is enough")] * 2 + [("pending", None)]
    acts = [row for row in await shop.kernel.audit.read(limit=1_000) if row.act == "approval.reject"]
    assert [row.approval for row in acts] == [second, first]


@pytest.mark.spec("N35")
async def test_what_cannot_be_decided_stays_and_the_list_says_why(shop: Site, boss: httpx2.AsyncClient) -> None:
    plain, donation = await requested(shop, to="bob"), await requested(shop, "donate", to="a museum")
    late, masked = await requested(shop, to="eve"), await requested(shop, "send_mail", to=["x"], body="", api_key="sk")
    long = await requested(shop, to="x" * 500)
    rows = rows_in((await boss.get("/approvals")).text)
    assert (rows[masked], rows[long]) == (masked, long), "a row that shows a part selects no round"
    await sent(boss, late, "reject")
    refused = await decided(boss, *rows.values(), answer="approve", note="fine")
    assert refused.status_code == 409
    for part in (
        "Approved: 1.",
        "recorded for 1 request that still needs other approvers.",
        "it was rejected by user:boss",
        ">\nfine</textarea>",
    ):
        assert part in refused.text, part
    assert refused.text.count("the list shows only part of this request") == 2
    statuses = [(await stored(shop, request)).status for request in (plain, donation, late, masked, long)]
    assert statuses == ["approved", "pending", "rejected", "pending", "pending"]
    assert "Rejected: 2." in (await decided(boss, rows[masked], rows[long], answer="reject")).text
    own = await requested(shop, to="kim")
    async with at_console(shop, "kim") as kim:
        refused = await decided(kim, f"{own}:0", answer="approve")
        assert (refused.status_code, "a principal other than" in refused.text) == (409, True)
        for form in ({}, {"answer": "perhaps"}):
            assert (await decided(kim, f"{own}:0", **form)).status_code == 422
    assert "Nothing was selected" in (await decided(boss, answer="approve")).text
    assert (await stored(shop, own)).status == "pending"


@pytest.mark.spec("N35")
async def test_a_burst_of_equal_requests_is_one_row_on_the_page_where_it_was_decided(
    shop: Site, boss: httpx2.AsyncClient
) -> None:
    newest = [await requested(shop, to="bob") for _ in range(7)][::-1]
    page = (await boss.get("/approvals")).text
    row = page[page.index(f'data-request="{newest[-1]}"') :]
    assert ("7 identical requests</span>" in row, "and 2 more" in row) == (True, True)
    assert len(re.findall(r'<a href="/approvals/[^"]+"><time', row)) == 5
    path = f"/approvals/decisions?cursor={newest[2]}"
    done = await decided(boss, *(f"{request}:0" for request in newest[3:]), path=path, answer="approve")
    assert str(done.url).endswith(f"/approvals?cursor={newest[2]}")
    for part in ("Approved: 4.", "No more requests", 'href="/approvals?status=pending"'):
        assert part in done.text, part


@pytest.mark.spec("N35")
async def test_the_next_request_is_the_next_of_the_list(shop: Site, boss: httpx2.AsyncClient) -> None:
    async with shop.client("kim") as client:
        session = await make_session(client, "till")
        first, second, third, last = [await asked(client, session, to=f"bob {number}") for number in range(4)]
    donation = await requested(shop, "donate", to="a museum")

    async def following(request: str, query: str) -> str:
        """Return the request that the page of a decided one leads to."""
        page = (await boss.get(f"/approvals/{request}{query}")).text
        return re.findall(r'href="([^"]+)" data-key="n"', page)[0].replace("&amp;", "&")

    await sent(boss, second, "reject")
    assert await following(second, "") == f"/approvals/{first}"
    assert await following(second, "?order=oldest") == f"/approvals/{third}?order=oldest"
    await sent(boss, last, "reject")
    assert await following(last, "?order=oldest&tool=pay") == f"/approvals/{first}?tool=pay&order=oldest"
    assert await following(last, "?order=oldest") == f"/approvals/{donation}?order=oldest"
    page = (await boss.get("/approvals?order=oldest&tool=pay")).text
    assert f'href="/approvals/{first}?tool=pay&amp;order=oldest"' in page
    done = await decided(boss, f"{first}:0", path="/approvals/decisions?tool=pay&order=oldest", answer="approve")
    assert str(done.url).endswith("/approvals?tool=pay&order=oldest")


@pytest.mark.spec("N37")
async def test_a_request_is_compared_with_those_that_were_approved(shop: Site, boss: httpx2.AsyncClient) -> None:
    for to, amount in (("bob", 5), ("eve", 20), ("bob", 9)):
        await sent(boss, await requested(shop, to=to, amount=amount), "approve")
    rejected = await requested(shop, to="mallory", amount=1)
    await sent(boss, rejected, "reject", note="who is this?")
    pattern = r"<tr><td>(\w+)</td><td><code>(.*?)</code></td><td>(.*?)</td></tr>"
    for to, amount, notes in (
        ("bob", 700, {"to": "same in 2 of 3", "amount": "above the approved range (5 to 20)"}),
        ("dora", 20, {"to": "not approved before; so far: bob and eve", "amount": "same in 1 of 3"}),
    ):
        page = (await boss.get(f"/approvals/{await requested(shop, to=to, amount=amount)}")).text
        compared = page[page.index("compared with the last 3") : page.index("Changed arguments")]
        rows = {name: note.rpartition("</span> ")[2] for name, _, note in re.findall(pattern, compared)}
        assert rows == notes
        earlier = page[page.index('id="earlier-title"') :]
        for part in (f'href="/approvals/{rejected}"', "amount: 1, to: mallory", "who is this?", "/audit?tool=pay"):
            assert part in earlier, part
    page = (await boss.get(f"/approvals/{await requested(shop, 'donate', to='a museum')}")).text
    assert ("at most 1 call per hour and principal" in page, "earlier-title" in page) == (True, False)


@pytest.mark.spec("N37")
async def test_comparisons_have_every_digit_and_take_no_mask_for_a_value(shop: Site, boss: httpx2.AsyncClient) -> None:
    for amount in (10_000_001, 20_000_002):
        await sent(boss, await requested(shop, to="bob", amount=amount), "approve")
    page = (await boss.get(f"/approvals/{await requested(shop, to='bob', amount=30_000_003)}")).text
    assert "above the approved range (10000001 to 20000002)" in page
    mail: dict[str, Any] = {"to": ["bob"], "body": "Hello"}
    for key in ("sk-1", "sk-2"):
        await sent(boss, await requested(shop, "send_mail", **mail, api_key=key), "approve")
    request = await requested(shop, "send_mail", **mail, api_key="sk-3")
    for query in ("", "?shown=1"):
        page = (await boss.get(f"/approvals/{request}{query}")).text
        compared = page[page.index("compared with the last 2") : page.index('id="earlier-title"')]
        assert re.findall(r"<td>api_key</td>.*?<td>([^<]*)</td></tr>", compared) == ["masked, not compared"]
        assert ("The arguments are the same" in compared, "Masked values are not compared" in compared) == (False, True)
