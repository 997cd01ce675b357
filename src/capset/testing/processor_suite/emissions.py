"""Observation of a processor's ``emit``: the number of calls, and whether they were awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any

from pydantic import BaseModel

from capset.definitions.contexts import Context
from capset.definitions.messages import Message
from capset.definitions.tools.processors import Emit

Emission = BaseModel | Message


class EmissionWatch:
    """Wraps the ``emit`` of one processor."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        self.has_started = False
        self._emissions: list[_Emission] = []

    @property
    def begun(self) -> int:
        """Number of emissions begun, up to the reply or the error: later ones are not sent."""
        for number, one in enumerate(self._emissions, start=1):
            if getattr(one.emission, "kind", None) in ("reply", "error"):
                return number
        return len(self._emissions)

    @property
    def dropped(self) -> list[Emission]:
        """Emissions that were never awaited."""
        return [one.emission for one in self._emissions if not one.is_awaited]

    @property
    def last(self) -> Emission | None:
        """The last emission."""
        return self._emissions[-1].emission if self._emissions else None

    def make(self) -> Any:  # a processor of any kind that the author's factory returns
        """Make a processor that is watched."""
        self.has_started = True
        process = self._factory()

        def watched(messages: AsyncIterator[Any], emit: Emit, ctx: Context) -> Awaitable[None]:
            def watching(message: Emission, /) -> Coroutine[Any, Any, None]:
                self._emissions.append(_Emission(message, emit))
                return self._emissions[-1]

            return process(messages, watching, ctx)

        return watched


class _Emission(Coroutine[Any, Any, None]):
    """One call of ``emit``, which begins when it is awaited, or when its task runs."""

    def __init__(self, emission: Emission, emit: Emit) -> None:
        self.emission = emission
        self._emit = emit
        self._work: Coroutine[Any, Any, None] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether it was awaited."""
        return self._work is not None

    def __await__(self) -> Generator[Any, Any, None]:
        return self._begun().__await__()

    def send(self, value: Any) -> Any:
        """Resume, for the task that runs it."""
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error inside, such as a cancellation."""
        return self._begun().throw(*error)

    def close(self) -> None:
        """Close it."""
        if self._work is not None:
            self._work.close()

    def _begun(self) -> Coroutine[Any, Any, None]:
        if self._work is None:
            self._work = _emitted(self._emit, self.emission)
        return self._work


async def _emitted(emit: Emit, emission: Emission) -> None:
    await emit(emission)
