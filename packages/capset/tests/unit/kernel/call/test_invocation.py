"""The call in flight, and the entry that is taken from it for the record (spec 4, G20)."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from capset import Agent, Kernel, Principal, ToolError, tool
from capset.kernel.call.invocation import Invocation
from capset.stores.base.audit import Entry

WHO = Principal("ada")


@tool(effect="read")
async def collect(items: list[int]) -> list[int]:
    """Collect."""
    items.append(3)
    return items


@tool(effect="read")
async def fail(items: list[int]) -> None:
    """Fail."""
    items.append(3)
    raise ToolError("no")


AGENT = Agent("collector", tools=[collect, fail])


class Watching:
    """Holds a weak reference to every call."""

    def __init__(self) -> None:
        self.calls: list[weakref.ref[Invocation]] = []

    def begun(self, call: Invocation) -> None:
        self.calls.append(weakref.ref(call))

    def joined(self, state: None) -> None: ...

    def ended(self, call: Invocation, state: None) -> None: ...

    def left(self, state: None) -> None: ...


@pytest.mark.spec("G20", "G21")
@pytest.mark.parametrize(("named", "outcome"), [("collect", "succeeded"), ("fail", "failed"), ("nothing", "not_found")])
async def test_an_entry_that_waits_for_its_writer_has_all_that_it_needs_of_its_call(
    monkeypatch: pytest.MonkeyPatch, named: str, outcome: str
) -> None:
    watching, entries = Watching(), list[Entry]()
    async with (
        Kernel(store="memory://", observers=[watching]) as kernel,
        kernel.open(AGENT, principal=WHO) as session,
    ):
        monkeypatch.setattr(kernel.audit, "append", entries.append)
        arguments: dict[str, Any] = {"items": [1, 2]}
        record = (
            await session.try_message(session.message(named, arguments))
        ).record  # an error's traceback has the call
        arguments["items"].append(4)
        gc.collect()
        assert [reference() for reference in watching.calls] == [None], "no thread can read a call that has ended"
        (entry,) = entries
        columns = entry.columns()
        assert (columns["id"], columns["outcome"]) == (record, outcome)
        assert json.loads(str(columns["arguments"])) == {"items": [1, 2]}
