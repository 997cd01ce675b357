"""What does not fit a schema, told by the places of the input and without its values (spec 4, G12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import ValidationError

from capset.errors import Field, closest

MAX_LISTED: Final = 100
"""A caller who sends thousands of wrong fields gets no megabytes back."""


def misfits(error: ValidationError, known: Sequence[str], given: Any) -> list[Field]:
    """List every field that pydantic refused, without echoing any value (spec 4, G12).

    ``known`` are the names of the top level, ``given`` is what was validated, of whatever type it came as. A field that
    fits none of several types is listed once, with all that was expected. Beyond 100 fields only their number is told.
    """
    expected: dict[str, list[str]] = {}
    meant: dict[str, str | None] = {}
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    for problem in problems[:MAX_LISTED]:
        place = _place(problem["loc"], given, is_named=problem["type"] in ("missing", "extra_forbidden"))
        path = ".".join(map(str, place)) or "(arguments)"
        match problem["type"]:
            case "missing":
                words = "required, but missing"
            case "extra_forbidden" | "unexpected_keyword_argument":
                words = "no such parameter"
                meant[path] = closest(str(place[-1]), known) if len(place) == 1 else None
            case _:
                words = problem["msg"]
        expected.setdefault(path, [])
        if words not in expected[path]:
            expected[path].append(words)
    fields = [Field(path, " or ".join(words), meant.get(path)) for path, words in expected.items()]
    left = len(problems) - MAX_LISTED
    return [*fields, Field("…", f"{left} more do not fit")] if left > 0 else fields


def _place(location: Sequence[int | str], given: Any, *, is_named: bool) -> list[int | str]:
    """Return the parts of an error's location that are places of the input.

    Between them pydantic puts the names of a union's types, which a caller has never seen.
    """
    place: list[int | str] = []
    inside = given
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if isinstance(inside, Mapping) and part in inside:
            inside = cast("Mapping[Any, Any]", inside)[part]
        elif isinstance(part, int) and isinstance(inside, list | tuple) and part < len(cast("list[Any]", inside)):
            inside = cast("list[Any]", inside)[part]
        elif not (is_named and last) and not (position == 0 and isinstance(part, str)):
            continue
        place.append(part)
    return place
