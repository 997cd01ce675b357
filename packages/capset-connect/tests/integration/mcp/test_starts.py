"""Servers that start beside each other, and what waits for none of them (spec 7, M94)."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Kernel, Principal
from capset.stores.base.pins import ToolPin
from capset_connect.declared_sources import DeclaredSources
from capset_connect.mcp import McpServer, McpServers, open_mcp_servers
from capset_connect.pins.offers import examined
from capset_connect.pins.tool_pins import AT_ONCE, pin_of, side_by_side
from tests.helpers.connect.mcp.opening import NONE, SCRIPT, server
from tests.waiting import moment, until

ADA = Principal("ada")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
SHOUT = {"name": "shout", "description": "Shout.", "inputSchema": TEXT}
COUNT = {"name": "count", "description": "Count.", "inputSchema": TEXT}


def late(name: str, folder: Path, **options: Any) -> McpServer:
    """Return a server that says that it was started, and nothing else until there is a file ``go``."""
    return McpServer(name=name, command=[sys.executable, str(SCRIPT), "late", str(folder)], **options)


def pinned(declared: McpServer, shape: dict[str, Any]) -> ToolPin:
    offer = examined(shape["name"], declared.tool_name(shape["name"]), shape)
    return pin_of(declared, offer, "ada", "2026-01-01T00:00:00.000000Z")


def started(folder: Path) -> int:
    return len(list(folder.glob("started-*")))


@pytest.mark.realtime
@pytest.mark.spec("M94")
async def test_tools_are_there_before_their_servers_and_a_call_waits_for_its_own_alone(tmp_path: Path) -> None:
    shelf, waits = server("shelf", tmp_path), [late(f"late{number}", tmp_path) for number in range(3)]
    async with Kernel(store="memory://") as kernel, McpServers(NONE) as servers:
        used = [servers.capability(shelf, [pinned(shelf, COUNT)], None)]
        used += [servers.capability(declared, [pinned(declared, SHOUT)], None) for declared in waits]
        async with kernel.open(Agent("reader", uses=used), principal=ADA) as session:
            assert set(session.snapshot.tools) == {"shelf_count", "late0_shout", "late1_shout", "late2_shout"}
            assert started(tmp_path) == 0
            connection: Any = servers.connection  # all sources are MCP servers
            sources = DeclaredSources(kernel, [shelf, *waits], connection)
            watching = asyncio.create_task(sources.watch(lambda _: None))
            await until(lambda: started(tmp_path) == len(waits), "all to be started, though none has answered")
            (count,), (shout,) = used[0].every_tool, used[1].every_tool
            assert await session.call(count, text="x") == "done"
            waiting = asyncio.ensure_future(session.call(shout, text="x"))
            await moment(0.1)
            assert not waiting.done()
            (tmp_path / "go").touch()
            assert await waiting == "done"
            assert started(tmp_path) == len(waits), "each was started once"
            watching.cancel()
            await asyncio.wait([watching])


@pytest.mark.realtime
@pytest.mark.spec("M94", "M5")
async def test_servers_that_are_trusted_are_first_used_beside_each_other(tmp_path: Path) -> None:
    waits = [late(f"late{number}", tmp_path, trust_first_use=True) for number in range(3)]

    async def names(kernel: Kernel) -> list[str]:
        async with open_mcp_servers(kernel, waits) as capabilities:
            return [tool.name for capability in capabilities for tool in capability.every_tool]

    async with Kernel(store="memory://") as kernel:
        opening = asyncio.create_task(names(kernel))
        await until(lambda: started(tmp_path) == len(waits), "all to be started, though none has answered")
        (tmp_path / "go").touch()
        assert await opening == ["late0_shout", "late1_shout", "late2_shout"]


@pytest.mark.spec("M94")
async def test_a_few_are_asked_at_once_and_one_that_fails_ends_the_others() -> None:
    running, highest, ends = 0, 0, asyncio.Event()

    async def ask(number: int) -> int:
        nonlocal running, highest
        running, highest = running + 1, max(highest, running + 1)
        try:
            if number < 0:
                raise LookupError
            await ends.wait()
            return number
        finally:
            running -= 1

    asking = asyncio.create_task(side_by_side(partial(ask, number) for number in range(3 * AT_ONCE)))
    await until(lambda: running == AT_ONCE)
    await moment()
    assert running == AT_ONCE
    ends.set()
    assert await asking == list(range(3 * AT_ONCE))
    assert highest == AT_ONCE
    ends.clear()
    with pytest.raises(LookupError):
        await side_by_side(partial(ask, number) for number in (1, -1))
    assert running == 0, "the other one was cancelled"
