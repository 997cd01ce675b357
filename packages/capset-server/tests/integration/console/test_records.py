"""The record in the console: filters, single records, exports, verification, and graphs (spec 9)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncGenerator
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from markupsafe import escape

from capset import Principal
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.limits import Limit
from capset_server.auth.keys import create_key, revoke_key
from capset_server.console.pages import records as pages
from capset_server.http import record_exports
from capset_testing.store_suite.support import NOW, entry
from tests.helpers.server.console.auditing import TEXTS, auditing, called, hidden, reading
from tests.helpers.server.support import Site, call, make_session
from tests.helpers.stores.sql.support import path_of, raw

pytestmark = pytest.mark.spec("N16")


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with auditing() as server:
        principal = Principal("limited", org="acme", allowance=Allowance(limits=Limit(500, "1h")))
        _, server.keys["limited"] = await create_key(server.kernel, "limited", principal, scopes=["capset:admin"])
        yield server


def rows(page: httpx2.Response) -> int:
    """Return how many records a list shows."""
    return page.text.split("<tbody>", 1)[-1].count("<tr") if "<tbody>" in page.text else 0


async def test_records_are_filtered_and_the_form_keeps_the_values(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two")
    for filters, count in (
        ({}, 4),
        ({"tool": "echo"}, 2),
        ({"outcome": "failed"}, 1),
        ({"code": "permission_denied"}, 1),
        ({"kind": "act"}, 0),
        ({"kind": "all"}, 4),
        ({"principal": "nobody"}, 0),
        ({"since": "2020-01-01T00:00"}, 4),
        ({"until": "2020-01-01T00:00:00"}, 0),
    ):
        page = await boss.get("/audit", params={"session": session, **filters})
        assert (page.status_code, rows(page)) == (200, count), filters
        for name, value in {"session": session, **filters}.items():
            markup = f'value="{value}" selected' if name in ("outcome", "kind") else f'value="{value}'
            assert markup in page.text, name
    page = await boss.get("/audit", params={"session": session, "tool": "echo"})
    assert f'href="/audit?tool=echo&amp;session={session}&amp;outcome=succeeded"' in page.text, "links narrow it"
    assert f'href="/audit/export?tool=echo&amp;session={session}&amp;format=csv"' in page.text
    acts = await boss.get("/audit", params={"kind": "act", "act": "log.read", "principal": "boss"})
    assert (rows(acts) > 0, "echo" in acts.text.split("<tbody>")[1]) == (True, False)
    assert "No records found" in (await boss.get("/audit", params={"tool": "nothing"})).text


async def test_pages_follow_one_another_with_the_same_filters(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, *map(str, range(58)))
    first = await boss.get("/audit", params={"session": session})
    assert rows(first) == 50
    older = unescape(first.text.split('rel="next" href="', 1)[1].split('"', 1)[0])
    second = await boss.get(older)
    assert (rows(second), 'rel="next"' in second.text) == (10, False)
    assert f'value="{session}"' in second.text


@pytest.mark.parametrize("wrong", [{"since": "x"}, {"outcome": "lost"}, {"kind": "x"}, {"tool": "x" * 201}])
async def test_a_filter_that_does_not_do_is_said_at_its_field(boss: httpx2.AsyncClient, wrong: dict[str, str]) -> None:
    (name,) = wrong
    for path in ("/audit", "/audit/export"):
        page = await boss.get(path, params={**wrong, "agent": "kit"})
        assert page.status_code == 422
        assert (f'id="error-{name}"' in page.text, 'value="kit"' in page.text) == (True, True)
    assert (await boss.get("/audit", params={"cursor": "x"})).status_code == 422


async def test_a_record_is_shown_in_full_with_its_proof(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "a word")
    record = await shop.record(session=session, tool="echo")
    page = unescape((await boss.get(f"/audit/{record.id}")).text)
    hashes = (record.tool_hash, record.runtime_hash, record.static_hash, record.prompt_hash)
    for text in (
        *("a word", "verified", record.hash, record.previous, f"{record.seq:,}", record.correlation),
        f'href="/sessions/{session}"',
        *(f'href="/fingerprints/{fingerprint}"' for fingerprint in hashes),
    ):
        assert text in page, text
    async with shop.client("caller") as client:
        answer = (await call(client, await make_session(client, "till"), "pay", to="bob")).json()
    assert f'href="/approvals/{answer["approval"]}"' in (await boss.get(f"/audit/{answer['record']}")).text
    read = (await boss.get("/audit", params={"act": "log.read"})).text
    act = read.split("<tbody>", 1)[1].split('href="', 1)[1].split('"', 1)[0]
    assert "by" in (await boss.get(act)).text, "an act is a record, too"
    assert (await boss.get("/audit/nothing")).status_code == 404


@pytest.mark.spec("N19")
async def test_what_is_hostile_is_shown_as_text(shop: Site, boss: httpx2.AsyncClient) -> None:
    async with shop.client("caller") as client:
        session = await make_session(client, "kit")
        for text in TEXTS:
            await call(client, session, "echo", text=text)
            await call(client, session, text)
    await shop.kernel.audit.commit(
        entry("wicked", org="acme", act=None, time=NOW, principal=TEXTS[1], reason=TEXTS[0], agent=TEXTS[2])
    )
    listing = await boss.get("/audit", params={"session": session})
    for text in TEXTS[:4]:
        assert f"<code>{escape(text)}</code>" in listing.text
    assert "a\\u{202e}b" in listing.text
    read = [
        listing,
        *[await boss.get(path) for path in ("/audit?id=wicked", "/audit/wicked", "/audit/timeline", "/audit/charts")],
        *[await boss.get(f"/audit/{record.id}") for record in await shop.records(session=session)],
        await boss.get("/audit", params={"tool": TEXTS[1], "session": TEXTS[0], "principal": TEXTS[2]}),
        await boss.get("/audit", params={"since": TEXTS[1]}),
    ]
    for page in read:
        assert page.status_code == (422 if "since" in str(page.url) else 200)
        for text in ("<script>alert", "<img", "\u202e"):
            assert text not in page.text, (page.url, text)


@pytest.mark.spec("N19")
async def test_large_arguments_are_cut_off_with_a_note(shop: Site, boss: httpx2.AsyncClient) -> None:
    large = json.dumps({"text": "x" * 10_000_000})
    await shop.kernel.audit.commit(entry("large", org="acme", act=None, time=NOW, arguments=large))
    page, listing = await boss.get("/audit/large"), await boss.get("/audit", params={"id": "large"})
    assert "cut off: 10,000,012 characters in total on one line" in page.text
    assert max(len(page.text), len(listing.text)) < 50_000


async def test_records_are_exported_as_they_are_filtered(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two")
    plain = await boss.get("/audit/export", params={"session": session, "tool": "echo"})
    table = await boss.get("/audit/export", params={"session": session, "format": "csv"})
    for answer, media_type, ending in ((plain, "application/x-ndjson", "ndjson"), (table, "text/csv", "csv")):
        assert answer.headers["content-disposition"] == f'attachment; filename="records.{ending}"'
        assert answer.headers["content-type"].startswith(media_type)
    assert [json.loads(line)["arguments"] for line in plain.text.splitlines()] == ['{"text":"two"}', '{"text":"one"}']
    assert len([*csv.reader(io.StringIO(table.text, newline=""))]) == 1 + 4
    assert (await boss.get("/audit/export", params={"format": "xml"})).status_code == 422


async def test_a_long_export_goes_on_and_ends_with_its_sign_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_exports, "_PAGE", 2)
    async with auditing(store=f"sqlite:///{tmp_path}/x.db") as shop, reading(shop) as boss:
        for number in range(7):
            await shop.kernel.audit.commit(entry(f"e{number}", org="acme", act=None, time=NOW))
        assert len((await boss.get("/audit/export")).text.splitlines()) == 7
        knows, checks = shop.service.callers.knows, 0

        async def revoked_at_the_second(*arguments: Any, **more: Any) -> bool:
            nonlocal checks
            checks += 1
            if checks == 2:
                (row,) = [key for key in await shop.kernel.store.keys.list() if key.name == "boss"]
                await revoke_key(shop.kernel, row.id)
            return await knows(*arguments, bypass_cache=True)

        monkeypatch.setattr(shop.service.callers, "knows", revoked_at_the_second)
        with pytest.raises(httpx2.RemoteProtocolError):
            await boss.get("/audit/export")
        assert checks == 2


async def walked(boss: httpx2.AsyncClient) -> tuple[str, int]:
    """Verify the chain by the buttons of the pages without a script; return the last page, and how many there were."""
    page, count = await boss.post("/audit/verify", data={"cursor": ""}), 1
    while ">Continue</button>" in page.text:
        page, count = await boss.post("/audit/verify", data=hidden(page)), count + 1
    return page.text, count


async def test_the_chain_is_verified_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LINKS", 4)
    url = f"sqlite:///{tmp_path}/x.db"
    async with auditing(store=url) as shop, reading(shop) as boss:
        session = await called(shop, *map(str, range(8)))
        await shop.kernel.audit.flush()
        span = await shop.kernel.audit.span()
        assert span is not None
        assert "Verify the chain" in (await boss.get("/audit/verify")).text
        page, count = await walked(boss)
        assert f"{span[1]} records, every hash holds." in page
        assert count - -(-span[1] // 4) in (0, 1)
        changed = (await shop.records(session=session, tool="echo"))[3]
        path = path_of(url)
        assert path is not None
        with raw(path) as file:
            file.execute('UPDATE records SET arguments = \'{"text":"else"}\' WHERE seq = ?', (changed.seq,))
        page, _ = await walked(boss)
        assert f"The chain is broken at record {changed.seq}." in page
        assert f"{changed.seq - 1} records before it are intact." in page
        assert "every hash holds" not in page
        assert ">broken<" in (await boss.get(f"/audit/{changed.id}")).text


@pytest.mark.spec("N2")
async def test_no_link_of_others_begins_a_verification_further_on(boss: httpx2.AsyncClient) -> None:
    page = await boss.get("/audit/verify", params={"cursor": f"1.{'0' * 64}", "checked": "999"})
    assert re.search(r"\b999\b", page.text) is None
    forged = await boss.post("/audit/verify", data={"checked": "999"}, headers={"x-capset-token": "0" * 64})
    assert forged.status_code == 403
    assert (await boss.post("/audit/verify", data={"cursor": "x"})).status_code == 422


@pytest.mark.spec("N3")
async def test_another_organisation_and_those_without_the_scope_see_nothing(shop: Site) -> None:
    session = await called(shop, "secret word")
    record = await shop.record(session=session, tool="echo")
    async with reading(shop, "spy") as spy:
        for path in ("/audit", "/audit/export"):
            answer = await spy.get(path, params={"session": session})
            assert ("secret word" in answer.text, record.id in answer.text) == (False, False)
        for path in ("/audit/timeline", "/audit/charts"):
            assert "No calls ended in this period" in (await spy.get(path)).text
    async with reading(shop, "caller") as caller:
        for path in ("", "/timeline", "/charts", "/export", f"/{record.id}"):
            assert (await caller.get(f"/audit{path}")).status_code == 403, path
        assert (await caller.post("/audit/verify")).status_code == 403


def data_of(page: httpx2.Response, name: str) -> dict[str, Any]:
    """Return the data of a chart as the script reads it."""
    match = re.search(rf'id="chart-{name}" data-chart="([^"]*)"', page.text)
    assert match is not None, page.text
    return json.loads(unescape(match[1]))


async def test_the_time_line_leads_to_the_records_of_each_bar(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two")
    page = await boss.get("/audit/timeline", params={"session": session, "bucket": "1h"})
    searched = await boss.get("/audit/timeline", params={"session": session, "text": "echo"})
    assert ("Not filtered by text" in searched.text, "Not filtered" in page.text) == (True, False)
    (bar,) = re.findall(r'<tr class="went-wrong"><td class="nowrap"><a href="([^"]+)".*?</tr>', page.text)
    drawn = re.findall(r'<rect class="(\w+)"', page.text)
    assert (drawn.count("ground"), {"succeeded", "refused", "failed"} <= {*drawn}) == (25, True)
    listing = await boss.get(unescape(bar))
    assert rows(listing) == 4
    assert f'value="{session}"' in listing.text


async def test_charts_have_the_numbers_of_the_summary_and_a_table_of_them(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two", "three")
    page = await boss.get("/audit/charts", params={"session": session})
    for text in ("is_partial", "Not all calls"):
        assert text not in page.text
    for name, sums in (
        ("outcomes", {"succeeded": 3, "failed": 1, "denied": 1}),
        ("decisions", {"allow": 4, "deny": 1}),
    ):
        assert {series["label"]: sum(series["values"]) for series in data_of(page, name)["series"]} == sums
    latency = data_of(page, "latency")
    sizes = {series["label"]: len(series["values"]) for series in latency["series"]}
    assert sizes == dict.fromkeys(("p50", "p95", "p99"), len(latency["x"]))
    for title in ("How calls ended", "What policies decided", "How long calls took"):
        assert re.search(rf'aria-label="{title}[^"]*"><table>', page.text), title
    assert '<code>echo</code></a></td>\n<td><progress max="5" value="3"' in page.text
    for name in ("uPlot.iife.min.js", "uPlot.min.css", "charts.js"):
        (path,) = re.findall(rf'"(/static/\w+/{re.escape(name)})"', page.text)
        assert (await boss.get(path)).status_code == 200
    assert "uPlot" not in (await boss.get("/audit")).text, "only where there are charts"


async def test_it_is_said_when_not_all_calls_are_counted(
    shop: Site, boss: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await called(shop, "one", "two", "three")
    monkeypatch.setattr(shop.kernel.audit, "measure", partial(shop.kernel.audit.measure, max_counted=2))
    for path in ("/audit/timeline", "/audit/charts"):
        page = (await boss.get(path)).text
        assert "Not all calls in this period are counted" in page
        assert "the newest 2 calls" in page


async def test_limits_are_shown_with_what_is_used(shop: Site, boss: httpx2.AsyncClient) -> None:
    async with reading(shop, "limited") as limited:
        own = await limited.get("/audit/charts")
    for page in (own, await boss.get("/audit/charts", params={"principal": "limited"})):
        for text in ("of user:limited", '<meter min="0" max="500.0"', "of 500"):
            assert text in page.text
    assert "No limits apply to you here" in (await boss.get("/audit/charts")).text


@pytest.mark.parametrize("path", ["/audit/timeline", "/audit/charts"])
@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("since=x", 422, 'id="error-since"'),
        ("bucket=2s", 422, 'id="error-bucket"'),
        ("since=2026-01-01T00:00&until=2025-01-01T00:00", 422, "since must be before until"),
        ("since=2020-01-01T00:00&bucket=1m", 422, "would do"),
        ("since=2020-01-01T00:00&until=2020-01-02T00:00&bucket=7d", 200, "No calls ended"),
        ("since=0001-01-01T00:00:00&until=0001-01-02T00:00:00&bucket=7d", 200, "No calls ended"),
        ("since=9999-12-31T00:00:00&until=9999-12-31T23:59:59.9&bucket=7d", 200, "No calls ended"),
    ],
)
async def test_any_time_is_drawn_and_what_is_none_is_said_at_its_field(
    boss: httpx2.AsyncClient, path: str, query: str, status: int, words: str
) -> None:
    page = await boss.get(f"{path}?{query}")
    assert (page.status_code, words in page.text) == (status, True)
