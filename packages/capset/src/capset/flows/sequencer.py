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
from capset.flows.branches import by_name, checked_decider, decided, either
from capset.flows.checks import checked_block, checked_name, distinct_children, give, input_schema, output_schema, take
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

    __slots__ = ("_gives", "_takes", "steps")

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
        owner = f"sequencer {checked_name('sequencer', name)!r}"
        refuse_unknown(Sequencer.__init__, options, StepOptions)
        self._takes = input_schema(owner, input)
        self._gives = output_schema(owner, output)
        self.steps = ()
        super().__init__(
            name,
            description=checked_text(f"{owner}: description", description),
            uses=checked_uses(owner, uses),
            part=make_part(owner, sequencer_state=sequencer_state, **options),
            input=self._takes,
            output=self._gives,
        )
        self.freeze()
        check_block(self)

    def then(self, block: Block) -> Self:
        """Add a step whose output is the next value."""
        return self._with(Then(checked_block(self._owner, block)))

    def tap(self, block: Block) -> Self:
        """Add a step for its side effects: its output is discarded, and the value passes through."""
        return self._with(Tap(checked_block(self._owner, block)))

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
        takes = checked_decider(f"{self._owner}: a condition", condition, "(context, value)")
        other = None if otherwise is None else checked_block(self._owner, otherwise)
        return self._with(When(condition, takes, checked_block(self._owner, block), other))

    @property
    def plan(self) -> Any:  # JSON data
        """Every step, in order."""
        return {"steps": [step.plan for step in self.steps]}

    async def run(self, running: Running, input: Any) -> Any:
        """Run the steps, each on the previous one's output."""
        value = input if self._takes is None else take(self, input)
        for step in self.steps:
            value = await step.run(self, running, value)
        return give(self, value, self._gives)

    @property
    def _owner(self) -> str:
        return f"sequencer {self.name!r}"

    def _with(self, step: Step) -> Self:
        steps = (*self.steps, step)
        new = object.__new__(type(self))
        new._takes, new._gives, new.steps = self._takes, self._gives, steps
        takes = self._takes or steps[0].takes
        gives: Schema | None = takes
        for stage in steps:
            gives = stage.gives(self._owner, gives)
        Block.__init__(
            new,
            self.name,
            description=self.description,
            uses=self.uses,
            part=self.part,
            children=distinct_children(self._owner, (block for stage in steps for block in stage.blocks)),
            input=takes,
            output=self._gives or gives,
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
    def takes(self) -> Schema | None:
        """The schema of its input, if known."""
        return self.blocks[0].input

    @abstractmethod
    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of its output, if known; ``before`` is that of its input, if known."""

    @abstractmethod
    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run it, and return the value for the next step."""


@dataclass(frozen=True, slots=True)
class Then(Step):
    """A block whose output is the next value."""

    block: Block

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The one block."""
        return (self.block,)

    @property
    def plan(self) -> Any:
        """Its name."""
        return {"then": self.block.name}

    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of the block's output."""
        return self.block.output

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run the block."""
        return await running.enter(self.block, value)


@dataclass(frozen=True, slots=True)
class Tap(Step):
    """A block whose output is discarded: the value passes through unchanged."""

    block: Block

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The one block."""
        return (self.block,)

    @property
    def plan(self) -> Any:
        """Its name."""
        return {"tap": self.block.name}

    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of the input, which passes through."""
        return before

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run the block for its side effects."""
        await running.enter(self.block, value)
        return value


@dataclass(frozen=True, slots=True)
class Parallel(Step):
    """Blocks that run concurrently on the same value. Their outputs, by name, are the next value."""

    branches: Mapping[str, Block]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every branch."""
        return tuple(self.branches.values())

    @property
    def plan(self) -> Any:
        """The names of the blocks, by branch."""
        return {"parallel": {name: block.name for name, block in self.branches.items()}}

    @property
    def takes(self) -> Schema | None:
        """The input schema of the branches, if it is the same for all."""
        inputs = [block.input for block in self.blocks]
        shapes = [schema and schema.json_schema for schema in inputs]
        return inputs[0] if all(shape == shapes[0] for shape in shapes) else None

    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of an object with every branch's output."""
        return by_name(owner, {name: block.output for name, block in self.branches.items()})

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run all branches."""
        return await running.enter_all(self.branches, value)


@dataclass(frozen=True, slots=True)
class When(Step):
    """One of two blocks, chosen by a condition. Without the second, the value may pass through unchanged."""

    condition: Condition
    arguments: int
    """The number of arguments of the condition."""
    block: Block
    otherwise: Block | None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One block or both."""
        return (self.block,) if self.otherwise is None else (self.block, self.otherwise)

    @property
    def plan(self) -> Any:
        """The names of both."""
        return {"when": self.block.name, "otherwise": self.otherwise and self.otherwise.name}

    @property
    def takes(self) -> Schema | None:
        """Unknown: its input may be meant for either block."""
        return None

    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of either output."""
        return either(owner, [self.block.output, before if self.otherwise is None else self.otherwise.output])

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Evaluate the condition, and run the block that it chooses, if any."""
        arguments = (running.ctx, value)[-self.arguments :]
        if await decided(sequencer, "condition", self.condition, *arguments):
            return await running.enter(self.block, value)
        return value if self.otherwise is None else await running.enter(self.otherwise, value)
