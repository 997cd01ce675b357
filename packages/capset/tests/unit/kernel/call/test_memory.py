"""What a refused call leaves in memory: nothing, though it came with large arguments (spec 5, P35)."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from capset import Agent, Capability, Json, Kernel, Principal, tool
from capset.kernel.call.invocation import Invocation
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES


@tool(effect="read")
async def add(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


@tool(effect="read", permissions={"vault:open"})
async def unlock(code: str) -> str:
    """Open the vault."""
    return "open"


AGENT = Agent("clerk", uses=[Capability("shop", tools=[add, unlock])])


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
    [("add", b'{"numbers": "many"}'), ("unlock", b'{"code": "1"}'), ("nothing", b"{}"), ("add", b"[")],
)
async def test_a_refused_call_is_freed_without_the_collector(name: str, arguments: bytes) -> None:
    async with Kernel(store="memory://") as kernel, kernel.open(AGENT, principal=Principal("ada")) as session:
        before = calls()
        for _ in range(3):
            assert (await session.try_message(session.message(name, Json(arguments)))).refused
        await kernel.audit.flush()
        assert calls() == before


@pytest.mark.spec("P35", "T31")
@pytest.mark.parametrize("valid", [True, False])
async def test_the_record_of_large_arguments_is_waited_for(tmp_path: Path, valid: bool) -> None:
    size = MAX_RECORDED_BYTES
    arguments = b'{"numbers": [' + b"1," * size + b"1]}" if valid else b'{"numbers": "' + b"x" * size + b'"}'
    async with (
        Kernel(store=f"sqlite:///{tmp_path}/a.db") as kernel,
        kernel.open(AGENT, principal=Principal("ada")) as session,
    ):
        result = await session.try_message(session.message("add", Json(arguments)))
        with closing(sqlite3.connect(tmp_path / "a.db")) as database:
            rows = database.execute("SELECT outcome FROM records WHERE id = ?", (result.record,)).fetchall()
    assert rows == [("succeeded" if valid else "invalid",)]
