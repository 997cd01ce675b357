"""Limits of requests on the command line: ``--http-limit`` of ``capset serve`` (spec 5, P34, P46)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from capset.errors import DefinitionError, unknown

if TYPE_CHECKING:
    from capset_server.http.request_context import RequestLimits

HttpLimit = Annotated[
    list[str] | None,
    typer.Option(
        "--http-limit",
        metavar="NAME=NUMBER",
        envvar="CAPSET_HTTP_LIMIT",
        help="Another limit of requests than the default, such as body=2097152; may be repeated.",
    ),
]


def request_limits(given: Sequence[str], *, file: int) -> RequestLimits:
    """Return the limits with those that are given, each ``NAME=NUMBER``; ``file`` is the default of that one.

    Raises ``DefinitionError`` for an unknown name, a name that is given twice, and a number that is not positive.
    """
    from capset_server.http.request_context import RequestLimits

    kinds = {one.name: int if isinstance(one.default, int) else float for one in fields(RequestLimits)}
    values: dict[str, int | float] = {}
    for one in given:
        name, _, text = one.partition("=")
        if name not in kinds:
            raise DefinitionError(f"--http-limit: {unknown('limit', name, kinds)}")
        if name in values:
            raise DefinitionError(f"--http-limit {name} is given twice: a limit has one number")
        values[name] = _number(one, text, kinds[name])
    return RequestLimits(**{"file": file, **values})  # pyright: ignore[reportArgumentType]  # of the fields' own types


def _number(option: str, text: str, kind: type[int | float]) -> int | float:
    try:
        number = int(text) if kind is int else float(text)
    except ValueError:
        number = 0
    if not (isfinite(number) and number > 0):
        what = "a whole number" if kind is int else "a number"
        raise DefinitionError(f"--http-limit must be NAME=NUMBER, with {what} above 0; got {option!r:.80}")
    return number
