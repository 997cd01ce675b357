"""Blocking work of an async handler: in one of the kernel's threads, and stopped with its call (spec 3, K15)."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import TypeVar

from capset.definitions.contexts import Context
from capset.errors import DefinitionError
from capset.kernel.context import CallContext

T = TypeVar("T")


async def in_thread(ctx: Context, function: Callable[[], T], *, stop: Callable[[], object] | None = None) -> T:
    """Run a function in a thread, as a sync handler is, and return its result or raise what it raised.

    When the call is cancelled or its time is up, ``stop`` is called, in the event loop, and should make the function
    end soon; it is waited for, bounded. Without it the thread is left behind at once.
    Raises ``DefinitionError`` for a context that is not the kernel's.
    """
    if not isinstance(ctx, CallContext):
        raise DefinitionError(f"in_thread takes the Context that a handler is given; got {ctx!r:.80}")
    return await ctx.origin.place.world.threads.run(function, stop)
