"""Turns on record, of versions of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.evaluation.snapshot.turns import record_turn
from capset.fingerprint.links import CapabilityLink
from capset.stores.base import Store, make_store


def in_store(work: Callable[[Store], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        store = make_store("sqlite:///capset.db")
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def keep(captured: SnapshotEnvelope | CapabilityLink, **more: Any) -> str:
    """Record a turn, as a host does, and return the id of its link."""
    return in_store(lambda store: record_turn(store, captured, **more)).id
