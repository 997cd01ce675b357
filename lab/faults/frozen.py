"""A process that stops in the middle of a write transaction, with its lock: `frozen.py URL`.

It prints a line before, and one for each call that it makes afterwards.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

from sqlalchemy import event

from capset import Kernel, Principal
from capset.stores.sql.store import SqlStore
from lab.faults.program import AGENT, act, say


async def main(url: str) -> None:
    async with Kernel(store=url) as kernel, kernel.open(AGENT, principal=Principal("user-1")) as session:
        store = kernel.store
        assert isinstance(store, SqlStore)
        assert store._engines is not None

        stops = [os.getpid()]

        def stop(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("INSERT INTO records") and stops:
                say("stops", stops.pop())
                os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(0.5)  # a thread may run on for a moment

        event.listen(store._engines[0], "after_cursor_execute", stop)
        for number in range(2):
            result = await session.try_call(act, number, 0)
            say("told", result.record, result.success, result.error.code if result.error else "-")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
