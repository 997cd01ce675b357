"""Tools, and the decorator that makes one from a function."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, overload

from pydantic import ValidationError
from typing_extensions import TypeVar, Unpack

from capset.definitions.calls.contexts import Context
from capset.definitions.calls.messages import Progress, Reply, message_schema, progress_schema
from capset.definitions.governance.hooks import NO_HOOKS, Hooks
from capset.definitions.governance.limits import Limit
from capset.definitions.governance.policies import Policy
from capset.definitions.identity import Definition
from capset.definitions.names import TOOL, checked_list, checked_mapping, checked_name, checked_optional, checked_text
from capset.definitions.tools.handlers import Shape, read_docstring, read_signature
from capset.definitions.tools.options import (
    OPTIONS,
    ApprovalRule,
    Effect,
    ProcessorOptions,
    ToolOptions,
    checked_options,
    refuse_unknown,
)
from capset.definitions.tools.retries import Retry
from capset.errors import DefinitionError
from capset.schemas.schema import Schema, schema_of, schema_of_fields
from capset.schemas.validation_errors import SchemaMismatch

if TYPE_CHECKING:
    from capset.definitions.blocks import Block
    from capset.definitions.tools.contracts import Contract, MessageDeclaration
    from capset.definitions.tools.processors import Factory

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, kw_only=True)
class Tool(Definition, Generic[P, R_co]):
    """A tool of an agent: a name, a schema, an effect, policies, and the handler that does the work.

    Made by ``@tool``; frozen, and compared by identity. ``P`` and ``R_co`` are the handler's own parameters and result,
    so ``session.call(tool, …)`` is typed. ``timeout`` is in seconds and, like the handler, not part of the hash.
    """

    name: str
    description: str
    effect: Effect = "write"
    permissions: frozenset[str] = frozenset()
    policies: tuple[Policy, ...] = ()
    timeout: float | None = None
    arguments: Schema
    output: Schema
    parameters: tuple[str, ...]
    shape: Shape
    takes_context: bool
    handler: Callable[..., Any]
    block: Block | None = None
    """The block that the handler runs, if the tool exposes a block."""
    instructions: tuple[str, ...] = ()
    examples: tuple[Mapping[str, Any], ...] = ()
    """Arguments that fit the schema, as JSON data."""
    version: str | None = None
    idempotent: bool = False
    hooks: Hooks = NO_HOOKS
    cost: float | None = None
    """The cost of a call, in a unit of the host's own; shown, and part of the hash if set."""
    contract: Contract | None = None
    """The messages of a tool that is a stream processor; its handler is the processor's factory."""
    limits: tuple[Limit, ...] = ()
    approval: ApprovalRule = "auto"
    retry: Retry | None = None
    """How it is retried; like the timeout, not part of the hash."""
    argument_bytes: int = 1024 * 1024
    """The maximum size of its arguments as JSON text, in bytes; like the timeout, not part of the hash."""
    credential: str | None = None
    """What a user has to connect for a call, such as the name of a server; the call uses the user's own credential."""
    title: str | None = None
    """The display name; not part of the hash."""
    mcp: Mapping[str, Any] | None = None
    """The metadata that the tool's MCP server declares for clients, as the server's own JSON; not part of the hash.

    ``None`` for a tool that is not from an MCP server.
    """

    def __post_init__(self) -> None:
        """Check every field that an option sets, and those that depend on it; raise ``DefinitionError``."""
        checked_name("a tool's name", self.name, TOOL)
        owner = f"tool {self.name!r}"
        options = {name: getattr(self, name) for name in OPTIONS}
        for name, value in checked_options(owner, options).items():
            object.__setattr__(self, name, value)
        if not checked_text(f"{owner}: description", self.description).strip():
            raise DefinitionError(f"{owner} needs a docstring (or description=): the model chooses by it")
        object.__setattr__(self, "title", checked_optional(f"{owner}: title", self.title))
        object.__setattr__(self, "examples", _checked_examples(owner, self.arguments, self.examples))
        if self.contract is not None:
            _check_contract(owner, self.name, self.effect, self.contract)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, effect={self.effect!r})"

    @property
    def has_side_effects(self) -> bool:
        """Whether a call must be recorded before the handler starts."""
        return self.effect != "read"

    @property
    def kind(self) -> Literal["command", "query"]:
        """The kind of message that calls it: a query if it only reads."""
        return "command" if self.has_side_effects else "query"

    @property
    def type(self) -> str:
        """The type of the messages that call it, its routing key: the tool's name if it was made from a function."""
        return self.name if self.contract is None else self.contract.type

    @property
    def inbound(self) -> Mapping[str, Any]:
        """The JSON Schema of the message that calls it."""
        if self.contract is not None:
            return self.contract.inbound.json_schema
        return message_schema(self.kind, self.name, self.description, self.arguments.json_schema)

    @property
    def outbound(self) -> Mapping[str, Any]:
        """The JSON Schema of its emissions: a union of its replies and events."""
        if self.contract is not None:
            return self.contract.outbound.json_schema
        reply = message_schema("reply", self.name, f"What {self.name} gives.", self.output.json_schema)
        if self.shape != "stream":
            return reply
        # References are relative to the root of the schema, so their definitions move there.
        defs = {"$defs": reply.pop("$defs")} if "$defs" in reply else {}
        return {"anyOf": [reply, progress_schema()], **defs}

    @classmethod
    def from_processor(
        cls,
        *,
        inbound: MessageDeclaration,
        outbound: object,
        factory: Factory,
        description: str,
        name: str | None = None,
        effect: Effect | None = None,
        buffer: int = 0,
        **options: Unpack[ProcessorOptions],
    ) -> Tool[..., Any]:
        """Make a tool from a stream processor.

        Args:
            inbound: the message that it takes, a pydantic model or a JSON Schema, with one literal ``type``, the
                routing key, one literal ``kind``, command or query, and ``data``. The fields of the data are the tool's
                arguments; data that is not an object is a single argument, ``data``.
            outbound: its emissions: a model, a union or a list of them, or JSON Schema; replies and events.
            factory: returns a fresh processor, ``async def process(messages, emit, ctx)``; see ``handles`` and
                ``yields`` for simpler ones.
            description: its purpose, and when to use it.
            name: the tool's name for the model; if left out, the type with ``_`` for dots and colons.
            effect: ``read`` for a query; for a command ``write`` if left out.
            buffer: how many emissions may wait for the consumer while the processor continues; with 0, it waits for
                each.
            options: those of ``ProcessorOptions``.

        Raises ``DefinitionError``.
        """
        from capset.definitions.tools.processors import processor_tool

        refuse_unknown(cls.from_processor, options, ProcessorOptions)
        return processor_tool(inbound, outbound, factory, description, name, effect, buffer, options)


