"""What holds for every test of the server."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Generator

import httpx2
import pytest

from tests.server.support import Site, site


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Fail a test after which asyncio or uvicorn complains: of an exception, or of an answer that was never whole."""
    yield
    gc.collect(1)
    said = [record for record in caplog.get_records("call") if record.name in ("asyncio", "uvicorn.error")]
    assert [record.getMessage() for record in said if record.levelname in ("ERROR", "CRITICAL")] == []


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    """Give a server of one's own."""
    async with site() as found:
        yield found


@pytest.fixture
async def ada(here: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give the client of ``ada``, of ``acme``, to it."""
    async with here.client() as client:
        yield client


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    """Give a server that the tests of a module share: each makes its own agents and sessions."""
    async with site() as found:
        yield found


@pytest.fixture
async def asker(shared: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give the client of ``ada``, of ``acme``, to it."""
    async with shared.client() as client:
        yield client
