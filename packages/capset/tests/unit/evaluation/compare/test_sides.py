"""Sides of comparisons from a store."""

from __future__ import annotations

import pytest

from capset import Agent, Principal, tool
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.sides import stored_side
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.turns import record_turn
from capset.fingerprint.hashes import tool_hash
from capset.fingerprint.payloads import tool_payload
from capset.stores.base import make_store


@tool(effect="read", examples=[{"marks": [{"$int": str(2**60)}, 2**60]}])
def count(marks: list[object], up_to: int = 2**60, weight: float = 1e20) -> int:
    """Count."""
    return up_to


@pytest.mark.spec("F1", "F31")
async def test_payloads_with_numbers_that_json_parsers_round_are_read_as_they_were() -> None:
    store = make_store("memory://")
    await store.open()
    try:
        turn = await capture(Agent("counter", tools=[count]), principal=Principal("ada"))
        recorded = await record_turn(store, turn, session="s-1")
        side = await stored_side(store.lineage, None, recorded.id)
        row = await store.lineage.payload(None, tool_hash(count))
    finally:
        await store.close()
    assert row is not None
    assert '"default":100000000000000000000,' in row.payload
    assert '"examples":[{"marks":[{"$$int":"1152921504606846976"},{"$int":"1152921504606846976"}]}]' in row.payload
    assert side.payloads[tool_hash(count)] == tool_payload(count)
    assert not diff_sides(side, side).differs
