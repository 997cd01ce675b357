from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import create_sessions
from tests.helpers.stores.sql.fixtures import empty_url, url
from tests.helpers.stores.sql.support import opened, opened_at

__all__ = ["empty_url", "url"]


@pytest.fixture
async def store(url: str) -> AsyncGenerator[SqlStore]:
    """Give an open store on each engine, with the sessions s, t and u."""
    async with opened_at(url) as open_store:
        await create_sessions(open_store, "s", "t", "u")
        yield open_store


@pytest.fixture
async def file_store(tmp_path: Path) -> AsyncGenerator[SqliteStore]:
    """Give such a store in the file a.db."""
    async with opened(tmp_path / "a.db") as open_store:
        await create_sessions(open_store, "s", "t", "u")
        yield open_store


@pytest.fixture
async def server_store(postgres_url: str) -> AsyncGenerator[SqlStore]:
    """Give such a store on a server."""
    async with opened_at(postgres_url) as open_store:
        await create_sessions(open_store, "s", "t", "u")
        yield open_store
