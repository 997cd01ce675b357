"""A server for the tests of tasks, and a caller of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.helpers.server.mcp.tasking import Tasker
from tests.helpers.server.mcp.tasks.teller import bank, caller, done, gate
from tests.helpers.server.support import Site


@pytest.fixture(autouse=True)
def nothing_is_done() -> None:
    done.clear()
    gate.clear()


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    async with bank() as server:
        yield server


@pytest.fixture
async def ada(shared: Site) -> Tasker:
    """Give a caller whose session is this test's own."""
    return await caller(shared)
