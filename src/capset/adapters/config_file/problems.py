"""What is wrong with a configuration file, each with its line (spec 4, G28)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from capset.errors import DefinitionError, Field


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, or worth a warning: on which line, from 1, at which member, in which action if it is in one.

    ``line`` is ``None`` where a file could not even be parsed, and the parser did not say.
    """

    line: int | None
    path: str
    message: str
    action: str | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        whose = f" (action {self.action!r})" if self.action else ""
        return f"{place}{self.path}{whose}{': ' if self.path else ''}{self.message}"


class InvalidConfiguration(DefinitionError):
    """Nothing of the file is used; ``problems`` are all that was found in it, in the order of their lines."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda one: (one.line or 0, one.path)))
        listed = "\n".join([f"{file}: not a configuration:", *(f"  {one}" for one in self.problems)])
        super().__init__(listed, fields=[Field(one.path, one.message) for one in self.problems])
