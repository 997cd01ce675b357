"""The options that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from capset.errors import DefinitionError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Db = Annotated[str | None, typer.Option("--db", help="Where records are kept: a URL or a file (or CAPSET_DB).")]
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
    typer.Option("--env", metavar="KEY=VALUE", help="What policies read as request.env; may be repeated."),
]


def check_seconds(option: str, seconds: float | None) -> None:
    """Raise ``DefinitionError`` unless an option, if it is given, is a number of seconds that can pass."""
    if seconds is not None and not seconds > 0:
        raise DefinitionError(f"{option} must be a positive number of seconds; got {seconds}")
