"""A hosted session: a kernel session, with hooks and context around each of its turns (spec 2, F25)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Self

from capset.definitions.blocks import Block
from capset.definitions.principals import Principal
from capset.evaluation.containment import dispatch_hooks, is_contained
from capset.evaluation.evaluate import Labels
from capset.kernel.call.session import Session
from capset.kernel.hosting.declaration import Declaration, merge_context
from capset.kernel.hosting.events import ContextMerged, SessionTurn, Stage, TurnEnded, TurnFailed, TurnStarted
from capset.kernel.hosting.hooks import OneOrMore, SessionHooks, fire
from capset.kernel.kernel import Kernel
from capset.kernel.session_access import no_session
from capset.stores.base import SessionRow


@dataclass(frozen=True, eq=False, slots=True)
class TurnOptions:
    """The principal, the environment, and the other arguments of each turn's evaluation."""

    principal: Principal
    env: Mapping[str, Any]
    labels: Labels


class HostedSession:
    """One conversation of a registered agent: each ``start`` is one turn of it.

    Created by ``SessionHost.create_session()``. The ``on_…`` methods add hooks for turns that start later, and return
    the session itself.

    Every turn opens the kernel session again, so that policies are evaluated again and the snapshot is the turn's own.
    Turns may overlap, as calls may; to run them one after the other, await each.
    """

    __slots__ = ("_declaration", "_id", "_kernel", "_opening", "_options", "_unstored")

    def __init__(self, kernel: Kernel, declaration: Declaration, options: TurnOptions, session_id: str | None) -> None:
        """``session_id`` is the id of an existing session; without one, a new session begins."""
        self._kernel = kernel
        self._declaration = declaration
        self._options = options
        self._unstored: SessionRow | None = None  # the row of a new session, until it is stored
        if session_id is None:
            self._unstored = kernel.new_session(declaration.agent, options.principal)
            session_id = self._unstored.id
        self._id = session_id
        self._opening = asyncio.Lock()

    @property
    def id(self) -> str:
        """The id of the kernel session, which is stored by the first turn that opens it."""
        return self._id

    @property
    def agent(self) -> Block:
        """The agent of this session, as registered when the session was created."""
        return self._declaration.agent

    @property
    def agent_id(self) -> str:
        """The id under which the agent was registered."""
        return self._declaration.agent_id

    async def start(self, input: Any = None) -> Any:  # of the types of ``run``, or of the agent
        """Run one turn, and return the result of ``run``; without a ``run``, the agent itself runs.

        Raises the exceptions of hooks, resolvers and ``run``; ``NotFound`` for a session that does not exist or is
        another principal's; ``ContextError`` for a resolver and ``InvalidOutput`` for a hook that returns an invalid
        value; and the errors of ``kernel.open`` and ``Session.run``. ``on_error`` is called before any of them is
        raised.
        """
        return await run_turn(self._declaration, input, self._open)

    def on_start(self, hook: OneOrMore[TurnStarted]) -> Self:
        """Add hooks called first, with agent and input."""
        return self._add_hooks(SessionHooks(on_start=hook))

    def on_before_context(self, hook: OneOrMore[TurnStarted]) -> Self:
        """Add hooks called before the context is merged, with agent and input."""
        return self._add_hooks(SessionHooks(on_before_context=hook))

    def on_after_context(self, hook: OneOrMore[ContextMerged]) -> Self:
        """Add hooks called with the merged context."""
        return self._add_hooks(SessionHooks(on_after_context=hook))

    def on_before_run(self, hook: OneOrMore[SessionTurn]) -> Self:
        """Add hooks called before the turn runs."""
        return self._add_hooks(SessionHooks(on_before_run=hook))

    def on_after_run(self, hook: OneOrMore[TurnEnded]) -> Self:
        """Add hooks called with the output."""
        return self._add_hooks(SessionHooks(on_after_run=hook))

    def on_error(self, hook: OneOrMore[TurnFailed]) -> Self:
        """Add hooks called when any stage fails."""
        return self._add_hooks(SessionHooks(on_error=hook))

    def _add_hooks(self, hooks: SessionHooks) -> Self:
        self._declaration = self._declaration.extended(f"session {self._id!r}", hooks)
        return self

    async def _open(self) -> Session:
        async with self._opening:  # of overlapping turns, the first one stores a new session
            if self._unstored is not None:
                session = await self._enter(self._unstored)  # first, so that an invalid agent leaves no session
                await self._kernel.store.sessions.create(self._unstored)
                self._unstored = None
                return session
        row = await self._kernel.find_session(self._id)
        if row is None:
            raise no_session(self._id, self._options.principal)
        return await self._enter(row)

    async def _enter(self, row: SessionRow) -> Session:
        options = self._options
        return await self._kernel.enter(row, self.agent, principal=options.principal, env=options.env, **options.labels)


async def run_turn(declaration: Declaration, input: Any, open: Callable[[], Awaitable[Session]]) -> Any:
    """Run one turn, and return the result of ``run``.

    ``on_start`` → ``on_before_context`` → the context is merged → ``on_after_context`` → the session is opened →
    ``on_before_run`` → ``run`` → ``on_after_run``. A turn that fails before its session is opened leaves nothing in the
    store.

    Raises the exception of a stage, after ``on_error`` was called. A cancellation from outside calls no hook.
    """
    agent, hooks = declaration.agent, declaration.hooks
    stage: Stage = "start"
    context: Mapping[str, Any] | None = None
    session: Session | None = None
    try:
        started = TurnStarted(agent, input)
        await fire(hooks.on_start, started)
        stage = "before_context"
        await fire(hooks.on_before_context, started)
        stage = "context"
        context = await merge_context(declaration.context, input)
        stage = "after_context"
        await fire(hooks.on_after_context, ContextMerged(agent, input, context))
        stage = "open"
        session = await open()
        stage, turn = "before_run", SessionTurn(agent, input, context, session)
        await fire(hooks.on_before_run, turn)
        stage = "run"
        output = await _run(declaration, turn)
        stage = "after_run"
        await fire(hooks.on_after_run, TurnEnded(agent, input, context, session, output))
    except BaseException as error:
        if is_contained(error):
            await dispatch_hooks(hooks.on_error, TurnFailed(agent, input, stage, error, context, session))
        raise
    return output


async def _run(declaration: Declaration, turn: SessionTurn) -> Any:
    if declaration.run is None:
        return await turn.session.run(turn.input)
    output = declaration.run(turn)
    return await output if isawaitable(output) else output
