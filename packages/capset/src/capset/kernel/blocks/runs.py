"""Runs of blocks, each in its own context within the run or the call that started it (spec 1, C30, C37)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, cast

from capset.definitions.blocks import Block
from capset.definitions.callables import is_async
from capset.definitions.calls.contexts import Context
from capset.definitions.credentials import LentCredential
from capset.errors import CapsetError, DeadlineExceeded, InternalError
from capset.evaluation.containment import is_contained
from capset.kernel.blocks.generation import GeneratorRunner, Journal, Turn
from capset.kernel.call.child_contexts import child_context, current_context
from capset.kernel.call.context import CallContext
from capset.kernel.call.dispatch import MAX_DEPTH
from capset.kernel.call.execution import (
    NO_OPTIONS,
    CallOptions,
    Execution,
    Origin,
    execution_of,
    no_credential,
    options_within,
    run_for,
)
from capset.kernel.call.session_context import SessionContext
from capset.kernel.state.files import SessionFiles
from capset.schemas.schema import Schema

_log = logging.getLogger("capset.kernel")


class BlockRun:
    """One run of a block: its ``Running``, and the ``Origin`` of the calls that it makes.

    ``base`` is the block's context as declared; ``context`` is that of this step, with the additions of dynamic
    ``uses``.
    """

    __slots__ = (
        "base",
        "child_causation",
        "context",
        "correlation",
        "execution",
        "id",
        "journal",
        "options",
    )

    def __init__(
        self,
        context: SessionContext,
        options: CallOptions = NO_OPTIONS,
        *,
        parent: Origin | None = None,
        journal: Journal | None = None,
    ) -> None:
        """``parent`` is the call or run that starts this one and passes its options on; otherwise ``options`` apply.

        If ``options`` have no quota, the session's limits may provide one. A run with a ``journal`` has the id of its
        turn.
        """
        self.base = self.context = context
        self.journal = journal
        self.id = journal.turn if journal is not None else context.runtime.ids.new()
        self.correlation = parent.correlation if parent else self.id
        self.child_causation = parent.child_causation if parent else self.id  # an inner run has no record of its own
        if parent is not None:
            options = options_within(parent)
        elif options.quota is None and context.limits is not None:
            options = options._replace(quota=context.limits.run_quota(context.id, self.id))
        if journal is not None:
            options = options._replace(hold=journal.hold)
        self.options = options
        self.execution: Execution | None = Execution(self, context.block)

    @property
    def ctx(self) -> Context:
        return CallContext(self)

    @property
    def files(self) -> SessionFiles:
        return self.context.files

    async def lend(self, refused: str | None) -> LentCredential:
        raise no_credential()

    @property
    def is_over(self) -> bool:
        return False

    async def settle(self) -> SessionContext:
        """Resolve the dynamic ``uses`` for the next step, read the state, and return the context of that step."""
        self.context = await current_context(self.base, self)
        if self.context.data.states:
            await execution_of(self).load()
        return self.context

    async def work(self, input: Any) -> Any:
        """Run the block, and return its output."""
        await self.settle()
        return await self.base.block.run(self, input)

    async def enter(self, block: Block, input: Any) -> Any:
        return await enter(self, block, input)

    async def enter_all(self, blocks: Mapping[str, Block], input: Any) -> dict[str, Any]:
        runs = {name: await _child_run(self, block) for name, block in blocks.items()}
        try:
            return await run_concurrently({name: partial(run.work, input) for name, run in runs.items()})
        finally:
            for run in runs.values():
                execution_of(self).record_ended(execution_of(run))

    async def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call one of the block's functions, a sync one in a worker thread, and return its result.

        Raises ``InternalError`` for an exception that is not a ``CapsetError``; the log has the details.
        """
        work = partial(function, *arguments)
        if is_async(function):
            return await self._contained(work())
        return await self._contained(run_for(self, self.base.block.name, work))

    async def generate(self, input: Any, output: Schema | None) -> Any:
        runner: GeneratorRunner | None = self.base.runtime.generator
        if runner is None:
            raise CapsetError(
                f"{self.base.block.name!r} needs a model, but this kernel has no generator runner",
                hint='pass one: Kernel(generator=AgentRunner("openai:gpt-5")), from capset_agents.runner',
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
    """Run a child block inside a run or a call, and return its output.

    The block must belong to the composition of ``origin``. Inputs and outputs are of the types that the block declares.
    """
    run = await _child_run(origin, block)
    try:
        return await run.work(input)
    finally:
        execution_of(origin).record_ended(execution_of(run))


async def enter_from(ctx: Context, block: Block, input: Any) -> Any:
    """Run a block inside the call of a handler's context; see ``enter``."""
    return await enter(cast("CallContext", ctx).origin, block, input)


async def run_root(run: BlockRun, input: Any) -> Any:
    """Run the block of a session, under the run's deadline; a closing kernel waits for it.

    Raises ``DeadlineExceeded`` when the time is up, even if the block swallows its cancellation.
    """
    runtime, scope = run.base.runtime, asyncio.timeout_at(run.options.deadline)
    output = None
    runtime.calls += 1
    try:
        async with scope:
            output = await run.work(input)
    except (TimeoutError, CapsetError):
        if not scope.expired():
            raise
    finally:
        runtime.end_call()
    if scope.expired():
        raise DeadlineExceeded(f"Deadline exceeded: {run.base.block.name!r} did not finish in time.")
    return output


async def _child_run(origin: Origin, block: Block) -> BlockRun:
    """Return the run of a child, which is not started yet."""
    base = origin.context
    if origin.options.depth >= MAX_DEPTH:
        raise InternalError(f"Blocks are nested too deeply: more than {MAX_DEPTH} levels.")
    context = base.child_contexts.get(block)
    if context is None:
        context = base.child_contexts[block] = await child_context(base, base.snapshot.composition.children[block])
    return BlockRun(context, parent=origin)


Work = Callable[[], Coroutine[Any, Any, Any]]
"""A function that starts one piece of work."""


async def run_concurrently(work_by_name: Mapping[str, Work]) -> dict[str, Any]:
    """Run every piece of work in its own task, and return the results by the same names.

    The first failure cancels the others, and is raised unchanged once all have ended. A cancellation from outside
    cancels all of them, and takes precedence over errors that they raise during cleanup.
    """
    # Not a TaskGroup: in Python 3.11 it leaves its own cancellation in the count of the enclosing task.
    tasks = {name: asyncio.create_task(work()) for name, work in work_by_name.items()}
    failed: list[asyncio.Task[Any]] = []
    try:
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        failed = [task for task in tasks.values() if task.done() and (task.cancelled() or task.exception())]
    finally:
        await _cancel_all(tasks.values())
    return {name: task.result() for name, task in tasks.items()} if not failed else failed[0].result()


async def _cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel running tasks, and wait for them however long their cleanup takes."""
    pending = {task for task in tasks if not task.done()}
    cancelled: asyncio.CancelledError | None = None
    for task in pending:
        task.cancel()
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
            for task in pending:
                task.cancel()
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieve it, so that asyncio does not complain
    if cancelled is not None:
        raise cancelled
