"""Prunes of several processes at once (spec 4, G21)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from capset.fingerprint.signing import CheckpointKey
from capset.stores.base import Pruned
from capset.stores.sql import audit
from capset.testing.store_suite.support import LATER, NOW, entry
from tests.stores.sql.support import opened_at

OLD = "2025-01-01T00:00:00.000000Z"


@pytest.mark.spec("G21")
async def test_of_two_prunes_at_once_one_cuts_and_the_other_finds_nothing_left(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_cut, met = audit.find_cut, threading.Barrier(2, timeout=30)

    def find_together(*arguments: Any) -> Any:
        found = find_cut(*arguments)
        met.wait()  # neither cuts before both know where
        return found

    key = CheckpointKey.generate()
    async with opened_at(url) as one, opened_at(url) as other:
        for number in range(1, 7):
            await one.audit.commit(entry(f"a{number}", time=OLD if number < 5 else LATER))
            if number == 4:
                await one.audit.checkpoint(key, now=OLD)
        monkeypatch.setattr(audit, "find_cut", find_together)
        found = await asyncio.gather(*(store.audit.prune(NOW, key, now=LATER) for store in (one, other)))
        assert sorted(found, key=lambda one: one.removed) == [Pruned(0, 5), Pruned(4, 5)]
        assert [record.seq for record in await other.audit.read()] == [5, 6]
        kept = [(one.number, one.seq, one.since) for one in await one.audit.checkpoints()]
        assert kept == [(1, 4, 1), (2, 6, 5)], "the second signed nothing"
        verified = await other.audit.verify([key.public])
        assert (verified.problem, verified.checked, verified.covered) == (None, 2, 6)
