"""The arguments of calls that wait for approvals: their size, and those that approvers put in their place (G17)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from capset.definitions.approvals import Answer, ApprovalRow
from capset.errors import ArgumentsTooLarge, DefinitionError, Field, InvalidArguments
from capset.fingerprint.canonical import NotCanonical, canonical, read
from capset.schemas.json_schema import JsonSchema, compile_json_schema
from capset.schemas.validation_errors import MISSING_FIELD, UNKNOWN_FIELD, SchemaMismatch
from capset.stores.base import LineageStore

ARGUMENT_BYTES: Final = 1024 * 1024
"""The largest size of the arguments of a call that waits for an approval, and of those that an approver puts there."""

_ITEM: Final = re.compile(r"\.[0-9]+(?![^.])")


async def check_answer(lineage: LineageStore, row: ApprovalRow, answer: Answer) -> None:
    """Raise ``InvalidArguments`` for an answer whose arguments do not fit the request's tool, as it was at that time.

    Checks beyond JSON Schema, fields that go by their names as those of the request do, where the schema has aliases,
    and tools of requests that an earlier version opened are left to the call.
    """
    if answer.arguments is None:
        return
    check_size(row.tool, written_arguments(answer.arguments))
    kept = await lineage.payload(row.org, row.tool_hash)
    if kept is None:
        return
    try:
        schema = compile_json_schema(f"the tool {row.tool!r}", read(kept.payload)["schema"])
    except DefinitionError:  # beyond the supported part of JSON Schema
        return
    misfits = _misfits(schema, dict(answer.arguments))
    if misfits and not _places(misfits) <= _misnamed(schema, row):
        listed = "; ".join(map(str, misfits))
        raise InvalidArguments(f"Invalid arguments for {row.tool!r}: {listed}", fields=misfits)


def _misnamed(schema: JsonSchema, row: ApprovalRow) -> set[tuple[str, str]]:
    """Return where a request's own arguments do not fit, if that is because fields go by names that are not aliases."""
    misfits = _misfits(schema, read(row.arguments))
    is_misnamed = any(one.expected in (MISSING_FIELD, UNKNOWN_FIELD) for one in misfits)
    return _places(misfits) if is_misnamed else set()


def _misfits(schema: JsonSchema, arguments: Any) -> Sequence[Field]:  # JSON data
    try:
        schema.check(arguments)
    except SchemaMismatch as misfit:
        return misfit.fields
    return ()


def _places(misfits: Sequence[Field]) -> set[tuple[str, str]]:
    """Return what does not fit and where, in whichever item of a list."""
    return {(_ITEM.sub(".0", one.path), one.expected) for one in misfits}


def check_size(tool: str, arguments: str) -> None:
    """Raise ``ArgumentsTooLarge`` for more than ``ARGUMENT_BYTES``."""
    if len(arguments.encode()) > ARGUMENT_BYTES:
        raise ArgumentsTooLarge(
            f"Invalid arguments for {tool!r}: what waits for an approval has at most {ARGUMENT_BYTES} bytes as JSON "
            "(approval_arguments)"
        )


def written_arguments(arguments: Mapping[str, Any]) -> str:  # of the tool's own schema
    """Return arguments as they are stored. Raises ``InvalidArguments`` for what is not JSON."""
    try:
        return canonical(dict(arguments)).decode()
    except (NotCanonical, ValueError, TypeError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of an approval are JSON data: {error}") from None
