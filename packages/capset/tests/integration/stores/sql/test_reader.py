"""Reads that are left behind: a store that closes closes their connections too (spec 4, G24)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading

import pytest
from sqlalchemy import Connection

from capset.errors import StoreError
from tests.helpers.stores.sql.support import store_at
from tests.waiting import until


async def test_a_read_that_was_given_up_leaves_no_connection_behind_a_closed_store(url: str) -> None:
    store = store_at(url)
    await store.open()
    reader, engine = store._reader, store._reader.opened
    begun, go_on = threading.Event(), threading.Event()

    def read(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT 1")
        begun.set()
        go_on.wait(10)

    task = asyncio.create_task(reader.read(read))
    assert await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await store.close()
    with pytest.raises(StoreError, match="is not open"):
        await reader.read(read)
    go_on.set()
    await until(lambda reader=reader, engine=engine: engine not in reader._reading)
    del store, reader, engine, read
    gc.collect()  # which tells of any connection that was left open; pytest fails for it
