"""What every wire shape is."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Shape(BaseModel):
    """A frozen JSON object with exactly its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain JSON data; fields that are absent are left out."""
        return self.model_dump(mode="json", exclude_none=True)


def whole(given: Any) -> Any:  # any JSON
    """Return 3.0 as 3: to JSON Schema it is an integer."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


Whole: Final = BeforeValidator(whole)
"""Takes such a number for an integer."""
