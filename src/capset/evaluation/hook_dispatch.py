"""Dispatching hooks: in order, one after the other, without ever affecting the reported event (F23)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from typing_extensions import TypeVar

from capset.evaluation.error_mapping import is_contained

HOOK_SECONDS: Final = 5.0
"""Time that one hook may take; then it is cancelled, and that is logged."""

_log = logging.getLogger("capset.hooks")
E = TypeVar("E")


async def dispatch_hooks(functions: Iterable[Callable[[E], Awaitable[None] | None]], event: E) -> None:
    """Call each function with the event and wait for it. An error in one is logged by its name, and stops no other.

    Raises only a cancellation from outside.
    """
    for function in functions:
        try:
            pending = function(event)
            if pending is not None:
                async with asyncio.timeout(HOOK_SECONDS):
                    await pending
        except BaseException as error:
            if not is_contained(error):
                raise
            _log.exception("the hook %s failed on %s", name_of(function), type(event).__name__)


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function in logs."""
    return getattr(function, "__qualname__", None) or type(function).__name__
