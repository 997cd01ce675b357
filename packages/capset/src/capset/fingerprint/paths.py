"""Paths to places inside JSON data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

_WORD: Final = re.compile(r"[\w$@-]+")
_MAX_STEPS: Final = 20
"""Maximum number of steps to show in a path."""


def word(key: str) -> str:
    """Return a key as a step of a path: a plain word unchanged, anything else as JSON text."""
    return key if _WORD.fullmatch(key) else json.dumps(key, ensure_ascii=not key.isprintable())


def path_of(steps: Iterable[str | int]) -> str:
    """Return the path of some steps, the outermost first."""
    first_steps = list(islice(steps, _MAX_STEPS + 1))
    parts = [f"[{step}]" if isinstance(step, int) else f".{word(step)}" for step in first_steps[:_MAX_STEPS]]
    return f"${''.join(parts)}{' …' if len(first_steps) > _MAX_STEPS else ''}"


def path_to(value: Any, is_wrong: Callable[[object], bool] = lambda value: False) -> str:
    """Return the path to the first wrong key or value, or value that contains itself, or else to the deepest value.

    Does not recurse, since the call stack may be used up.
    """
    if is_wrong(value):
        return "$"
    steps: list[str | int] = []
    deepest: list[str | int] = []
    levels, above, visited = [_members(value)], [id(value)], {id(value): value}
    within = {*above}
    visits = depth = 0
    while levels and visits < 1_000_000:  # a custom mapping may be endless
        for step, member in levels[-1]:
            visits += 1
            if is_wrong(step) or is_wrong(member) or id(member) in within:
                return path_of([*steps, step])
            key = id(member)
            if key in visited or not isinstance(member, list | tuple | Mapping):
                continue
            visited[key] = cast("object", member)  # kept alive, so that no later value gets its id
            steps.append(step)
            levels.append(_members(member))
            above.append(key)
            within.add(key)
            if len(steps) > depth:
                depth, deepest = len(steps), steps[: _MAX_STEPS + 1]
            break
        else:
            levels.pop()
            within.discard(above.pop())
            if steps:
                steps.pop()
    return path_of(deepest)


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return the members of a container with their keys or indices; a scalar has none."""
    match value:
        case Mapping():
            return iter(cast("Mapping[Any, Any]", value).items())
        case list() | tuple():
            return iter(enumerate(cast("list[Any]", value)))
        case _:
            return iter(())


def has_surrogate(value: object) -> bool:
    """Whether a value is text with a lone surrogate."""
    return isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)
