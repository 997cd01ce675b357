"""Sequencers: steps in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import BaseModel
from typing_extensions import TypeForm, Unpack

from capset.composition.merge import check_block
from capset.definitions.blocks import Block, BlockKind, Running
from capset.definitions.names import checked_text
from capset.definitions.parts import StepOptions, make_part
from capset.definitions.references import checked_uses
from capset.definitions.tools.options import refuse_unknown
from capset.errors import DefinitionError
from capset.flows.branches import call_decider, count_decider_arguments, object_schema, union_schema
from capset.flows.checks import (
    checked_block,
    checked_block_name,
    compile_input,
    compile_output,
    distinct_children,
    validate_input,
    validate_output,
)
from capset.flows.handler import Uses
from capset.schemas.schema import Schema

Condition = Callable[[Any], bool | Awaitable[bool]] | Callable[[Any, Any], bool | Awaitable[bool]]
"""A function of the current value, of any type, or of the context and the value.

If the first of two parameters were annotated ``Context``, type checkers would take the value of ``lambda value: …``
for a context.
"""


class Sequencer(Block):
    """Steps in order: ``Sequencer("review").then(draft).parallel(style, facts).then(join)``.

    Each method returns a new sequencer with one more step and leaves this one unchanged. A sequencer without steps
    returns its input.
    """

    __slots__ = ("_declared_input", "_declared_output", "steps")

    kind: ClassVar[BlockKind] = "sequencer"

    steps: tuple[Step, ...]

    def __init__(
        self,
        name: str,
        *,
        input: TypeForm[Any] | None = None,
        output: TypeForm[Any] | None = None,
        sequencer_state: type[BaseModel] | None = None,
        uses: Uses = (),
        description: str = "",
        **options: Unpack[StepOptions],
    ) -> None:
        """Check and freeze every argument. ``input`` and ``output`` default to the types of the steps.

        ``sequencer_state`` lives for one run of the sequencer; blocks inside and later ones access it as a target.
        Raises ``DefinitionError``, naming the sequencer, and ``KindError`` for a capability with parts that it cannot
        have.
        """
        owner = f"sequencer {checked_block_name('sequencer', name)!r}"
        refuse_unknown(Sequencer.__init__, options, StepOptions)
        self._declared_input = compile_input(owner, input)
        self._declared_output = compile_output(owner, output)
        self.steps = ()
        super().__init__(
            name,
            description=checked_text(f"{owner}: description", description),
            uses=checked_uses(owner, uses),
            part=make_part(owner, sequencer_state=sequencer_state, **options),
            input=self._declared_input,
            output=self._declared_output,
        )
        self.freeze()
        check_block(self)

    def then(self, block: Block) -> Self:
        """Add a step whose output is the next value."""
        return self._with(SingleBlock(checked_block(self._owner, block)))

    def tap(self, block: Block) -> Self:
        """Add a step for its side effects: its output is discarded, and the value passes through."""
        return self._with(SingleBlock(checked_block(self._owner, block), is_tap=True))

    def parallel(self, *blocks: Block, **named: Block) -> Self:
        """Add a step that runs blocks concurrently on the same value, and returns their outputs by name.

        The name is the block's own or the keyword. The first failure cancels the other blocks, and the step waits for
        them to end. Raises ``DefinitionError`` without blocks, or for a duplicate name.
        """
        branches: dict[str, Block] = {}
        for name, block in [*((checked_block(self._owner, branch).name, branch) for branch in blocks), *named.items()]:
            if name in branches:
                raise DefinitionError(f"{self._owner}: two of its parallel branches are named {name!r}")
            branches[name] = checked_block(self._owner, block)
        if not branches:
            raise DefinitionError(f"{self._owner}: parallel needs at least one block")
        return self._with(Parallel(MappingProxyType(branches)))

    def when(self, condition: Condition, block: Block, otherwise: Block | None = None) -> Self:
        """Add a step that runs ``block`` if the condition is true, else ``otherwise``, or nothing.

        ``condition`` is a quick function of the value, or of the context and the value, sync or async.
        """
        argument_count = count_decider_arguments(f"{self._owner}: a condition", condition, "(context, value)")
        other = None if otherwise is None else checked_block(self._owner, otherwise)
        return self._with(When(condition, argument_count, checked_block(self._owner, block), other))

    @property
    def plan(self) -> Any:  # JSON data
        """Every step, in order."""
        return {"steps": [step.plan for step in self.steps]}

    async def run(self, running: Running, input: Any) -> Any:
        """Run the steps, each on the previous one's output."""
        value = input if self._declared_input is None else validate_input(self, input)
        for step in self.steps:
            value = await step.run(self, running, value)
        return validate_output(self, value, self._declared_output)

    @property
    def _owner(self) -> str:
        return f"sequencer {self.name!r}"

    def _with(self, step: Step) -> Self:
        steps = (*self.steps, step)
        new = object.__new__(type(self))
        new._declared_input, new._declared_output, new.steps = self._declared_input, self._declared_output, steps
        input_schema = self._declared_input or steps[0].input_schema
        output_schema: Schema | None = input_schema
        for inner_step in steps:
            output_schema = inner_step.output_schema(self._owner, output_schema)
        Block.__init__(
            new,
            self.name,
            description=self.description,
            uses=self.uses,
            part=self.part,
            children=distinct_children(self._owner, (block for inner_step in steps for block in inner_step.blocks)),
            input=input_schema,
            output=self._declared_output or output_schema,
        )
        new.freeze()
        return new


