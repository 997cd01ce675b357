"""Export of records over REST: whole, filtered, bounded, and never taken for whole if it is not (spec 5, P54)."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import httpx2
import pytest

from capset.definitions.calls.records import COLUMNS
from capset.fingerprint.canonical import digest
from capset.fingerprint.chain import link_payload
from capset_server.auth.callers import Caller
from capset_server.http import record_exports
from capset_testing.store_suite.support import NOW, entry
from tests.helpers.server.support import call, make_session, problem, site
from tests.helpers.stores.sql.support import path_of, raw

pytestmark = pytest.mark.spec("P54")


async def test_every_record_that_fits_is_sent_as_it_is_hashed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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
        problem(await client.get("/v1/audit/export", params={"limit": 5}), 422, "invalid_arguments")
        problem(await client.get("/v1/audit/export", params={"format": "xml"}), 422, "invalid_arguments")


async def test_csv_opens_in_a_spreadsheet_and_runs_nothing() -> None:
    async with site() as server, server.client() as client:
        for number, text in enumerate(("=1+1", "+1", "-1", "@SUM(1)", "\t=1", 'a "quoted", text\nof two lines')):
            await server.kernel.audit.commit(entry(f"e{number}", org="acme", act=None, reason=text))
        requests = (
            client.get("/v1/audit/export", params={"format": "csv"}),
            client.get("/v1/audit/export", headers={"Accept": "text/csv"}),
        )
        for request in requests:
            answer = await request
            assert answer.headers["content-type"].startswith("text/csv")
            assert answer.headers["content-disposition"] == 'attachment; filename="records.csv"'
            head, *rows = csv.reader(io.StringIO(answer.text, newline=""))
            assert tuple(head) == COLUMNS
            reasons = [row[COLUMNS.index("reason")] for row in reversed(rows)]
            assert reasons == ["'=1+1", "'+1", "'-1", "'@SUM(1)", "'\t=1", 'a "quoted", text\nof two lines']
            assert {row[COLUMNS.index("duration_us")] for row in rows} == {"12"}, "numbers are as they are"


async def test_an_export_that_fails_in_between_breaks_off(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_exports, "_PAGE", 2)
    url = f"sqlite:///{tmp_path}/a.db"
    async with site(store=url) as server, server.client() as client:
        for number in range(6):
            await server.kernel.audit.commit(entry(f"e{number}", org="acme", act=None, time=NOW))
        (row,) = await server.records(id="e1")
        path = path_of(url)
        assert path is not None
        with raw(path) as file:
            file.execute("UPDATE records SET reason = CAST(x'ff' AS TEXT) WHERE seq = ?", (row.seq,))
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("/v1/audit/export")
        with raw(path) as file:
            file.execute("UPDATE records SET reason = CAST(x'ff' AS TEXT) WHERE id = 'e5'")
        problem(await client.get("/v1/audit/export"), 503, "store_unavailable")


async def test_an_export_ends_when_its_key_is_revoked(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_exports, "_PAGE", 1)
    async with site(store=f"sqlite:///{tmp_path}/a.db") as server, server.client() as client:
        for number in range(4):
            await server.kernel.audit.commit(entry(f"e{number}", org="acme", act=None, time=NOW))
        checks: list[bool] = []
        knows = server.service.callers.knows

        async def revoked_at_the_second(caller: Caller, authorization: str, *, afresh: bool = False) -> bool:
            checks.append(True)
            if len(checks) == 2:
                (row,) = (await server.kernel.store.keys.list())[:1]
                await server.kernel.store.keys.revoke(row.id, NOW)
            return await knows(caller, authorization, afresh=True)

        monkeypatch.setattr(server.service.callers, "knows", revoked_at_the_second)
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("/v1/audit/export")
        assert len(checks) == 2
