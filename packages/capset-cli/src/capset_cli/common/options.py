"""Shared options and arguments of commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import typer
from pydantic_core import from_json

from capset.clock import iso_of
from capset.definitions.governance.limits import window_seconds
from capset.errors import DefinitionError, unknown

T = TypeVar("T", bound=str)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Db = Annotated[str | None, typer.Option("--db", help="The database: a URL or a file (or CAPSET_DB).")]
Redis = Annotated[
    str | None,
    typer.Option(
        "--redis", metavar="URL", help="A Redis through which servers notify each other of changes (or CAPSET_REDIS)."
    ),
]
Who = Annotated[str | None, typer.Option("--principal", help="Who acts (or CAPSET_PRINCIPAL).")]
Grant = Annotated[
    list[str] | None,
    typer.Option("--grant", help="A permission of the principal; may be repeated (or CAPSET_GRANT, with commas)."),
]
Attribute = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="KEY=VALUE",
        help="An attribute of the principal, which policies read; may be repeated (or CAPSET_ATTRIBUTES, as JSON).",
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="KEY=VALUE", help="A value that policies read in request.env; may be repeated."),
]


def parse_choice(noun: str, text: str | None, choices: Sequence[T]) -> T | None:
    """Return the choice that an option names, if it is set. Raises ``DefinitionError`` for an unknown one."""
    for choice in choices:
        if text == choice:
            return choice
    if text is None:
        return None
    raise DefinitionError(unknown(noun, text, choices))


def check_seconds(option: str, seconds: float | None) -> None:
    """Raise ``DefinitionError`` unless an option is unset or a positive number of seconds."""
    if seconds is not None and not seconds > 0:
        raise DefinitionError(f"{option} must be a positive number of seconds; got {seconds}")


_AGO: Final = re.compile(r"[1-9]\d*[smhd]")
MAX_ARGUMENT_BYTES: Final = 16 * 1024 * 1024


def read_arguments(argument: str) -> bytes:
    """Return the arguments' JSON text. Raises as ``read_object`` does."""
    text = _read_text("--args", argument)
    parse_object("--args", text)
    return text


def read_object(option: str, argument: str) -> dict[str, Any]:  # JSON
    """Return a JSON object: the argument itself, from ``@FILE``, or from stdin for ``-``.

    Raises ``DefinitionError``, naming the option, if it cannot be read, or is not a JSON object.
    """
    return parse_object(option, _read_text(option, argument))


def _read_text(option: str, argument: str) -> bytes:
    source = "stdin" if argument == "-" else argument.removeprefix("@")
    try:
        if argument == "-":
            text = sys.stdin.buffer.read(MAX_ARGUMENT_BYTES + 1)
        elif argument.startswith("@"):
            with Path(source).open("rb") as file:
                text = file.read(MAX_ARGUMENT_BYTES + 1).removeprefix(b"\xef\xbb\xbf")
        else:
            text = argument.encode(errors="surrogateescape")
    except OSError as error:
        raise DefinitionError(f"{option}: {source!r} cannot be read: {error.strerror}") from None
    if len(text) > MAX_ARGUMENT_BYTES:
        raise DefinitionError(f"{option}: at most {MAX_ARGUMENT_BYTES} bytes of JSON are accepted")
    return text


def parse_object(option: str, text: bytes) -> dict[str, Any]:  # JSON
    """Return the JSON object in a text. Raises ``DefinitionError``, naming the option, if it is not one."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(f"{option} is not JSON: {error}", hint=f"""quote it: {option} '{{"a": 2}}'""") from None
    if not isinstance(value, dict):
        raise DefinitionError(f"{option} must be a JSON object, such as {{}}; got {type(value).__name__}")
    return cast("dict[str, Any]", value)


Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only records from this time on: 2026-01-31T12:00Z, 90m, 1h, 2d (ago), today, yesterday."
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only records from before this time.")]


def parse_time(option: str, argument: str | None) -> str | None:
    """Return an option's time in the format of records: ISO 8601 UTC with six digits. Raises ``DefinitionError``.

    ``90m`` or ``2d`` is a time ago; ``today`` and ``yesterday`` are the beginnings of these days in UTC.
    """
    if argument is None:
        return None
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if argument in ("today", "yesterday"):
        return iso_of(midnight if argument == "today" else midnight - timedelta(days=1))
    try:
        if (ago := _AGO.fullmatch(argument)) is not None:
            return iso_of(now - timedelta(seconds=window_seconds(ago[0])))
        time = datetime.fromisoformat(argument)
    except (ValueError, OverflowError):
        raise DefinitionError(
            f"{option} must be a time, such as 2026-01-31T12:00Z, 2h or yesterday; got {argument!r}",
            hint="give a date, a time in ISO 8601 (without an offset it is UTC), or how long ago: 90m, 1h, 2d",
        ) from None
    return iso_of(time if time.tzinfo else time.replace(tzinfo=UTC))
