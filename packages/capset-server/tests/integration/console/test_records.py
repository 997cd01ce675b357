"""The record in the console: filters, single records, exports, verification (spec 9)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncGenerator
from html import unescape
from typing import Any

import httpx2
import pytest
from markupsafe import escape

from capset_server.auth.keys import revoke_key
from capset_server.console.pages import records as pages
from capset_server.http import record_exports
from capset_testing.store_suite.support import NOW, entry
from tests.helpers.server.console.auditing import TEXTS, auditing, called, hidden, reading
from tests.helpers.server.support import Site, call, make_session
from tests.helpers.stores.sql.support import path_of, raw


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    async with auditing() as server:
        yield server


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with reading(shop) as client:
        yield client


def rows(page: httpx2.Response) -> int:
    """Return how many records a list shows."""
    return page.text.split("<tbody>", 1)[-1].count("<tr") if "<tbody>" in page.text else 0


@pytest.mark.spec("N16")
async def test_records_are_filtered_and_the_form_keeps_the_values(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two")
    for filters, count in (
        ({"session": session}, 4),
        ({"session": session, "tool": "echo"}, 2),
        ({"session": session, "outcome": "failed"}, 1),
        ({"session": session, "code": "permission_denied"}, 1),
        ({"session": session, "kind": "act"}, 0),
        ({"session": session, "kind": "all"}, 4),
        ({"session": session, "principal": "nobody"}, 0),
        ({"session": session, "since": "2020-01-01T00:00"}, 4),
        ({"session": session, "until": "2020-01-01T00:00:00"}, 0),
    ):
        page = await boss.get("/audit", params=filters)
        assert (page.status_code, rows(page)) == (200, count), filters
        for name, value in filters.items():
            markup = f'value="{value}" selected' if name in ("outcome", "kind") else f'value="{value}'
            assert markup in page.text, name
    page = await boss.get("/audit", params={"session": session, "tool": "echo"})
    assert f'href="/audit?tool=echo&amp;session={session}&amp;outcome=succeeded"' in page.text, "links narrow it"
    assert f'href="/audit/export?tool=echo&amp;session={session}&amp;format=csv"' in page.text
    acts = await boss.get("/audit", params={"kind": "act", "act": "log.read", "principal": "boss"})
    assert rows(acts) > 0
    assert "echo" not in acts.text.split("<tbody>")[1]
    assert "No record fits" in (await boss.get("/audit", params={"tool": "nothing"})).text


@pytest.mark.spec("N16")
async def test_pages_follow_one_another_with_the_same_filters(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, *map(str, range(58)))
    first = await boss.get("/audit", params={"session": session})
    assert rows(first) == 50
    older = unescape(first.text.split('rel="next" href="', 1)[1].split('"', 1)[0])
    second = await boss.get(older)
    assert (rows(second), 'rel="next"' in second.text) == (10, False)
    assert f'value="{session}"' in second.text


@pytest.mark.spec("N16")
@pytest.mark.parametrize("wrong", [{"since": "x"}, {"outcome": "lost"}, {"kind": "x"}, {"tool": "x" * 201}])
async def test_a_filter_that_does_not_do_is_said_at_its_field(boss: httpx2.AsyncClient, wrong: dict[str, str]) -> None:
    (name,) = wrong
    for path in ("/audit", "/audit/export"):
        page = await boss.get(path, params={**wrong, "agent": "kit"})
        assert page.status_code == 422
        assert f'id="error-{name}"' in page.text
        assert 'value="kit"' in page.text
    assert (await boss.get("/audit", params={"cursor": "x"})).status_code == 422


@pytest.mark.spec("N16")
async def test_a_record_is_shown_in_full_with_its_proof(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "a word")
    record = await shop.record(session=session, tool="echo")
    page = await boss.get(f"/audit/{record.id}")
    assert page.status_code == 200
    for text in ("a word", "verified", record.hash, record.previous, f"{record.seq:,}", record.correlation):
        assert text in unescape(page.text), text
    assert f'href="/sessions/{session}"' in page.text
    for fingerprint in (record.tool_hash, record.runtime_hash, record.static_hash, record.prompt_hash):
        assert f'href="/fingerprints/{fingerprint}"' in page.text
    async with shop.client("caller") as client:
        answer = (await call(client, await make_session(client, "till"), "pay", to="bob")).json()
    assert f'href="/approvals/{answer["approval"]}"' in (await boss.get(f"/audit/{answer['record']}")).text
    read = (await boss.get("/audit", params={"act": "log.read"})).text
    act = read.split("<tbody>", 1)[1].split('href="', 1)[1].split('"', 1)[0]
    assert "by" in (await boss.get(act)).text, "an act is a record, too"
    assert (await boss.get("/audit/nothing")).status_code == 404


@pytest.mark.spec("N16", "N19")
async def test_what_is_hostile_is_shown_as_text(shop: Site, boss: httpx2.AsyncClient) -> None:
    async with shop.client("caller") as client:
        session = await make_session(client, "kit")
        for text in TEXTS:
            await call(client, session, "echo", text=text)
            await call(client, session, text)
    await shop.kernel.audit.commit(
        entry("wicked", org="acme", act=None, time=NOW, principal=TEXTS[1], reason=TEXTS[0], agent=TEXTS[2])
    )
    for path in (f"/audit?session={session}", "/audit?id=wicked", "/audit/wicked", "/audit/timeline", "/audit/charts"):
        page = await boss.get(path)
        assert page.status_code == 200
        for text in ("<script>alert", "<img", "\u202e"):
            assert text not in page.text, (path, text)
    listing = await boss.get("/audit", params={"session": session})
    for text in TEXTS[:4]:
        assert f"<code>{escape(text)}</code>" in listing.text
    assert "a\\u{202e}b" in listing.text
    for record in await shop.records(session=session):
        assert "<script>alert" not in (page := (await boss.get(f"/audit/{record.id}")).text)
        assert "<img" not in page
    echoed = await boss.get("/audit", params={"tool": TEXTS[1], "session": TEXTS[0], "since": TEXTS[1]})
    assert "<img" not in echoed.text
    assert "<script>alert" not in echoed.text


@pytest.mark.spec("N16", "N19")
async def test_large_arguments_are_cut_off_with_a_note(shop: Site, boss: httpx2.AsyncClient) -> None:
    large = json.dumps({"text": "x" * 10_000_000})
    await shop.kernel.audit.commit(entry("large", org="acme", act=None, time=NOW, arguments=large))
    page = await boss.get("/audit/large")
    assert len(page.text) < 50_000
    assert "cut off: all of it is 10,000,012 characters on one line" in page.text
    assert len((await boss.get("/audit", params={"id": "large"})).text) < 50_000


@pytest.mark.spec("N16")
async def test_records_are_exported_as_they_are_filtered(shop: Site, boss: httpx2.AsyncClient) -> None:
    session = await called(shop, "one", "two")
    plain = await boss.get("/audit/export", params={"session": session, "tool": "echo"})
    assert plain.headers["content-disposition"] == 'attachment; filename="records.ndjson"'
    assert plain.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["arguments"] for line in plain.text.splitlines()] == ['{"text":"two"}', '{"text":"one"}']
    table = await boss.get("/audit/export", params={"session": session, "format": "csv"})
    assert table.headers["content-disposition"] == 'attachment; filename="records.csv"'
    assert table.headers["content-type"].startswith("text/csv")
    assert len([*csv.reader(io.StringIO(table.text, newline=""))]) == 1 + 4
    assert (await boss.get("/audit/export", params={"format": "xml"})).status_code == 422


@pytest.mark.spec("N16")
async def test_a_long_export_goes_on_and_ends_with_its_sign_in(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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
            return await knows(*arguments, afresh=True)

        monkeypatch.setattr(shop.service.callers, "knows", revoked_at_the_second)
        with pytest.raises(httpx2.RemoteProtocolError):
            await boss.get("/audit/export")
        assert checks == 2


async def walked(boss: httpx2.AsyncClient) -> tuple[httpx2.Response, int]:
    """Verify the chain by the buttons of the pages without a script; return the last page, and how many there were."""
    page, count = await boss.post("/audit/verify", data={"cursor": ""}), 1
    while "Verify on" in page.text:
        page, count = await boss.post("/audit/verify", data=hidden(page)), count + 1
    return page, count


@pytest.mark.spec("N16")
async def test_the_chain_is_verified_part_by_part(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LINKS", 4)
    url = f"sqlite:///{tmp_path}/x.db"
    async with auditing(store=url) as shop, reading(shop) as boss:
        session = await called(shop, *map(str, range(8)))
        await shop.kernel.audit.flush()
        span = await shop.kernel.audit.span()
        assert span is not None
        begun = await boss.get("/audit/verify")
        assert "Verify the chain" in begun.text
        page, count = await walked(boss)
        assert f"{span[1]} records, every hash holds." in page.text
        assert count == -(-span[1] // 4) or count == -(-span[1] // 4) + 1
        changed = (await shop.records(session=session, tool="echo"))[3]
        path = path_of(url)
        assert path is not None
        with raw(path) as file:
            file.execute('UPDATE records SET arguments = \'{"text":"else"}\' WHERE seq = ?', (changed.seq,))
        page, _ = await walked(boss)
        assert f"The chain is broken at record {changed.seq}." in page.text
        assert f"{changed.seq - 1} records before it hold." in page.text
        assert "every hash holds" not in page.text
        record_page = await boss.get(f"/audit/{changed.id}")
        assert "does not hold" in record_page.text


@pytest.mark.spec("N16", "N2")
async def test_no_link_of_others_begins_a_verification_further_on(shop: Site, boss: httpx2.AsyncClient) -> None:
    page = await boss.get("/audit/verify", params={"cursor": f"1.{'0' * 64}", "checked": "999"})
    assert re.search(r"\b999\b", page.text) is None
    forged = await boss.post("/audit/verify", data={"checked": "999"}, headers={"x-capset-token": "0" * 64})
    assert forged.status_code == 403
    assert (await boss.post("/audit/verify", data={"cursor": "x"})).status_code == 422


@pytest.mark.spec("N16", "N3")
async def test_another_organisation_and_those_without_the_scope_see_nothing(shop: Site) -> None:
    session = await called(shop, "secret word")
    record = await shop.record(session=session, tool="echo")
    async with reading(shop, "spy") as spy:
        assert (await spy.get(f"/audit/{record.id}")).status_code == 404
        for path in ("/audit", "/audit/export"):
            answer = await spy.get(path, params={"session": session})
            assert (answer.status_code, "secret word" in answer.text, record.id in answer.text) == (200, False, False)
        for path in ("/audit/timeline", "/audit/charts"):
            assert "No call ended in this time" in (await spy.get(path)).text
    async with reading(shop, "caller") as caller:
        for path in ("", "/timeline", "/charts", "/export", f"/{record.id}"):
            assert (await caller.get(f"/audit{path}")).status_code == 403, path
        assert (await caller.post("/audit/verify")).status_code == 403
