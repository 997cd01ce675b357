"""Blocks as tools: a call passes the checks of a tool, and then runs the block (spec 1, C37)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast, get_args, get_origin

from typing_extensions import Unpack

from capset.definitions.blocks import Block
from capset.definitions.calls.contexts import Context
from capset.definitions.names import TOOL, checked_name
from capset.definitions.tools.definition import Tool, make_tool
from capset.definitions.tools.handlers import mark_adapter
from capset.definitions.tools.options import BlockToolOptions, refuse_unknown
from capset.errors import DefinitionError
from capset.flows.checks import checked_block, validate_input
from capset.flows.handler import Handler
from capset.kernel.blocks.runs import enter_from
from capset.schemas.parameters import object_fields
from capset.schemas.schema import Schema, schema_of, schema_of_fields

_ANYTHING: Final = schema_of("an output", object, "serialization")


def as_tool(
    block: Block,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[BlockToolOptions],
) -> Tool[..., Any]:
    """Expose a block as a tool, whose calls are governed and recorded like any other.

    If the input is an object (a pydantic model, a ``TypedDict``, a dataclass), its fields are the tool's arguments;
    any other input is one argument, ``input``. An agent, and a generator without an input type, take text. ``name`` and
    ``description`` default to the block's. The options are those of ``BlockToolOptions``.

    Raises ``DefinitionError`` for a block whose input type is unknown, and for a flow.
    """
    refuse_unknown(as_tool, options, BlockToolOptions)
    checked_block("as_tool", block)
    owner = f"as_tool({block.name!r})"
    if not (block.description if description is None else description).strip():
        raise DefinitionError(
            f"{owner} needs a description: the model chooses by it", hint="pass description=…, here or to the block"
        )
    fields, make = _arguments(owner, block)

    async def run(ctx: Context, /, **arguments: object) -> object:
        return await enter_from(ctx, block, make(arguments))

    tool_name = checked_name("a tool's name", block.name if name is None else name, TOOL)
    return make_tool(
        tool_name,
        block.description if description is None else description,
        options,
        arguments=schema_of_fields(tool_name, fields),
        output=_output(block),
        parameters=tuple(fields),
        shape="async",
        takes_context=True,
        handler=mark_adapter(block.function, run) if isinstance(block, Handler) else run,
        block=block,
    )


def _output(block: Block) -> Schema:
    if block.output is not None:
        return block.output
    return schema_of("an agent's text", str, "serialization") if block.kind == "generator" else _ANYTHING


def _arguments(owner: str, block: Block) -> tuple[Mapping[str, Any], Callable[[dict[str, object]], Any]]:
    """Return the annotated fields of a block's input, and a function from validated arguments to that input."""
    if block.input is None:
        if block.kind == "generator":
            return {"input": str}, lambda arguments: arguments["input"]
        if block.kind == "handler":
            return {}, lambda arguments: None
        raise DefinitionError(
            f"{owner}: the input type of the {block.kind} is unknown", hint="pass input=… to the block"
        )
    annotation: Any = block.input.annotation
    fields = object_fields(owner, annotation)
    if fields is None:
        return {"input": annotation}, lambda arguments: arguments["input"]
    kind: Any = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if isinstance(kind, type) and dataclasses.is_dataclass(cast("type[object]", kind)):
        return fields, lambda arguments: cast("Any", kind)(**arguments)
    return fields, lambda arguments: validate_input(block, arguments)
