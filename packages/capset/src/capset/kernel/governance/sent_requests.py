"""Requests that handlers send on: a call that ends while one is under way may have had its effect (spec 4, G61)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from capset.kernel.call.invocation import Invocation

_TIMED: Final = ContextVar["Invocation | None"]("capset_timed_call", default=None)
"""The call that the current task works for, if its time is limited."""


@contextmanager
def sending() -> Generator[None]:
    """Say that a request is under way to a server of others, whose answer is waited for inside.

    If the call is ended before the answer comes, by its timeout for example, its record has the outcome ``unknown``.
    Errors say themselves whether the answer was lost (``CapsetError.answer_lost``).
    """
    call = _TIMED.get()
    if call is None:
        yield
        return
    call.is_sent = True
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException:
        call.is_sent = False
        raise
    call.is_sent = False


@contextmanager
def timed(call: Invocation) -> Generator[None]:
    """Let what a handler sends be noted at its call."""
    token = _TIMED.set(call)
    try:
        yield
    finally:
        with suppress(ValueError):  # the call was dropped, and is closed elsewhere
            _TIMED.reset(token)
