"""The four kinds of a sequencer's steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from capset.definitions.blocks import Block, Running
from capset.flows.decisions import decided
from capset.flows.outputs import by_name, either
from capset.schemas.schema import Schema

Condition = Callable[[Any], bool | Awaitable[bool]] | Callable[[Any, Any], bool | Awaitable[bool]]
"""A function of the current value, of any type, or of the context and the value.

If the first of two parameters were annotated ``Context``, type checkers would take the value of ``lambda value: …``
for a context.
"""


class Step(ABC):
    """One step: its blocks, and its effect on the value, whose type depends on the previous step."""

    __slots__ = ()

    @property
    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that it may run."""

    @property
    @abstractmethod
    def plan(self) -> Any:  # JSON data
        """Its representation in the sequencer's hash."""

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
    """A block whose output is dropped: the value passes through unchanged."""

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
    """Blocks that run at once on the same value; their outputs, by name, are the next value."""

    branches: Mapping[str, Block]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every branch."""
        return tuple(self.branches.values())

    @property
    def plan(self) -> Any:
        """The blocks' names by those of their branches."""
        return {"parallel": {name: block.name for name, block in self.branches.items()}}

    @property
    def takes(self) -> Schema | None:
        """The input schema of all branches, if it is the same."""
        known = [block.input for block in self.blocks]
        shapes = [one and one.json_schema for one in known]
        return known[0] if all(shape == shapes[0] for shape in shapes) else None

    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return the schema of an object with every branch's output."""
        return by_name(owner, {name: block.output for name, block in self.branches.items()})

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run all branches."""
        return await running.enter_all(self.branches, value)


@dataclass(frozen=True, slots=True)
class When(Step):
    """One of two blocks, by a condition; without the second, the value may pass through unchanged."""

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
        """Check the condition, and run the block, or the other one, or none."""
        given = (running.ctx, value)[-self.arguments :]
        if await decided(sequencer, "condition", self.condition, *given):
            return await running.enter(self.block, value)
        return value if self.otherwise is None else await running.enter(self.otherwise, value)
