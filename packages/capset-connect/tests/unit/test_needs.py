"""Needs of sources whose tools cannot be used yet (spec 7, M27)."""

from __future__ import annotations

import pytest

from capset.stores.base.pins import ToolPin
from capset_connect.declared_sources import need_of
from capset_connect.mcp import McpServer
from capset_connect.pins.offers import Offer
from capset_connect.pins.tool_pins import SeenSource, standings

SERVER = McpServer(name="books", command=["books"])
PIN = ToolPin("books", "add", "0" * 64, "{}", "ada", "2026-01-01T00:00:00.000000Z")


@pytest.mark.spec("M27")
@pytest.mark.parametrize(
    ("offers", "message"),
    [
        ((Offer("add", {}, PIN.hash),), None),
        ((), "1 approved tool gone"),
        ((Offer("sum", {}, "1" * 64),), "0 of 1 tool approved"),
        ((Offer("add", {}, "1" * 64),), "quarantined: 1 tool changed"),
    ],
)
def test_a_source_without_a_usable_tool_needs_something(offers: tuple[Offer, ...], message: str | None) -> None:
    need = need_of(SeenSource(SERVER, standings([PIN], offers)))
    assert (need and need.message) == message
