"""Generators: steps performed by a model."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from typing_extensions import TypeForm, Unpack

from capset.composition.merge import check_block
from capset.definitions.blocks import Block, BlockKind, Running
from capset.definitions.names import checked_text
from capset.definitions.parts import ModelOptions, make_part
from capset.definitions.references import checked_uses
from capset.definitions.tools.options import refuse_unknown
from capset.flows.checks import checked_block_name, compile_input, compile_output, validate_input, validate_output
from capset.flows.handler import Uses
from capset.schemas.schema import schema_of

_TEXT: Final = schema_of("a generator's text", str, "serialization")


class Generator(Block):
    """A step in which a model works with tools and context until it has an output.

    The kernel's runner (``Kernel(generator=…)``) performs the model's steps. The definition names no model.
    """

    __slots__ = ("_returns_text",)

    kind: ClassVar[BlockKind] = "generator"

    def __init__(
        self,
        name: str,
        *,
        system_prompt: str = "",
        uses: Uses = (),
        input: TypeForm[Any] | None = None,
        output: TypeForm[Any] | None = None,
        description: str = "",
        **options: Unpack[ModelOptions],
    ) -> None:
        """Check and freeze every argument. ``options`` are those of a ``Capability``, for its own parts.

        ``input`` is the type of its input, by default anything. ``output`` is the type that the model must return, by
        default text. Raises ``DefinitionError``, naming the generator, and ``KindError`` as every block does.
        """
        owner = f"generator {checked_block_name('generator', name)!r}"
        refuse_unknown(Generator.__init__, options, ModelOptions)
        self._returns_text = output is None
        super().__init__(
            name,
            system_prompt=checked_text(f"{owner}: system_prompt", system_prompt),
            description=checked_text(f"{owner}: description", description),
            uses=checked_uses(owner, uses),
            part=make_part(owner, **options),
            input=compile_input(owner, input),
            output=compile_output(owner, output) or _TEXT,
        )
        self.freeze()
        check_block(self)

    async def run(self, running: Running, input: Any) -> Any:
        """Run the model's steps, and check their output."""
        schema = None if self._returns_text else self.output
        return validate_output(self, await running.generate(validate_input(self, input), schema), self.output)
