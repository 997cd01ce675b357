"""Requests that handlers send upstream: a call that ends while one is under way may have taken effect (spec 4, G61)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from capset.kernel.call.invocation import Invocation

_CURRENT_CALL: Final = ContextVar["Invocation | None"]("capset_timed_call", default=None)
"""The call that the current task works on, if it has a timeout or a deadline."""


@contextmanager
def sending() -> Generator[None]:
    """Mark a request to a third-party server as under way while the ``with`` block waits for the response.

    If the call ends before the response arrives, for example by its timeout, its record has the outcome ``unknown``.
    Errors themselves say whether the response was lost (``CapsetError.answer_lost``).
    """
    call = _CURRENT_CALL.get()
    if call is None:
        yield
        return
    call.awaits_response = True
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException:
        call.awaits_response = False
        raise
    call.awaits_response = False


@contextmanager
def timed(call: Invocation) -> Generator[None]:
    """Make ``sending()`` mark this call in the ``with`` block."""
    token = _CURRENT_CALL.set(call)
    try:
        yield
    finally:
        with suppress(ValueError):  # the call was dropped, and is closed in another context
            _CURRENT_CALL.reset(token)
