"""The result of one governed call: the same object on the command line and every other interface (spec 5, P9)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from capset.errors import ApprovalRequired, CapsetError
from capset.kernel.results import Result
from capset.wire.errors import ErrorShape, Problem, error_shape
from capset.wire.shapes import Shape


class CallInput(Shape):
    """Which tool is called, as ``tool`` or ``capability.tool``, with which arguments.

    One that had to be approved is made again as it was. ``approval`` may name its request, and no other is used then.
    """

    model_config = ConfigDict(strict=True)

    tool: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])  # of the tool's own schema
    approval: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class CallShape(Shape):
    """``data`` if ``success``, else ``error``, and whether the call was ``refused``, not let through to fail.

    ``record`` is the id of the call's record, ``approval`` that of the request that somebody has to decide first.
    """

    success: bool
    data: Any = None  # the tool's own output, as JSON data
    error: ErrorShape | None = None
    refused: bool | None = None
    approval: str | None = None
    record: str
    session: str
    runtime_hash: str
    prompt_hash: str

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data with exactly one of ``data`` and ``error``, even if ``data`` is null."""
        ending = self.model_dump(mode="json", include={"record", "session", "runtime_hash", "prompt_hash"})
        if self.error is None:
            return {"success": True, "data": self.data, **ending}
        asked = {} if self.approval is None else {"approval": self.approval}
        return {"success": False, "error": self.error.plain(), "refused": bool(self.refused), **asked, **ending}


class CallProblem(Problem):
    """The problem details of a call that was refused in its session, with the members of ``CallShape`` beside them."""

    success: bool
    error: ErrorShape
    refused: bool
    record: str
    session: str
    runtime_hash: str
    prompt_hash: str


def call_data(result: Result[Any], data: Any, session: str) -> dict[str, Any]:
    """Return a finished call as plain JSON data, as in ``CallShape``; ``data`` is its reply's, as JSON data.

    It is written by hand because it is on the hot path of every interface.
    """
    ending = {
        "record": result.record,
        "session": session,
        "runtime_hash": result.runtime_hash,
        "prompt_hash": result.prompt_hash,
    }
    if result.error is None:
        return {"success": True, "data": data, **ending}
    error = result.error
    asked = {} if (approval := approval_of(error)) is None else {"approval": approval}
    return {"success": False, "error": error_shape(error).plain(), "refused": error.refusal, **asked, **ending}


def approval_of(error: CapsetError | None) -> str | None:
    """Return the id of the approval request that a call waits for, if that is the error."""
    return error.approval if isinstance(error, ApprovalRequired) else None
