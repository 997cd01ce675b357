"""Shared parts of the suites: a promise, checked for one subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

S = TypeVar("S", default=Any)


@dataclass(frozen=True, eq=False, slots=True)
class Check(Generic[S]):
    """The check of a promise for one subject: ``await check()`` raises ``AssertionError`` if the promise is broken."""

    promise: Callable[[S], Awaitable[None]]
    subject: S

    @property
    def __name__(self) -> str:
        """The name of the promise."""
        return getattr(self.promise, "__name__", repr(self.promise))

    async def __call__(self) -> None:
        """Check the promise."""
        await self.promise(self.subject)


def expect(condition: object, problem: str) -> None:
    """Raise ``AssertionError`` with the problem unless ``condition`` is true."""
    if not condition:
        raise AssertionError(problem)
