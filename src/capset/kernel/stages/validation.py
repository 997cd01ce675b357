"""Validation: arguments fit the schema, defaults are filled into a copy, and a snapshot is kept (spec 4, G11, G12)."""

from __future__ import annotations

from typing import Any

from capset.composition.installing import Installed
from capset.definitions.messages import Json
from capset.definitions.misfits import MISFITS, misfits
from capset.definitions.plain import plain, plain_json
from capset.definitions.schemas import Schema, is_finite
from capset.errors import InvalidArguments
from capset.kernel.invocation import Invocation, Step


def validation(installed: Installed) -> Step:
    """Validate strictly: as JSON what came as JSON, as Python what came in process."""
    name, schema = installed.name, installed.tool.arguments
    check, check_json, only_scalars = schema.check, schema.check_json, schema.only_scalars
    may_be_infinite, contract = schema.may_be_infinite, installed.tool.contract

    def step(call: Invocation) -> None:
        given = call.given
        try:
            arguments = validated = check_json(given.text) if type(given) is Json else check(given)
            if contract is not None:
                call.inbound, arguments = contract.receive(validated)
        except MISFITS as error:
            as_given = plain_json(given.text) if type(given) is Json else given
            fields = misfits(error, schema.names, as_given)
            listed = "; ".join(map(str, fields))
            raise InvalidArguments(f"Invalid arguments for {name!r}: {listed}", fields=fields) from None
        if may_be_infinite and type(given) is Json and not is_finite(validated):
            raise InvalidArguments(f"Invalid arguments for {name!r}: JSON has no NaN and no infinities")
        call.arguments = arguments
        # Scalars cannot be changed by a handler, so the validated mapping itself serves as the record's snapshot.
        call.recorded = arguments if only_scalars else recordable(schema, validated)

    return step


def recordable(schema: Schema, arguments: Any) -> Any:
    """Return a snapshot of validated arguments, as plain JSON data, that nobody else can reach."""
    try:
        return schema.jsonable(arguments)
    except (ValueError, RecursionError):
        return plain(arguments)
