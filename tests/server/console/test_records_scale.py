"""The pages of the record and of fingerprints with much in the database (spec 9).

``make long`` asks a small one, with a bound that any machine keeps; ``CAPSET_SCALE=full`` a million records.
"""

from __future__ import annotations

import time
from pathlib import Path

import httpx2
import pytest

from capset.fingerprint.canonical import PROFILE, canonical, digest
from capset.stores.base import PayloadRow
from capset.testing.store_suite.support import NOW, entry
from tests.server.console.auditing import auditing, called, reading
from tests.stores.scale.filling import FULL, LARGE, connected_to, fill, sizes
from tests.stores.sql.support import opened_at

SECONDS = 0.1
"""What a page takes at most, where the machine has nothing else to do: the fastest of some requests is compared."""
TIMES = 20

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


async def took(client: httpx2.AsyncClient, path: str) -> list[float]:
    """Return how many seconds each of some requests for a page took, fewest first."""
    found: list[float] = []
    for _ in range(TIMES):
        start = time.perf_counter()
        page = await client.get(path)
        found.append(time.perf_counter() - start)
        assert page.status_code == 200, page.text
    return sorted(found)


@pytest.mark.spec("N16", "N17")
async def test_pages_cost_no_more_with_many_records(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    prompt = {"kind": "prompt", "systemPrompt": "Keep tidy notes.", "instructions": []}
    known = digest(prompt)
    async with opened_at(url) as store:
        await store.lineage.record_payloads([PayloadRow(LARGE, known, PROFILE, "prompt", canonical(prompt).decode())])
    fill(url, sizes())
    with connected_to(url) as connection:
        connection.execute(f"UPDATE links SET prompt_hash = '{known}'")
    async with auditing(store=url) as shop:
        await shop.key("chief", org=LARGE, scopes=["capset:admin"])
        day = "since=2026-01-01T00:00&until=2026-01-02T00:00"
        paths = [
            *("/audit", "/audit?tool=tool_7", "/audit?principal=user-77&outcome=denied", "/audit?outcome=denied"),
            *(f"/audit?{day}", "/audit?session=session-00000100", "/audit?agent=agent%2020&code=permission_denied"),
            *("/audit?approval=approval-00000500", "/audit?cursor=15000", "/audit?tool=nothing&kind=all"),
            *("/audit?principal=nobody&outcome=failed", "/audit?correlation=c-00000077", "/audit/call-00000077"),
            *("/audit/timeline", f"/audit/timeline?{day}", f"/audit/charts?{day}", f"/audit/charts?{day}&tool=tool_7"),
            *("/fingerprints", f"/fingerprints/{known}"),
        ]
        async with reading(shop, "chief") as client:
            for path in paths:
                seconds = await took(client, path)
                p95 = seconds[int(TIMES * 0.95) - 1]
                print(f"{path:60} fastest {seconds[0] * 1000:6.1f} ms  p95 {p95 * 1000:6.1f} ms")
                assert seconds[0] < (SECONDS if sizes() is FULL else 20 * SECONDS), path


@pytest.mark.spec("N16")
async def test_a_part_of_the_chain_is_verified_at_once(tmp_path: Path) -> None:
    async with auditing(store=f"sqlite:///{tmp_path}/x.db") as shop:
        for number in range(4_500):
            shop.kernel.audit.append(entry(f"e{number}", org="acme", act=None, time=NOW))
        await called(shop, "one")
        async with reading(shop) as client:
            start = time.perf_counter()
            page = await client.post("/audit/verify")
            print(f"a part of the chain: {(time.perf_counter() - start) * 1000:.1f} ms")
            assert "Verify on" in page.text
