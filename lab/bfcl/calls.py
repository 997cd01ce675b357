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
        choices: list[Any] = []
        for value in values:
            if value != "":
                choices += _meant(value)
            elif name not in arguments.get("required", ()) or "default" in arguments["properties"][name]:
                choices.append(_LEFT_OUT)
            elif "string" in str(arguments["properties"][name].get("type", "string")):
                choices.append("")
            else:
                passed += 1
        if choices:
            options[name] = choices
    return list(_one_at_a_time(options)), passed


def _one_at_a_time(options: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield what has the first option of all, and what has another one of one of them."""
    first = {name: choices[0] for name, choices in options.items()}
    yield _present(first)
    for name, alternatives in options.items():
        for other in alternatives[1:]:
            yield _present({**first, name: other})


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not _LEFT_OUT}


def _meant(value: Any) -> list[Any]:
    """Return the values that one value of an answer stands for: the members of an object have options themselves."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if not all(isinstance(member, list) for member in members.values()):
            return [members]
        options = {
            name: [inner for option in choices for inner in ([_LEFT_OUT] if option == "" else _meant(option))]
            for name, choices in members.items()
        }
        return list(_one_at_a_time({name: choices for name, choices in options.items() if choices}))
    if isinstance(value, list) and any(isinstance(element, dict) for element in cast("list[Any]", value)):
        items = [_meant(element) for element in cast("list[Any]", value)]
        by_place = {str(at): choices for at, choices in enumerate(items)}
        return [list(combination.values()) for combination in _one_at_a_time(by_place)]
    return [value]
