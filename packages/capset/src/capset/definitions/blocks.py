"""Blocks: steps that use capabilities, and what all kinds of them have, agents included (spec 1, C20, C37)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from capset.definitions.identity import Definition
from capset.definitions.parts import Part
from capset.definitions.references import AnyRef, DynamicUses

if TYPE_CHECKING:
    from capset.definitions.calls.contexts import Context
    from capset.schemas.schema import Schema

BlockKind = Literal["handler", "generator", "sequencer", "router", "flow"]


class Running(Protocol):
    """One run of a block, as the block sees it. Inputs and outputs have the types that the blocks declare."""

    @property
    def ctx(self) -> Context:
        """The context of this run."""
        ...

    async def enter(self, block: Block, input: Any) -> Any:
        """Run one of the block's children and return its output."""
        ...

    async def enter_all(self, blocks: Mapping[str, Block], input: Any) -> dict[str, Any]:
        """Run several children concurrently on the same input, and return their outputs by name.

        The first failure cancels the others, and is raised once all have ended.
        """
        ...

    async def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the block and return its result. A sync function runs in a worker thread."""
        ...

    async def generate(self, input: Any, output: Schema | None) -> Any:
        """Run model steps on the kernel's generator runner, and return the output."""
        ...


class Block(Definition, ABC):
    """A named step. An agent is a block of the kind ``generator``; ``capset.flows`` has the others.

    Frozen, and compared by identity. ``part`` is its own contribution, ``children`` are the blocks that it runs, by
    name. ``input`` and ``output`` are ``None`` if they are unknown. If ``overrides_children`` is true (for a
    flow), its own resources and state override conflicting ones of its children.
    """

    __slots__ = (
        "__weakref__",
        "_frozen",
        "children",
        "description",
        "input",
        "name",
        "output",
        "part",
        "system_prompt",
        "uses",
    )

    kind: ClassVar[BlockKind]
    overrides_children: ClassVar[bool] = False

    name: str
    description: str
    system_prompt: str
    uses: tuple[AnyRef | DynamicUses, ...]
    part: Part
    children: Mapping[str, Block]
    input: Schema | None
    output: Schema | None

    def __init__(
        self,
        name: str,
        *,
        description: str,
        uses: tuple[AnyRef | DynamicUses, ...],
        part: Part,
        system_prompt: str = "",
        children: Mapping[str, Block] = MappingProxyType({}),
        input: Schema | None = None,
        output: Schema | None = None,
    ) -> None:
        """Store the values, which the subclass has already checked."""
        self.name = name
        self.description = description
        self.system_prompt = system_prompt
        self.uses = uses
        self.part = part
        self.children = children
        self.input = input
        self.output = output

    def __setattr__(self, name: str, value: object) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"a {type(self).__name__} is frozen: {name!r} cannot be set")
        object.__setattr__(self, name, value)

    def freeze(self) -> None:
        """Finish construction: from now on no attribute can be set."""
        object.__setattr__(self, "_frozen", True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    async def run(self, running: Running, input: Any) -> Any:
        """Run the block. Input and output have the types that the block declares."""

    @property
    def instructions(self) -> tuple[str, ...]:
        """Its own instructions."""
        return self.part.instructions

    @property
    def plan(self) -> Any:  # JSON data
        """How it runs its children, by name; the hash of the block covers it, in addition to the children."""
        return None
