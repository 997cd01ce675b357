"""Several pieces of work at once, none of which outlives the others' failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

Work = Callable[[], Coroutine[Any, Any, Any]]
"""Starts one piece; its result is of its own type."""


async def together(works: Mapping[str, Work]) -> dict[str, Any]:
    """Run every piece in a task of its own, and return the results by the same names.

    The first failure cancels the others, and is raised as it is once all have ended. A cancellation from outside
    cancels all of them, and wins over what they raise while they clean up.
    """
    # Not a TaskGroup: in Python 3.11 one leaves its own cancellation on the count of the task around it.
    tasks = {name: asyncio.create_task(work()) for name, work in works.items()}
    failed: list[asyncio.Task[Any]] = []
    try:
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        failed = [one for one in tasks.values() if one.done() and (one.cancelled() or one.exception())]
    finally:
        await _end(tasks.values())
    return {name: one.result() for name, one in tasks.items()} if not failed else failed[0].result()


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs, and wait for it however long its cleanup takes."""
    pending = {one for one in tasks if not one.done()}
    cancelled: asyncio.CancelledError | None = None
    for one in pending:
        one.cancel()
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
            for one in pending:
                one.cancel()
    for one in tasks:
        if not one.cancelled():
            one.exception()  # which was looked at, so that asyncio does not complain
    if cancelled is not None:
        raise cancelled
