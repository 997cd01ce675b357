"""The base class of every wire shape."""

from __future__ import annotations

from typing import Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError, to_json


class Shape(BaseModel):
    """A frozen JSON object with exactly its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain JSON data; absent fields are omitted."""
        return self.model_dump(mode="json", exclude_none=True)


class StrictShape(Shape):
    """Takes no text for a number, and no number for a truth."""

    model_config = ConfigDict(strict=True)


def whole(given: Any) -> Any:  # any JSON
    """Return 3.0 as 3: JSON Schema treats it as an integer."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


Whole: Final = BeforeValidator(whole)
"""Accepts such a number as an integer."""


def json_bytes(name: str, most: int) -> AfterValidator:
    """Return a validator that refuses JSON data of more bytes, under the limit's name."""

    def check(given: Any) -> Any:  # JSON data
        if (size := len(to_json(given))) > most:
            told = f"at most {most} bytes as JSON ({name}); it has {size}"
            raise PydanticCustomError("too_large", "{told}", {"told": told})
        return given

    return AfterValidator(check)


INVOCATION: Final = json_bytes("invocation", 64 * 1024)
"""The bound of an invocation, of which only the hash is kept."""
