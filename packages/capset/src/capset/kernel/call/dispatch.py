"""Dispatch of single calls: resolves tools, starts calls and returns their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from capset.definitions.calls.clients import CallClient
from capset.definitions.calls.messages import Json
from capset.definitions.tools.definition import AnyTool, Tool
from capset.errors import DefinitionError, InternalError
from capset.kernel.call.compiled_tools import CompiledTool
from capset.kernel.call.execution import Origin, options_within
from capset.kernel.call.invocation import MISSING, Invocation
from capset.kernel.call.pipeline import execute
from capset.kernel.call.session_context import SessionContext
from capset.kernel.call.stages.access import Resolve, refusing_tool, unknown_tool
from capset.kernel.results import Result

MAX_DEPTH: Final = 50
"""Maximum nesting of calls. If Python's own recursion limit stopped them, calls could remain without a record."""


async def call_from(
    origin: Origin, tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:  # arguments and result are of the tool's own types, which the callers' signatures state
    """Call a tool on behalf of a call or a block, with its principal, correlation and deadline (spec 1, C31)."""
    call = nested_call(
        origin, resolve_tool(tool)(origin.context), bind_arguments(tool, args, kwargs), client=origin.options.client
    )
    await execute(call)
    return call.result()


def nested_call(
    origin: Origin,
    compiled: CompiledTool,
    arguments: Mapping[str, Any] | Json,
    context: SessionContext | None = None,
    *,
    cause: str | None = None,
    client: CallClient | None = None,
) -> Invocation:
    """Return a call made by another call or a block, in the same session context or in ``context``.

    ``cause`` is its causation, by default that of ``origin``. ``client`` is the client that can be asked questions.
    Calls of a model have none, since the model would take a question for a result.
    """
    options = options_within(origin)
    if client is not None:
        options = options._replace(client=client)
    if cause is not None:
        options = options._replace(cause=(origin.correlation, cause))
    if options.depth > MAX_DEPTH and compiled.tool is not None:
        compiled = refusing_tool(compiled, InternalError(f"Calls are nested too deeply: more than {MAX_DEPTH} levels."))
    return Invocation(context or origin.context, compiled, arguments, options)


def resolve_tool(tool: AnyTool) -> Resolve:
    """Return a resolver of one tool object. A tool that the agent does not have resolves to a refusal."""
    if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        hint = "pass the Tool that @tool returned, not the function"
        if isinstance(tool, str):
            hint = f"to call it by name: await session.try_message(session.message({tool!r:.80}, arguments))"
        raise DefinitionError(f"a call takes a Tool object; got {tool!r:.80}", hint=hint)
    return lambda context: context.compiled.by_tool.get(tool) or unknown_tool(tool.name)


def resolve_name(name: str) -> Resolve:
    """Return a resolver of a name. A name that the agent does not have resolves to a refusal."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise DefinitionError(f"the name of a tool, or the type of a message, must be text; got {name!r:.80}")
    return lambda context: context.compiled.by_name.get(name) or unknown_tool(name)


def bind_arguments(tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments by name. Those that cannot be bound get invalid names, so that validation lists them."""
    if not args:
        return kwargs
    named = dict(zip(tool.parameters, args, strict=False))
    named |= {f"(positional {index + 1})": args[index] for index in range(len(tool.parameters), len(args))}
    return named | {f"{name} (given twice)" if name in named else name: value for name, value in kwargs.items()}


def to_result(call: Invocation, output: Any, absent: Any = None) -> Result[Any]:
    """Return the result of a call that has ended. Its data is ``output`` if the call gave a value, else ``absent``."""
    data = None if call.error else absent if call.value is MISSING else output
    snapshot = call.context.snapshot
    error, refused = call.error, call.error is not None and not call.attempts
    return Result(
        error is None,
        data,
        error,
        call.id,
        snapshot.runtime_hash,
        snapshot.prompt_hash,
        refused,
        call.content,
        call.foreign,
    )
