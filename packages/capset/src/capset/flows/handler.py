"""Handlers: steps that call a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, cast

from pydantic.fields import FieldInfo
from typing_extensions import Unpack

from capset.composition.merge import check_block
from capset.definitions.blocks import Block, BlockKind, Running
from capset.definitions.capabilities import Capability
from capset.definitions.names import checked_text
from capset.definitions.parts import StepOptions, make_part
from capset.definitions.references import CapabilityRef, DynamicUses, checked_uses
from capset.definitions.tools.handlers import Signature, read_docstring, read_signature
from capset.definitions.tools.options import refuse_unknown
from capset.errors import DefinitionError
from capset.flows.checks import checked_block_name, compile_input, compile_output, validate_input, validate_output
from capset.schemas.schema import Schema

Uses = Iterable[Capability[Any, Any] | CapabilityRef[Any, Any] | DynamicUses] | DynamicUses
"""The capabilities that a block uses, or functions that decide on them."""


class Handler(Block):
    """A step that is a function of its input, sync or async: ``Handler("shout", shout)``.

    A first parameter annotated ``Context`` is injected; a second one, or the only one, is the input. A function without
    an input runs for any input. A sync function runs in a worker thread.
    """

    __slots__ = ("_signature", "function")

    kind: ClassVar[BlockKind] = "handler"

    function: Callable[..., Any]

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        uses: Uses = (),
        description: str | None = None,
        **options: Unpack[StepOptions],
    ) -> None:
        """Read the signature, and check and freeze every argument. ``description`` defaults to the docstring's.

        Raises ``DefinitionError``, naming the handler and the parameter at fault, and ``KindError`` for a capability
        with parts that a handler cannot have.
        """
        owner = f"handler {checked_block_name('handler', name)!r}"
        refuse_unknown(Handler.__init__, options, StepOptions)
        self._signature = _signature(owner, function)
        self.function = function
        super().__init__(
            name,
            description=checked_text(
                f"{owner}: description", read_docstring(function)[0] if description is None else description
            ),
            uses=checked_uses(owner, uses),
            part=make_part(owner, **options),
            input=_input(owner, self._signature),
            output=compile_output(owner, self._signature.returns),
        )
        self.freeze()
        check_block(self)

    async def run(self, running: Running, input: Any) -> Any:
        """Call the function, and check its input and output."""
        arguments = (validate_input(self, input),) if self._signature.parameters else ()
        leading = (running.ctx,) if self._signature.takes_context else ()
        return validate_output(self, await running.apply(self.function, *leading, *arguments), self.output)


def handler(
    *,
    name: str | None = None,
    uses: Uses = (),
    description: str | None = None,
    **options: Unpack[StepOptions],
) -> Callable[[Callable[..., Any]], Handler]:
    """Make a ``Handler`` from a function, by default with its name: ``@handler()``, or ``@handler(uses=[memory])``."""

    def build(function: Callable[..., Any]) -> Handler:
        return Handler(
            cast("str", getattr(function, "__name__", None) if name is None else name),  # checked there
            function,
            uses=uses,
            description=description,
            **options,
        )

    return build


def _signature(owner: str, function: object) -> Signature:
    if isinstance(function, type) or not callable(function):
        raise DefinitionError(f"{owner} takes a function; got {function!r}")
    signature = read_signature(owner, function, {})
    if signature.shape == "stream":
        raise DefinitionError(f"{owner}: a block returns its output; only a tool streams")
    if len(signature.parameters) > 1:
        raise DefinitionError(
            f"{owner} has more than one input: {', '.join(signature.parameters)}",
            hint="a block takes one value: combine them in a model",
        )
    return signature


def _input(owner: str, signature: Signature) -> Schema | None:
    for name, annotation in signature.parameters.items():
        notes = getattr(annotation, "__metadata__", ())
        if any(isinstance(note, FieldInfo) and not note.is_required() for note in notes):
            raise DefinitionError(
                f"{owner}, parameter {name!r}: its default would never be used, since a block always has an input"
            )
        return compile_input(owner, annotation)
    return None
