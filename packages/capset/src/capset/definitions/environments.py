"""Environments: the values that a host provides to policies and handlers, and the error for a missing one."""

from __future__ import annotations

from typing import Any


class MissingValue(KeyError):
    """A value that was read but not provided: the name ``key`` of the environment, or of a principal's attributes.

    ``option`` is the command-line option that provides it.
    """

    def __init__(self, key: object, option: str) -> None:
        super().__init__(key)
        self.key = key
        self.option = option

    @property
    def description(self) -> str:
        """A description that may be recorded: the name comes from code, and is not data."""
        return f"KeyError {self.key!r:.80}"


class Environment(dict[str, Any]):  # values are the host's own
    """A copy of a host's values by name. Raises ``MissingValue`` for a missing name."""

    def __missing__(self, key: object) -> Any:
        raise MissingValue(key, "--env")
