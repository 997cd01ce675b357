"""Output: what the handler gave fits the tool's output schema, or the call failed (spec 3, K9)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from capset.composition.installation import Installed
from capset.definitions.tools.definition import AnyTool
from capset.errors import Field, InvalidOutput
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import MISSING, Invocation
from capset.schemas.schema import Schema
from capset.schemas.strict_json import MAX_INTEGER
from capset.schemas.validation_errors import VALIDATION_ERRORS, SchemaMismatch, validation_fields

_log = logging.getLogger("capset.kernel")


def output(installed: Installed) -> Step:
    """Validate the result strictly; a streaming tool that gave none has nothing to validate.

    An integer that is too long to write fits no output.
    """
    tool = installed.tool
    check, replies = tool.output.check, several_replies(tool)
    is_integer = tool.output.is_exact and tool.output.json_schema["type"] == "integer"

    def step(call: Invocation) -> None:
        value = call.value
        if value is MISSING:
            return
        fits = check if replies is None else replies[call.reply_type or ""].check
        try:
            value = fits(value)
        except VALIDATION_ERRORS as error:
            raise misfitting(call, validation_fields(error, (), value)) from None
        call.value = call.data = value
        if is_integer and not -MAX_INTEGER < value < MAX_INTEGER:
            raise InvalidOutput(f"The tool {call.compiled.name!r} gave an integer that is too long to write.")

    return step


def several_replies(tool: AnyTool) -> Mapping[str, Schema] | None:
    """Return the schemas of a processor's replies by their types, or ``None`` where there are no two."""
    contract = tool.contract
    return contract.replies if contract is not None and len(contract.replies) > 1 else None


def misfitting(call: Invocation, fields: Sequence[Field]) -> InvalidOutput:
    """Log where a result does not fit its schema, and return the error of its call.

    A result may hold secrets, so only the paths that do not fit are reported, and no value is logged.
    """
    name, expected = call.compiled.name, "; ".join(map(str, fields))
    places = ", ".join(field.path for field in fields).replace("(arguments)", "the result")
    _log.error("tool %r, correlation %s: its result does not fit: %s", name, call.correlation, expected)
    return InvalidOutput(f"The tool {name!r} gave a result that does not fit its schema: {places}.")


def serialize(installed: Installed) -> Step | None:
    """Turn the result into JSON data; booleans, null and integers that can be written are that already."""
    name, tool = installed.name, installed.tool
    if tool.output.is_exact:
        return None
    jsonable, replies = tool.output.jsonable, several_replies(tool)

    def step(call: Invocation) -> None:
        if call.value is MISSING:
            return
        try:
            data = (jsonable if replies is None else replies[call.reply_type or ""].jsonable)(call.value)
        except SchemaMismatch as misfit:
            raise misfitting(call, misfit.fields) from None
        except (ValueError, RecursionError):
            raise InvalidOutput(f"The tool {name!r} gave a result that JSON cannot carry.") from None
        redactor = call.context.runtime.redactor
        call.data = data if redactor is None else redactor(data)

    return step
