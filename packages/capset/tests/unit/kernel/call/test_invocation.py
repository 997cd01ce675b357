"""The call in flight, the entry that is taken from it, and what stays of it: nothing (spec 4, G20; spec 5, P35)."""

from __future__ import annotations

import gc
import json
import sqlite3
import weakref
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Json, Kernel, Principal, ToolError, tool
from capset.kernel.call.invocation import Invocation
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES
from capset.stores.base.audit import Entry
from tests.helpers.kernel.support import desk

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
    def __init__(self) -> None:
        self.calls: list[weakref.ref[Invocation]] = []

    def on_start(self, call: Invocation) -> None:
        self.calls.append(weakref.ref(call))

    def on_attach(self, state: None) -> None: ...

    def on_end(self, call: Invocation, state: None) -> None: ...

    def on_detach(self, state: None) -> None: ...


@pytest.mark.spec("G20", "G21")
@pytest.mark.parametrize(("named", "outcome"), [("collect", "succeeded"), ("fail", "failed"), ("nothing", "not_found")])
async def test_an_entry_that_waits_needs_nothing_of_its_call(
    monkeypatch: pytest.MonkeyPatch, named: str, outcome: str
) -> None:
    watching, entries = Watching(), list[Entry]()
    async with Kernel(store="memory://", observers=[watching]) as kernel, kernel.open(AGENT, principal=WHO) as session:
        monkeypatch.setattr(kernel.audit, "append", entries.append)
        arguments: dict[str, Any] = {"items": [1, 2]}
        # Its record alone is kept: an error's traceback has the call.
        record = (await session.try_message(session.message(named, arguments))).record
        arguments["items"].append(4)
        gc.collect()
        assert [reference() for reference in watching.calls] == [None], "no thread can read a call that has ended"
        (entry,) = entries
        columns = entry.columns()
        assert (columns["id"], columns["outcome"]) == (record, outcome)
        assert json.loads(str(columns["arguments"])) == {"items": [1, 2]}


@tool(effect="read", permissions={"vault:open"})
async def unlock(code: str) -> str:
    """Open the vault."""
    return "open"


@pytest.fixture
def uncollected() -> Generator[None]:
    """Have no garbage collected meanwhile but by counting references."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def calls() -> int:
    return sum(isinstance(instance, Invocation) for instance in gc.get_objects())


@pytest.mark.spec("P35", "T31")
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("collect", b'{"items": "many"}'), ("unlock", b'{"code": "1"}'), ("nothing", b"{}"), ("collect", b"[")],
)
async def test_a_refused_call_is_freed_without_the_collector(name: str, arguments: bytes) -> None:
    async with desk(collect, unlock) as harness:
        before = calls()
        for _ in range(3):
            assert (await harness.session.try_message(harness.session.message(name, Json(arguments)))).refused
        await harness.kernel.audit.flush()
        assert calls() == before


@pytest.mark.spec("P35", "T31")
@pytest.mark.parametrize("valid", [True, False])
async def test_the_record_of_large_arguments_is_waited_for(tmp_path: Path, valid: bool) -> None:
    size = MAX_RECORDED_BYTES
    arguments = b'{"items": [' + b"1," * size + b"1]}" if valid else b'{"items": "' + b"x" * size + b'"}'
    async with desk(collect, store=f"sqlite:///{tmp_path}/a.db") as harness:
        result = await harness.session.try_message(harness.session.message("collect", Json(arguments)))
        with closing(sqlite3.connect(tmp_path / "a.db")) as database:
            rows = database.execute("SELECT outcome FROM records WHERE id = ?", (result.record,)).fetchall()
    assert rows == [("succeeded" if valid else "invalid",)]
