"""A coroutine's first step, taken at once: what does not suspend needs no clock and no task (spec 2, F17)."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, Generic

from typing_extensions import TypeVar

T = TypeVar("T")


def begun(coroutine: Coroutine[Any, Any, T]) -> Begun[T]:
    """Return a coroutine that has taken its first step. Raises ``StopIteration``, with its result, if that was all."""
    return Begun(coroutine, coroutine.send(None))


class Begun(Generic[T]):
    """A coroutine that has taken its first step and suspended, to be awaited from there in the same task."""

    __slots__ = ("_coroutine", "_first")

    def __init__(self, coroutine: Coroutine[Any, Any, T], first: object) -> None:
        """``first`` is what the coroutine gave when it was sent ``None``."""
        self._coroutine = coroutine
        self._first = first

    def __await__(self) -> Generator[Any, Any, T]:
        """Hand on what the coroutine waits for, and what comes of that."""
        item = self._first
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # it is the coroutine's to handle
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, sent)
            try:
                item = step()
            except StopIteration as done:
                return done.value
