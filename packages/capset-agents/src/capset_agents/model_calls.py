"""Calls as models make them: arguments and texts as a model wrote them, errors as the text that it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from pydantic_core import from_json, to_jsonable_python

from capset.errors import CapsetError

_NO_OBJECT: Final = "(not a JSON object)"
"""A name that no tool's parameter has, for arguments that are not an object."""


def arguments_of(arguments: object) -> dict[str, Any]:
    """Return a model's arguments as an object: itself, or of its text. No text at all is no arguments.

    Arguments that are not a JSON object get a name that the kernel refuses.
    """
    if isinstance(arguments, str | bytes | bytearray):
        if not arguments.strip():
            return {}
        try:
            value: object = from_json(arguments)
        except ValueError:
            value = None
        arguments = cast("object", value) if isinstance(value, dict) else f"{len(arguments)} characters"
    return dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else {_NO_OBJECT: arguments}


def readable(value: Any) -> Any:  # JSON of every type
    """Return what a model wrote without lone surrogates, which nothing stores or sends; pairs of them are joined."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {readable(name): readable(member) for name, member in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [readable(element) for element in cast("list[Any]", value)]
    return value


def arguments_json(arguments: object) -> bytes:
    """Return a model's arguments as JSON text, for the kernel to judge."""
    return json.dumps(arguments_of(arguments), default=partial(to_jsonable_python, fallback=str)).encode()


def error_text(error: CapsetError) -> str:
    """Return an error as text for the model: its message, then the fields not mentioned in it."""
    return "\n".join([error.message, *(f"- {field}" for field in error.fields if str(field) not in error.message)])


def error_suffix(error: CapsetError) -> str:
    """Return the suffix of that text: the kind of error, and whether to retry."""
    retry_note = ", may be tried again" if error.retryable else ""
    return f"({error.code}{retry_note}; correlation {error.correlation})"
