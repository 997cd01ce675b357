from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a fresh store of each kind."""
    if request.param == "postgres":
        from tests.databases import require_scheme  # psycopg is an extra

        require_scheme()
        return request.getfixturevalue("postgres_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/capset.db"


@pytest.fixture(autouse=True)
def nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Fail a test after which asyncio complains: of an exception that nobody took, or a task that nobody awaited.

    Hypothesis ends an example that does not fit by ``StopTest``, in a task of AnyIO's that may be collected in the next
    test.
    """
    yield
    gc.collect(1)
    messages = [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"]
    assert [message for message in messages if "exception=StopTest(" not in message] == []
