"""What holds for every test of the server."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Generator

import httpx2
import pytest
from hypothesis.errors import StopTest

from tests.helpers.server.support import Site, site


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Fail a test after which asyncio or uvicorn complains: of an exception, or of an answer that was never whole."""
    yield
    gc.collect(1)
    errors = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.name in ("asyncio", "uvicorn.error")
        and record.levelname in ("ERROR", "CRITICAL")
        # An example that Hypothesis gave up in an earlier test, collected only now, is no complaint.
        and not (record.exc_info and isinstance(record.exc_info[1], StopTest))
    ]
    assert errors == []


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    """Give a server of one's own."""
    async with site() as server:
        yield server


@pytest.fixture
async def ada(here: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give the client of ``ada``, of ``acme``, to it."""
    async with here.client() as client:
        yield client


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    """Give a server that the tests of a module share: each makes its own agents and sessions."""
    async with site() as server:
        yield server


@pytest.fixture
async def asker(shared: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give the client of ``ada``, of ``acme``, to it."""
    async with shared.client() as client:
        yield client
