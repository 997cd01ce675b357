"""The brakes of a turn: they stop calls that are repeated without effect, and tools that keep failing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from capset.errors import LimitExceeded

_MAX_FAILURES: Final = 5
"""The number of consecutive failures after which a tool is left out for the rest of the turn."""


class CallRepeated(LimitExceeded):
    """The same call was made before with the same result, and nothing has changed since."""

    code = "call_repeated"
    retryable = False


class ToolLeftOut(LimitExceeded):
    """The tool failed too often in a row and is left out for the rest of the turn."""

    code = "tool_left_out"
    retryable = False


@dataclass(slots=True)
class Brakes:
    """The brakes of one turn, based on its calls so far."""

    _repeats: dict[tuple[str, bytes], tuple[str, int]] = field(default_factory=dict[tuple[str, bytes], tuple[str, int]])
    """The last result of each call, and how many times in a row it occurred since the last change."""
    _failures: Counter[str] = field(default_factory=Counter[str])

    def check(self, tool: str, arguments: bytes) -> None:
        """Raise ``CallRepeated`` or ``ToolLeftOut`` if a call must not be made."""
        if self.is_left_out(tool):
            raise ToolLeftOut(
                f"{tool!r} failed {_MAX_FAILURES} times in a row: it is left out for the rest of this turn"
            )
        _, times = self._repeats.get((tool, arguments), ("", 0))
        if times >= 2:  # the third identical call is stopped
            raise CallRepeated(
                f"the same call of {tool!r} was made {times} times with the same result, and nothing has changed: "
                "do something else, or say why you cannot go on"
            )

    def record(self, tool: str, arguments: bytes, result: str, *, succeeded: bool, has_effect: bool) -> None:
        """Record the result of a call. A successful call with an effect may change the results of all calls."""
        if succeeded and has_effect:
            self._repeats = {}
        else:
            before, times = self._repeats.get((tool, arguments), ("", 0))
            self._repeats[tool, arguments] = (result, times + 1 if result == before else 1)
        self._failures[tool] = 0 if succeeded else self._failures[tool] + 1

    def is_left_out(self, tool: str) -> bool:
        """Whether a tool has failed too often to be offered again."""
        return self._failures[tool] >= _MAX_FAILURES
