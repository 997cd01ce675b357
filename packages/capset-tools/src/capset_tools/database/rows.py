"""The result of a query, and its error (spec 4, G30)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from capset import ToolError
from capset.ext import TransientError
from capset_tools.database.child.failures import QueryFailure


class QueryResult(TypedDict):
    columns: Annotated[list[str], Field(description="The names of the columns, in order.")]
    rows: Annotated[
        list[list[JsonValue]],
        Field(
            description=(
                'The rows, each a list of values in the order of `columns`. Bytes are {"base64": …}; exact decimals, '
                "dates and times, which are ISO 8601, are text."
            )
        ),
    ]
    row_count: Annotated[int, Field(description="How many rows are here.")]
    truncated: Annotated[bool, Field(description="Whether there are more, which the caps kept out.")]


def error_of(failure: QueryFailure) -> ToolError:
    """Convert a failure to the error of the tool."""
    if failure.is_transient:
        return TransientError(failure.message, code=failure.code)
    return ToolError(failure.message, code=failure.code, status=failure.status, hint=failure.hint)
