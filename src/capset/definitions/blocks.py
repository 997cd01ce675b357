"""A step that uses capabilities: what every kind of it has, an agent included (spec 1, C20, C37)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from capset.definitions.parts import Part
from capset.definitions.references import AnyRef, DynamicUses

if TYPE_CHECKING:
    from capset.definitions.contexts import Context
    from capset.schemas.schema import Schema

BlockKind = Literal["handler", "generator", "sequencer", "router", "flow"]


class Running(Protocol):
    """One run of a block, as the block sees it. Inputs and outputs are of the types that the blocks declare."""

    @property
    def ctx(self) -> Context:
        """The context of this run."""
        ...

    async def enter(self, block: Block, input: Any) -> Any:
        """Run one of the block's children and return its output."""
        ...

    async def enter_all(self, blocks: Mapping[str, Block], input: Any) -> dict[str, Any]:
        """Run several children at once, each with this input, and return their outputs by the same names.

        The first that fails cancels the others, and is raised once they have all ended.
        """
        ...

    async def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the block's own, a sync one in a worker thread, and return what it gives."""
        ...

    async def generate(self, input: Any, output: Schema | None) -> Any:
        """Let the kernel's generator runner work through model steps, and return what it comes to."""
        ...


class Block(ABC):
    """A named step. An agent is one, of the kind ``generator``; ``capset.flows`` has the others.

    Frozen, and told apart by identity. ``part`` is what it declares itself, ``children`` the blocks that it runs, by
    name. ``input`` and ``output`` are ``None`` where nothing is known of them. ``has_last_word`` where its own
    resources and state settle what its children disagree on (a flow).
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
    has_last_word: ClassVar[bool] = False

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
        """Keep what the subclass has checked already."""
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
        """End the making: from now on nothing can be set."""
        object.__setattr__(self, "_frozen", True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    async def run(self, running: Running, input: Any) -> Any:
        """Do the block's work. Inputs and outputs are of the types that the block declares."""

    @property
    def instructions(self) -> tuple[str, ...]:
        """Its own instructions."""
        return self.part.instructions

    @property
    def plan(self) -> Any:  # JSON data
        """How it runs its children, by their names: what its hash says of it beside them (spec 2, F7)."""
        return None
