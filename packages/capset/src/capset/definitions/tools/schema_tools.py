"""Tools whose parameters are JSON Schema, and whose handlers take them as one mapping (spec 4, G11, G27)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import Unpack

from capset.definitions.callables import accepts_positional, inner_function, refuse_wrapped_async
from capset.definitions.calls.contexts import Context
from capset.definitions.names import TOOL, checked_name, checked_optional
from capset.definitions.tools.handlers import Shape, mark_adapter
from capset.definitions.tools.options import ToolOptions, refuse_unknown
from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_json_schema, compile_own_schema
from capset.schemas.parameters import parameters_schema
from capset.schemas.schema import Schema, schema_of

if TYPE_CHECKING:
    from capset.definitions.tools.definition import Tool

Params = dict[str, Any]
"""Arguments as JSON data, validated and with defaults; of any JSON type, and a copy that the handler may change."""
Handler = Callable[[Params], Any] | Callable[[Params, Context], Any]
"""A plain handler: ``handler(params)`` or ``handler(params, context)``, sync or async; it returns JSON data."""


class AdaptedHandler(NamedTuple):
    """A plain handler as the kernel calls it."""

    shape: Shape
    takes_context: bool
    run: Callable[..., Any]


def adapt_handler(owner: str, handler: Callable[..., Any]) -> AdaptedHandler:
    """Adapt a plain handler for the kernel. Raises ``DefinitionError`` for anything else, starting with ``owner``."""
    if inspect.isclass(handler) or not callable(handler):
        raise DefinitionError(f"{owner}: a handler is a function of (params, context) or (params); got {handler!r:.80}")
    function = inner_function(handler)
    inner = inspect.unwrap(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise DefinitionError(
            f"{owner}: a plain handler returns its result and cannot yield",
            hint="to emit progress, make it a tool of its own: put @tool on it",
        )
    refuse_wrapped_async(owner, function)
    takes_context = _takes_context(owner, handler)

    def with_context(context: Context, /, **params: Any) -> Any:
        return handler(params, context)

    def alone(**params: Any) -> Any:
        return handler(params)

    run = mark_adapter(handler, with_context if takes_context else alone)
    return AdaptedHandler("async" if inspect.iscoroutinefunction(function) else "sync", takes_context, run)


def _takes_context(owner: str, handler: Callable[..., Any]) -> bool:
    """Whether a handler takes the context, too."""
    if accepts_positional(handler, 2):
        return True
    if accepts_positional(handler, 1):
        return False
    raise DefinitionError(
        f"{owner}: a handler takes (params, context) or (params), by position; it takes {inspect.signature(handler)}",
        hint="its arguments come as one mapping; a function that takes them one by one is made a tool by @tool",
    )


def schema_tool(
    *,
    name: str,
    parameters: Mapping[str, Any],
    handler: Handler,
    description: str,
    returns: Mapping[str, Any] | None = None,
    title: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[..., Any]:
    """Make a tool from JSON Schema and a plain handler.

    Args:
        name: its name for the model.
        parameters: a JSON Schema of type object, or the shorthand ``{"location": {"type": "string", "required":
            True}}``. An object that lists its properties accepts no others, unless it says so. Formats are checked.
        handler: ``handler(params)`` or ``handler(params, context)``, sync or async; ``params`` are the arguments as
            JSON data, in a fresh mapping with the defaults filled in, and ``context`` is a ``Context``.
        description: its purpose: the model chooses by it.
        returns: the JSON Schema of its result; any JSON if left out.
        title: the display name; not part of the hash.
        options: those of ``ToolOptions``.

    Raises ``DefinitionError``.
    """
    from capset.definitions.tools.definition import make_tool

    refuse_unknown(schema_tool, options, ToolOptions)
    owner = f"tool {checked_name('the name of a tool', name, TOOL)!r}"
    plain = adapt_handler(owner, handler)
    arguments = parameters_schema(owner, parameters)
    return make_tool(
        name,
        description,
        options,
        arguments=arguments,
        output=returns_schema(owner, returns, is_own=True),
        parameters=tuple(arguments.names),
        shape=plain.shape,
        takes_context=plain.takes_context,
        handler=plain.run,
        title=checked_optional(f"{owner}: title", title),
    )


def returns_schema(owner: str, returns: Mapping[str, Any] | None, *, is_own: bool = False) -> Schema:
    """Return the schema of a result, which allows any JSON if none is given. Raises ``DefinitionError``.

    If it ``is_own``, the host wrote it, so defaults, formats and patterns apply.
    """
    if returns is None:
        return schema_of(f"{owner}: returns", object, "serialization")
    compiled = compile_own_schema if is_own else compile_json_schema
    return compiled(f"{owner}: returns", returns)
