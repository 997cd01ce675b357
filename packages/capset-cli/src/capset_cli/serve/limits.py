"""Limits of requests on the command line: ``--http-limit`` of ``capset serve`` (spec 5, P34, P46)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import isfinite
from typing import TYPE_CHECKING, Annotated, cast

import typer

from capset.errors import DefinitionError, unknown

if TYPE_CHECKING:
    from capset_server.http.request_rules import RequestLimits

HttpLimit = Annotated[
    list[str] | None,
    typer.Option(
        "--http-limit",
        metavar="NAME=VALUE",
        envvar="CAPSET_HTTP_LIMIT",
        help="A limit of requests that replaces a default, such as body=2097152 or shield=off; may be repeated.",
    ),
]


def request_limits(options: Sequence[str], *, file: int) -> RequestLimits:
    """Return the limits of requests, with those in ``options``, each ``NAME=VALUE``. ``file`` is that one's default.

    Raises ``DefinitionError`` for an unknown name, a name that is given twice, and an invalid value: the shield is
    ``on`` or ``off``, all others are positive numbers.
    """
    from capset_server.http.request_rules import RequestLimits

    kinds: dict[str, type[float]] = {limit.name: type(cast("float", limit.default)) for limit in fields(RequestLimits)}
    values: dict[str, float] = {}
    for option in options:
        name, _, text = option.partition("=")
        if name not in kinds:
            raise DefinitionError(f"--http-limit: {unknown('limit', name, kinds)}")
        if name in values:
            raise DefinitionError(f"--http-limit {name} is given twice: a limit has one value")
        values[name] = _parse_switch(option, text) if kinds[name] is bool else _parse_number(option, text, kinds[name])
    return RequestLimits(**{"file": file, **values})  # pyright: ignore[reportArgumentType]  # of the fields' own types


def _parse_switch(option: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise DefinitionError(f"--http-limit shield must be on or off; got {option!r:.80}")
    return text == "on"


def _parse_number(option: str, text: str, kind: type[float]) -> float:
    try:
        number = int(text) if kind is int else float(text)
    except ValueError:
        number = 0
    if not (isfinite(number) and number > 0):
        noun = "a whole number" if kind is int else "a number"
        raise DefinitionError(f"--http-limit must be NAME=NUMBER, with {noun} above 0; got {option!r:.80}")
    return number
