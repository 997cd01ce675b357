"""Branches of routers and sequencers: the functions that choose one, and the combined schemas of their outputs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, cast

from typing_extensions import TypedDict

from capset.definitions.blocks import Block
from capset.errors import CapsetError, DefinitionError, InternalError
from capset.schemas.schema import ResultSchema, Schema, schema_of

_log = logging.getLogger("capset.flows")


def count_decider_arguments(label: str, function: object, full_signature: str) -> int:
    """Return how many arguments a function requires, one or two. ``full_signature`` is for errors.

    Raises ``DefinitionError`` for anything else.
    """
    if isinstance(function, type) or not callable(function):
        raise DefinitionError(f"{label} must be a function of {full_signature}; got {function!r}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{label}: {error}") from None
    required = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in _VARIADIC
    ]
    if len(required) not in (1, 2) or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in required):
        raise DefinitionError(
            f"{label} must take {full_signature}, or the value alone; it takes {inspect.signature(function)}"
        )
    return len(required)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


async def call_decider(block: Block, role: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a block, and return its answer. Raises ``InternalError``, naming both, if it fails."""
    try:
        answer = function(*arguments)
        return await answer if inspect.isawaitable(answer) else answer
    except CapsetError:
        raise
    except Exception as error:
        name = getattr(function, "__name__", type(function).__name__)
        _log.error("the %s %r of %r failed", role, name, block.name, exc_info=error)
        raise InternalError(f"The {role} {name!r} of {block.name!r} failed: {type(error).__name__}.") from error


def union_schema(owner: str, outputs: Sequence[Schema | None]) -> Schema | None:
    """Return the schema that covers each of the outputs, or ``None`` unless all are known."""
    schemas = [output for output in outputs if output is not None]
    if len(schemas) < len(outputs) or not schemas:
        return None
    first = schemas[0]
    if all(output.annotation == first.annotation for output in schemas):
        return first
    annotation: Any = Union[tuple(output.annotation for output in schemas)]  # noqa: UP007  # the types are known only here
    schema = cast("ResultSchema", schema_of(f"{owner}, its output", annotation, "serialization"))
    if all(output.json_schema == first.json_schema for output in schemas):  # two classes may have the same fields
        schema = schema.with_published(first.json_schema)
        schema.json_schema, schema.hash_input = first.json_schema, first.hash_input
    return schema


def object_schema(owner: str, outputs: Mapping[str, Schema | None]) -> Schema | None:
    """Return the schema of an object with all outputs under their names, or ``None`` unless all are known."""
    members = {name: output.annotation for name, output in outputs.items() if output is not None}
    if len(members) < len(outputs):
        return None
    return schema_of(f"{owner}, its output", cast("Any", TypedDict)("Outputs", members), "serialization")