AnyTool = Tool[..., Any]
"""A tool whose parameters and result do not matter here."""


class _Decorator:
    """The state of ``@tool(…)`` before it gets its function; the overloads keep the handler's types."""

    def __init__(self, build: Callable[[Callable[..., Any]], Tool[..., Any]]) -> None:
        self._build = build

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context, P], AsyncIterator[Progress | Reply[R_co]]], /
    ) -> Tool[P, R_co]: ...
    @overload
    def __call__(self, handler: Callable[P, AsyncIterator[Progress | Reply[R_co]]], /) -> Tool[P, R_co]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Context, P], Awaitable[R_co]], /) -> Tool[P, R_co]: ...
    @overload
    def __call__(self, handler: Callable[P, Awaitable[R_co]], /) -> Tool[P, R_co]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Context, P], R_co], /) -> Tool[P, R_co]: ...
    @overload
    def __call__(self, handler: Callable[P, R_co], /) -> Tool[P, R_co]: ...
    def __call__(self, handler: Callable[..., Any], /) -> Tool[..., Any]:
        return self._build(handler)


@overload
def tool(handler: Callable[Concatenate[Context, P], AsyncIterator[Progress | Reply[R_co]]], /) -> Tool[P, R_co]: ...
@overload
def tool(handler: Callable[P, AsyncIterator[Progress | Reply[R_co]]], /) -> Tool[P, R_co]: ...
@overload
def tool(handler: Callable[Concatenate[Context, P], Awaitable[R_co]], /) -> Tool[P, R_co]: ...
@overload
def tool(handler: Callable[P, Awaitable[R_co]], /) -> Tool[P, R_co]: ...
@overload
def tool(handler: Callable[Concatenate[Context, P], R_co], /) -> Tool[P, R_co]: ...
@overload
def tool(handler: Callable[P, R_co], /) -> Tool[P, R_co]: ...
@overload
def tool(*, name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]) -> _Decorator: ...
def tool(
    handler: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[..., Any] | _Decorator:
    """Make a tool from a function: sync, async, or an async iterator of ``Progress`` and one ``Reply``.

    The schema comes from the annotations, the descriptions from the docstring; a first parameter annotated
    ``Context`` is injected and part of neither. A sync function runs in a worker thread.

    Args:
        name: its name for the model, ``[A-Za-z0-9_-]{1,64}``; the function's name if left out.
        description: its purpose; the docstring if left out.
        options: those of ``ToolOptions``.

    Raises ``DefinitionError`` naming the tool, and the parameter if one is at fault.
    """
    refuse_unknown(tool, options, ToolOptions)

    def build(function: Callable[..., Any]) -> Tool[..., Any]:
        if inspect.isclass(function) or not callable(function):
            hint = "take it from its class: tool(Service.search)" if isinstance(function, classmethod) else None
            raise DefinitionError(f"@tool takes a function; got {function!r:.80}", hint=hint)
        own_name = getattr(function, "__name__", None)
        if own_name is None and name is None:
            raise DefinitionError(
                f"@tool: {function!r:.80} has no name of its own", hint="give one: tool(name='search')(…)"
            )
        tool_name = checked_name("a tool's name", own_name if name is None else name, TOOL)
        documented, described = read_docstring(function)
        signature = read_signature(f"tool {tool_name!r}", function, described)
        return make_tool(
            tool_name,
            documented if description is None else description,
            options,
            arguments=schema_of_fields(tool_name, signature.parameters),
            output=schema_of(f"tool {tool_name!r}, its return type", signature.returns, "serialization"),
            parameters=tuple(signature.parameters),
            shape=signature.shape,
            takes_context=signature.takes_context,
            handler=function,
        )

    return _Decorator(build) if handler is None else build(handler)


def make_tool(
    name: str, description: str, options: Mapping[str, Any], *, arguments: Schema, **fields: Any
) -> Tool[..., Any]:
    """Return a tool; ``fields`` are those that no option sets. Raises ``DefinitionError``."""
    return Tool(name=name, description=description, arguments=arguments, **options, **fields)


def _check_contract(owner: str, name: str, effect: Effect, contract: Contract) -> None:
    """Refuse a name or an effect that contradicts the messages of a stream processor."""
    if contract.is_whole and name == contract.type:
        raise DefinitionError(
            f"{owner}: its data is not an object, so a call of the tool and a message of that type differ",
            hint="give the tool another name: name='…'",
        )
    if (effect == "read") != (contract.kind == "query"):
        raise DefinitionError(
            f"{owner}: a query reads and a command does more; its inbound is a {contract.kind}, its effect {effect!r}"
        )


def _checked_examples(
    owner: str, schema: Schema, examples: Iterable[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Return copies of the examples as JSON data. Raises ``DefinitionError`` for one that a call would refuse."""
    copies: list[Mapping[str, Any]] = []
    for number, example in enumerate(checked_list(f"{owner}: examples", examples), start=1):
        label = f"{owner}: its example {number}"
        try:
            text = json.dumps(checked_mapping(label, example), ensure_ascii=False, allow_nan=False)
            schema.check_json(text)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            at = ".".join(map(str, problem["loc"]))
            raise DefinitionError(f"{label} does not fit its schema: {at}: {problem['msg']}") from None
        except SchemaMismatch as error:
            raise DefinitionError(f"{label} does not fit its schema: {error}") from None
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{label} is not JSON data: {error}") from None
        copies.append(MappingProxyType(json.loads(text)))
    return tuple(copies)
