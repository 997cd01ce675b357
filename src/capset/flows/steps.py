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
"""A function of the value, of whatever type that has there, or of the context and the value.

Said with ``Context`` for the first of two, type checkers would take the value of ``lambda value: …`` for one.
"""


class Step(ABC):
    """One step: what it runs, and what becomes of the value, whose type depends on the step before."""

    __slots__ = ()

    @property
    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that it may run."""

    @property
    @abstractmethod
    def plan(self) -> Any:  # JSON data
        """What the sequencer's hash says of it."""

    @property
    def takes(self) -> Schema | None:
        """What is known of what it takes."""
        return self.blocks[0].input

    @abstractmethod
    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return what is known of what it gives; ``before`` is what is known of what it takes."""

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
        """Return the block's output."""
        return self.block.output

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run the block."""
        return await running.enter(self.block, value)


@dataclass(frozen=True, slots=True)
class Tap(Step):
    """A block whose output is dropped: the value goes on as it is."""

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
        """Return what came, which the block takes too."""
        return before

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run the block for what it does."""
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
        """The blocks' names by their branches'."""
        return {"parallel": {name: block.name for name, block in self.branches.items()}}

    @property
    def takes(self) -> Schema | None:
        """What all branches take, if that is the same."""
        known = [block.input for block in self.blocks]
        shapes = [one and one.json_schema for one in known]
        return known[0] if all(shape == shapes[0] for shape in shapes) else None

    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return an object with every branch's output."""
        return by_name(owner, {name: block.output for name, block in self.branches.items()})

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Run all branches."""
        return await running.enter_all(self.branches, value)


@dataclass(frozen=True, slots=True)
class When(Step):
    """One of two blocks, as a condition says; without the second, the value may go on as it is."""

    condition: Condition
    arguments: int
    """How many the condition takes."""
    block: Block
    otherwise: Block | None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Both."""
        return (self.block,) if self.otherwise is None else (self.block, self.otherwise)

    @property
    def plan(self) -> Any:
        """The names of both."""
        return {"when": self.block.name, "otherwise": self.otherwise and self.otherwise.name}

    @property
    def takes(self) -> Schema | None:
        """Unknown: what it takes may be meant for either way."""
        return None

    def gives(self, owner: str, before: Schema | None) -> Schema | None:
        """Return what the one or the other gives."""
        return either(owner, [self.block.output, before if self.otherwise is None else self.otherwise.output])

    async def run(self, sequencer: Block, running: Running, value: Any) -> Any:
        """Ask, and run the block, or the other one, or none."""
        given = (running.ctx, value)[-self.arguments :]
        if await decided(sequencer, "condition", self.condition, *given):
            return await running.enter(self.block, value)
        return value if self.otherwise is None else await running.enter(self.otherwise, value)
