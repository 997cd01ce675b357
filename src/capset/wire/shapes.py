"""The base class of every wire shape."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Shape(BaseModel):
    """A frozen JSON object with exactly its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain JSON data; absent fields are omitted."""
        return self.model_dump(mode="json", exclude_none=True)


def whole(given: Any) -> Any:  # any JSON
    """Return 3.0 as 3: JSON Schema treats it as an integer."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


Whole: Final = BeforeValidator(whole)
"""Accepts such a number as an integer."""
