"""Heavy work of handlers: in a worker thread, or among a bounded number of calls at once (spec 3, K15)."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from typing_extensions import TypeVar

from capset.definitions.contexts import Context
from capset.errors import DefinitionError
from capset.kernel.call.context import CallContext

T = TypeVar("T")


async def in_thread(ctx: Context, function: Callable[[], T], *, stop: Callable[[], object] | None = None) -> T:
    """Run a function in a thread, as a sync handler is, and return its result or raise what it raised.

    When the call is cancelled or its time is up, ``stop`` is called, in the event loop, and should make the function
    end soon; it is waited for, bounded. Without it the thread is left behind at once.
    Raises ``DefinitionError`` for a context that is not the kernel's.
    """
    if not isinstance(ctx, CallContext):
        raise DefinitionError(f"in_thread takes the Context that a handler is given; got {ctx!r:.80}")
    return await ctx.origin.context.runtime.threads.run(function, stop)


@asynccontextmanager
async def slot(ctx: Context, what: str, *, at_once: int) -> AsyncGenerator[None]:
    """Wait until fewer than ``at_once`` calls of this kernel are inside such a block, and be one of them until its end.

    ``what`` names the thing, the same for all who share its places; ``at_once`` is the same for all of them too. Who
    waits does so within its own call's time. Definitions hold no state, so that it is the kernel that counts.
    Raises ``DefinitionError`` for a context that is not the kernel's, and for an ``at_once`` below 1 or other than
    this kernel was told before.
    """
    if not isinstance(ctx, CallContext):
        raise DefinitionError(f"slot takes the Context that a handler is given; got {ctx!r:.80}")
    if at_once < 1:
        raise DefinitionError(f"at_once must be 1 or more; got {at_once!r}")
    slots = ctx.origin.context.runtime.slots
    told, turns = slots.setdefault(what, (at_once, Semaphore(at_once)))
    if told != at_once:
        raise DefinitionError(f"at_once of {what!r} is {told} for all who share it; got {at_once}")
    async with turns:
        yield
