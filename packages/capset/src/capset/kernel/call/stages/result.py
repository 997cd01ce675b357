"""Output: a result that does not fit the tool's output schema fails the call (spec 3, K9).

The answer of a third-party server is exempt, since its call was made: what does not fit is noted (spec 7, M96).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from capset.composition.installation import InstalledTool
from capset.definitions.calls.contents import ForeignResult, is_content, pieces_of
from capset.definitions.tools.definition import AnyTool
from capset.errors import Field, InvalidOutput
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import MISSING, Invocation
from capset.schemas.schema import Schema
from capset.schemas.strict_json import MAX_INTEGER
from capset.schemas.validation_errors import VALIDATION_ERRORS, SchemaMismatch, validation_fields

MAX_NOTE_CHARACTERS: Final = 1_000
"""Maximum characters of the note about a result that does not fit."""
_log = logging.getLogger("capset.kernel")


def output(installed: InstalledTool) -> Step:
    """Validate the result strictly; a streaming tool without a result has nothing to validate.

    An integer that is too long to write fits no output schema.
    """
    tool = installed.tool
    check, replies = tool.output.check, reply_schemas(tool)
    is_integer = tool.output.is_exact and tool.output.json_schema["type"] == "integer"

    def step(call: Invocation) -> None:
        value = call.value
        if value is MISSING:
            return
        if type(value) is ForeignResult:
            _accept_foreign(call, tool.output, value)
            return
        fits = check if replies is None else replies[call.reply_type or ""].check
        try:
            value = fits(value)
        except VALIDATION_ERRORS as error:
            raise output_error(call, validation_fields(error, (), value)) from None
        call.value = call.data = value
        if is_integer and not -MAX_INTEGER < value < MAX_INTEGER:
            raise InvalidOutput(f"The tool {call.compiled.name!r} returned an integer that is too long to write.")

    return step


def _accept_foreign(call: Invocation, schema: Schema, answer: ForeignResult) -> None:
    """Take the answer of a third-party server as the result, and note what does not fit. Raises its error, if any."""
    fits, misfits = answer.fits_schema, [*answer.misfits]
    if fits and answer.error is None:
        try:
            schema.check(answer.value)
        except VALIDATION_ERRORS as error:
            fits = False
            misfits += [str(field) for field in validation_fields(error, (), answer.value)]
    note, redactor = _note(call, misfits) if misfits else None, call.context.runtime.redactor
    foreign = replace(answer, fits_schema=fits, note=note)
    if redactor is not None:
        foreign = replace(
            foreign,
            value=redactor(answer.value),
            blocks=None if answer.blocks is None else redactor(answer.blocks),
            structured=redactor(answer.structured),
            meta=redactor(answer.meta),
            note=redactor(note),
        )
    call.value, call.foreign = answer.value, foreign
    if answer.blocks is not None or note is not None:
        call.content = foreign.pieces()
    if answer.error is not None:
        raise answer.error


def _note(call: Invocation, misfits: Sequence[str]) -> str:
    """Return the note for the model about a result that does not fit; the record has it as a reason, too."""
    problems = "; ".join(misfits).replace("(arguments)", "the result")
    _log.warning("tool %r, correlation %s: its result does not fit: %s", call.compiled.name, call.correlation, problems)
    note = f"The call was made, and its result does not fit what its tool promises: {problems}"
    note = note if len(note) <= MAX_NOTE_CHARACTERS else f"{note[:MAX_NOTE_CHARACTERS]}…"
    before = call.decision.reason
    call.decision = call.decision._replace(reason=note if before is None else f"{before}; {note}")
    return note


def reply_schemas(tool: AnyTool) -> Mapping[str, Schema] | None:
    """Return the schemas of a processor's replies by their types, or ``None`` if there are fewer than two."""
    contract = tool.contract
    return contract.replies if contract is not None and len(contract.replies) > 1 else None


def output_error(call: Invocation, fields: Sequence[Field]) -> InvalidOutput:
    """Log where a result does not fit its schema, and return the error for its call.

    A result may hold secrets, so only the paths that do not fit are reported, and no value is logged.
    """
    name, expected = call.compiled.name, "; ".join(map(str, fields))
    places = ", ".join(field.path for field in fields).replace("(arguments)", "the result")
    _log.error("tool %r, correlation %s: its result does not fit: %s", name, call.correlation, expected)
    return InvalidOutput(f"The tool {name!r} returned a result that does not fit its schema: {places}.")


def serialize(installed: InstalledTool) -> Step | None:
    """Convert the result to JSON data; booleans, null and integers that can be written are JSON data already."""
    name, tool = installed.name, installed.tool
    if tool.output.is_exact:
        return None
    jsonable, replies, gives_content = tool.output.jsonable, reply_schemas(tool), is_content(tool.output.annotation)

    def step(call: Invocation) -> None:
        if call.value is MISSING:
            return
        try:
            data = (jsonable if replies is None else replies[call.reply_type or ""].jsonable)(call.value)
        except SchemaMismatch as misfit:
            raise output_error(call, misfit.fields) from None
        except (ValueError, RecursionError):
            raise InvalidOutput(f"The tool {name!r} returned a result that cannot be represented as JSON.") from None
        redactor = call.context.runtime.redactor
        call.data = data if redactor is None else redactor(data)
        if gives_content:
            call.content = pieces_of(call.data)

    return step
