"""Tools as stream processors: messages in, messages pushed out (spec 3, K4, K7)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from capset.definitions.callables import accepts_positional
from capset.definitions.calls.contexts import Context
from capset.definitions.calls.messages import Message
from capset.definitions.names import TOOL, checked_name
from capset.definitions.tools.contracts import MessageDeclaration, contract_of
from capset.definitions.tools.handlers import mark_adapter
from capset.errors import DefinitionError

if TYPE_CHECKING:
    from capset.definitions.tools.definition import Tool
    from capset.definitions.tools.options import Effect, ProcessorOptions


class Emit(Protocol):
    """Emits one message: an instance of an outbound model, or a ``Message``.

    It returns when the consumer has taken the message, or the processor's buffer has room for it. Raises
    ``InvalidOutput`` for a message that the contract does not allow; this ends the invocation, even if the processor
    catches the error.
    """

    async def __call__(self, message: BaseModel | Message, /) -> None: ...


Process = Callable[[AsyncIterator[Any], Emit, Context], Awaitable[None]]
"""A processor: it reads instances of its inbound model, and emits messages of its outbound types."""
Factory = Callable[[], Process]
"""Makes a fresh processor for each invocation, so that no state outlives it."""
Handle = Callable[[Any, Emit, Context], Awaitable[None]]
"""A processor of one message at a time."""
Generate = Callable[[Any, Context], AsyncIterator[BaseModel | Message]]
"""An async generator that yields its emissions for one message."""


def handles(handle: Handle) -> Factory:
    """Return the factory of a processor that calls ``handle`` for every message, one after the other.

    Raises ``DefinitionError`` unless it is an ``async def handle(message, emit, ctx)``.
    """
    _check_shape("handles", handle, "message, emit, ctx", _may_be_awaited)

    async def process(messages: AsyncIterator[Any], emit: Emit, ctx: Context) -> None:
        async for message in messages:
            await handle(message, emit, ctx)

    return mark_adapter(handle, lambda: process)


def yields(generate: Generate) -> Factory:
    """Return the factory of a processor that emits everything an async generator yields for every message.

    When its invocation ends, the generator is closed at its current ``yield``. It must not yield inside a task group
    or a timeout: use ``handles``, or a processor of your own, if you need these (PEP 789). Raises ``DefinitionError``
    unless it is an async generator of ``(message, ctx)``.
    """
    _check_shape("yields", generate, "message, ctx", _may_generate)

    async def process(messages: AsyncIterator[Any], emit: Emit, ctx: Context) -> None:
        async for message in messages:
            emissions = generate(message, ctx)
            try:
                async for emission in emissions:
                    await emit(emission)
            finally:
                # A generator that is left early must clean up now, not when it is garbage-collected.
                if (close := getattr(emissions, "aclose", None)) is not None:
                    await close()

    return mark_adapter(generate, lambda: process)


def _check_shape(owner: str, function: Callable[..., Any], parameters: str, is_shaped: Callable[[Any], bool]) -> None:
    """Refuse a function of the wrong shape for ``owner``; a callable without a signature is accepted."""
    shape = "async def handle" if owner == "handles" else "async generator generate"
    called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004  # an object
    if called is None or not is_shaped(called) or not accepts_positional(function, parameters.count(",") + 1):
        raise DefinitionError(
            f"{owner}() takes an {shape}({parameters}); got {function!r:.80}",
            hint="a function that yields goes into yields(); one of (messages, emit, ctx) with its own loop is a "
            "processor: factory=lambda: process",
        )


def _may_generate(function: Any) -> bool:
    return not inspect.iscoroutinefunction(function)


def _may_be_awaited(function: Any) -> bool:
    """Whether calling a function may return an awaitable: for a lambda or a wrapper this is unknown."""
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return False
    is_silent = not inspect.isfunction(function) or function.__name__ == "<lambda>" or hasattr(function, "__wrapped__")
    return is_silent or inspect.iscoroutinefunction(function)


def processor_tool(
    inbound: MessageDeclaration,
    outbound: object,
    factory: Factory,
    description: str,
    name: str | None,
    effect: Effect | None,
    buffer: int,
    options: ProcessorOptions,
) -> Tool[..., Any]:
    """Implement ``Tool.from_processor``."""
    from capset.definitions.tools.definition import make_tool

    owner = "a processor" if name is None else f"tool {name!r}"
    contract, arguments, output = contract_of(owner, inbound, outbound, buffer)
    tool_name = contract.type.replace(".", "_").replace(":", "_") if name is None else name
    checked_name(f"the name of the processor of {contract.type!r}", tool_name, TOOL)
    if not callable(factory) or not accepts_positional(factory, 0):
        raise DefinitionError(
            f"tool {tool_name!r}: its factory must be a function without parameters; got {factory!r:.80}",
            hint="write factory=lambda: process, factory=handles(handle) or factory=yields(generate)",
        )
    return make_tool(
        tool_name,
        description,
        {**options, "effect": effect or ("read" if contract.kind == "query" else "write")},
        arguments=arguments,
        output=output,
        parameters=tuple(arguments.names),
        shape="processor",
        takes_context=True,
        handler=factory,
        contract=contract,
    )
