"""Times as they are given on the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from capset.clock import iso_of
from capset.errors import DefinitionError

Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only what is of this time or later: 2026-01-31T12:00Z.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only what is from before this time.")]

_HINT: Final = "write a day, or a time in ISO 8601; without an offset it is UTC"


def instant(option: str, given: str | None) -> str | None:
    """Return an option's time as records have it: ISO 8601 UTC with six digits. Raises ``DefinitionError``."""
    if given is None:
        return None
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise DefinitionError(
            f"{option} must be a time, such as 2026-01-31T12:00Z; got {given!r}", hint=_HINT
        ) from None
    return iso_of(time if time.tzinfo else time.replace(tzinfo=UTC))
