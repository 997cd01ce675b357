"""Flows: named root blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from capset.definitions.blocks import Block, BlockKind, Running
from capset.definitions.names import checked_text
from capset.definitions.parts import make_part
from capset.definitions.resources import AnyResource, Documents, Scope
from capset.flows.checks import checked_block, checked_block_name


class Flow(Block):
    """The root of a session: a named block, with all resources and state of the blocks inside.

    Its own declarations decide where those of its blocks conflict over a name.
    """

    __slots__ = ("root",)

    kind: ClassVar[BlockKind] = "flow"
    overrides_children: ClassVar[bool] = True

    root: Block

    def __init__(
        self,
        name: str,
        root: Block,
        *,
        resources: Iterable[AnyResource | Documents] | None = None,
        state: Mapping[Scope, type[BaseModel]] | None = None,
        description: str = "",
    ) -> None:
        """Check and freeze every argument. Raises ``DefinitionError``, naming the flow."""
        owner = f"flow {checked_block_name('flow', name)!r}"
        self.root = checked_block(owner, root)
        super().__init__(
            name,
            description=checked_text(f"{owner}: description", description),
            uses=(),
            part=make_part(owner, resources=resources, state=state),
            children={root.name: root},
            input=root.input,
            output=root.output,
        )
        self.freeze()

    async def run(self, running: Running, input: Any) -> Any:
        return await running.enter(self.root, input)
