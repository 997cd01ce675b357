"""Sequencers: steps in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import BaseModel
from typing_extensions import TypeForm

from capset.composition.merge import check_block
from capset.definitions.blocks import Block, BlockKind, Running
from capset.definitions.names import checked_text
from capset.definitions.parts import make_part
from capset.definitions.references import checked_uses
from capset.definitions.resources import AnyResource, Documents, Scope
from capset.errors import DefinitionError
from capset.flows.checks import (
    checked_block,
    checked_name,
    distinct_children,
    give,
    input_schema,
    output_schema,
    take,
)
from capset.flows.decisions import checked_decider
from capset.flows.handler import Uses
from capset.flows.steps import Condition, Parallel, Step, Tap, Then, When
from capset.schemas.schema import Schema


class Sequencer(Block):
    """Steps in order: ``Sequencer("review").then(draft).parallel(style, facts).then(join)``.

    Each method returns a new sequencer with one more step, and leaves this one unchanged. Without steps it returns its
    input.
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
        resources: Iterable[AnyResource | Documents] | None = None,
        state: Mapping[Scope, type[BaseModel]] | None = None,
        targets: Mapping[str, type[BaseModel]] | None = None,
        files: Mapping[str, str | bytes] | None = None,
        description: str = "",
    ) -> None:
        """Check and freeze every argument. ``input`` and ``output`` default to the types of the steps.

        ``sequencer_state`` lives for one run of the sequencer; blocks inside and later ones access it as a target.
        Raises ``DefinitionError``, naming the sequencer; ``KindError`` for a capability with parts that it cannot have.
        """
        owner = f"sequencer {checked_name('sequencer', name)!r}"
        self._takes = input_schema(owner, input)
        self._gives = output_schema(owner, output)
        self.steps = ()
        super().__init__(
            name,
            description=checked_text(f"{owner}: description", description),
            uses=checked_uses(owner, uses),
            part=make_part(
                owner, sequencer_state=sequencer_state, resources=resources, state=state, targets=targets, files=files
            ),
            input=self._takes,
            output=self._gives,
        )
        self.freeze()
        check_block(self)

    def then(self, block: Block) -> Self:
        """Add a step whose output is the next value."""
        return self._with(Then(checked_block(self._owner, block)))

    def tap(self, block: Block) -> Self:
        """Add a step that is run for its side effects: its output is dropped, and the value passes through."""
        return self._with(Tap(checked_block(self._owner, block)))

    def parallel(self, *blocks: Block, **named: Block) -> Self:
        """Add a step that runs blocks at once on the same value, and returns their outputs by their names.

        A block's name is its own, or the keyword. The first failure cancels the others, and waits for them. Raises
        ``DefinitionError`` without blocks, or for a duplicate name.
        """
        branches: dict[str, Block] = {}
        for name, block in [*((checked_block(self._owner, one).name, one) for one in blocks), *named.items()]:
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
        for one in steps:
            gives = one.gives(self._owner, gives)
        Block.__init__(
            new,
            self.name,
            description=self.description,
            uses=self.uses,
            part=self.part,
            children=distinct_children(self._owner, (block for one in steps for block in one.blocks)),
            input=takes,
            output=self._gives or gives,
        )
        new.freeze()
        return new
