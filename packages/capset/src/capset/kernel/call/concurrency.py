"""Heavy work of handlers: in a worker thread, or within a bounded number of concurrent calls (spec 3, K15)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from typing_extensions import TypeVar

from capset.definitions.calls.contexts import Context
from capset.errors import DefinitionError
from capset.kernel.call.context import CallContext
from capset.kernel.call.fair_slots import FairSlots, owner_of
from capset.kernel.call.session_context import SessionContext

T = TypeVar("T")


async def in_thread(ctx: Context, function: Callable[[], T], *, stop: Callable[[], object] | None = None) -> T:
    """Run a function in a thread, like a sync handler, and return its result or raise its exception.

    When the call is cancelled or times out, ``stop`` is called in the event loop and should make the function end soon;
    the wait for that is bounded. Without ``stop``, the thread is abandoned at once. Raises ``NoFreeSlot`` if no thread
    becomes free in time, and ``DefinitionError`` for a context that is not the kernel's.
    """
    return await _session_context("in_thread", ctx).in_thread(function, stop)


@asynccontextmanager
async def slot(ctx: Context, name: str, *, at_once: int) -> AsyncGenerator[None]:
    """Occupy one of the ``at_once`` slots of a resource until the end of the block; wait if none is free.

    ``name`` is the name of the resource. All calls that share it pass the same ``at_once``. One principal occupies at
    most half of the slots, rounded up; waiting principals take turns. The wait counts towards the call's own time.
    Definitions hold no state, so each kernel counts its own slots. Raises ``DefinitionError`` for a context that is not
    the kernel's, and for an ``at_once`` that is below 1 or differs from an earlier one in this kernel.
    """
    context = _session_context("slot", ctx)
    if at_once < 1:
        raise DefinitionError(f"at_once must be 1 or more; got {at_once!r}")
    slots = context.runtime.slots.setdefault(name, FairSlots(at_once))
    if slots.total != at_once:
        raise DefinitionError(f"at_once of {name!r} must be {slots.total}, as in earlier calls; got {at_once}")
    owner = owner_of(context.principal)
    if not slots.try_acquire(owner):
        await slots.acquire(owner)
    try:
        yield
    finally:
        slots.release(owner)


def _session_context(label: str, ctx: Context) -> SessionContext:
    if not isinstance(ctx, CallContext):
        raise DefinitionError(f"{label} takes the Context that a handler is given; got {ctx!r:.80}")
    return ctx.origin.context
