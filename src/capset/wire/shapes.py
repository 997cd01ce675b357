"""What every wire shape is."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A frozen JSON object with exactly its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain JSON data; fields that are absent are left out."""
        return self.model_dump(mode="json", exclude_none=True)
