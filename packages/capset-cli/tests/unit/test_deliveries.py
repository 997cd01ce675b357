"""``capset deliveries``: what is on its way, and what did not arrive (spec 9, N27)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from capset.stores.base import make_store
from capset_testing.store_suite.delivery_checks import delivery_row
from capset_testing.store_suite.support import LATER, NOW, approval_row
from tests.helpers.cli.support import Run


async def fail() -> None:
    """Store one delivery that has failed, and one that is queued."""
    store = make_store("sqlite:///capset.db")
    await store.open()
    rows = [delivery_row("d-1"), delivery_row("d-2", channel="mail")]
    await store.approvals.open(approval_row("r-1"), max_pending=9, deliveries=rows)
    (claimed,) = await store.deliveries.claim("ops", "x", now=NOW, until=LATER, limit=1)
    from dataclasses import replace

    await store.deliveries.settle(replace(claimed, state="failed", error="the receiver answered 410", ended_at=NOW))
    await store.close()


@pytest.mark.spec("N27", "G39")
def test_failed_deliveries_are_listed_and_tried_again(run: Run) -> None:
    asyncio.run(fail())
    assert Path("capset.db").exists()
    listing = run("deliveries", "list", "--org", "acme", "--state", "failed").out
    assert "d-1" in listing
    assert "d-2" not in listing
    assert "answered 410" in " ".join(listing.split())
    assert [delivery["id"] for delivery in run("deliveries", "list", "--org", "acme", "--json").json["items"]] == [
        "d-2",
        "d-1",
    ]
    assert run("deliveries", "list", "--state", "lost").code == 2
    queued = run("deliveries", "retry", "d-1", "--org", "acme", "--json")
    assert (queued.code, queued.json["state"]) == (0, "queued")
    assert run("deliveries", "retry", "d-1", "--org", "acme").code == 2, "it is queued already"
    assert run("deliveries", "retry", "d-1").code == 2, "of no organisation there is none"
    rows = [json.loads(line) for line in run("audit", "export").out.splitlines()]
    assert [row["act"] for row in rows if row.get("act")][:1] == ["delivery.retry"]
