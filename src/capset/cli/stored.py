"""A store, where a command needs no kernel."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from capset.stores.base import Store, make_store


@asynccontextmanager
async def opened_store(url: str) -> AsyncGenerator[Store]:
    """Open the store that a URL names, and close it at the end. Raises as ``make_store`` and ``Store.open`` do."""
    store = make_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
