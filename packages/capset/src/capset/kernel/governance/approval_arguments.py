"""The arguments of calls that wait for approvals: their size, what approvers see of them, and what they may change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.errors import ArgumentsTooLarge, DefinitionError, Field, InvalidArguments
from capset.fingerprint.canonical import NotCanonical, canonical, read
from capset.kernel.governance.file_arguments import files_of, normalised
from capset.kernel.governance.marked_values import marked_files, without_secrets
from capset.kernel.governance.redaction import redacted
from capset.schemas.json_schema import JsonSchema, compile_json_schema
from capset.schemas.validation_errors import MISSING_FIELD, UNKNOWN_FIELD, SchemaMismatch
from capset.stores.base import LineageStore

MAX_ARGUMENT_BYTES: Final = 1024 * 1024
"""Maximum size of the arguments of a call that waits for an approval, as requested or as changed by an approver."""

_ITEM: Final = re.compile(r"\.[0-9]+(?![^.])")


class ShownArguments(NamedTuple):
    """The arguments of a request as approvers may read them: the requested ones, and those that replaced them."""

    arguments: Any
    modified: Any
    """``None`` unless an approver has changed the arguments."""


async def shown_arguments(lineage: LineageStore, row: ApprovalRow) -> ShownArguments:
    """Return the arguments of a request, with only the secrets masked that the schema of its tool declares.

    If the schema is not known, arguments that an approver wrote are masked as in a record.
    """
    arguments = read(row.arguments if row.unmasked is None else row.unmasked)
    if row.modified is None:
        return ShownArguments(arguments, None)
    modified, schema = read(row.modified), await _schema(lineage, row)
    if schema is None:
        return ShownArguments(arguments, redacted(modified, longest=None))
    return ShownArguments(arguments, without_secrets(schema.root, modified))


async def _schema(lineage: LineageStore, row: ApprovalRow) -> JsonSchema | None:
    """Return the schema that a request's tool had at that time, if it is known and can be compiled."""
    stored = await lineage.payload(row.org, row.tool_hash)
    if stored is None:
        return None
    try:
        return compile_json_schema(f"the tool {row.tool!r}", read(stored.payload)["schema"])
    except DefinitionError:  # it uses an unsupported part of JSON Schema
        return None


async def check_answer(lineage: LineageStore, row: ApprovalRow, answer: Answer) -> None:
    """Raise ``InvalidArguments`` if an answer's arguments do not fit the schema that the request's tool had.

    Some checks are left to the call: those beyond JSON Schema, those of requests that an earlier version opened, and,
    if the schema has aliases, those of fields that go by their names in the request. The arguments may name only files
    of the request, since approvers were shown no others.
    """
    if answer.arguments is None:
        return
    check_size(row.tool, arguments_json(answer.arguments))
    schema = await _schema(lineage, row)
    if schema is None:
        return
    errors = _schema_errors(schema, dict(answer.arguments))
    if errors and not _error_keys(errors) <= _alias_mismatches(schema, row):
        problems = "; ".join(map(str, errors))
        raise InvalidArguments(f"Invalid arguments for {row.tool!r}: {problems}", fields=errors)
    _check_files(row, schema, dict(answer.arguments))


def _check_files(row: ApprovalRow, schema: JsonSchema, arguments: Any) -> None:
    paths = {file.path for file in files_of(row)}
    for place, path, _ in marked_files(schema.root, arguments):
        if normalised(path) not in paths:
            argument = ".".join(map(str, place))
            raise InvalidArguments(
                f"Invalid arguments for {row.tool!r}: {argument} names a file that the request does not name: "
                "reject it, and have the call made with that file",
                fields=[Field(argument, "the path of a file that the request names was expected")],
            )


def _alias_mismatches(schema: JsonSchema, row: ApprovalRow) -> set[tuple[str, str]]:
    """Return where a request's own arguments do not fit, if the cause is fields given by name instead of alias."""
    errors = _schema_errors(schema, read(row.arguments))
    is_misnamed = any(error.expected in (MISSING_FIELD, UNKNOWN_FIELD) for error in errors)
    return _error_keys(errors) if is_misnamed else set()


def _schema_errors(schema: JsonSchema, arguments: Any) -> Sequence[Field]:  # JSON data
    try:
        schema.check(arguments)
    except SchemaMismatch as error:
        return error.fields
    return ()


def _error_keys(errors: Sequence[Field]) -> set[tuple[str, str]]:
    """Return what does not fit and where, treating all items of a list as one."""
    return {(_ITEM.sub(".0", error.path), error.expected) for error in errors}


def check_size(tool: str, arguments: str) -> None:
    """Raise ``ArgumentsTooLarge`` for more than ``MAX_ARGUMENT_BYTES``."""
    if len(arguments.encode()) > MAX_ARGUMENT_BYTES:
        raise ArgumentsTooLarge(
            f"Invalid arguments for {tool!r}: those of a call that waits for an approval may be at most "
            f"{MAX_ARGUMENT_BYTES} bytes as JSON (approval_arguments)"
        )


def arguments_json(arguments: Mapping[str, Any]) -> str:  # of the tool's own schema
    """Return arguments as they are stored. Raises ``InvalidArguments`` if they are not JSON data."""
    try:
        return canonical(dict(arguments)).decode()
    except (NotCanonical, ValueError, TypeError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of an approval must be JSON data: {error}") from None
