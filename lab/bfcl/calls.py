"""Calls of a document that BFCL takes as right: one for each value, beside the first value of all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from lab.bfcl.documents import Answer

_LEFT_OUT: Final = object()
"""Stands for a parameter that a call may leave out."""


def calls_of(answer: Answer, arguments: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return the calls that an answer stands for, and how many values were passed over.

    ``arguments`` is the schema of the tool. Of a parameter's values, ``""`` says that it may be left out. Where the
    document requires it and has no default for it, it is the empty text; for a parameter of another type it is passed
    over then, since BFCL's own checker takes it for a wrong type.
    """
    if answer.is_call:
        return [answer.values], 0
    options: dict[str, list[Any]] = {}
    passed = 0
    for name, values in answer.values.items():
        found: list[Any] = []
        for value in values:
            if value != "":
                found += _meant(value)
            elif name not in arguments.get("required", ()) or "default" in arguments["properties"][name]:
                found.append(_LEFT_OUT)
            elif "string" in str(arguments["properties"][name].get("type", "string")):
                found.append("")
            else:
                passed += 1
        if found:
            options[name] = found
    return list(_one_at_a_time(options)), passed


def _one_at_a_time(options: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield what has the first option of all, and what has another one of one of them."""
    first = {name: found[0] for name, found in options.items()}
    yield _present(first)
    for name, found in options.items():
        for other in found[1:]:
            yield _present({**first, name: other})


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not _LEFT_OUT}


def _meant(value: Any) -> list[Any]:
    """Return the values that one value of an answer stands for: the members of an object have options themselves."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if not all(isinstance(one, list) for one in members.values()):
            return [members]
        options = {
            name: [inner for one in found for inner in ([_LEFT_OUT] if one == "" else _meant(one))]
            for name, found in members.items()
        }
        return list(_one_at_a_time({name: found for name, found in options.items() if found}))
    if isinstance(value, list) and any(isinstance(one, dict) for one in cast("list[Any]", value)):
        items = [_meant(one) for one in cast("list[Any]", value)]
        by_place = {str(at): found for at, found in enumerate(items)}
        return [list(one.values()) for one in _one_at_a_time(by_place)]
    return [value]
