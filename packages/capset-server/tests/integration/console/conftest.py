from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.helpers.server.console.auditing import reading
from tests.helpers.server.console.fixtures import browser, store
from tests.helpers.server.console.talking import Visitor, session_of, visitor
from tests.helpers.server.console.talking import shop as talking_shop
from tests.helpers.server.support import Site

__all__ = ["browser", "store"]


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client in which ``boss`` has signed in to the ``shop`` of the module."""
    async with reading(shop) as client:
        yield client


@pytest.fixture
async def place() -> AsyncGenerator[tuple[Site, str, Visitor]]:
    """Give a server without a model, a session, and its owner, who has signed in."""
    async with talking_shop() as server:
        session = await session_of(server)
        async with visitor(server) as page:
            yield server, session, page
