from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest

from capset import Context, ToolError, tool
from capset.errors import DeadlineExceeded, DefinitionError
from capset.ext import in_thread
from tests.helpers.kernel.support import desk
from tests.waiting import until


@pytest.mark.spec("K15")
async def test_blocking_work_runs_in_a_thread_and_tells_what_it_gave_or_raised() -> None:
    def work() -> str:
        return threading.current_thread().name

    def fail() -> str:
        raise ToolError("not today")

    @tool(effect="read")
    async def where(ctx: Context, fails: bool) -> str:
        """Tell where the work is done."""
        return await in_thread(ctx, fail if fails else work)

    async with desk(where) as opened:
        assert await opened.session.call(where, fails=False) == "capset-handler"
        with pytest.raises(ToolError, match="not today"):
            await opened.session.call(where, fails=True)


@pytest.mark.realtime
@pytest.mark.spec("K15")
@pytest.mark.parametrize("stop", ["obeyed", "ignored", None])
async def test_a_thread_that_is_told_to_stop_is_waited_for_and_one_that_goes_on_is_abandoned(
    stop: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capset.kernel.call.worker_threads.STOP_SECONDS", 5 if stop == "obeyed" else 0.05)
    stopped, ended = threading.Event(), threading.Event()
    stops = {"obeyed": stopped.set, "ignored": lambda: None}

    def work() -> None:
        stopped.wait(5)
        time.sleep(0.05)
        ended.set()
        raise ValueError("which nobody hears")

    @tool(effect="read")
    async def wait(ctx: Context) -> None:
        """Wait for long."""
        await in_thread(ctx, work, stop=stops.get(stop or ""))

    async with desk(wait) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.options(timeout=0.05).call(wait)
        assert ended.is_set() is (stop == "obeyed")
        assert opened.kernel.abandoned == (0 if stop == "obeyed" else 1)
        stopped.set()
        await until(lambda: all(thread.name != "capset-handler" for thread in threading.enumerate()))


async def test_it_takes_the_context_of_a_call() -> None:
    with pytest.raises(DefinitionError, match="the Context that a handler is given"):
        await in_thread(cast("Any", None), lambda: 1)
