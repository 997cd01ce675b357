"""The hash of a tool's code on its records; the opening of a session waits while it is read, and nothing else does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Principal, tool
from capset.definitions.tools.definition import AnyTool
from capset.evaluation.code import code_of, is_code_read
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.hydrate import hydrate
from capset.fingerprint.hashes import tool_hash
from tests.distributions import fresh_import
from tests.helpers.kernel.support import desk, records_of, turns
from tests.waiting import until

pytestmark = pytest.mark.spec("F35", "F32")
WHO = Principal("user-1")
HERE = '''
from capset import tool


@tool(effect="write")
async def write(text: str) -> int:
    """Write."""
    return len(text)


@tool(effect="read", permissions=["notes:read"])
async def closed(text: str) -> int:
    """Read."""
    return len(text)
'''


@pytest.fixture
async def kernel() -> AsyncGenerator[Kernel]:
    async with Kernel(store="memory://") as opened:
        yield opened


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Give what imports a third party's module afresh, a file by itself."""
    (tmp_path / "tinycode.py").write_text(HERE, encoding="utf-8")
    return lambda: fresh_import("tinycode", tmp_path, monkeypatch)


async def test_the_hash_of_the_code_is_on_both_records_of_a_call(
    store: str, load: Callable[[], Any], tmp_path: Path
) -> None:
    module = load()
    async with desk(module.write, module.closed, store=store) as opened:
        (tmp_path / "tinycode.py").unlink()  # so nothing reads it when it is recorded
        await opened.session.call(module.write, "tea")
        await opened.session.try_call(module.write, text=1)
        await opened.session.try_call(module.closed, "no")
        await opened.session.try_message(opened.session.message("nothing", {}))
        await opened.kernel.audit.flush()
        records = await opened.kernel.audit.read()
        assert (await opened.kernel.audit.verify()).problem is None
    rows = [(record.tool, record.phase, record.outcome, record.code_hash is not None) for record in records]
    assert rows == [
        ("write", "intent", None, True),
        ("write", "outcome", "succeeded", True),
        ("write", "outcome", "invalid", True),
        ("closed", "outcome", "denied", True),
        ("nothing", "outcome", "not_found", False),
    ]
    assert {record.code_hash for record in records[:-1]} == {code_of(module.write).hash}
    assert {record.tool_hash for record in records[:2]} == {tool_hash(module.write)}


async def test_code_that_has_no_hash_leaves_the_column_empty(store: str) -> None:
    exec('async def typed() -> int:\n    "Do."\n    return 1', namespace := dict[str, Any]())  # as a console does
    typed = tool(effect="write")(namespace["typed"])
    async with desk(typed, store=store) as opened:
        assert await opened.session.call(typed) == 1
        assert [record.code_hash for record in await opened.kernel.audit.read()] == [None, None]
    assert code_of(typed).reason is not None


async def test_opening_a_session_reads_the_code_and_holds_up_no_other(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tinyslow"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "tools.py").write_text(HERE, encoding="utf-8")
    slow: AnyTool = fresh_import("tinyslow.tools", tmp_path, monkeypatch).write
    os.mkfifo(package / "slow.py")  # reading it waits until somebody writes

    @tool(effect="write")
    async def quick() -> int:
        """Do."""
        return 1

    async def open_and_call() -> None:
        async with kernel.open(Agent("slow", tools=[slow]), principal=WHO) as session:
            assert await session.call(slow, "tea") == 3

    rescue = Timer(10, (package / "slow.py").write_text, ["x = 1"])  # should the loop itself be held up
    rescue.start()
    opening = asyncio.create_task(open_and_call())
    await turns()
    async with kernel.open(Agent("quick", tools=[quick]), principal=WHO) as session:
        assert await session.call(quick) == 1
    assert not opening.done()
    assert not rescue.finished.is_set(), "the loop was held up"
    rescue.cancel()
    await asyncio.to_thread((package / "slow.py").write_text, "x = 1", encoding="utf-8")
    await opening
    await kernel.audit.flush()
    assert {record.code_hash for record in await kernel.audit.read()} == {code_of(slow).hash, code_of(quick).hash}


async def test_a_session_on_a_snapshot_that_is_there_reads_the_code_too(
    kernel: Kernel, load: Callable[[], Any]
) -> None:
    envelope = (await capture(Agent("writer", tools=[load().write]), principal=WHO)).envelope
    new = load()
    today = Agent("writer", tools=[new.write])
    snapshot = await hydrate(envelope, today, principal=WHO)
    assert not is_code_read(snapshot)
    row = kernel.new_session(today, WHO)
    await kernel.store.sessions.create(row)
    session = kernel.resume(row, snapshot)
    await until(lambda: is_code_read(snapshot))
    assert await session.call(new.write, "tea") == 3


async def test_code_that_dynamic_uses_add_is_read_before_its_first_call(
    kernel: Kernel, load: Callable[[], Any], tmp_path: Path
) -> None:
    module = load()
    added = Capability("added", tools=[module.write])
    async with kernel.open(Agent("grower", uses=[lambda ctx: [added]]), principal=WHO) as session:
        assert is_code_read(await session.current())
        (tmp_path / "tinycode.py").unlink()
        result = await session.try_message(session.message("write", {"text": "tea"}))
        assert result.data == 3
    assert [record.code_hash for record in await records_of(kernel.audit)] == [code_of(module.write).hash]
