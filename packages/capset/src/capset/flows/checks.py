"""Checks for all kinds of blocks: of children on construction, of inputs and outputs at run time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from typing_extensions import TypeForm

from capset.definitions.blocks import Block
from capset.definitions.names import BLOCK, checked_name
from capset.errors import DefinitionError, InvalidArguments, InvalidOutput
from capset.schemas.schema import Schema, schema_of
from capset.schemas.validation_errors import VALIDATION_ERRORS, validation_fields

_log = logging.getLogger("capset.flows")


def checked_block_name(kind: str, name: object) -> str:
    """Return ``name`` if it is valid for a block and as a target. Raises ``DefinitionError`` if not."""
    return checked_name(f"a {kind}'s name", name, BLOCK)


def checked_block(owner: str, block: object) -> Block:
    """Return ``block`` if it can run inside another. Raises ``DefinitionError`` for anything else, and for a flow."""
    if not isinstance(block, Block):
        raise DefinitionError(f"{owner}: a block was expected (or an Agent); got {block!r}")
    if block.kind == "flow":
        raise DefinitionError(
            f"{owner}: {block!r} is a flow, which is always the root of a session",
            hint="use the block inside it: flow.root",
        )
    return block


def distinct_children(owner: str, blocks: Iterable[Block]) -> Mapping[str, Block]:
    """Return blocks by name. Raises ``DefinitionError`` for a duplicate name, which would make targets ambiguous."""
    children: dict[str, Block] = {}
    for block in blocks:
        if block.name in children:
            raise DefinitionError(
                f"{owner}: two of its blocks are named {block.name!r}", hint="give one of them another name"
            )
        children[block.name] = block
    return MappingProxyType(children)


def compile_input(owner: str, type: TypeForm[Any] | None) -> Schema | None:
    """Compile the input type, if there is one. Raises ``DefinitionError``."""
    return None if type is None else schema_of(f"{owner}, its input", type, "validation")


def compile_output(owner: str, type: TypeForm[Any] | None) -> Schema | None:
    """Compile the output type, if there is one. Raises ``DefinitionError``."""
    return None if type is None else schema_of(f"{owner}, its output", type, "serialization")


def validate_input(block: Block, value: Any) -> Any:
    """Return the input in the block's own type, with defaults filled in. Raises ``InvalidArguments``."""
    if block.input is None:
        return value
    try:
        return block.input.check(value)
    except VALIDATION_ERRORS as error:
        fields = validation_fields(error, block.input.names, value)
        problems = "; ".join(map(str, fields)).replace("(arguments)", "(the input)")
        raise InvalidArguments(f"Invalid input for the block {block.name!r}: {problems}", fields=fields) from None


def validate_output(block: Block, value: Any, schema: Schema | None) -> Any:
    """Return the output if it matches the schema. Raises ``InvalidOutput``, which names places but no values."""
    if schema is None:
        return value
    try:
        return schema.check(value)
    except VALIDATION_ERRORS as error:
        fields = validation_fields(error, (), value)
        places = ", ".join(field.path for field in fields).replace("(arguments)", "the whole output")
        _log.error("block %r: its output does not match its type: %s", block.name, "; ".join(map(str, fields)))
        raise InvalidOutput(
            f"The block {block.name!r} returned an output that does not match its type: {places}."
        ) from None
