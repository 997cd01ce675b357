"""Sanitising: a result leaves as plain JSON data, or not at all (spec 4, G26)."""

from __future__ import annotations

from capset.composition.installing import Installed
from capset.definitions.misfits import SchemaMisfit
from capset.definitions.strict_json import MAX_INTEGER
from capset.errors import InvalidOutput
from capset.kernel.invocation import MISSING, Invocation, Step
from capset.kernel.stages.output import misfitting, several_replies


def sanitising(installed: Installed) -> Step | None:
    """Turn the result into JSON data; booleans, null and integers that can be written are that already."""
    name, tool = installed.name, installed.tool
    if tool.output.is_exact:
        return _bounded(name) if tool.output.json_schema["type"] == "integer" else None
    jsonable, replies = tool.output.jsonable, several_replies(tool)

    def step(call: Invocation) -> None:
        if call.value is MISSING:
            return
        try:
            data = (jsonable if replies is None else replies[call.reply_type or ""].jsonable)(call.value)
        except SchemaMisfit as misfit:
            raise misfitting(call, misfit.fields) from None
        except (ValueError, RecursionError):
            raise InvalidOutput(f"The tool {name!r} gave a result that JSON cannot carry.") from None
        redactor = call.place.world.redactor
        call.data = data if redactor is None else redactor(data)

    return step


def _bounded(name: str) -> Step:
    def step(call: Invocation) -> None:
        if call.value is not MISSING and not -MAX_INTEGER < call.value < MAX_INTEGER:
            raise InvalidOutput(f"The tool {name!r} gave an integer that is too long to write.")

    return step
