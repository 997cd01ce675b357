"""Waiting for facts that nothing tells of: in other processes, in threads, behind doors that have no event."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, TypeVar, overload

__all__ = ["moment", "until", "wait_until"]

Fact = TypeVar("Fact")

POLL_SECONDS: Final = 0.005
PATIENCE_SECONDS: Final = 30
SLOWEST: Final = 6
"""How many times slower than a quiet machine one may be."""


@overload
async def until(fact: Callable[[], Awaitable[Fact]], why: str = "") -> Fact: ...
@overload
async def until(fact: Callable[[], Fact], why: str = "") -> Fact: ...
async def until(fact: Callable[[], Any], why: str = "") -> Any:
    """Wait until ``fact`` gives something true, and return it.

    Raises:
        AssertionError: If it does not within 30 s, times the load of each core, which counts six times at most; with
            ``why`` it should.

    """
    began = time.monotonic()
    while True:
        answer = fact()
        result = await answer if isawaitable(answer) else answer
        if result:
            return result
        _check(began, result, why)
        await asyncio.sleep(POLL_SECONDS)


def wait_until(fact: Callable[[], Fact], why: str = "") -> Fact:
    """Wait as ``until`` does, without an event loop."""
    began = time.monotonic()
    while not (result := fact()):
        _check(began, result, why)
        time.sleep(POLL_SECONDS)
    return result


async def moment(seconds: float = 0.01) -> None:
    """Let a moment pass whose length decides nothing: work that takes one, or time in which something may not happen.

    On a slow machine a test with it shows less, and is never red. One whose result depends on the length sleeps, and
    carries the mark ``realtime``.
    """
    await asyncio.sleep(seconds)


def _check(began: float, last: object, why: str) -> None:
    waited = time.monotonic() - began
    if waited > PATIENCE_SECONDS and waited > PATIENCE_SECONDS * _pace():
        raise AssertionError(f"expected {why or 'the fact to hold'}; after {waited:.0f} s it was {last!r}")


def _pace() -> float:
    return min(os.getloadavg()[0] / (os.cpu_count() or 1), SLOWEST)
