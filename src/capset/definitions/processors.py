"""Tools that are stream processors: messages in, messages pushed out (spec 3, K4, K7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from capset.definitions.contexts import Context
from capset.definitions.contracts import Shown, contract_of
from capset.definitions.hooks import Hooks
from capset.definitions.messages import Message
from capset.definitions.names import TOOL, checked
from capset.definitions.policies import Policy
from capset.errors import DefinitionError

if TYPE_CHECKING:
    from capset.definitions.tools import Effect, Tool


class Emit(Protocol):
    """Hands one message over: an instance of an outbound model, or a ``Message``.

    It returns when the consumer has taken it, or the processor's buffer has room for it. Raises ``InvalidOutput`` for
    what the contract does not allow; whatever the processor makes of that, the invocation ends with it.
    """

    async def __call__(self, message: BaseModel | Message, /) -> None: ...


Process = Callable[[AsyncIterator[Any], Emit, Context], Awaitable[None]]
"""A processor: it reads what comes, instances of the inbound model, and emits. Its messages have types of their own."""
Factory = Callable[[], Process]
"""Makes a processor for one invocation, fresh each time: no state outlives it."""
Handle = Callable[[Any, Emit, Context], Awaitable[None]]
"""A processor of one message at a time."""
Generate = Callable[[Any, Context], AsyncIterator[BaseModel | Message]]
"""An async generator that yields what it emits for one message."""


def handles(handle: Handle) -> Factory:
    """Return the factory of a processor that calls ``handle`` for every message, one after the other."""

    async def process(messages: AsyncIterator[Any], emit: Emit, ctx: Context) -> None:
        async for message in messages:
            await handle(message, emit, ctx)

    return lambda: process


def yields(generate: Generate) -> Factory:
    """Return the factory of a processor that emits what an async generator yields for every message.

    The generator is closed where it stands when its invocation ends. It must not yield inside a task group or a
    timeout: use ``handles``, or a processor of your own, where you need these (PEP 789).
    """

    async def process(messages: AsyncIterator[Any], emit: Emit, ctx: Context) -> None:
        async for message in messages:
            emissions = generate(message, ctx)
            try:
                async for emission in emissions:
                    await emit(emission)
            finally:
                # One that is left early must clean up now, not when it is collected.
                if (close := getattr(emissions, "aclose", None)) is not None:
                    await close()

    return lambda: process


def processor_tool(
    *,
    inbound: Shown,
    outbound: object,
    factory: Factory,
    description: str,
    name: str | None,
    effect: Effect | None,
    permissions: Iterable[str],
    policies: Iterable[Policy],
    timeout: float | None,
    instructions: Iterable[str],
    examples: Iterable[Mapping[str, Any]],
    version: str | None,
    idempotent: bool,
    hooks: Hooks | None,
    cost: float | None,
    buffer: int,
) -> Tool[..., Any]:
    """Do what ``Tool.from_processor`` says."""
    from capset.definitions.tools import checked_examples, tool

    owner = "a processor" if name is None else f"tool {name!r}"
    contract, arguments, output = contract_of(owner, inbound, outbound, buffer)
    called = contract.type.replace(".", "_").replace(":", "_") if name is None else name
    checked(f"the name of the processor of {contract.type!r}", called, TOOL)
    if contract.is_whole and called == contract.type:
        raise DefinitionError(
            f"tool {called!r}: its data is no object, so a call of the tool and a message of that type differ",
            hint="give the tool another name: name='…'",
        )
    if not callable(factory):
        raise DefinitionError(f"tool {called!r}: its factory must be a function without parameters; got {factory!r}")
    wanted = effect or ("read" if contract.kind == "query" else "write")
    if (wanted == "read") != (contract.kind == "query"):
        raise DefinitionError(
            f"tool {called!r}: a query reads and a command does more; its inbound is a {contract.kind}, its effect "
            f"{wanted!r}"
        )
    # Everything of a tool but its schemas is checked where any tool is made.
    made = tool(
        name=called,
        description=description,
        effect=wanted,
        permissions=permissions,
        policies=policies,
        timeout=timeout,
        instructions=instructions,
        version=version,
        idempotent=idempotent,
        hooks=hooks,
        cost=cost,
    )(_without_arguments)
    return replace(
        made,
        arguments=arguments,
        output=output,
        parameters=tuple(arguments.names),
        shape="processor",
        takes_context=True,
        handler=factory,
        contract=contract,
        examples=checked_examples(called, arguments, examples),
    )


def _without_arguments() -> None:
    """Stand for a handler whose arguments are not read from a signature."""