class Step(ABC):
    """A step: its blocks, and its effect on the value, whose type depends on the previous step."""

    __slots__ = ()

    @property
    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that it may run."""

    @property
    @abstractmethod
    def plan(self) -> Any:  # JSON data
        """The step as the sequencer's hash covers it."""

    @property
    def input_schema(self) -> Schema | None:
        """The schema of its input, if known."""
        return self.blocks[0].input

    @abstractmethod
    def output_schema(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of its output, if known; ``before`` is that of its input, if known."""

    @abstractmethod
    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run it, and return the value for the next step."""


@dataclass(frozen=True, slots=True)
class SingleBlock(Step):
    """A block whose output is the next value. The output of a tap is discarded: the value passes through unchanged."""

    block: Block
    is_tap: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.block,)

    @property
    def plan(self) -> Any:
        return {"tap" if self.is_tap else "then": self.block.name}

    def output_schema(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of the block's output, or of the value that passes through."""
        return before if self.is_tap else self.block.output

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        output = await running.enter(self.block, value)
        return value if self.is_tap else output


@dataclass(frozen=True, slots=True)
class Parallel(Step):
    """Blocks that run concurrently on the same value. Their outputs, by name, are the next value."""

    branches: Mapping[str, Block]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(self.branches.values())

    @property
    def plan(self) -> Any:
        """The names of the blocks, by branch."""
        return {"parallel": {name: block.name for name, block in self.branches.items()}}

    @property
    def input_schema(self) -> Schema | None:
        """The input schema of the branches, if it is the same for all."""
        inputs = [block.input for block in self.blocks]
        shapes = [schema and schema.json_schema for schema in inputs]
        return inputs[0] if all(shape == shapes[0] for shape in shapes) else None

    def output_schema(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of an object with every branch's output."""
        return object_schema(owner, {name: block.output for name, block in self.branches.items()})

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        return await running.enter_all(self.branches, value)


@dataclass(frozen=True, slots=True)
class When(Step):
    """One of two blocks, chosen by a condition. Without the second, the value may pass through unchanged."""

    condition: Condition
    argument_count: int
    block: Block
    otherwise: Block | None

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.block,) if self.otherwise is None else (self.block, self.otherwise)

    @property
    def plan(self) -> Any:
        """The names of both."""
        return {"when": self.block.name, "otherwise": self.otherwise and self.otherwise.name}

    @property
    def input_schema(self) -> Schema | None:
        """Unknown, since its input may be meant for either block."""
        return None

    def output_schema(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of either output."""
        return union_schema(owner, [self.block.output, before if self.otherwise is None else self.otherwise.output])

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Evaluate the condition, and run the block that it chooses, if any."""
        arguments = (running.ctx, value)[-self.argument_count :]
        if await call_decider(sequencer, "condition", self.condition, *arguments):
            return await running.enter(self.block, value)
        return value if self.otherwise is None else await running.enter(self.otherwise, value)
