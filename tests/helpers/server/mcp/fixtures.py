"""What holds for every test of the MCP door."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from tests.helpers.server.mcp.support import Era


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> Era:
    """Give each way in which the official client speaks: with the handshake of old, and with the newest revision."""
    return request.param


@pytest.fixture(autouse=True)
def nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Fail a test after which asyncio complains: of an exception that nobody took, or a task that nobody awaited."""
    yield
    gc.collect(1)
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"] == []
