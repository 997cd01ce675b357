"""A summary of calls costs the same, however many records there are (spec 5, P55).

`make lab-scale` asks a log of 1,000,000 records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capset.stores.base import AuditQuery
from tests.helpers.stores.scale.filling import FEW, FULL, LARGE, SMALL, Sizes, fill, sizes
from tests.helpers.stores.scale.metering import metered
from tests.helpers.stores.sql.support import opened_at

pytestmark = [pytest.mark.timeout(900), pytest.mark.nightly]
SOME = Sizes(agents=10, sessions=100, records=FEW.records // 2 if sizes() is FEW else FULL.records // 20)
"""A log that is large enough for a summary of it to be partial."""
BOUND = {"max_examined": 2_000, "max_counted": 500} if sizes() is FEW else {}
FACTOR = 1.3
SINCE, UNTIL = "2026-01-01T00:00:00.000000Z", "2026-01-12T00:00:00.000000Z"


async def costs(folder: Path, counts: Sizes) -> dict[str, int]:
    """Return the steps that summaries of a filled log take, by what they are about."""
    url = f"sqlite:///{folder}/{counts.records}.db"
    async with opened_at(url):
        pass
    fill(url, counts)
    queries: dict[str, Any] = {
        "all": {"org": LARGE},
        "a tool": {"org": LARGE, "tool": "tool_7"},
        "a principal that is not there": {"org": LARGE, "principal": "nobody"},
        "two that are seldom together": {"org": LARGE, "agent": "agent 7", "outcome": "denied"},
        "a time": {"org": LARGE, "since": SINCE, "until": UNTIL},
        "another's tool": {"org": SMALL, "tool": "none"},
    }
    steps: dict[str, int] = {}
    async with opened_at(url) as store:
        with metered(store) as meter:
            for name, filters in queries.items():
                meter.taken()
                measured = await store.audit.measure(AuditQuery(**filters), **BOUND)
                steps[name] = meter.taken()
                assert measured.since is not None or filters["org"] == SMALL, f"{name}: it is of a part"
    return steps


@pytest.mark.spec("P55")
async def test_a_summary_costs_the_same_among_more_records(tmp_path: Path) -> None:
    few, many = await costs(tmp_path, SOME), await costs(tmp_path, sizes())
    assert {name: (few[name], cost) for name, cost in many.items() if cost > FACTOR * few[name] + 2_000} == {}
