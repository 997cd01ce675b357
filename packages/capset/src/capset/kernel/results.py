"""The result of ``try_call``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from capset.definitions.calls.contents import ForeignResult
from capset.errors import CapsetError

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Result(Generic[R]):
    """The outcome of a call: ``data`` if ``success``, else ``error``.

    ``record`` is the id of the call's record; the hashes are those of its snapshot. ``refused`` is whether the call
    failed before its handler was started. If the result is content, ``content`` is what a model reads, as content
    pieces in JSON. ``foreign`` is the answer of a third-party server in its original form.
    """

    success: bool
    data: R | None
    error: CapsetError | None
    record: str
    runtime_hash: str
    prompt_hash: str
    refused: bool = False
    content: Sequence[Mapping[str, Any]] | None = None
    foreign: ForeignResult | None = None


def formatted_result(result: Result[Any]) -> dict[str, Any]:  # the data is of the tool's own type
    """Return a result as ``{"ok": True, "data": …}`` or ``{"ok": False, "error": message}`` (spec 2, F30)."""
    if result.error is not None:
        return {"ok": False, "error": result.error.message}
    return {"ok": True} if result.data is None else {"ok": True, "data": result.data}
