"""The result of one governed call: the same object from the command line and from every other door (spec 5, P9)."""

from __future__ import annotations

from typing import Any

from capset.kernel.results import Result
from capset.wire.errors import ErrorShape, error_shape
from capset.wire.shapes import Shape


class CallShape(Shape):
    """``data`` if ``success``, else ``error``; ``record`` is the id of the call's record."""

    success: bool
    data: Any = None  # the tool's own output, as JSON data
    error: ErrorShape | None = None
    record: str
    session: str
    runtime_hash: str
    prompt_hash: str

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; of ``data`` and ``error`` exactly one is there, even where ``data`` is null."""
        shape = {name: value for name, value in self.model_dump(mode="json").items() if name not in ("data", "error")}
        if self.error is None:
            return {"success": True, "data": self.data, **shape}
        return {"success": False, "error": self.error.plain(), **shape}


def call_data(result: Result[Any], data: Any, session: str) -> dict[str, Any]:
    """Return a call that has ended as plain JSON data, as ``CallShape`` says; ``data`` is its reply's, as JSON data.

    It is written out here because doors write it all day.
    """
    ending = {
        "record": result.record,
        "session": session,
        "runtime_hash": result.runtime_hash,
        "prompt_hash": result.prompt_hash,
    }
    if result.error is None:
        return {"success": True, "data": data, **ending}
    return {"success": False, "error": error_shape(result.error).plain(), **ending}
