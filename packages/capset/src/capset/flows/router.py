"""Routers: steps that choose one of several blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, cast

from typing_extensions import TypeForm, Unpack

from capset.composition.merge import check_block
from capset.definitions.blocks import Block, BlockKind, Running
from capset.definitions.calls.contexts import Context
from capset.definitions.names import ROUTE, checked_name, checked_text
from capset.definitions.parts import StepOptions, make_part
from capset.definitions.references import checked_uses
from capset.definitions.tools.options import refuse_unknown
from capset.errors import DefinitionError, InternalError, unknown
from capset.flows.branches import call_decider, count_decider_arguments, union_schema
from capset.flows.checks import checked_block, checked_block_name, compile_input, distinct_children, validate_input
from capset.flows.handler import Uses

Choose = Callable[[Any, Context], str | Awaitable[str]] | Callable[[Any], str | Awaitable[str]]
"""A function of the router's input, and optionally of the context, that returns the name of a route."""


class Router(Block):
    """A step that runs one of its routes: ``Router("triage", choose, routes={"bug": fix, "question": answer})``.

    ``choose`` returns the name of the route. Two routes may lead to the same block.
    """

    __slots__ = ("_argument_count", "choose", "routes")

    kind: ClassVar[BlockKind] = "router"

    choose: Choose
    routes: Mapping[str, Block]

    def __init__(
        self,
        name: str,
        choose: Choose,
        *,
        routes: Mapping[str, Block],
        input: TypeForm[Any] | None = None,
        uses: Uses = (),
        description: str = "",
        **options: Unpack[StepOptions],
    ) -> None:
        """Check and freeze every argument. ``input`` is the type of its input, by default anything.

        Raises ``DefinitionError``, naming the router, and ``KindError`` for a capability with parts that it cannot
        have.
        """
        owner = f"router {checked_block_name('router', name)!r}"
        refuse_unknown(Router.__init__, options, StepOptions)
        self._argument_count = count_decider_arguments(f"{owner}: choose", choose, "(input, context)")
        self.choose = choose
        self.routes = _routes(owner, routes)
        blocks = dict.fromkeys(self.routes.values())
        super().__init__(
            name,
            description=checked_text(f"{owner}: description", description),
            uses=checked_uses(owner, uses),
            part=make_part(owner, **options),
            children=distinct_children(owner, blocks),
            input=compile_input(owner, input),
            output=union_schema(owner, [block.output for block in blocks]),
        )
        self.freeze()
        check_block(self)

    @property
    def plan(self) -> Any:  # JSON data
        """The names of the blocks, by route."""
        return {"routes": {route: block.name for route, block in self.routes.items()}}

    async def run(self, running: Running, input: Any) -> Any:
        """Choose a route and run its block with the same input."""
        value = validate_input(self, input)
        arguments = (value, running.ctx)[: self._argument_count]
        route = await call_decider(self, "function", self.choose, *arguments)
        if not isinstance(route, str):
            raise InternalError(f"The router {self.name!r} chose {type(route).__name__}, not a route's name.")
        if route not in self.routes:
            raise InternalError(f"The router {self.name!r} chose an {unknown('route', route, self.routes)}")
        return await running.enter(self.routes[route], value)


def _routes(owner: str, routes: object) -> Mapping[str, Block]:
    if not isinstance(routes, Mapping) or not routes:
        raise DefinitionError(f"{owner}: routes must be a mapping of names to at least one block; got {routes!r}")
    return MappingProxyType(
        {
            checked_name(f"{owner}: a route's name", name, ROUTE): checked_block(f"{owner}, route {name!r}", block)
            for name, block in cast("Mapping[object, object]", routes).items()
        }
    )
