"""Sanitising: a result leaves as plain JSON data, or not at all (spec 4, G26)."""

from __future__ import annotations

from capset.definitions.capabilities import AnyTool
from capset.errors import InvalidOutput
from capset.kernel.invocation import MISSING, Invocation, Step


def sanitising(tool: AnyTool) -> Step | None:
    """Turn the result into JSON data; integers, booleans and null are that already."""
    if tool.output.is_exact:
        return None
    name, jsonable = tool.name, tool.output.jsonable

    def step(call: Invocation) -> None:
        if call.value is MISSING:
            return
        try:
            call.data = jsonable(call.value)
        except (ValueError, RecursionError):
            raise InvalidOutput(f"The tool {name!r} gave a result that JSON cannot carry.") from None

    return step
