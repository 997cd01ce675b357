"""Export of records over REST: whole, filtered, bounded, and never taken for whole if it is not (spec 5, P54)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from capset.definitions.calls.records import COLUMNS
from capset.fingerprint.canonical import digest
from capset.fingerprint.chain import link_payload
from capset_server.auth.callers import Caller
from capset_server.http import record_exports
from capset_testing.store_suite.support import NOW, entry
from tests.helpers.server.support import Site, call, make_session, problem, site
from tests.helpers.stores.sql.support import run_at

pytestmark = pytest.mark.spec("P54")


async def test_every_record_that_fits_is_sent_as_it_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_exports, "_PAGE", 3)
    async with site(store=f"sqlite:///{tmp_path}/a.db") as server, server.client() as client:
        await server.key("eve", org="evil")
        session = await make_session(client, "kit")
        for number in range(8):
            await call(client, session, "echo", text=f"no {number}")
        await call(client, session, "refuse", text="no")
        answer = await client.get("/v1/audit/export")
        assert answer.headers["content-type"] == "application/x-ndjson"
        rows = [json.loads(line) for line in answer.text.splitlines()]
        assert len(rows) == 9
        assert [row["seq"] for row in rows] == sorted((row["seq"] for row in rows), reverse=True)
        assert all(tuple(row) == COLUMNS and digest(link_payload(row)) == row["hash"] for row in rows)
        for filters, count in (
            ({"tool": "echo"}, 8),
            ({"tool": "refuse", "outcome": "failed"}, 1),
            ({"until": "2020-01-01T00:00:00Z"}, 0),
            ({"since": "2020-01-01T00:00:00Z", "session": session}, 9),
        ):
            filtered = await client.get("/v1/audit/export", params=filters)
            assert len(filtered.text.splitlines()) == count, filters
        async with server.client("eve") as eve:
            assert (await eve.get("/v1/audit/export")).text == ""
        acts = (await client.get("/v1/audit", params={"act": "log.read"})).json()["items"]
        assert [act["arguments"]["by"] for act in acts] == ["export"] * 5
        exported = (await client.get("/v1/audit/export", params={"act": "agent.create"})).text
        assert json.loads(exported)["act"] == "agent.create"
        for wrong in ({"limit": 5}, {"format": "xml"}):
            problem(await client.get("/v1/audit/export", params=wrong), 422, "invalid_arguments")


async def test_csv_opens_in_a_spreadsheet_and_runs_nothing() -> None:
    async with site() as server, server.client() as client:
        for number, text in enumerate(("=1+1", "+1", "-1", "@SUM(1)", "\t=1", 'a "quoted", text\nof two lines')):
            await server.kernel.audit.commit(entry(f"e{number}", org="acme", act=None, reason=text))
        for params, headers in (({"format": "csv"}, {}), ({}, {"Accept": "text/csv"})):
            answer = await client.get("/v1/audit/export", params=params, headers=headers)
            assert answer.headers["content-type"].startswith("text/csv")
            assert answer.headers["content-disposition"] == 'attachment; filename="records.csv"'
            head, *rows = csv.reader(io.StringIO(answer.text, newline=""))
            assert tuple(head) == COLUMNS
            reasons = [row[COLUMNS.index("reason")] for row in reversed(rows)]
            assert reasons == ["'=1+1", "'+1", "'-1", "'@SUM(1)", "'\t=1", 'a "quoted", text\nof two lines']
            assert {row[COLUMNS.index("duration_us")] for row in rows} == {"12"}, "numbers are as they are"


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Site]:
    """Give a server that exports one record after the other, and has six, ``e0`` to ``e5``."""
    monkeypatch.setattr(record_exports, "_PAGE", 1)
    async with site(store=f"sqlite:///{tmp_path}/a.db") as server:
        for number in range(6):
            await server.kernel.audit.commit(entry(f"e{number}", org="acme", act=None, time=NOW))
        yield server


async def test_an_export_that_fails_in_between_breaks_off(ada: httpx2.AsyncClient, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    run_at(url, "UPDATE records SET reason = CAST(x'ff' AS TEXT) WHERE id = 'e1'")
    with pytest.raises(httpx2.RemoteProtocolError):
        await ada.get("/v1/audit/export")
    run_at(url, "UPDATE records SET reason = CAST(x'ff' AS TEXT) WHERE id = 'e5'")
    problem(await ada.get("/v1/audit/export"), 503, "store_unavailable")


async def test_an_export_ends_when_its_key_is_revoked(
    here: Site, ada: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[bool] = []
    knows = here.service.callers.knows

    async def revoked_at_the_second(caller: Caller, authorization: str, *, bypass_cache: bool = False) -> bool:
        checks.append(True)
        if len(checks) == 2:
            (row,) = await here.kernel.store.keys.list()
            await here.kernel.store.keys.revoke(row.id, NOW)
        return await knows(caller, authorization, bypass_cache=True)

    monkeypatch.setattr(here.service.callers, "knows", revoked_at_the_second)
    with pytest.raises(httpx2.RemoteProtocolError):
        await ada.get("/v1/audit/export")
    assert len(checks) == 2
