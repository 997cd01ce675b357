"""Prunes of several processes at once, and checkpoints that somebody changed (spec 4, G21)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from capset.errors import StoreError
from capset.fingerprint.checkpoints import CheckpointKey
from capset.stores.base import PayloadRow, Pruned
from capset.stores.sql import lineage_retention
from capset.stores.sql.audit import log as audit
from capset_testing.store_suite.support import LATER, NOW, entry
from tests.helpers.stores.sql.support import opened, opened_at, raw

OLD = "2025-01-01T00:00:00.000000Z"


@pytest.mark.spec("G21")
async def test_of_two_prunes_at_once_one_cuts_and_the_other_finds_nothing_left(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_anchor, met = audit.find_anchor, threading.Barrier(2, timeout=30)

    def find_together(*arguments: Any) -> Any:
        cut = find_anchor(*arguments)
        met.wait()  # neither cuts before both know where
        return cut

    key = CheckpointKey.generate()
    async with opened_at(url) as first, opened_at(url) as other:
        for number in range(1, 7):
            await first.audit.commit(entry(f"a{number}", time=OLD if number < 5 else LATER))
            if number == 4:
                await first.audit.checkpoint(key, now=OLD)
        monkeypatch.setattr(audit, "find_anchor", find_together)
        pruned = await asyncio.gather(*(store.audit.prune(NOW, key, now=LATER) for store in (first, other)))
        assert sorted(pruned, key=lambda outcome: outcome.removed) == [Pruned(0, 5), Pruned(4, 5)]
        assert [record.seq for record in await other.audit.read()] == [5, 6]
        checkpoints = [
            (checkpoint.number, checkpoint.seq, checkpoint.since) for checkpoint in await first.audit.checkpoints()
        ]
        assert checkpoints == [(1, 4, 1), (2, 6, 5)], "the second signed nothing"
        verified = await other.audit.verify([key.public])
        assert (verified.problem, verified.checked, verified.covered) == (None, 2, 6)


@pytest.mark.spec("F36")
async def test_a_payload_that_is_named_between_the_read_and_the_write_of_a_prune_is_left(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_stale, loop = lineage_retention._stale_payloads, asyncio.get_running_loop()
    named, unused = (PayloadRow("acme", letter * 64, "jcs-1", "tool", "{}") for letter in "ab")
    key = CheckpointKey.generate()
    async with opened_at(url) as store:

        def find_then_name(*arguments: Any) -> Any:
            stale = find_stale(*arguments)
            naming = store.lineage.record_payloads([named], named_at=LATER)
            asyncio.run_coroutine_threadsafe(naming, loop).result(30)
            return stale

        await store.lineage.record_payloads([named, unused], named_at=OLD)
        await store.audit.commit(entry("a", time=OLD))
        await store.audit.checkpoint(key, now=OLD)
        monkeypatch.setattr(lineage_retention, "_stale_payloads", find_then_name)
        assert await store.audit.prune(NOW, key, now=LATER) == Pruned(1, 2)
        assert await store.lineage.payload("acme", named.hash) == named
        assert await store.lineage.payload("acme", unused.hash) is None


@pytest.mark.spec("G21", "G22")
@pytest.mark.parametrize("change", ["since = 'one'", "hash = x'00'", "signature = x'00'", "time = x'00'"])
async def test_a_checkpoint_that_holds_what_none_can_is_told_and_nothing_is_built_on_it(
    tmp_path: Path, change: str
) -> None:
    key = CheckpointKey.generate()
    async with opened(tmp_path / "a.db") as store:
        await store.audit.commit(entry("a", time=OLD))
        await store.audit.checkpoint(key, now=OLD)
        with raw(tmp_path / "a.db") as file:
            file.execute(f"UPDATE checkpoints SET {change}")
        assert not (await store.audit.verify([key.public])).ok
        for asking in (
            store.audit.checkpoints(),
            store.audit.checkpoint(key, now=NOW),
            store.audit.prune(NOW, key, now=NOW),
        ):
            with pytest.raises(StoreError) as raised:
                await asking
            assert "capset audit verify" in str(raised.value.hint)
        assert [record.id for record in await store.audit.read()] == ["a"]


@pytest.mark.spec("G21", "G22")
async def test_nothing_is_signed_over_a_record_that_was_changed_since_the_last_checkpoint(tmp_path: Path) -> None:
    key = CheckpointKey.generate()
    async with opened(tmp_path / "a.db") as store:
        await store.audit.commit(entry("a", time=OLD))
        await store.audit.checkpoint(key, now=OLD)
        with raw(tmp_path / "a.db") as file:
            file.execute("UPDATE records SET hash = ?", ("0" * 64,))
        await store.audit.commit(entry("b", time=LATER))
        with pytest.raises(StoreError, match="record 1 is not the one of checkpoint 1"):
            await store.audit.checkpoint(key, now=NOW)


@pytest.mark.spec("G21", "G22")
async def test_nothing_is_signed_over_a_checkpoint_whose_signature_does_not_hold(tmp_path: Path) -> None:
    key = CheckpointKey.generate()
    async with opened(tmp_path / "a.db") as store:
        await store.audit.commit(entry("a", time=OLD))
        await store.audit.checkpoint(key, now=OLD)
        with raw(tmp_path / "a.db") as file:
            file.execute("UPDATE checkpoints SET time = ?", (NOW,))
        await store.audit.commit(entry("b", time=LATER))
        with pytest.raises(StoreError, match=r"no checkpoint was made: .*signature"):
            await store.audit.checkpoint(key, now=NOW)
        assert len(await store.audit.checkpoints()) == 1
