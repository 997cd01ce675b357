"""Runs of blocks: each in a place of its own, within the run or the call that started it (spec 1, C30, C37)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, cast

from capset.definitions.blocks import Block
from capset.definitions.contexts import Context
from capset.definitions.schemas import Schema
from capset.errors import CapsetError, DeadlineExceeded, InternalError
from capset.evaluation.containment import is_contained
from capset.kernel.calling import MAX_DEPTH
from capset.kernel.context import CallContext
from capset.kernel.dynamic import current_place, place_of
from capset.kernel.execution import Execution, Origin, execution_of
from capset.kernel.generating import Turn
from capset.kernel.place import Credential, Place
from capset.kernel.threads import run_for
from capset.kernel.together import together
from capset.stores.base import Quota

_log = logging.getLogger("capset.kernel")


class BlockRun:
    """One run of a block: the ``Running`` of it, and the ``Origin`` of the calls that it makes.

    ``base`` is the block's place as it was declared; ``place`` is what its dynamic ``uses`` made of it for this step.
    """

    __slots__ = (
        "above",
        "base",
        "causing",
        "correlation",
        "credential",
        "deadline",
        "defers",
        "depth",
        "execution",
        "id",
        "place",
        "quota",
    )

    def __init__(
        self,
        place: Place,
        *,
        within: Origin | None = None,
        deadline: float | None = None,
        quota: Quota | None = None,
        defers: bool = False,
        credential: Credential | None = None,
    ) -> None:
        """``within`` is the call or the run that starts this one; ``deadline`` is in the event loop's time.

        ``quota`` is the run's own; without it, a session's terms may give it one.
        """
        self.base = self.place = place
        self.id = place.world.ids.new()
        self.correlation = within.correlation if within else self.id
        self.causing = within.causing if within else self.id  # a run inside is on no record of its own
        self.deadline = within.deadline if within else deadline
        if quota is None and within is None and place.terms is not None:
            quota = place.terms.run_quota(place.id, self.id)
        self.quota = within.quota if within else quota
        self.defers = within.defers if within else defers
        self.credential = within.credential if within else credential
        self.depth = within.depth + 1 if within else 0
        self.above = execution_of(within) if within else None
        self.execution: Execution | None = Execution(self, place.block)

    @property
    def ctx(self) -> Context:
        """The context of this run."""
        return CallContext(self)

    async def settle(self) -> Place:
        """Resolve the dynamic ``uses`` for the next step, read the state, and return the place of that step."""
        self.place = await current_place(self.base, self)
        if self.place.data.states:
            await execution_of(self).load()
        return self.place

    async def work(self, input: Any) -> Any:
        """Let the block do its work, and return its output."""
        await self.settle()
        return await self.base.block.run(self, input)

    async def enter(self, block: Block, input: Any) -> Any:
        """Run one of the block's children and return its output."""
        return await enter(self, block, input)

    async def enter_all(self, blocks: Mapping[str, Block], input: Any) -> dict[str, Any]:
        """Run several children at once and return their outputs by the same names; see ``together``."""
        runs = {name: await _inside(self, block) for name, block in blocks.items()}
        try:
            return await together({name: partial(run.work, input) for name, run in runs.items()})
        finally:
            for run in runs.values():
                execution_of(self).remember(execution_of(run))

    async def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the block's own, a sync one in a worker thread, and return what it gives.

        Raises ``InternalError`` for what it raises that is no ``CapsetError``; the log has the details.
        """
        work = partial(function, *arguments)
        if iscoroutinefunction(function):
            return await self._contained(work())
        return await self._contained(run_for(self.base.world.threads, self, self.base.block.name, work))

    async def generate(self, input: Any, output: Schema | None) -> Any:
        """Let the kernel's generator runner work through model steps, and return what it comes to."""
        runner = self.base.world.generator
        if runner is None:
            raise CapsetError(
                f"{self.base.block.name!r} is a generator, and this kernel has no runner for those",
                hint="give it one: Kernel(generator=…)",
            )
        return await self._contained(runner.run(Turn(self, input, output)))

    async def _contained(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except CapsetError:
            raise
        except BaseException as error:
            if not is_contained(error):
                raise
            name = self.base.block.name
            _log.error("block %r failed, correlation %s", name, self.correlation, exc_info=error)
            raise InternalError(f"The block {name!r} failed unexpectedly; the log has the details.") from error


async def enter(origin: Origin, block: Block, input: Any) -> Any:
    """Run a block inside a run or a call, of whose composition it is a child, and return its output.

    Inputs and outputs are of the types that the block declares.
    """
    run = await _inside(origin, block)
    try:
        return await run.work(input)
    finally:
        execution_of(origin).remember(execution_of(run))


async def enter_from(ctx: Context, block: Block, input: Any) -> Any:
    """Run a block inside the call that a handler's context is of; see ``enter``."""
    return await enter(cast("CallContext", ctx).origin, block, input)


async def run_root(run: BlockRun, input: Any) -> Any:
    """Run the block of a session, under the run's deadline; a closing kernel waits for it.

    Raises ``DeadlineExceeded`` when the time is up, whatever the block makes of its cancellation.
    """
    world, scope = run.base.world, asyncio.timeout_at(run.deadline)
    output = None
    world.calls += 1
    try:
        async with scope:
            output = await run.work(input)
    except (TimeoutError, CapsetError):
        if not scope.expired():
            raise
    finally:
        world.end_call()
    if scope.expired():
        raise DeadlineExceeded(f"Deadline exceeded: {run.base.block.name!r} did not finish in time.")
    return output


async def _inside(origin: Origin, block: Block) -> BlockRun:
    """Return the run of a child, about to begin."""
    base = origin.place
    if origin.depth >= MAX_DEPTH:
        raise InternalError(f"Blocks are nested too deeply: more than {MAX_DEPTH} levels.")
    place = base.others.get(block)
    if place is None:
        place = base.others[block] = await place_of(base, base.snapshot.composition.children[block])
    return BlockRun(place, within=origin)
