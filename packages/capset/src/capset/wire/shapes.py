"""The base class of every wire shape."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError, to_json


class Shape(BaseModel):
    """A frozen JSON object that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain JSON data without absent fields."""
        return self.model_dump(mode="json", exclude_none=True)


class StrictShape(Shape):
    """A shape that does not convert types, such as text to a number or a number to a boolean."""

    model_config = ConfigDict(strict=True)


class SparseShape(Shape):
    """A shape whose unset members are omitted from JSON, while a null is a value."""

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain JSON data without unset fields."""
        return self.model_dump(mode="json", exclude_unset=True)


_Item = TypeVar("_Item")


class PageShape(Shape, Generic[_Item]):
    """A page of items, and the cursor of the next page, if any."""

    items: list[_Item]
    next: str | None = None


def as_integer(number: Any) -> Any:  # any JSON
    """Return a whole float as an integer (3.0 as 3), since JSON Schema treats it as one."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


_WRITTEN: Final = re.compile(r"\d{4}-\d{2}-\d{2}T", re.ASCII)


def _written(value: object) -> object:
    """Return a time unchanged. Numbers, which pydantic would read as seconds since 1970, are refused."""
    if isinstance(value, int | float) or (isinstance(value, str) and not _WRITTEN.match(value)):
        raise ValueError("a time is written like 2026-01-31T00:00:00Z (RFC 3339)")
    return value


Moment = Annotated[AwareDatetime | None, Field(strict=False), BeforeValidator(_written)]
"""A time with its offset, as a text."""

WholeNumber: Final = BeforeValidator(as_integer)
"""Accepts a whole float as an integer."""


MAX_ATTACHED_BYTES: Final = 64 * 1024
"""The maximum size of each piece of JSON that a client attaches to a session or a link."""


def _check_size(data: Any) -> Any:  # JSON data
    if (size := len(to_json(data))) > MAX_ATTACHED_BYTES:
        expected = f"at most {MAX_ATTACHED_BYTES} bytes as JSON (attached_json); it has {size}"
        raise PydanticCustomError("too_large", "{expected}", {"expected": expected})
    return data


AttachedJson = Annotated[dict[str, Any], AfterValidator(_check_size)]
"""JSON that a client attaches to a session or a link: context, metadata or an invocation."""
