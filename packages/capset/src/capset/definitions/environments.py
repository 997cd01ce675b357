"""Environments: the values that a host gives policies and handlers, and the error for one that it has not given."""

from __future__ import annotations

from typing import Any


class MissingValue(KeyError):
    """A value that was read and not given: the name ``key`` of the environment, or of a principal's attributes.

    ``option`` is the option of the command line that gives it.
    """

    def __init__(self, key: object, option: str) -> None:
        super().__init__(key)
        self.key = key
        self.option = option

    @property
    def told(self) -> str:
        """The name in words that may be written into the record: it is the code's, and no data."""
        return f"KeyError {self.key!r:.80}"


class Environment(dict[str, Any]):  # values are the host's own
    """A copy of a host's values by name. Raises ``MissingValue`` for a name that is not there."""

    def __missing__(self, key: object) -> Any:
        raise MissingValue(key, "--env")
