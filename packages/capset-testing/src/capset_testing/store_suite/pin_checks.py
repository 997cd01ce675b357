"""Checks of the pins of third-party tools (spec 7, M5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from capset.stores.base import ToolPin
from capset_testing.store_suite.support import Make, expect, open_store

_READ: Final = ToolPin("files", "read", "a" * 64, '{"name":"read"}', "ada", "2026-01-01T00:00:00.000000Z")
_WRITE: Final = ToolPin("files", "Write", "b" * 64, '{"name":"Write"}', "ada", "2026-01-01T00:00:00.000000Z")
_OTHER: Final = ToolPin("mail", "read", "c" * 64, '{"name":"read"}', "bob", "2026-01-02T00:00:00.000000Z")


async def pins_are_those_of_their_server(make: Make) -> None:
    """Check that pins are listed by server and tool, with other servers' pins present."""
    async with open_store(make) as store:
        expect(await store.pins.list("files"), [], "the pins of a new store")
        await store.pins.change("files", [_READ, _WRITE])
        await store.pins.change("mail", [_OTHER])
        expect(list(await store.pins.list("files")), [_WRITE, _READ], "the pins of one server")
        expect(list(await store.pins.list()), [_WRITE, _READ, _OTHER], "all pins")


async def pins_are_replaced_and_removed_together(make: Make) -> None:
    """Check that one change replaces a pin and removes others."""
    async with open_store(make) as store:
        await store.pins.change("files", [_READ, _WRITE])
        await store.pins.change("mail", [_OTHER])
        repinned = replace(_READ, hash="d" * 64, approved_by="eve")
        await store.pins.change("files", [repinned], ["Write", "nothing"])
        expect(list(await store.pins.list("files")), [repinned], "the pins after a change")
        await store.pins.change("files", [], ["read"])
        expect(list(await store.pins.list()), [_OTHER], "the pins of other servers")
