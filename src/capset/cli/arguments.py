"""The arguments of a call, as a command line gives them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pydantic_core import from_json

from capset.errors import DefinitionError

MAX_ARGUMENT_BYTES: Final = 16 * 1024 * 1024


def read_arguments(given: str) -> bytes:
    """Return the arguments' JSON text. Raises ``DefinitionError`` if it is not there, or not a JSON object."""
    return read_object("--args", given)


def read_object(option: str, given: str) -> bytes:
    """Return the JSON text of an object: as it is given, from ``@FILE``, or from stdin for ``-``.

    Raises ``DefinitionError``, which names the option, if it is not there, or not a JSON object.
    """
    source = "stdin" if given == "-" else given.removeprefix("@")
    try:
        if given == "-":
            text = sys.stdin.buffer.read(MAX_ARGUMENT_BYTES + 1)
        elif given.startswith("@"):
            with Path(source).open("rb") as file:
                text = file.read(MAX_ARGUMENT_BYTES + 1)
        else:
            text = given.encode(errors="surrogateescape")
    except OSError as error:
        raise DefinitionError(f"{option}: {source!r} cannot be read: {error.strerror}") from None
    if len(text) > MAX_ARGUMENT_BYTES:
        raise DefinitionError(f"{option}: at most {MAX_ARGUMENT_BYTES} bytes of JSON are taken")
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(f"{option} is not JSON: {error}", hint=f"""quote it: {option} '{{"a": 2}}'""") from None
    if not isinstance(value, dict):
        raise DefinitionError(f"{option} must be a JSON object, such as {{}}; got {type(value).__name__}")
    return text
