"""The arguments of calls that wait for approvals: their size, and those that approvers put in their place (G17)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from capset.definitions.approvals import ApprovalRow
from capset.errors import ArgumentsTooLarge, DefinitionError, InvalidArguments
from capset.fingerprint.canonical import NotCanonical, canonical
from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from capset.stores.base import LineageStore

ARGUMENT_BYTES: Final = 1024 * 1024
"""The largest size of the arguments of a call that waits for an approval, and of those that an approver puts there."""


async def check_arguments(
    lineage: LineageStore,
    row: ApprovalRow,
    arguments: Mapping[str, Any],  # of the tool's own schema
) -> None:
    """Raise ``InvalidArguments`` for arguments that do not fit the schema of a request's tool at that time.

    Checks beyond JSON Schema, and tools of requests that an earlier version opened, are left to the call.
    """
    kept = await lineage.payload(row.org, row.tool_hash)
    if kept is None:
        return
    try:
        schema = compile_json_schema(f"the tool {row.tool!r}", json.loads(kept.payload)["schema"])
    except DefinitionError:  # beyond the supported part of JSON Schema
        return
    try:
        schema.check(dict(arguments))
    except SchemaMismatch as misfit:
        listed = "; ".join(map(str, misfit.fields))
        raise InvalidArguments(f"Invalid arguments for {row.tool!r}: {listed}", fields=misfit.fields) from None


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
