"""Tool calls of models: parses the arguments and texts that a model wrote, and formats errors for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from pydantic_core import from_json, to_jsonable_python

from capset.errors import CapsetError

_NO_OBJECT: Final = "(not a JSON object)"
"""The name given to arguments that are not an object. No tool has a parameter of this name."""


def parse_arguments(arguments: object) -> dict[str, Any]:
    """Return a model's arguments as a dictionary; text is parsed as JSON. Empty text means no arguments.

    Arguments that are not a JSON object are returned under a name that the kernel refuses.
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


def replace_surrogates(value: Any) -> Any:  # any JSON
    """Return a model's output without lone surrogates, which cannot be stored or sent. Pairs are joined."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value).items()
        return {replace_surrogates(name): replace_surrogates(member) for name, member in members}
    if isinstance(value, list):
        return [replace_surrogates(element) for element in cast("list[Any]", value)]
    return value


def arguments_json(arguments: object) -> bytes:
    """Return a model's arguments as JSON text for the kernel to validate."""
    return json.dumps(parse_arguments(arguments), default=partial(to_jsonable_python, fallback=str)).encode()


def error_text(error: CapsetError) -> str:
    """Return an error as text for the model: its message, then the fields that the message does not mention."""
    return "\n".join([error.message, *(f"- {field}" for field in error.fields if str(field) not in error.message)])


def error_suffix(error: CapsetError) -> str:
    """Return the suffix of that text: the error's code, whether to retry, and the correlation id."""
    retry_note = ", may be tried again" if error.retryable else ""
    return f"({error.code}{retry_note}; correlation {error.correlation})"
