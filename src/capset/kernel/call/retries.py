"""Retries: transient errors of idempotent tools that have emitted nothing yet (spec 4, G25)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

from capset.definitions.tools.retries import Retry
from capset.errors import TransientError
from capset.kernel.call.invocation import CallArguments, Invocation

Start = Callable[[Invocation], Awaitable[Any]]
"""Starts a handler; the awaited value is its result, of the tool's own type."""


def with_retries(start: Start, retry: Retry) -> Start:
    """Return a starter that retries the handler after a ``TransientError``, within its deadline.

    Before attempt ``n + 1`` it sleeps a random time of up to ``retry.longest(n)``. The caller counts the first attempt.
    """

    async def started(call: Invocation) -> Any:
        while True:
            # A handler may modify its arguments, and each attempt needs the original ones.
            given = call.arguments
            call.arguments = _copied(given)
            try:
                return await start(call)
            except TransientError:
                pause = random.uniform(0, retry.longest(call.attempts))  # noqa: S311  # for jitter, not for security
                if call.attempts >= retry.max_attempts or call.has_emitted or not _has_time(call, pause):
                    raise
            await asyncio.sleep(pause)
            call.arguments = given
            call.attempts += 1

    return started


def _copied(given: CallArguments) -> CallArguments:
    try:
        values, inbound = deepcopy((given.values, given.inbound))
        return given._replace(values=values, inbound=inbound)
    except Exception:  # a type of the host's own that cannot be copied
        return given


def _has_time(call: Invocation, seconds: float) -> bool:
    """Whether that much time is left, and the handler can be started again at all.

    The processor of a duplex stream ends when it raises.
    """
    if call.processor is not None:
        return False
    end = call.scope.when() if call.scope is not None else None
    return end is None or asyncio.get_running_loop().time() + seconds < end
